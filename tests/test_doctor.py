"""`course doctor`: every trap is named with its remedy, and a healthy folder has none."""

import importlib.metadata
import json
import os
import shutil
import sqlite3
import stat
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from students import CHAPTER
from typer.testing import CliRunner

from grader import cli, course_files, doctor, gradebook, tiers
from utils.chapters import CHAPTERS

NAME = CHAPTER.name


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch, tmp_path):
    """The environment of this test alone: a configuration that is loaded adds to PATH."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setattr(cli.console, "_width", 300)


def found(check, folder):
    """What one check finds."""
    return doctor._finding(check, folder)


def wrong(check, folder):
    """The words and the remedy of a check that finds something wrong."""
    finding = found(check, folder)
    assert finding.ok is False and finding.found, finding
    return finding.found, finding.remedy


def set_up(folder, line):
    """Add a line to the folder's configuration."""
    with open(folder / "nbgrader_config.py", "a") as file:
        file.write(f"{line}\n")


def set_database(folder, url):
    set_up(folder, f"get_config().CourseDirectory.db_url = {url!r}")


@pytest.fixture(scope="module")
def entered(tmp_path_factory):
    """Bytes of a gradebook as `course grade` makes it, with a submission of chapter 1."""
    folder = tmp_path_factory.mktemp("entered")
    for name in ("solutions", "notebooks"):
        shutil.copytree(course_files.ROOT / name, folder / name)
    shutil.copy(course_files.ROOT / "nbgrader_config.py", folder)
    for chapter in CHAPTERS:
        gradebook.enter_chapter(chapter, folder, gradebook.course_of(folder))
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        book.update_or_create_student("ada")
        book.update_or_create_submission(NAME, "ada")
    return (folder / "gradebook.db").read_bytes()


@pytest.fixture
def graded(course_folder, entered):
    """A course folder with a gradebook."""
    (course_folder / "gradebook.db").write_bytes(entered)
    return course_folder


def change(folder, command):
    book = sqlite3.connect(folder / "gradebook.db")
    with book:
        book.execute(command)
    book.close()


def test_a_healthy_folder(course_folder, entered):
    findings = doctor.examine(course_folder)
    assert [one.name for one in findings if one.ok is False] == []
    assert [one.name for one in findings if one.ok is None] == ["database", "gradebook", "secret"]
    course_files.secret(course_folder)
    (course_folder / "gradebook.db").write_bytes(entered)
    assert [one for one in doctor.examine(course_folder) if not one.ok] == []
    assert (course_folder / "gradebook.db").read_bytes() == entered, "nothing was written to it"


def test_a_check_that_fails_is_a_finding():
    def broken_thing(root):
        raise OSError("the disk\nis gone")

    one = doctor._finding(broken_thing, None)
    assert (one.name, one.ok) == (
        "broken thing",
        False,
    ) and "OSError: the disk is gone" in one.found


def test_packages_out_of_bounds(course_folder, monkeypatch):
    needs = ["numpy<1.0,>=0.9", "nowhere-to-be-had>=2", "rich>=1", 'nothing; extra == "test"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needs)
    words, remedy = wrong(doctor.packages, course_folder)
    assert "numpy is " in words and "nowhere-to-be-had is not installed" in words
    assert remedy.endswith("-m pip install 'numpy<1.0,>=0.9' 'nowhere-to-be-had>=2'")


def test_a_course_that_is_not_installed(course_folder, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert wrong(doctor.packages, course_folder)[1] == "make lab"


def test_configuration(course_folder):
    path = course_folder / "nbgrader_config.py"
    for text, words in {
        "import sys\nsys.exit('enough')": "stops with SystemExit: enough",
        "1 / 0": "stops with ZeroDivisionError",
        "c = get_config(": "stops with SyntaxError",
        "c = get_config()": "without sandbox and judge",
        "get_config().Autograde.autograde_preprocessors = []": "without sandbox and judge",
    }.items():
        path.write_text(text)
        seen, remedy = wrong(doctor.configuration, course_folder)
        assert words in seen and "configure(get_config())" in remedy
    path.write_text("1 / 0")
    assert found(doctor.database, course_folder).ok is None
    path.unlink()
    assert "looks for it in the current folder" in wrong(doctor.configuration, course_folder)[0]
    assert found(doctor.gradebook, course_folder).found.startswith("not looked at")


def test_a_configuration_of_the_user(course_folder, tmp_path):
    assert found(doctor.other_configuration, course_folder).ok
    (tmp_path / "jupyter").mkdir()
    (tmp_path / "jupyter" / "nbgrader_config.py").touch()
    one = found(doctor.other_configuration, course_folder)
    assert one.ok is None and str(tmp_path / "jupyter" / "nbgrader_config.py") in one.found


def test_no_alembic(course_folder, monkeypatch, tmp_path):
    assert found(doctor.alembic, course_folder).ok
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(doctor.alembic, course_folder).ok, "it lies beside the interpreter"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert "pip install" in wrong(doctor.alembic, course_folder)[1]


@pytest.mark.parametrize(
    ("url", "words", "remedy"),
    [
        ("postgres://ada:pa55@db/g", "does not know postgres://", "postgresql+psycopg2://ada:***"),
        ("mysql+nodriver://ada:pa55@db/g", "that SQLAlchemy knows", "sqlite:///gradebook.db"),
        ("no address pa55", "not the address of a database", "sqlite:///gradebook.db"),
        ("postgresql://ada:pa55@db:port/g", "not the address", "sqlite:///gradebook.db"),
        ("mysql+pymysql://ada:pa55@db/g", "needs the module pymysql", "pip install pymysql"),
        ("sqlite:///no/such/g.db", "folder that does not exist", "mkdir -p "),
    ],
)
def test_an_address_of_no_use(course_folder, monkeypatch, url, words, remedy):
    monkeypatch.setitem(sys.modules, "pymysql", None)
    set_database(course_folder, url)
    seen = wrong(doctor.database, course_folder)
    assert words in seen[0] and remedy in seen[1] and "pa55" not in "".join(seen)
    assert found(doctor.gradebook, course_folder).found.startswith("not looked at")


def test_a_file_that_cannot_be_written(graded, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).suffix != ".db")
    words, remedy = wrong(doctor.database, graded)
    assert "cannot be written" in words
    assert remedy == f"chmod u+w {graded} {graded / 'gradebook.db'}"


def test_a_database_that_does_not_answer(course_folder):
    (course_folder / "gradebook.db").write_text("no database at all " * 100)
    words, remedy = wrong(doctor.database, course_folder)
    assert "file is not a database" in words and "db_url" in remedy


def test_an_answer_with_the_password_in_it():
    from sqlalchemy import create_engine
    from sqlalchemy.exc import OperationalError

    def refuse():
        raise OperationalError("", {}, OSError("no entry with pa55"))

    engine = create_engine("sqlite:///pa55", creator=refuse)
    engine.url = engine.url.set(password="pa55")
    words = doctor._connection(engine, "shown").found
    assert "no entry with ***" in words


def test_a_gradebook_of_another_nbgrader(graded):
    change(graded, "UPDATE alembic_version SET version_num = '50a4d84c131a'")
    words, remedy = wrong(doctor.gradebook, graded)
    assert "revision 50a4d84c131a" in words and remedy == "nbgrader db upgrade"
    change(graded, "DROP TABLE alembic_version")
    assert "revision None" in wrong(doctor.gradebook, graded)[0]


def test_a_gradebook_without_a_chapter(course_folder, entered):
    (course_folder / "gradebook.db").touch()
    assert "no gradebook yet" in found(doctor.gradebook, course_folder).found
    (course_folder / "gradebook.db").write_bytes(entered)
    with Gradebook(f"sqlite:///{course_folder}/gradebook.db") as book:
        book.remove_assignment("02_qkv")
    one = found(doctor.gradebook, course_folder)
    assert one.ok is None and "02_qkv: not entered yet" in one.found
    shutil.rmtree(course_folder / "notebooks" / NAME)
    assert "notebook is missing" in found(doctor.gradebook, course_folder).found


def test_old_points_are_entered_anew(graded):
    change(graded, "UPDATE grade_cells SET max_score = 9")
    words, remedy = wrong(doctor.gradebook, graded)
    commands = [f"nbgrader generate_assignment {chapter.name} --force" for chapter in CHAPTERS]
    assert "old cells or points" in words and remedy == " && ".join(commands)
    for chapter in CHAPTERS:
        gradebook.enter_chapter(chapter, graded, gradebook.course_of(graded))
    assert found(doctor.gradebook, graded).ok, "`course grade` enters them, too"


def test_old_cells_with_submissions_are_stuck(graded):
    change(graded, "UPDATE base_cell SET name = 'softermax' WHERE name = 'softmax'")
    words, remedy = wrong(doctor.gradebook, graded)
    assert NAME in words and "set by hand" in words
    assert remedy == f"nbgrader db assignment remove {NAME} --force"
    change(graded, "DELETE FROM submitted_notebook")
    assert "generate_assignment" in wrong(doctor.gradebook, graded)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE grade_cells SET max_score = 9",
        "UPDATE base_cell SET name = 'softermax' WHERE name = 'softmax'",
    ],
)
def test_the_remedies_help(graded, run, damage):
    """What the doctor says to copy, copied."""
    change(graded, damage)
    remedy = found(doctor.gradebook, graded).remedy
    run("sh", "-c", remedy, cwd=graded)
    for chapter in CHAPTERS:
        gradebook.enter_chapter(chapter, graded, gradebook.course_of(graded))
    assert found(doctor.gradebook, graded).ok


def test_notebooks_that_do_not_fit_their_source(course_folder):
    (course_folder / "notebooks" / NAME / f"{NAME}.ipynb").unlink()
    words, remedy = wrong(doctor.notebooks, course_folder)
    assert f"notebooks/{NAME}/{NAME}.ipynb" in words and remedy == "python -m grader.build"
    source = course_folder / "solutions" / f"{NAME}.py"
    source.write_text(source.read_text().replace("points=3", "points=4"))
    assert "solutions/" in wrong(doctor.notebooks, course_folder)[0]
    source.write_text("(")
    words, remedy = wrong(doctor.notebooks, course_folder)
    assert f"{source}:1:" in words and remedy == "git diff solutions"


def test_files_with_names_of_modules(course_folder):
    for name in ("utils", "grader", "json", "work"):
        (course_folder / name).mkdir()
    for name in ("utils/__init__.py", "grader/__init__.py", "work/numpy.txt", "notes.py"):
        (course_folder / name).touch()
    mine = course_folder / "my_work" / NAME
    mine.mkdir(parents=True)
    assert found(doctor.shadowing_files, course_folder).ok, "a folder alone shadows nothing"
    for path in (course_folder / "json" / "__init__.py", mine / "numpy.py"):
        path.touch()
    words, remedy = wrong(doctor.shadowing_files, course_folder)
    assert f"json, my_work/{NAME}/numpy.py" in words
    assert remedy == f"mv json json.away && mv my_work/{NAME}/numpy.py my_work/{NAME}/numpy.py.away"
    (course_folder / "utils.py").touch()
    assert "mv utils.py" in wrong(doctor.shadowing_files, course_folder)[1]


def test_files_that_students_handed_in(course_folder):
    assert found(doctor.submitted_files, course_folder).ok
    for student in "abcdefg":
        place = course_folder / "submitted" / student / NAME
        place.mkdir(parents=True)
        (place / "random.py").touch()
    one = found(doctor.submitted_files, course_folder)
    assert one.ok is None and f"submitted/a/{NAME}/random.py" in one.found
    assert "and 2 more" in one.found


def test_isolation_is_kept_on_record(course_folder, monkeypatch, tmp_path):
    record = course_folder / ".course" / "isolation.json"
    assert found(doctor.isolation, course_folder).ok
    kept = json.loads(record.read_text())
    assert kept["tier"] == tiers.best().name and kept["kernel"] == os.uname().release
    assert kept["broken"] == "" and kept["date"].endswith("+00:00")
    monkeypatch.setattr(tiers, "best", tiers.Plain)
    monkeypatch.setattr(tiers, "self_test", lambda tier: ["reads a file outside"])
    words, _ = wrong(doctor.isolation, course_folder)
    assert "reads a file outside" in words and "apparmor_restrict_unprivileged_userns=0" in words
    kept = json.loads(record.read_text())
    assert kept["tier"] == "not isolated" and kept["broken"] == words
    empty = tmp_path / "empty"
    empty.mkdir()
    assert found(doctor.isolation, empty).ok is False and not list(empty.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_secret_that_others_can_read(course_folder):
    course_files.secret(course_folder)
    path = course_folder / ".course" / "secret"
    assert found(doctor.secret, course_folder).ok
    path.chmod(0o644)
    words, remedy = wrong(doctor.secret, course_folder)
    assert "mode 644" in words and remedy == f"chmod 600 {path}"
    path.chmod(stat.S_IRUSR)
    assert found(doctor.secret, course_folder).ok


def test_a_full_disk(course_folder, monkeypatch):
    usage = namedtuple("usage", "free")(3e8)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    words, remedy = wrong(doctor.room, course_folder)
    assert "Only 0.3 GB free" in words and remedy.startswith("du -sh ")


def test_the_command(course_folder, monkeypatch):
    monkeypatch.chdir(course_folder)
    done = CliRunner().invoke(cli.app, ["doctor"])
    assert done.exit_code == 0, done.output
    assert "✓ isolation: " in done.output and "– secret: not made yet" in done.output
    assert len(done.output.splitlines()) == len(doctor.CHECKS)
    (course_folder / "random.py").touch()
    done = CliRunner().invoke(cli.app, ["doctor"])
    assert done.exit_code == 1
    assert "✗ shadowing files: " in done.output and "    mv random.py random.py.away" in done.output


@pytest.mark.slow
def test_the_command_as_it_is_typed(course_folder, run, tmp_path):
    assert "✗" not in run("course", "doctor", cwd=course_folder)
    for name, text in {"nbgrader_config.py": "1 / 0", "numpy.py": "1 / 0"}.items():
        (course_folder / name).write_text(text)
    (course_folder / "gradebook.db").write_text("none")
    output = run("course", "doctor", cwd=course_folder, code=1)
    assert "stops with ZeroDivisionError" in output and "Traceback" not in output
    empty = tmp_path / "empty"
    empty.mkdir()
    output = run("course", "doctor", cwd=empty, code=1)
    assert "✗ configuration" in output and "Traceback" not in output
