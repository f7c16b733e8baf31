"""How long a class takes: stock `nbgrader autograde` and `course grade`, on the same notebooks.

    python benchmarks/grading.py --size 24 --jobs 2 [--torch] [--again 1000] [--write]

Both grade the same synthetic class of chapter 1 in one run on one machine. Each student draws, an
exercise at a time, the solution, a mistake or nothing. Stock nbgrader runs each notebook in a
kernel and gives all or nothing a test cell; so what is compared is which test cells get full marks.

--torch   every notebook imports torch first
--again   so many submissions are graded, and then judged once more from what was kept
--write   the figures go to benchmarks/results/
"""

import argparse
import inspect
import itertools
import json
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "01_dictionary_lookup"
STOCK = """c = get_config()
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
c.GenerateAssignment.force = True
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--again", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options)
    print(json.dumps(figures, indent=1))
    if options.write:
        kind = "torch" if options.torch else "numpy"
        path = ROOT / "benchmarks" / "results" / f"grading-{kind}-{date.today()}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(figures, indent=1) + "\n")


def measure(folder, options):
    size, jobs = options.size, options.jobs
    figures = {
        "date": str(date.today()),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "notebooks": size,
        "jobs": jobs,
        "torch": options.torch,
    }
    stock, ours = (make_course(folder / name, size, options.torch) for name in ("stock", "ours"))
    (stock / "nbgrader_config.py").write_text(STOCK)
    timed(stock, "nbgrader", "generate_assignment", NAME)
    stock_seconds = timed(stock, "nbgrader", "autograde", NAME)
    our_seconds = graded(ours, jobs)
    same, cells = agreement(full_marks(stock), full_marks(ours))
    figures |= {
        "stock_seconds_a_notebook": round(stock_seconds / size, 3),
        "ours_seconds_a_notebook": round(our_seconds / size, 3),
        "times_faster": round(stock_seconds / our_seconds, 1),
        "test_cells_with_the_same_outcome": f"{same} of {cells}",
    }
    figures["growth"] = growth(folder, options)
    figures |= one_process(folder, options)
    figures["stages"] = stages(ours)
    if options.again:
        figures["again"] = again(folder, options)
    return figures


def growth(folder, options):
    """Seconds for classes of other sizes and with other numbers of processes."""
    rows = []
    for size in (1, options.size // 2, options.size):
        for jobs in sorted({1, options.jobs}):
            place = make_course(folder / f"growth-{size}-{jobs}", size, options.torch)
            rows.append({"notebooks": size, "jobs": jobs, "seconds": round(graded(place, jobs), 2)})
    return rows


def one_process(folder, options):
    """What a notebook costs in one process, and how much of that is not its own cells."""
    small, large = (
        make_course(folder / f"one-{size}", size, options.torch) for size in (1, options.size + 1)
    )
    seconds = [graded(place, 1) for place in (small, large)]
    own = own_seconds(large) - own_seconds(small)
    return {
        "start_up_seconds": round(seconds[0] - own_seconds(small), 2),
        "own_seconds_a_notebook": round(own / options.size, 3),
        "fixed_seconds_a_notebook": round((seconds[1] - seconds[0] - own) / options.size, 3),
    }


def again(folder, options):
    """Many submissions, graded and then judged again without running any."""
    place = make_course(folder / "again", options.again, options.torch)
    first = graded(place, options.jobs)
    return {
        "submissions": options.again,
        "graded_seconds": round(first, 1),
        "judged_again_seconds": round(graded(place, options.jobs, "--judge-only"), 1),
    }


def stages(place):
    """Milliseconds a notebook in this process: the median over the class of each stage."""
    from grader import class_run, course_files, grade, tiers
    from utils.chapters import CHAPTERS

    chapter, rows = CHAPTERS[0], []
    released = course_files.released(chapter, place)
    for one in class_run.find(place / "submitted", chapter)[1:]:
        marks = [time.perf_counter()]
        unit = grade.make_unit(one.path.read_bytes(), chapter, released, b"another secret")
        marks.append(time.perf_counter())
        data = grade.run_unit(unit.request, tiers.best())
        marks.append(time.perf_counter())
        own = sum(report.seconds for report in grade.unpack_result(data).cells)
        class_run._finish(unit, data, chapter, place, place / "page.ipynb")
        marks.append(time.perf_counter())
        prepare, run, finish = (b - a for a, b in itertools.pairwise(marks))
        rows.append({"prepare": prepare, "own": own, "sandbox": run - own, "judge": finish})
    rows = rows[1:] or rows  # the first has started the worker
    return {stage: round(1e3 * statistics.median(row[stage] for row in rows)) for stage in rows[0]}


def own_seconds(place):
    from grader import grade

    kept = [path for path in (place / ".course" / "results").rglob("*") if path.is_file()]
    results = [grade.unpack_result(path.read_bytes()) for path in kept]
    return sum(report.seconds for result in results for report in result.cells)


# ---- the class -----------------------------------------------------------------------------------


def make_course(place, size, torch):
    """A course folder with a class in it, the same one for the same size."""
    place.mkdir()
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name, place / name)
    shutil.copy(ROOT / "nbgrader_config.py", place)
    draw = random.Random(size)
    for number in range(size):
        notebook = student(draw)
        first = f"# student {number}" + ("\nimport torch" if torch else "")
        cell = {"cell_type": "code", "metadata": {}, "source": first, "id": "first"}
        notebook["cells"].insert(0, cell | {"outputs": [], "execution_count": None})
        target = place / "submitted" / f"student{number:04d}" / NAME
        target.mkdir(parents=True)
        (target / f"{NAME}.ipynb").write_text(json.dumps(notebook))
    return place


def student(draw):
    """A notebook in which each exercise is solved, a mistake, or as it was handed out."""
    solved, notebook = (
        json.loads((ROOT / kind / NAME / f"{NAME}.ipynb").read_text())
        for kind in ("solutions", "notebooks")
    )
    right = {grade_id(cell): cell["source"] for cell in solved["cells"]}
    for cell in notebook["cells"]:
        name = grade_id(cell).removesuffix("_solution")
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            choices = [right[grade_id(cell)]] * 4 + mistakes(name) + [cell["source"]]
            cell["source"] = draw.choice(choices)
    return notebook


def mistakes(name):
    """The sources of an exercise's mistakes that need nothing but numpy."""
    from grader import exercises

    try:
        exercise = exercises.find(name)
    except LookupError:
        return []  # a written answer
    found = []
    for mistake in exercise.mistakes:
        code = getattr(mistake.candidate, "__code__", None)
        needed = set(code.co_names) & set(mistake.candidate.__globals__) if code else {"a value"}
        if needed <= {"np"}:
            source = inspect.getsource(mistake.candidate)
            body = source[source.index("\ndef ") + 1 :] if source[0] == "@" else source
            found.append(re.sub(r"def \w+", f"def {name}", body, count=1))
    return found[:4]


def grade_id(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


# ---- both graders --------------------------------------------------------------------------------


def graded(place, jobs, *options):
    """The seconds that `course grade` took."""
    return timed(place, "course", "grade", "1", "--jobs", str(jobs), *options)


def timed(place, *command):
    """Run a command of this environment in the course folder; the seconds it took."""
    programs = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    started = time.monotonic()
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.monotonic() - started


def full_marks(place):
    """{(student, test cell): full marks?} of the gradebook."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{place}/gradebook.db") as book:
        return {
            (s.student_id, g.name): g.auto_score == g.max_score
            for s in book.assignment_submissions(NAME)
            for n in s.notebooks
            for g in n.grades
            if g.cell.cell_type == "code" and g.max_score
        }


def agreement(one, other):
    return sum(one[key] == other[key] for key in one), len(one)


if __name__ == "__main__":
    main()
