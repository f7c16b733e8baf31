"""The gradebook in PostgreSQL: what one in sqlite says, and two who write to it at a time."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg2
import pytest
from nbgrader.api import Gradebook
from students import CHAPTER, MIXED, fill, instructor_bytes

from grader.course_files import ROOT
from utils.chapters import CHAPTERS


def _pg_ctl():
    """What starts a server; Debian keeps it out of the PATH, one for each version."""
    debian = Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")
    newest = max(debian, key=lambda path: int(path.parts[-3]), default=None)
    return newest or shutil.which("pg_ctl")


PG_CTL = _pg_ctl()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PG_CTL is None and "CI" not in os.environ, reason="no PostgreSQL here; CI installs Debian's"
    ),
    pytest.mark.xdist_group("postgresql"),
]
NAME = CHAPTER.name
CLASS = {
    "ada": instructor_bytes,
    "bob": lambda chapter: fill({}, chapter),
    "cy": lambda chapter: fill(MIXED, chapter) if chapter == CHAPTER else b"no notebook",
    "Zoë": instructor_bytes,
}
NUMBERS = count(1)


def _who():
    """Whom the server runs as; it refuses root."""
    if not hasattr(os, "geteuid") or os.geteuid():
        return {}
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def server():
    """Where a server of the tests' own is: libpq's parameters."""
    assert PG_CTL, "CI needs PostgreSQL: .ci/run installs Debian's"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    who = _who()
    # not in pytest's own folder, which is closed to other users
    with tempfile.TemporaryDirectory(prefix="postgresql-") as name:
        folder = Path(name)
        log = folder / "log"
        if who:
            os.chown(folder, who["user"], who["group"])

        def tell(*words):
            command = [PG_CTL, "--pgdata", folder / "data", *words]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **who)
            assert done.returncode == 0, done.stderr + (log.read_text() if log.exists() else "")

        tell("initdb", "--options=--auth=trust --username=teacher --encoding=UTF8 --locale=C")
        # its socket would go where only Debian's own may write
        options = f"-p {port} -h 127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        tell("start", "--wait", "--log", log, "--options", options)
        try:
            yield {"host": "127.0.0.1", "port": port, "user": "teacher"}
        finally:
            tell("stop", "--wait", "--mode=immediate")


@contextmanager
def connection(server, database):
    opened = psycopg2.connect(**server, dbname=database)
    opened.autocommit = True
    try:
        yield opened.cursor()
    finally:
        opened.close()


@pytest.fixture
def database(server):
    """The name of an empty database."""
    name = f"gradebook_{next(NUMBERS)}"
    with connection(server, "postgres") as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    return name


@pytest.fixture
def db_url(server, database):
    return f"postgresql+psycopg2://{server['user']}@127.0.0.1:{server['port']}/{database}"


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course folder whose class is graded into sqlite; what was run is kept."""
    folder = tmp_path_factory.mktemp("graded") / "course"
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    for chapter in CHAPTERS:
        for student, notebook in CLASS.items():
            place = folder / "submitted" / student / chapter.name
            place.mkdir(parents=True)
            (place / f"{chapter.name}.ipynb").write_bytes(notebook(chapter))
    grade(folder)
    return folder


@pytest.fixture
def folder(graded, db_url, tmp_path):
    """The same folder with its gradebook in an empty database."""
    folder = tmp_path / "course"
    shutil.copytree(graded, folder, ignore=shutil.ignore_patterns("gradebook.db", "autograded"))
    with open(folder / "nbgrader_config.py", "a") as file:
        file.write(f'get_config().CourseDirectory.db_url = "{db_url}"\n')
    return folder


def grade(folder, *arguments):
    command = [sys.executable, "-m", "grader.cli", "grade", *arguments]
    env = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr


def book(url):
    """Everything a gradebook says of scores, as plain data."""
    with Gradebook(url) as opened:
        return {
            (a.name, s.student_id, g.name): (g.auto_score, g.manual_score, g.needs_manual_grade)
            for a in opened.assignments
            for s in opened.assignment_submissions(a.name)
            for n in s.notebooks
            for g in n.grades
        }


def test_scores_are_those_of_sqlite(graded, folder, db_url):
    grade(folder)
    first = book(db_url)
    assert {key[:2] for key in first} == {(c.name, student) for c in CHAPTERS for student in CLASS}
    assert first == book(f"sqlite:///{graded}/gradebook.db")
    grade(folder)
    assert book(db_url) == first


def test_a_score_set_by_hand_stays(folder, db_url):
    grade(folder, "1")
    with Gradebook(db_url) as opened:
        found = opened.find_grade("why_soft", NAME, NAME, "Zoë")
        found.manual_score, found.needs_manual_grade = 1.5, False
        opened.db.commit()
    grade(folder, "1", "--judge-only")
    assert book(db_url)[NAME, "Zoë", "why_soft"] == (None, 1.5, False)


# What both runs come to write first, by what the gradebook has already
MEETINGS = {
    "nothing": "CREATE TYPE grade_cell_type AS ENUM ('held')",
    "chapters": "LOCK TABLE student IN EXCLUSIVE MODE",
    "class": "LOCK TABLE grade IN EXCLUSIVE MODE",
}


@pytest.mark.parametrize(
    ("there", "chapters"),
    [("nothing", "12"), ("nothing", "11"), ("chapters", "12"), ("class", "11")],
)
def test_two_runs_at_a_time(graded, folder, run, server, database, db_url, there, chapters):
    """Both are held up at the first thing that they write, and then go on at once."""
    if there == "chapters":
        for chapter in CHAPTERS:
            run("nbgrader", "generate_assignment", chapter.name, cwd=folder)
    elif there == "class":
        grade(folder, "--judge-only")
    with connection(server, database) as cursor, ThreadPoolExecutor(2) as pool:
        cursor.execute(f"BEGIN; {MEETINGS[there]}")
        runs = [pool.submit(grade, folder, chapter, "--judge-only") for chapter in chapters]
        try:
            _wait_until_both_wait(server, database, runs)
            released = {path.stem for path in (folder / "notebooks").glob("*/*.ipynb")}
        finally:
            cursor.execute("ROLLBACK")
    for one in runs:
        one.result()
    assert released == {chapter.name for chapter in CHAPTERS}, "gone, if a run is stopped here"
    names = {CHAPTERS[int(chapter) - 1].name for chapter in chapters}
    wanted = book(f"sqlite:///{graded}/gradebook.db")
    found = book(db_url)
    assert {key: found[key] for key in found if key[0] in names} == {
        key: wanted[key] for key in wanted if key[0] in names
    }


def _wait_until_both_wait(server, database, runs):
    """Or until it is clear that one keeps out of the other's way without the server's help."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
    )
    deadline = time.monotonic() + 5
    with connection(server, "postgres") as cursor:
        while time.monotonic() < deadline and not all(one.done() for one in runs):
            cursor.execute(waiting, [database])
            if cursor.fetchone()[0] == 2:
                break
            time.sleep(0.05)
