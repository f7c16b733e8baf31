"""A teacher's afternoon with nothing but nbgrader's plain commands, and a student's Validate button."""

import csv
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from nbgrader.api import Gradebook
from nbgrader.validator import Validator
from students import CHAPTER, MIXED, MIXED_FINDS, fill, instructor_bytes, released

from grader.course_files import points
from grader.exercises import find

pytestmark = pytest.mark.slow
NAME = CHAPTER.name
STUDENTS = {"ada": instructor_bytes, "bob": lambda: fill({}), "cy": lambda: fill(MIXED)}


@pytest.fixture
def graded(course_folder, run):
    run("nbgrader", "generate_assignment", NAME, cwd=course_folder)
    for student, notebook in STUDENTS.items():
        submit(course_folder, student, notebook())
    run("nbgrader", "autograde", NAME, cwd=course_folder)
    return course_folder


def submit(folder, student, notebook):
    place = folder / "submitted" / student / NAME
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{NAME}.ipynb").write_bytes(notebook)


def grades(folder, student):
    """{grade_id: (automatic score, score set by hand, waits for a person)}"""
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        found = book.find_submission_notebook(NAME, NAME, student).grades
        return {g.name: (g.auto_score, g.manual_score, g.needs_manual_grade) for g in found}


def test_from_release_to_export(graded, run):
    worth = points(released())
    assert {n: g[0] for n, g in grades(graded, "ada").items()} == worth | {"why_soft": None}
    assert {g[0] for g in grades(graded, "bob").values()} == {0}
    cy = grades(graded, "cy")
    for name, mistake in MIXED_FINDS.items():
        full = mistake is None
        assert (
            (cy[name][0] == worth[name]) if full or not worth[name] else cy[name][0] < worth[name]
        )
    assert cy["softmax"][0] == pytest.approx(3 * 6 / 9)
    assert cy["why_soft"] == (None, None, True) and not cy["softmax"][2]
    assert grades(graded, "bob")["why_soft"] == (0, None, False)

    run("nbgrader", "generate_feedback", NAME, cwd=graded)
    page = (graded / "feedback" / "cy" / NAME / f"{NAME}.html").read_text()
    for name, mistake in MIXED_FINDS.items():
        assert f"<strong>{'✗' if mistake else '✓'} {name}</strong>" in page
        named = next((m for m in find(name).mistakes if m.name == mistake), None)
        assert named is None or named.advice.replace("`axis`", "<code>axis</code>") in page
    assert "<details>" in page and "&lt;p&gt;" not in page
    assert r"\operatorname{softmax}" in page and "data:image/png;base64" in page
    assert "Because argmax has no gradient" in page

    run("nbgrader", "export", cwd=graded)
    with open(graded / "grades.csv") as file:
        rows = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert rows == {"ada": 14, "bob": 0, "cy": 6}


def test_a_score_set_by_hand_stays_and_a_resubmission_replaces_the_rest(graded, run):
    with Gradebook(f"sqlite:///{graded}/gradebook.db") as book:
        for name, score in (("softmax", 2.5), ("why_soft", 1.5)):
            grade = book.find_grade(name, NAME, NAME, "cy")
            grade.manual_score, grade.needs_manual_grade = score, False
        book.find_comment("softmax_solution", NAME, NAME, "cy").manual_comment = "Nearly!"
        book.db.commit()
    worse = MIXED | {"similarity": "def similarity(query, keys):\n    import os\n    os._exit(0)"}
    submit(graded, "cy", fill(worse))
    run("nbgrader", "autograde", NAME, "--student", "cy", "--force", cwd=graded)
    cy = grades(graded, "cy")
    assert cy["softmax"] == (pytest.approx(2), 2.5, False) and cy["why_soft"] == (None, 1.5, False)
    assert cy["similarity"][0] == 0 and cy["cat_sat_output"][0] == 1
    with Gradebook(f"sqlite:///{graded}/gradebook.db") as book:
        assert book.find_comment("softmax_solution", NAME, NAME, "cy").comment == "Nearly!"


def test_damage_costs_nobody_else_anything(graded, run):
    """Copied, flipped and stripped cells, and bytes that are no notebook at all, in one class."""
    copied = json.loads(fill(MIXED))
    test = next(c for c in copied["cells"] if "'softmax'" in str(c["metadata"]))
    copied["cells"] += [test, {**test, "metadata": {"nbgrader": {"schema_version": 99}}}]
    copied["cells"][0]["metadata"] = None
    submit(graded, "dan", json.dumps(copied).encode())
    submit(graded, "eve", fill(MIXED | {"softmax": "def softmax(x, axis=-1:"}))
    for student in ("bob", "cy"):  # bob never had a point, cy had six
        submit(graded, student, b"no notebook")
    submit(graded, "zoe", instructor_bytes())
    run("nbgrader", "autograde", NAME, "--force", cwd=graded)
    worth = points(released())
    assert {n: g[0] for n, g in grades(graded, "zoe").items() if n in worth} == worth
    assert {n: g[0] for n, g in grades(graded, "ada").items() if n in worth} == worth
    assert grades(graded, "dan")["softmax"][0] == pytest.approx(2)
    assert (
        grades(graded, "eve")["softmax"][0] == 0 and grades(graded, "eve")["cat_sat_output"][0] == 1
    )
    assert {g[0] for g in grades(graded, "cy").values()} == {0}
    run("nbgrader", "generate_feedback", NAME, cwd=graded)
    page = (graded / "feedback" / "eve" / NAME / f"{NAME}.html").read_text()
    assert "your cell stopped with SyntaxError" in page
    page = (graded / "feedback" / "cy" / NAME / f"{NAME}.html").read_text()
    assert "the file is not JSON" in page
    kept = graded / "submitted" / "cy" / NAME / f"{NAME}.ipynb.as_submitted"
    assert kept.read_bytes() == b"no notebook"


def test_pages_hold_nothing_active(graded, run):
    nasty = (
        "<script>alert(1)</script><img src=x onerror=alert(2)><img src='http://example.org/a.png'>"
    )
    cell = f"from IPython.display import HTML\ncat_sat_output = [0, 0, 0]\nHTML({nasty!r})"
    submit(graded, "eve", fill({"why_soft": nasty, "cat_sat_output": cell}))
    run("nbgrader", "autograde", NAME, "--student", "eve", cwd=graded)
    run("nbgrader", "generate_feedback", NAME, "--student", "eve", cwd=graded)
    page = (graded / "feedback" / "eve" / NAME / f"{NAME}.html").read_text()
    body = page[page.index("<body>") :]
    assert not re.search(r"<[^>]+\sonerror|<script>alert|<img[^>]+example\.org", body)
    assert "alert(1)" in body  # in the student's own code, as text


def test_the_formgrader_opens_a_submission_with_its_cards(graded):
    with Gradebook(f"sqlite:///{graded}/gradebook.db") as book:
        submission = book.find_submission_notebook(NAME, NAME, "cy").id
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = [
        f"--ServerApp.port={port}",
        "--ServerApp.token=teacher",
        "--no-browser",
        "--allow-root",
    ]
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyter", "lab", *options],
        cwd=graded,
        env=os.environ | {"HOME": str(graded.parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        page = fetch(f"http://127.0.0.1:{port}/formgrader/submissions/{submission}/?token=teacher")
    finally:
        server.terminate()
        server.wait(20)
    assert "<strong>✗ softmax</strong> does not pass yet" in page
    assert "Because argmax has no gradient" in page and "exp of a large score overflows" in page


def fetch(address, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return urllib.request.urlopen(address).read().decode()
        except OSError:
            assert time.monotonic() < deadline, f"{address} does not answer"
            time.sleep(0.5)


def validated(path):
    return Validator().validate(str(path))


@pytest.mark.parametrize(("who", "failed"), [("ada", 0), ("bob", 10), ("cy", 6)])
def test_the_validate_button_believes_the_checks(tmp_path, who, failed):
    """nbgrader's own validator runs the notebook in a stock kernel."""
    path = tmp_path / f"{NAME}.ipynb"
    path.write_bytes(STUDENTS[who]())
    result = validated(path)
    assert "changed" not in result or who == "ada"  # the instructor's cells have no checksums yet
    # a written question left empty counts as failed too, and rightly
    found = [cell for cell in result.get("failed", []) if cell["source"].startswith("check(")]
    assert len(found) == failed
    for cell in found:
        lines = re.sub(r"\x1b\[[0-9;]*m", "", cell["raw_error"]).splitlines()
        name = re.match(r'check\("(\w+)"', cell["source"])[1]
        assert len(lines) == 1 and lines[0].startswith(f"AssertionError: {name}: "), lines
