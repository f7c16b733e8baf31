"""The mailbox path: bytes of a notebook in, answers out, and the verdict formed from them outside."""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from students import CHAPTER, MIXED, MIXED_FINDS, fill, instructor_bytes, released

from grader import exercises, listening, workers
from grader.course_files import ROOT
from grader.grade import grade, judge_all
from grader.normalise import Unreadable
from grader.sandbox import Limits, run_submission, staged_files
from utils import warm_worker
from utils.chapters import CHAPTERS

LISTED = exercises.of_chapter(CHAPTER.concept)
SECRET = b"a secret of the tests"
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.name)
QUICK = Limits(cell_seconds=3, notebook_seconds=60)


def cases(seed=0):
    return {e.id: e.cases(seed, hidden=True) for e in LISTED}


def run_cells(*sources, limits=QUICK):
    """Run a notebook of these code cells; the grade_id of each is given as (id, source) or absent."""
    cells = []
    for source in sources:
        grade_id, source = source if isinstance(source, tuple) else ("", source)
        metadata = {"nbgrader": {"grade_id": grade_id}} if grade_id else {}
        cells.append({"cell_type": "code", "metadata": metadata, "source": source})
    return run_submission(json.dumps({"cells": cells}).encode(), cases(), limits)


def verdict(result, exercise_id):
    return judge_all(LISTED, result, cases())[exercise_id]


def text(result, index=0):
    return json.dumps(result.cells[index].outputs)


SOFTMAX = """
import numpy as np
from utils.check import check
def softmax(x, axis=-1):
    x = np.asarray(x) * 1.0
    top = x.max(axis, keepdims=True)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    return e / np.maximum(e.sum(axis, keepdims=True), 1e-300)
"""
CHECK = ("softmax", 'check("softmax", softmax)')


@each_chapter
def test_the_instructor_version_scores_full_marks(chapter):
    graded = grade(instructor_bytes(chapter), chapter, released(chapter), SECRET)
    assert all(v.passed and v.score == 1 for v in graded.verdicts.values())
    assert graded.result.status == "finished"
    assert {c.status for c in graded.result.cells} == {"ok", "figure"}


@each_chapter
def test_the_untouched_notebook_scores_exactly_0(chapter):
    graded = grade(fill({}, chapter), chapter, released(chapter), SECRET)
    assert {v.score for v in graded.verdicts.values()} == {0}
    assert {v.mistake for v in graded.verdicts.values()} <= {"not_written", "calls_unwritten"}
    assert graded.repairs == []


def test_a_mixture_gets_what_each_part_deserves():
    graded = grade(fill(MIXED), CHAPTER, released(), SECRET)
    found = {name: v.mistake for name, v in graded.verdicts.items()}
    assert found == MIXED_FINDS
    assert all(v.passed == (MIXED_FINDS[name] is None) for name, v in graded.verdicts.items())
    assert graded.verdicts["softmax"].score == pytest.approx(6 / 9)
    assert "(softmax, which this builds on" in graded.verdicts["soft_lookup"].message
    again = grade(fill(MIXED), CHAPTER, released(), SECRET)
    assert again.seeds == graded.seeds
    assert [v.score for v in again.verdicts.values()] == [v.score for v in graded.verdicts.values()]
    assert grade(fill({}), CHAPTER, released(), SECRET).seeds != graded.seeds


def test_nothing_of_the_grader_is_in_reach():
    result = run_cells(
        "import utils, sys, os\nprint(os.listdir(os.path.dirname(utils.__file__)))\nprint(sys.path)",
        "import grader",
        "import grader.exercises.dictionary_lookup",
        "import solutions",
        "import utils.reference.dictionary_lookup",
        "import utils.glassbox",
        "from utils.check import _judge\n_judge()",
        "print(sorted(os.environ))\nprint(os.environ['HOME'])",
    )
    assert [c.status for c in result.cells] == ["ok", *["error"] * 6, "ok"]
    listing = text(result)
    assert "worker.py" in listing and "glassbox.py" not in listing
    assert str(workers.UTILS.parent) + "'" not in listing
    for index in (1, 2, 3, 4, 5):
        assert "ModuleNotFoundError" in text(result, index)


def test_staging_is_an_allow_list():
    names = staged_files(cases())
    assert not any("reference/dictionary" in name or "glassbox" in name for name in names)
    second = staged_files({"scores": []})
    assert "reference/dictionary_lookup.py" in second and "reference/qkv.py" not in second
    assert "reference/__init__.py" in names and all(
        not name.startswith(("/", "..")) for name in names
    )


def test_a_forged_verdict_counts_for_nothing():
    forged = """
from utils import mailbox
from utils.cases import Answer
mailbox.send(("answers", "softmax", "softmax", [("0", "passed", 1, (), "", "", "", (), None)]))
mailbox.send(("answers", "softmax", "softmax", "everything"))
mailbox.send(("answers", "softmax", "no such exercise", []))
mailbox.send(("answers", "softmax", "softmax", [1, 2, 3]))
mailbox.send(("verdict", "softmax", True, 1.0))
"""
    result = run_cells(SOFTMAX, forged)
    assert result.cells[1].status == "died" and verdict(result, "softmax").score == 0


def test_the_tests_own_cell_wins_over_other_checks_of_the_same_exercise():
    bad = 'check("softmax", lambda x, axis=-1: x)'
    assert verdict(run_cells(SOFTMAX, CHECK, bad), "softmax").passed
    assert verdict(run_cells(SOFTMAX, bad, CHECK), "softmax").passed
    assert verdict(run_cells(SOFTMAX, 'check("softmax", softmax)'), "softmax").passed


ENDINGS = {
    "exit": "import os; os._exit(0)",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "kill": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "noise": "import os; os.write(int(os.environ['ATTENTION_PIPE']), b'x' * 100)",
    "a long frame": "import os; os.write(int(os.environ['ATTENTION_PIPE']), b'\\xff' * 8)",
    "closes the pipe": "import os; os.close(int(os.environ['ATTENTION_PIPE']))",
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_cell_that_ends_the_process_costs_only_itself(how):
    result = run_cells(SOFTMAX, ENDINGS[how], CHECK, "print('still here')")
    assert result.cells[1].status == "died"
    assert verdict(result, "softmax").passed
    assert "still here" in text(result, 3)


@pytest.mark.slow
def test_a_cell_that_never_ends_costs_only_itself():
    limits = Limits(cell_seconds=1, notebook_seconds=60)
    result = run_cells(SOFTMAX, "while True: pass", CHECK, limits=limits)
    assert result.cells[1].status == "too slow" and verdict(result, "softmax").passed
    stubborn = "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except BaseException:\n        pass"
    result = run_cells(SOFTMAX, stubborn, CHECK, limits=limits)
    assert result.cells[1].status == "too slow" and verdict(result, "softmax").passed


@pytest.mark.slow
def test_the_whole_notebook_has_a_limit_and_what_it_started_ends_with_it():
    long = f"{1000 + os.getpid()}.25"  # no other process sleeps as long
    spawn = f"import subprocess, time\nsubprocess.Popen(['sleep', '{long}'])"
    started = time.monotonic()
    limits = Limits(cell_seconds=100, notebook_seconds=4)
    result = run_cells(SOFTMAX, CHECK, spawn, "time.sleep(60)", limits=limits)
    assert result.status == "too slow" and time.monotonic() - started < 15
    assert verdict(result, "softmax").passed
    assert result.cells[2].status == "ok"
    deadline = time.monotonic() + 5
    while any(long in (p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < deadline, "a process was left running"
        time.sleep(0.1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_nothing_waits_for_a_process_that_left_the_group():
    leaves = "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(25); os._exit(0)"
    started = time.monotonic()
    result = run_cells(SOFTMAX, leaves, CHECK)
    assert verdict(result, "softmax").passed and time.monotonic() - started < 15


def test_a_worker_that_cannot_start_is_nobodys_zero(monkeypatch):
    command = [sys.executable, "-c", "import sys; sys.exit('no such interpreter')"]
    monkeypatch.setattr(workers.Worker, "_command", lambda self: command)
    workers.end_idle()
    with pytest.raises(workers.WorkerFailed, match="no such interpreter"):
        run_cells(SOFTMAX, CHECK)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no such limits")
def test_a_lower_limit_of_the_machine_is_kept_and_costs_no_points():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))\n"
        "from grader.cli import app; app(['check', '1', '--notebook', 'solutions/"
        f"{CHAPTER.name}/{CHAPTER.name}.ipynb'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "14 of 14 points" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "message",
    [
        '("started", 45)', '("started", "1")', '("finished", 0, "ok", 0.0, [])', '("end", 1)',
        '("answers", "softmax", "softmax", [("0", "raised", None, (), "", "", "", (), None)])',
        '("answers", "softmax", "softmax", [("0", "returned", 1, (), "", "", "", ("²",), None)])',
    ],
)  # fmt: skip
def test_forged_messages_raise_nothing_and_earn_nothing(message):
    forge = f"import os\nfrom utils import mailbox\nmailbox.send({message})\nos._exit(0)"
    figure = {"cell_type": "code", "metadata": {"tags": ["figure"]}, "source": "1"}
    cells = [{"cell_type": "code", "metadata": {}, "source": s} for s in (SOFTMAX, forge)]
    result = run_submission(
        json.dumps({"cells": [*cells, *[figure] * 44]}).encode(), cases(), QUICK
    )
    assert result.cells[1].status == "died" and verdict(result, "softmax").score == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no such limits")
def test_memory_is_limited():
    limits = Limits(cell_seconds=20, memory_bytes=2 << 30)
    result = run_cells(SOFTMAX, "x = np.ones(6 << 27); x.sum()", CHECK, limits=limits)
    assert result.cells[1].status in ("error", "died") and verdict(result, "softmax").passed


def test_what_a_teacher_sees():
    result = run_cells(
        "import sys\nprint('out ✓')\nprint('err', file=sys.stderr)\n1 + 1",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "from IPython.display import HTML\nHTML('<script>alert(1)</script>')",
        "1 / 0",
        "print('x' * 100_000)",
        "%timeit -n1 -r1 pass",
        "input('name? ')",
        "import warnings; warnings.warn('careful')",
        "def f(:",
    )
    assert result.status == "finished"
    statuses = [c.status for c in result.cells]
    assert statuses == ["ok", "ok", "ok", "error", "ok", "ok", "error", "ok", "error"]
    assert {o.get("name") for o in result.cells[0].outputs} == {"stdout", "stderr", None}
    assert "'text/plain': '2'" in str(result.cells[0].outputs)
    (plot,) = [o for o in result.cells[1].outputs if "image/png" in o.get("data", {})]
    assert base64.b64decode(plot["data"]["image/png"]).startswith(b"\x89PNG")
    assert "script" not in text(result, 2)
    assert "ZeroDivisionError" in text(result, 3) and len(text(result, 4)) < 25_000
    assert "EOFError" in text(result, 6) or "StdinNotImplemented" in text(result, 6)


def test_pictures_are_decoded_and_encoded_again():
    one = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    assert base64.b64decode(listening._clean_png(one + b"<script>")).endswith(b"IEND\xaeB`\x82")
    for bad in (b"GIF89a", b"", None, b"\x89PNG nonsense", "not base64!", 3, b"x" * (3 << 20)):
        assert listening._clean_png(bad) is None


def test_figures_are_not_run():
    cell = {"cell_type": "code", "metadata": {"tags": ["figure"]}, "source": "1 / 0"}
    result = run_submission(json.dumps({"cells": [cell]}).encode(), cases(), QUICK)
    assert [c.status for c in result.cells] == ["figure"]


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"cells": 3}', b'{"cells": [1]}',
     b'{"cells": [{}]}', b'{"cells": [{"cell_type": "code"}]}', b'{"cells": [{"cell_type": "video", "source": ""}]}'],
)  # fmt: skip
def test_what_is_no_notebook_is_unreadable(data):
    with pytest.raises(Unreadable, match="not a notebook") as caught:
        grade(data, CHAPTER, released(), SECRET)
    result = run_submission(data, cases(), QUICK)
    assert result.status == "unreadable" and not result.answers
    assert "Error" not in str(caught.value) and len(str(caught.value)) < 100


def test_hidden_inputs_do_not_come_back():
    steals = SOFTMAX.replace(
        "def softmax(x, axis=-1):", "def softmax(x, axis=-1):\n    print('saw', x); display(x)"
    )
    result = run_cells("from IPython.display import display" + steals, CHECK)
    assert verdict(result, "softmax").passed and result.cells[1].outputs == []


def test_submissions_without_a_seed_do_not_all_draw_the_same_numbers():
    draws = "import random\nimport numpy as np\nprint(random.random(), np.random.rand())"
    drawn = {text(run_cells(draws)) for _ in range(2)}
    assert len(drawn) == 2


def test_what_is_wiped_between_submissions(tmp_path):
    """All but what the sandbox itself has mounted, and the folders on the way there."""
    for name in ("course/.venv/lib/numpy", "course/left", "left/deep"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "course")
    warm_worker._empty(str(tmp_path), {"/", "/proc", f"{tmp_path}/course/.venv"})
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    kept = "course/.venv/lib/numpy/file"
    assert left == {kept, *(parent.as_posix() for parent in Path(kept).parents)} - {"."}
