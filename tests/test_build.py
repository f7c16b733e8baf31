"""The build: the same bytes every time, nbgrader's own student version, and errors with file and line."""

import ast
import json
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from grader import build, exercises
from grader.course_files import ROOT, points
from utils.chapters import CHAPTERS

each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.name)


def notebook(folder, chapter):
    path = ROOT / folder / chapter.name / f"{chapter.name}.ipynb"
    found = json.loads(path.read_text())
    for cell in found["cells"]:
        cell["source"] = "".join(cell["source"])
    return found


def id_of(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


@each_chapter
def test_the_committed_notebooks_are_what_the_source_makes(chapter):
    first, second = build.build(chapter), build.build(chapter)
    assert first == second
    for path, text in first.items():
        assert path.read_text() == text, "run: python -m grader.build"


@pytest.mark.slow
@each_chapter
def test_nbgrader_makes_the_same_student_version(chapter, course_folder, run):
    made = course_folder / "notebooks" / chapter.name
    shutil.rmtree(made)
    run("nbgrader", "generate_assignment", chapter.name, cwd=course_folder)
    name = f"{chapter.name}.ipynb"
    assert [path.name for path in made.iterdir()] == [name]
    assert (made / name).read_bytes() == (ROOT / "notebooks" / chapter.name / name).read_bytes()


@each_chapter
def test_no_solution_and_no_output_is_handed_out(chapter):
    student, instructor = notebook("notebooks", chapter), notebook("solutions", chapter)
    text = json.dumps(student)
    for word in ("SOLUTION", "Model answer", "Marking notes"):
        assert word in json.dumps(instructor) and word not in text
    for cell in [*student["cells"], *instructor["cells"]]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == (
            [],
            None,
        )
    assert set(student["metadata"]) == {"kernelspec"} and student["nbformat_minor"] == 5
    ids = [cell["id"] for cell in student["cells"]]
    assert len(set(ids)) == len(ids)


@each_chapter
def test_every_exercise_has_all_that_a_reader_needs(chapter):
    """A stub that raises, three folded hints after it, then one check; core ones have points."""
    cells = notebook("notebooks", chapter)["cells"]
    names = [c["metadata"].get("nbgrader", {}).get("grade_id") for c in cells]
    listed = [e.id for e in exercises.of_chapter(chapter.concept)]
    assert [name for name in names if name in listed] == listed, "declared in the chapter's order"
    for name in listed:
        start, end = names.index(f"{name}_solution"), names.index(name)
        stub, test = cells[start]["source"], cells[end]["source"]
        assert stub.rstrip().endswith("raise NotImplementedError()") and "# YOUR CODE HERE" in stub
        between = "\n".join(cell["source"] for cell in cells[start + 1 : end])
        for summary in ("Hint 1: the idea", "Hint 2: the shape", "Hint 3: almost the line"):
            assert between.count(f"<details><summary>{summary}</summary>") == 1, name
        assert test.startswith(f'check("{name}", {name})') and test.count("check(") == 1
        before = "\n".join(c["source"] for c in cells[:start] if c["cell_type"] == "markdown")
        star = f"### Exercise: `{name}`" + (" ★" if points({"cells": cells})[name] else "")
        assert re.search(re.escape(star) + "$", before, re.MULTILINE), star


@each_chapter
def test_links_between_files_exist(chapter):
    for cell in notebook("notebooks", chapter)["cells"]:
        if cell["cell_type"] == "markdown":
            for link in re.findall(r"\]\(([^)#:]+)\)", cell["source"]):
                assert (ROOT / "notebooks" / chapter.name / link).exists(), link


# ---- malformed sources -------------------------------------------------------------------------

SOURCE = (ROOT / "solutions" / f"{CHAPTERS[0].name}.py").read_text()


def line_of(text, part):
    return text[: text.index(part)].count("\n") + 1


DAMAGE = [
    (
        '# %% test="softmax" points=3',
        '# %% test="softmax" points="many"',
        "points must be a number",
        0,
    ),
    ('# %% test="softmax" points=3', '# %% test="softmax" points=-1', "0 or more", 0),
    ('# %% test="softmax" points=3', '# %% test="softmax"', "points must be a number", 0),
    ('# %% test="softmax" points=3', '# %% tset="softmax" points=3', "tset", 0),
    ('# %% test="softmax" points=3', '# %% [markdown] test="softmax" points=3', "code cell", 0),
    ('# %% solution="softmax"', '# %% solution="sofmax"', "Near to it: softmax", 0),
    ('# %% solution="softmax"', '# %% solution="similarity"', "stands twice", 0),
    ('# %% solution="softmax"', '# %% solution="softmax" points=3', "have points", 0),
    ("def softmax(x, axis=-1):", "def softmax(x, axis=-1:", "", 0),
    ("    e = np.exp(x - top)", "   e = np.exp(x - top)", "indent", 0),
    ('check("softmax", softmax)', 'check("softmax", similarity)', "first line of test softmax", -1),
    (
        '# %% [markdown] answer="why_soft" points=2',
        '# %% answer="why_soft" points=2',
        "[markdown]",
        0,
    ),
    ("FIGURE", "NOTHING", "a line FIGURE", None),
    ('tags=["figure"]', 'tags="figure"', "list of words", 0),
    ('tags=["figure"]', "tags=[1]", "list of words", 0),
    ('answer="why_soft"', 'answer="why soft?"', "no name", 0),
    ('answer="why_soft"', 'answer=""', "no name", 0),
    ('# %% test="softmax" points=3', '# %% test="softmax" points=NaN', "0 or more", 0),
    ('check("softmax", softmax)', "", "first line of test softmax", -1),
    ('ages["cat"]', "### BEGIN SOLUTION", "must have no", None),
    ('static="soft_lookup"', 'static="hard_lookup"', "hard_lookup", 0),
]


@pytest.mark.parametrize(("old", "new", "words", "offset"), DAMAGE, ids=[d[1][:40] for d in DAMAGE])
def test_a_malformed_source_stops_with_file_and_line(tmp_path, old, new, words, offset):
    assert old in SOURCE
    path = tmp_path / "chapter.py"
    path.write_text(SOURCE.replace(old, new, 1))
    with pytest.raises(build.BuildError) as caught:
        build.read_source(path, CHAPTERS[0])
    message = str(caught.value)
    assert words in message
    if offset is not None:
        assert message.startswith(f"{path}:{line_of(SOURCE, old) + offset}:"), message


def test_a_region_left_open_or_a_test_left_out_stops_too(tmp_path):
    path = tmp_path / "chapter.py"
    path.write_text(SOURCE.replace("### BEGIN SOLUTION", "# begin", 1))
    with pytest.raises(build.BuildError, match=r"chapter.py:\d+: this cell must have exactly one"):
        build.read_source(path, CHAPTERS[0])
    start = SOURCE.index('# %% test="learn_query"')
    end = SOURCE.index("# %%", start + 4)
    path.write_text(SOURCE[:start] + SOURCE[end:])
    with pytest.raises(build.BuildError, match="without a test of learn_query"):
        build.read_source(path, CHAPTERS[0])
    path.write_text("print(1)\n" + SOURCE)
    with pytest.raises(build.BuildError, match=r"chapter.py:1: text stands before"):
        build.read_source(path, CHAPTERS[0])


def test_check_fails_when_stale(monkeypatch, tmp_path):
    (tmp_path / "solutions").mkdir()
    for chapter in CHAPTERS:
        shutil.copy(ROOT / "solutions" / f"{chapter.name}.py", tmp_path / "solutions")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build.build, "__defaults__", (tmp_path,))
    for arguments, code in ((["--check"], 1), ([], 0), (["--check"], 0)):
        monkeypatch.setattr(sys, "argv", ["build", *arguments])
        with pytest.raises(SystemExit) as done:
            build.main()
        assert (done.value.code or 0) == code


@each_chapter
def test_the_readers_code_cells_are_python(chapter):
    for cell in notebook("notebooks", chapter)["cells"]:
        if cell["cell_type"] == "code":
            ast.parse(cell["source"])


@pytest.mark.slow
@each_chapter
def test_the_instructor_notebook_runs_from_top_to_bottom(chapter, tmp_path):
    source = ROOT / "solutions" / chapter.name / f"{chapter.name}.ipynb"
    command = ["-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", str(source)]
    done = subprocess.run(
        [sys.executable, *command, "--output-dir", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    executed = json.loads((tmp_path / source.name).read_text())
    for cell in executed["cells"]:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output


def with_answers(chapter, answer):
    """The solved notebook with `answer(name, cell)` as the source of every solution, and run."""
    solved = nbformat.from_dict(notebook("solutions", chapter))
    for cell in solved.cells:
        if id_of(cell).endswith("_solution"):
            cell.source = answer(id_of(cell).removesuffix("_solution"), cell)
    NotebookClient(solved, allow_errors=True, kernel_name="python3").execute()
    return {
        id_of(cell) or cell.source: output.evalue
        for cell in solved.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    }


RETURNING = """
import torch

def made(value, kind):
    if isinstance(value, tuple):
        return tuple(made(part, kind) for part in value)
    if not isinstance(value, np.ndarray):
        return value
    return value.tolist() if kind == "lists" else torch.as_tensor(value)

def returning(answer, kind):
    if not callable(answer):
        return made(answer, kind)
    return lambda *args, **kwargs: made(answer(*args, **kwargs), kind)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lists", "tensors"])
@each_chapter
def test_whoever_answers_in_lists_or_tensors_can_go_on(chapter, kind):
    """What passes the checks is good enough for the cells that follow."""

    def answer(name, cell):
        source = f"from utils.reference.{chapter.concept} import {name}"
        if name == "additive_mask":  # its dtype is asked for, and a list has none
            return source
        return f"{source}\n{RETURNING}\n{name} = returning({name}, {kind!r})"

    assert not with_answers(chapter, answer)


@pytest.mark.slow
@each_chapter
def test_whoever_skips_what_is_not_core_can_go_on(chapter):
    """With the exercises for no points left as they are, only their own checks fail."""
    released = {id_of(c): c for c in notebook("notebooks", chapter)["cells"]}
    tests = [c for c in released.values() if c["metadata"].get("nbgrader", {}).get("points") == 0]
    skipped = {id_of(c) for c in tests}

    def answer(name, cell):  # ours may call what this reader has skipped
        if name in skipped:
            return released[id_of(cell)]["source"]
        return f"from utils.reference.{chapter.concept} import {name}"

    assert set(with_answers(chapter, answer)) == skipped
