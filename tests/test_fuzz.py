"""Whatever comes: damaged notebooks, and bytes of a worker's that are no messages."""

import io
import json
import os
import random
import struct
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from students import CHAPTER, MIXED, fill, instructor_bytes

from grader import class_run, course_files, exercises, gradebook
from grader.judge import verdict
from grader.listening import CellReport, Listener, Result
from grader.sandbox import Limits
from utils import wire

SOFTMAX = exercises.find("softmax")
ODD = (
    None,
    True,
    0,
    -1,
    2**70,
    1e308,
    "",
    "x",
    "\ud800",
    "\0",
    "é",
    [],
    {},
    [[]],
    {"": {}},
    "x" * 100_000,
)


def framed(value):
    data = wire.pack(value)
    return struct.pack("<I", len(data)) + data


SPOKEN = [
    ("ready",), ("started", 0), ("finished", 0, "ok", 0.1, [("stream", "stdout", "hm")]), ("end",),
    ("finished", 0, "ok", -1.0, [("display", {"image/png": b"\x89PNG"}), 3, ("error", "a", "b", [1])]),
    ("answers", "softmax", "softmax", [("0", "returned", 1.0, (), "", "", "", (), None)]),
    ("answers", "", "softmax", [("0",)]), ("answers", "softmax", "softmax", [None]), ("started", True),
]  # fmt: skip
PIECES = st.sampled_from([framed(words) for words in SPOKEN]) | st.binary(max_size=40)


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=8).map(b"".join))
def test_whatever_a_worker_says_there_is_a_verdict(data):
    result = Result("finished", cells=[CellReport(0, "softmax")])
    got_there = Listener(result, {0}, Limits()).listen(io.BytesIO(data), 5, threading.Event())
    assert got_there == (result.status == "finished")
    assert result.status in ("finished", "died", "garbled", "too much output")
    found = verdict(SOFTMAX, SOFTMAX.cases(0, True), result.answers.get("softmax", []), hidden=True)
    assert found.score == 0 and found.message


def mutated(data, draw):
    """A notebook's bytes with a few things in it changed, of its text or of its tree."""
    if draw.random() < 0.3:
        return in_the_text(bytearray(data), draw)
    notebook = json.loads(data)
    for _ in range(draw.choice((1, 1, 2, 5, 20))):
        in_the_tree(notebook, draw)
    return json.dumps(notebook).encode()


def in_the_text(data, draw):
    at = draw.randrange(len(data))
    match draw.randrange(5):
        case 0:
            del data[at:]
        case 1:
            del data[at : at + draw.randrange(1, 300)]
        case 2:
            data[at] = draw.randrange(256)
        case 3:
            data[at:at] = draw.randbytes(9)
        case 4:
            data[at:at] = draw.choice((b'"', b"[" * 5000, b"NaN", b"{}", b"\xff\xfe", b"\n"))
    return bytes(data)


def in_the_tree(notebook, draw):
    """Change one place, the cells and what hangs on them more often than the rest."""
    cells = notebook.get("cells")
    cells = cells if isinstance(cells, list) and cells else [notebook]
    place = draw.choice((notebook, cells, draw.choice(cells)))
    while isinstance(place, dict | list) and place:
        key = draw.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if isinstance(place[key], dict | list) and place[key] and draw.random() < 0.6:
            place = place[key]
            continue
        match draw.randrange(4):
            case 0:
                place[key] = draw.choice(ODD)
            case 1:
                del place[key]
            case 2 if isinstance(place, list):
                place.insert(draw.randrange(len(place)), place[key])
            case _ if isinstance(place[key], str):
                at = draw.randrange(len(place[key]) + 1)
                place[key] = (
                    place[key][:at]
                    + draw.choice(("\n", "(", "  ", "'", "\ud800", "é"))
                    + place[key][at:]
                )
        return


@pytest.mark.slow
def test_a_thousand_damaged_notebooks_and_an_honest_one(course_folder):
    draw, cores = random.Random(11), os.cpu_count() or 1
    sources = [fill({}), fill(MIXED)]
    for number in range(1000):
        place = course_folder / "submitted" / f"s{number:04d}" / CHAPTER.name
        place.mkdir(parents=True)
        data = instructor_bytes() if number == 500 else mutated(draw.choice(sources), draw)
        (place / f"{CHAPTER.name}.ipynb").write_bytes(data)
    found = class_run.find(course_folder / "submitted", CHAPTER)
    course = gradebook.course_of(course_folder)
    gradebook.enter_chapter(CHAPTER, course_folder, course)
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        store, pages = course_files.results(course_folder), course_folder / "autograded"
        class_run.Run(CHAPTER, course_folder, store, pool, pool, pages).grade(found, 2 * cores)
    gradebook.write(found, CHAPTER, course)
    assert len(found) == 1000 and all(one.finished for one in found), [
        (one.student, one.reason) for one in found if not one.finished
    ]
    totals = {one.student: sum(row["score"] for row in one.finished.rows) for one in found}
    assert totals.pop("s0500") == 14 and max(totals.values()) <= 7
    unreadable = [one for one in found if one.reason]
    assert 200 < len(unreadable) < 800 and all("\n" not in one.reason for one in unreadable)
