"""How long a class takes: stock `nbgrader autograde` and `course grade`, on the same notebooks.

    python benchmarks/grading.py --size 12 --jobs 2 [--torch] [--write]

Both grade the same synthetic class of chapter 1 in one run on one machine: solved, untouched and
half-right notebooks in turn. Stock nbgrader runs each in a kernel and gives all or nothing a test
cell; so what is compared is which test cells get full marks. With --torch every notebook imports
torch first. With --write the figures go to benchmarks/results/.
"""

import argparse
import json
import os
import platform
import shutil
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
HALF = {  # exercise: what a student might leave in its cell
    "similarity": "def similarity(query, keys):\n    return np.inner(query, keys)",
    "softmax": "def softmax(x, axis=-1):\n    e = np.exp(x)\n"
    "    return e / e.sum(axis, keepdims=True)",
    "cat_sat_output": "cat_sat_output = [0.14, 0.58, 0.28]",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--torch", action="store_true")
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
    stock, ours = folder / "stock", folder / "ours"
    for place in (stock, ours):
        make_course(place, options)
    (stock / "nbgrader_config.py").write_text(STOCK)
    timed(stock, "nbgrader", "generate_assignment", NAME)
    stock_seconds = timed(stock, "nbgrader", "autograde", NAME)
    first = timed(ours, "course", "grade", "1", "--jobs", str(options.jobs))
    again = timed(ours, "course", "grade", "1", "--judge-only")
    same, cells = agreement(full_marks(stock), full_marks(ours))
    return {
        "date": str(date.today()),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "notebooks": options.size,
        "jobs": options.jobs,
        "torch": options.torch,
        "stock_seconds_a_notebook": round(stock_seconds / options.size, 2),
        "ours_seconds_a_notebook": round(first / options.size, 2),
        "judged_again_seconds_a_notebook": round(again / options.size, 2),
        "times_faster": round(stock_seconds / first, 1),
        "test_cells_with_the_same_outcome": f"{same} of {cells}",
    }


def make_course(place, options):
    place.mkdir()
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name, place / name)
    shutil.copy(ROOT / "nbgrader_config.py", place)
    solved, untouched = (
        json.loads((ROOT / kind / NAME / f"{NAME}.ipynb").read_text())
        for kind in ("solutions", "notebooks")
    )
    half = json.loads(json.dumps(untouched))
    for cell in half["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "").removesuffix("_solution")
        if cell["metadata"].get("nbgrader", {}).get("solution") and name in HALF:
            cell["source"] = HALF[name]
    for number in range(options.size):
        notebook = json.loads(json.dumps((solved, untouched, half)[number % 3]))
        extra = f"# student {number}" + ("\nimport torch" if options.torch else "")
        cell = {"cell_type": "code", "metadata": {}, "source": extra, "id": "extra"}
        notebook["cells"].insert(0, cell | {"outputs": [], "execution_count": None})
        target = place / "submitted" / f"student{number:03d}" / NAME
        target.mkdir(parents=True)
        (target / f"{NAME}.ipynb").write_text(json.dumps(notebook))


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
