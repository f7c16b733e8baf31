"""solutions/NN_name.py -> the instructor's notebook and the student's, the same bytes each time.

    python -m grader.build            write both notebooks of every chapter
    python -m grader.build --check    say which are stale, and fail if any is

A cell's header says what it is, and is expanded here to nbgrader's metadata:

    # %% solution="softmax"                        the reader's code, between BEGIN and END SOLUTION
    # %% test="softmax" points=2                   the check of that exercise
    # %% [markdown] answer="why_soft" points=1     a written answer, marked by a person
    # %% [markdown] static="soft_lookup"           a figure standing still, drawn by utils.widgets
"""

import argparse
import ast
import base64
import hashlib
import math
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import SaveCells
from traitlets.config import Config

from grader import exercises
from utils.chapters import CHAPTERS

ROOT = Path(__file__).resolve().parent.parent
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
HEADER_KEYS = {"solution", "test", "answer", "points", "static", "tags"}
JUPYTEXT_KEYS = {"cell_marker", "lines_to_next_cell"}  # how the text was laid out, not what it is
TAGS = re.compile(r'tags=\["\w+"(, "\w+")*\](\s|$)')
REGION = re.compile(r"### BEGIN SOLUTION\n.*?### END SOLUTION", re.DOTALL)


class BuildError(Exception):
    """A chapter's source is malformed; the text names file, line and remedy."""


def build(chapter, root=ROOT):
    """{path: text} of the two notebooks of one chapter. Raises BuildError."""
    source = root / "solutions" / f"{chapter.name}.py"
    instructor = read_source(source, chapter)
    place = Path(chapter.name) / f"{chapter.name}.ipynb"
    return {
        root / "solutions" / place: nbformat.writes(instructor) + "\n",
        root / "notebooks" / place: student_version(instructor),
    }


def read_source(path, chapter):
    """The instructor's notebook in a py:percent file."""
    if not path.exists():
        raise BuildError(f"{path}:1: there is no such file; utils/chapters.py names the chapter.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BuildError(f"{path}:{line}: this is not UTF-8.") from None
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("# %%")]
    _check_syntax(path, text)
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("# %%") and "tags=" in line and not TAGS.search(line):
            raise BuildError(f'{path}:{number}: tags must be a list of words: tags=["figure"].')
    cells = jupytext.reads(text, fmt="py:percent").cells
    if len(cells) != len(lines):
        raise BuildError(f"{path}:1: text stands before the first cell header, `# %%`.")
    seen = {}
    for cell, line in zip(cells, lines, strict=True):
        try:
            _expand(cell, chapter, seen)
        except ValueError as error:
            raise BuildError(f"{path}:{line}: {error}") from None
    _check_complete(path, len(text.splitlines()), chapter, seen)
    _number(cells)
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    notebook.nbformat_minor = 5
    nbformat.validate(notebook)
    return notebook


def _check_syntax(path, text):
    try:
        ast.parse(re.sub(r"^(\s*)[%!].*$", r"\1pass", text, flags=re.MULTILINE))
    except SyntaxError as error:
        raise BuildError(f"{path}:{error.lineno}: {error.msg}.") from None
    except ValueError as error:
        raise BuildError(f"{path}:1: {error}.") from None


def _expand(cell, chapter, seen):
    """Replace the header's keys by the metadata they stand for."""
    header = {k: v for k, v in cell.metadata.items() if k not in JUPYTEXT_KEYS}
    if unknown := set(header) - HEADER_KEYS:
        raise ValueError(f"unknown word in the header: {', '.join(sorted(unknown))}.")
    cell.metadata = {"tags": header["tags"]} if "tags" in header else {}
    kinds = [kind for kind in ("solution", "test", "answer", "static") if kind in header]
    if len(kinds) > 1 or ("points" in header and kinds not in (["test"], ["answer"])):
        raise ValueError("a cell is one of solution, test, answer and static; the last two of "
                         "test and answer have points.")  # fmt: skip
    regions = cell.source.count("### BEGIN SOLUTION"), cell.source.count("### END SOLUTION")
    if regions != ((1, 1) if kinds == ["solution"] else (0, 0)):
        where = "exactly one" if kinds == ["solution"] else "no"
        raise ValueError(f"this cell must have {where} ### BEGIN SOLUTION ... ### END SOLUTION.")
    if kinds:
        {"solution": _solution, "test": _test, "answer": _answer, "static": _static}[kinds[0]](
            cell, header, chapter, seen
        )


def _solution(cell, header, chapter, seen):
    name = header["solution"]
    _must_be_code(cell, "solution")
    _must_exist(name, chapter)
    if not REGION.search(cell.source):
        raise ValueError(f"### END SOLUTION stands before ### BEGIN SOLUTION in solution {name}.")
    _nbgrader(cell, f"{name}_solution", seen, solution=True)


def _test(cell, header, chapter, seen):
    name = header["test"]
    _must_be_code(cell, "test")
    _must_exist(name, chapter)
    if f"{name}_solution" not in seen:
        raise ValueError(f'test {name} stands before any cell with solution="{name}".')
    if cell.source.partition("\n")[0] != f'check("{name}", {name})':
        raise ValueError(f'the first line of test {name} must be check("{name}", {name}).')
    _nbgrader(cell, name, seen, grade=True, locked=True, points=_points(header))


def _answer(cell, header, chapter, seen):
    if cell.cell_type != "markdown":
        raise ValueError(f"answer {header['answer']} must be a [markdown] cell.")
    points = _points(header)
    _nbgrader(cell, header["answer"], seen, grade=True, solution=True, points=points)


def _static(cell, header, chapter, seen):
    """Put the drawing (as an attachment) and its table in place of the line `FIGURE`."""
    from utils import widgets

    name = header["static"]
    if name not in widgets.STATIC:
        raise ValueError(f"utils.widgets.STATIC has no {name}.")
    alt, svg, table = widgets.STATIC[name]()
    picture = f"![{alt}](attachment:{name}.svg)\n\n{table}"
    if not re.search(r"^FIGURE$", cell.source, re.MULTILINE):
        raise ValueError("a static cell has a line FIGURE where the drawing goes.")
    cell.source = re.sub(r"^FIGURE$", lambda _: picture, cell.source, flags=re.MULTILINE)
    data = base64.b64encode(svg.encode()).decode()
    cell.attachments = {f"{name}.svg": {"image/svg+xml": data}}


def _must_be_code(cell, kind):
    if cell.cell_type != "code":
        raise ValueError(f"a {kind} is a code cell, not [markdown].")


def _must_exist(name, chapter):
    try:
        exercise = exercises.find(name)
    except LookupError as error:
        raise ValueError(str(error)) from None
    if exercise.chapter != chapter.concept:
        raise ValueError(f"exercise {name} belongs to chapter {exercise.chapter}.")


def _points(header):
    points = header.get("points")
    number = isinstance(points, int | float) and not isinstance(points, bool)
    if not number or not math.isfinite(points) or points < 0:
        raise ValueError(f"points must be a number of 0 or more, not {points!r}.")
    return points


def _nbgrader(cell, grade_id, seen, grade=False, solution=False, locked=False, points=None):
    if not re.fullmatch(r"\w+", grade_id):
        raise ValueError(f"{grade_id!r} is no name: letters, digits and underscores only.")
    if grade_id in seen:
        raise ValueError(f"{grade_id} stands twice in this chapter.")
    seen[grade_id] = points
    cell.metadata["nbgrader"] = {
        "schema_version": 3,
        "grade_id": grade_id,
        "grade": grade,
        "solution": solution,
        "locked": locked,
        "task": False,
    } | ({} if points is None else {"points": points})


def _check_complete(path, last_line, chapter, seen):
    wanted = {exercise.id for exercise in exercises.of_chapter(chapter.concept)}
    if missing := wanted - set(seen):
        names = ", ".join(sorted(missing))
        raise BuildError(f"{path}:{last_line}: the chapter ends without a test of {names}.")


def _number(cells):
    """Ids that depend on the content alone, so that a build is the same every time."""
    seen = {}
    for cell in cells:
        text = f"{cell.cell_type}{cell.source}"
        cell_id = hashlib.sha256(text.encode()).hexdigest()[:8]
        seen[cell_id] = seen.get(cell_id, 0) + 1
        cell["id"] = cell_id if seen[cell_id] == 1 else f"{cell_id}-{seen[cell_id]}"


def student_version(instructor):
    """What `nbgrader generate_assignment` makes of it: its preprocessors, without the database."""
    config = Config()
    config.Exporter.default_preprocessors = []
    exporter = NotebookExporter(config=config)
    for preprocessor in GenerateAssignment.preprocessors.default():
        if preprocessor is not SaveCells:
            exporter.register_preprocessor(preprocessor)
    return exporter.from_notebook_node(instructor)[0]


def main():
    parser = argparse.ArgumentParser(description="Build the notebooks from solutions/*.py.")
    parser.add_argument("--check", action="store_true", help="change nothing, fail if stale")
    check = parser.parse_args().check
    stale = []
    for chapter in CHAPTERS:
        try:
            files = build(chapter)
        except BuildError as error:
            sys.exit(str(error))
        for path, text in files.items():
            if path.exists() and path.read_text(encoding="utf-8") == text:
                continue
            stale.append(path.relative_to(ROOT))
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
    if stale:
        names = ", ".join(map(str, stale))
        print(f"Stale: {names}. Run: python -m grader.build" if check else f"Written: {names}.")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
