"""What a spreadsheet gets of the gradebook."""

import csv
import os
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from grader.exports import SafeCsv, harmless

NAMES = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", 'Ada, "Countess"', "Zoë\nLovelace", "Ada"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_and_stay_in_their_cell(name, tmp_path, monkeypatch):
    programs = Path(sys.executable).parent  # a new gradebook asks alembic for its version
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as book:
        book.add_assignment("01")
        book.add_student("ada", last_name=name, email="a@b.c")
        book.add_student("bob")
        SafeCsv(to=str(tmp_path / "grades.csv")).export(book)
        SafeCsv(to=str(tmp_path / "one.csv"), student=["bob"]).export(book)
    with open(tmp_path / "grades.csv", newline="", encoding="utf-8") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert rows["ada"]["last_name"].removeprefix("'") == name and len(rows) == 2
    assert rows["ada"]["last_name"][0] not in "=+-@\t\r" and rows["bob"]["score"] == "0.0"
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 2


def test_numbers_stay_numbers():
    assert harmless(-1.5) == -1.5 and harmless(None) == ""
