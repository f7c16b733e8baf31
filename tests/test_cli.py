"""The `course` command, as its users type it."""

import json
import re

import pytest
from students import MIXED, fill, instructor_bytes
from typer.testing import CliRunner

from grader import cli, exercises
from grader.course_files import ROOT
from utils import progress
from utils.check import check
from utils.reference import dictionary_lookup as right

runner = CliRunner()
NAME = "01_dictionary_lookup"


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    monkeypatch.setattr(cli.console, "_width", 300)
    monkeypatch.setattr(progress, "MY_WORK", tmp_path / "my_work")


def course(*arguments, code=0):
    done = runner.invoke(cli.app, arguments)
    assert done.exit_code == code, done.output
    return done.output


def test_exercises_as_json_names_everything():
    rows = {row["id"]: row for row in json.loads(course("exercises", "--json"))}
    assert list(rows) == list(exercises.all_exercises())
    softmax = rows["softmax"]
    assert softmax["chapter"] == NAME and softmax["points"] == 3
    assert "large numbers" in softmax["groups"] and "no_maximum" in softmax["mistakes"]
    assert rows["hard_lookup"]["points"] == 0
    assert "softmax  01_dictionary_lookup, 3 points" in course("exercises")


def test_check_grades_ones_own_notebook():
    for text in ("01", "1", NAME):
        assert "make lab" in course("check", text, code=2)
    cli._copy_notebooks()
    assert "0 of 14 points" in course("check", "01", code=1)
    mine = progress.MY_WORK / NAME / f"{NAME}.ipynb"
    mine.write_bytes(fill(MIXED))
    output = course("check", "01", code=1)
    assert re.search(r"softmax +│ ✗ │ 2 / 3 +│ exp of a large score overflows", output)
    assert "6 of 14 points" in output
    mine.write_bytes(instructor_bytes())
    assert "14 of 14 points" in course("check", "01")
    mine.write_bytes(b"not json")
    assert "not a notebook" in course("check", "01", code=2)
    assert "irectory" in course("check", "01", "--notebook", str(mine.parent), code=2)
    assert "There are: 01_dictionary_lookup" in course("check", "77", code=2)


def test_ones_own_notebooks_are_never_overwritten():
    cli._copy_notebooks()
    mine = progress.MY_WORK / NAME / f"{NAME}.ipynb"
    assert mine.read_bytes() == (ROOT / "notebooks" / NAME / f"{NAME}.ipynb").read_bytes()
    mine.write_text("mine")
    cli._copy_notebooks()
    assert mine.read_text() == "mine"


def test_status_says_what_passes_and_what_comes_next(monkeypatch):
    assert re.search(r"01_dictionary_lookup │ 0 of 8 +│ 120 +│ similarity", course("status"))
    cli._copy_notebooks()
    monkeypatch.chdir(progress.MY_WORK / NAME)
    check("similarity", right.similarity)
    check("softmax", right.softmax)
    with pytest.raises(AssertionError):
        check("soft_lookup", len)
    output = course("status")
    assert re.search(r"01_dictionary_lookup │ 2 of 8 +│ 90 +│ cat_sat_weights", output)
    assert "Next: cat_sat_weights, in chapter 1" in output
    with pytest.raises(AssertionError):
        check("softmax", len)
    assert "1 of 8" in course("status")
    (progress.MY_WORK / NAME / f"{NAME}.ipynb").write_bytes(instructor_bytes())
    course("check", "1")
    output = course("status")
    assert "8 of 8" in output and "Next: project, in chapter 2" in output


@pytest.mark.parametrize("text", ["", "[]", "{", '{"softmax": 3}', '{"softmax": true}'])
def test_a_damaged_record_of_progress_is_begun_anew(text):
    progress.MY_WORK.mkdir()
    (progress.MY_WORK / ".progress.json").write_text(text)
    assert progress.read(progress.MY_WORK).get("softmax", False) is (text == '{"softmax": true}')
    progress.record({"similarity": True}, progress.MY_WORK)
    assert progress.read(progress.MY_WORK)["similarity"]


def test_help_says_what_there_is():
    output = course("--help")
    for word in ("lab", "status", "check", "exercises"):
        assert word in output
