"""A class graded as a whole: the same scores as one by one, resumable, and judged again without running."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from nbgrader.api import Gradebook
from students import CHAPTER, MIXED, MIXED_FINDS, fill, instructor_bytes

from grader import class_run, course_files, tiers, workers

pytestmark = pytest.mark.slow
NAME = CHAPTER.name
CLASS = {
    "ada": instructor_bytes,
    "bob": lambda: fill({}),
    "cy": lambda: fill(MIXED),
    "dan": lambda: b"no notebook",
    "Zoë": lambda: fill(MIXED | {"similarity": "import os\nos._exit(0)"}),
}
POINTS = {"ada": 14, "bob": 0, "cy": 6, "dan": 0, "Zoë": 5}


@pytest.fixture
def folder(course_folder):
    for student, notebook in CLASS.items():
        place = course_folder / "submitted" / student / NAME
        place.mkdir(parents=True)
        (place / f"{NAME}.ipynb").write_bytes(notebook())
    return course_folder


def course(folder, *arguments):
    return [sys.executable, "-m", "grader.cli", "grade", *arguments], {
        "cwd": folder,
        "env": os.environ | {"PYTHONPATH": str(course_files.ROOT), "COLUMNS": "200"},
    }


def grade(folder, *arguments, code=0):
    command, options = course(folder, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr
    return done.stdout


def book(folder):
    """Everything a gradebook says of scores, as plain data."""
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as opened:
        return {
            (s.student_id, g.name): (g.auto_score, g.manual_score, g.needs_manual_grade)
            for s in opened.assignment_submissions(NAME)
            for n in s.notebooks
            for g in n.grades
        }


def test_a_class_from_folder_to_gradebook(folder, run):
    output = grade(folder, "1", "--jobs", "2", "--json", str(folder / "rows.json"))
    assert "Ran behind: bubblewrap" in output and "the file is not JSON" in output
    rows = json.loads((folder / "rows.json").read_text())
    totals = dict.fromkeys(CLASS, 0)
    for row in rows:
        totals[row["student"]] += row["score"]
        assert row["tier"] == "bubblewrap" and len(row["seed"]) == 64 and row["hash"]
    assert totals == POINTS
    found = {r["exercise"]: r["mistake"] for r in rows if r["student"] == "cy"}
    assert found == MIXED_FINDS
    ours = book(folder)
    assert ours["cy", "why_soft"] == (None, None, True) and ours["bob", "why_soft"][0] == 0

    grade(folder, "1", "--judge-only")
    assert book(folder) == ours
    run("nbgrader", "generate_feedback", NAME, cwd=folder)
    page = (folder / "feedback" / "cy" / NAME / f"{NAME}.html").read_text()
    assert "exp of a large score overflows" in page and "data:image/png;base64" in page
    (folder / "submitted" / "dan" / NAME / f"{NAME}.ipynb").write_bytes(fill({}))
    run("nbgrader", "autograde", NAME, "--force", cwd=folder)
    assert book(folder) == ours, "nbgrader's own command finds other scores"


def test_the_gradebook_is_where_the_course_says(folder):
    with open(folder / "nbgrader_config.py", "a") as file:
        file.write(f'get_config().CourseDirectory.db_url = "sqlite:///{folder}/elsewhere.db"\n')
    grade(folder, "1")
    assert (folder / "elsewhere.db").exists() and not (folder / "gradebook.db").exists()


def test_a_score_set_by_hand_stays(folder):
    grade(folder, "1")
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as opened:
        found = opened.find_grade("why_soft", NAME, NAME, "cy")
        found.manual_score, found.needs_manual_grade = 1.5, False
        opened.db.commit()
    grade(folder, "1", "--judge-only")
    assert book(folder)["cy", "why_soft"] == (None, 1.5, False)


def test_what_was_killed_goes_on_where_it_was(folder):
    """SIGKILL at random moments, then a run in peace: the gradebook of an undisturbed one."""
    draw = random.Random(7)
    for _ in range(12):
        command, options = course(folder, "1", "--jobs", "2")
        killed = subprocess.Popen(command, stdout=-3, stderr=-3, start_new_session=True, **options)
        time.sleep(draw.uniform(0.3, 6))
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    grade(folder, "1")
    disturbed = book(folder)
    (folder / "gradebook.db").unlink()
    grade(folder, "1")
    assert book(folder) == disturbed


class Counting(ThreadPoolExecutor):
    """An executor that counts what it is asked to run."""

    asked = 0

    def submit(self, *task):
        self.asked += 1
        return super().submit(*task)


def run_class(folder, executor, **options):
    found = class_run.find(folder / "submitted", CHAPTER)
    store = course_files.results(folder)
    with ThreadPoolExecutor(2) as pool:
        class_run.Run(
            CHAPTER, folder, store, pool, executor, folder / "autograded", **options
        ).grade(found, 2)
    return {one.student: one for one in found}


def test_only_what_is_missing_is_run(folder):
    with Counting(2) as executor:
        assert list(run_class(folder, executor)) == sorted(CLASS)
        assert executor.asked == len(CLASS)
        (folder / "submitted" / "bob" / NAME / f"{NAME}.ipynb").write_bytes(
            fill({"why_soft": "new"})
        )
        found = run_class(folder, executor)
        assert executor.asked == len(CLASS) + 1
    points = {name: sum(row["score"] for row in one.finished.rows) for name, one in found.items()}
    assert points == pytest.approx(POINTS)


@pytest.fixture
def cluster():
    """A Dask cluster of two processes that share no memory with this one."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(processes=True, **options) as started:
        yield started


def test_many_machines_find_what_one_does(folder, cluster):
    grade(folder, "1", "--json", str(folder / "here.json"))
    here = book(folder)
    shutil.rmtree(folder / ".course" / "results")
    (folder / "gradebook.db").unlink()
    address = cluster.scheduler_address
    output = grade(folder, "1", "--dask", address, "--json", str(folder / "there.json"))
    assert "Ran behind: bubblewrap" in output and book(folder) == here
    rows = [json.loads((folder / name).read_text()) for name in ("here.json", "there.json")]
    for row in (*rows[0], *rows[1]):
        row.pop("seconds", None)
    assert rows[0] == rows[1]


def test_a_scheduler_that_is_not_there_is_told(folder):
    assert "no Dask scheduler at" in grade(folder, "1", "--dask", "tcp://127.0.0.1:9", code=2)
    assert "no Dask scheduler at" in grade(folder, "1", "--dask", "nonsense://", code=2)


class Broken:
    """An executor whose workers die."""

    def submit(self, *arguments):
        future = Future()
        future.set_exception(RuntimeError("the machine went away"))
        return future


def test_an_executor_that_breaks_gives_reasons_and_no_zeros(folder):
    found = run_class(folder, Broken())
    rows = class_run.records(found.values(), CHAPTER)
    assert all("the machine went away" in row["reason"] and "score" not in row for row in rows)


class Failing(Counting):
    """An executor on a machine where no worker starts."""

    def submit(self, *task):
        self.asked += 1
        raise workers.WorkerFailed("no such interpreter")


def test_where_no_worker_starts_the_run_stops(folder):
    with Failing(1) as executor, pytest.raises(workers.WorkerFailed, match="no such"):
        run_class(folder, executor)
    assert executor.asked < len(CLASS)


def test_without_walls_nothing_is_run_and_nothing_believed(folder, monkeypatch):
    monkeypatch.setattr(tiers, "best", tiers.Plain)
    with ThreadPoolExecutor(1) as executor:
        refused = run_class(folder, executor)
        assert all("wall off" in one.reason and not one.finished for one in refused.values())
        trusted = run_class(folder, executor, trusted=True)
        assert {row["tier"] for row in trusted["ada"].finished.rows} == {"not isolated"}
        wanted = run_class(folder, executor, isolated=True)
        assert all("wall off" in one.reason and not one.finished for one in wanted.values())
    monkeypatch.undo()
    with ThreadPoolExecutor(1) as executor:
        again = run_class(folder, executor, isolated=True)
    assert {row["tier"] for row in again["ada"].finished.rows} == {tiers.best().name}


def test_other_cells_than_those_handed_out_are_told_before_anything_runs(folder):
    grade(folder, "1")
    path = folder / "notebooks" / NAME / f"{NAME}.ipynb"
    notebook = json.loads(path.read_text())
    next(c for c in notebook["cells"] if c["metadata"].get("nbgrader"))["metadata"]["nbgrader"][
        "grade_id"
    ] = "other"
    path.write_text(json.dumps(notebook))
    output = grade(folder, "1", code=2)
    assert f"nbgrader db assignment remove {NAME} --force" in output and path.exists()


def test_words_for_what_is_not_there(folder, tmp_path):
    assert "no submissions" in grade(folder, "2", code=2)
    assert "There are: 01" in grade(folder, "9", code=2)
    empty = tmp_path / "empty"
    (empty / "submitted" / "ada" / NAME).mkdir(parents=True)
    (empty / "submitted" / "ada" / NAME / f"{NAME}.ipynb").write_bytes(fill({}))
    assert "run this in the course's folder" in grade(empty, "1", code=2).replace("\n", " ")
