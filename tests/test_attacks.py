"""Nothing a submission tries earns a point, brings anything out, or outlives its run."""

import json
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from attacks import ATTACKS, NEIGHBOURS

from grader import exercises, tiers, workers
from grader.course_files import ROOT
from grader.judge import verdict
from grader.sandbox import Limits, run_submission
from utils.cases import Answer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not tiers.best().isolated and "CI" not in os.environ,
        reason="nothing here can wall code off",
    ),
]
SOFTMAX = exercises.find("softmax")
CASES = SOFTMAX.cases("s", hidden=True)
LIMITS = Limits(cell_seconds=3, notebook_seconds=25, memory_bytes=6 << 30, resident_bytes=1 << 30)
SHORT = Limits(cell_seconds=1, notebook_seconds=15, memory_bytes=6 << 30, resident_bytes=1 << 30)
WRONG = "import numpy as np\nfrom utils.check import check\ndef softmax(x, axis=-1):\n    return np.asarray(x) * 1.0"
RIGHT = """
import numpy as np
from utils.check import check
def softmax(x, axis=-1):
    top = np.max(x, axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    return e / np.maximum(e.sum(axis, keepdims=True), 1e-300)
"""
CHECK = 'check("softmax", softmax)'
SECRET = "the canary sings"


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A file that must not be read and a port that must not be reached; beside it a gradebook."""
    canary = tmp_path_factory.mktemp("outside") / "canary"
    canary.write_text(SECRET)
    with sqlite3.connect(canary.with_name("gradebook.db")) as book:
        book.execute("create table grade (student, manual_score)")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield canary, listener


def notebook(*sources):
    ids = {CHECK: "softmax"}
    cells = [
        {
            "cell_type": "code",
            "metadata": {"nbgrader": {"grade_id": ids[source]}} if source in ids else {},
            "source": source,
        }
        for source in sources
    ]
    return json.dumps({"cells": cells}).encode()


def run(*sources, limits=LIMITS):
    return run_submission(notebook(*sources), {"softmax": CASES}, limits)


def judged(result):
    return verdict(SOFTMAX, CASES, result.answers.get("softmax", []), hidden=True)


def aimed(source, outside):
    canary, listener = outside
    port = listener.getsockname()[1]
    return source.format(canary=canary, port=port, root=ROOT, pid=os.getpid())


def strangers():
    """The processes below this one that are not the three of a worker that waits."""
    waiting = [psutil.Process(worker.process.pid) for worker in workers._idle]
    own = [{top, *top.children(recursive=True)} for top in waiting]
    assert all(len(tree) == 3 for tree in own), own
    return set(psutil.Process().children(recursive=True)).difference(*own)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gains_nothing(name, outside):
    before, book = strangers(), outside[0].with_name("gradebook.db").read_bytes()
    started = time.monotonic()
    result = run(WRONG, aimed(ATTACKS[name], outside), CHECK, "print('the end')")
    assert time.monotonic() - started < 60
    assert judged(result).score == 0
    shown = json.dumps([cell.outputs for cell in result.cells])
    assert SECRET not in shown and "root:" not in shown and "it worked" not in shown
    assert "<script" not in shown and len(shown) < 5_000_000
    with pytest.raises(BlockingIOError):
        outside[1].accept()
    deadline = time.monotonic() + 5
    while left := strangers() - before:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.05)
    assert outside[0].read_text() == SECRET
    assert outside[0].with_name("gradebook.db").read_bytes() == book


SPY = """
import glob, os, resource, socket, sys
print([os.listdir(folder) for folder in ("/tmp", "/dev/shm", os.environ["HOME"], ".")])
print(len([name for name in os.listdir("/proc") if name.isdigit()]))
print([resource.getrlimit(which) for which in range(16)])
print(os.sched_getaffinity(0), os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), oct(os.umask(0o22)))
print(os.getcwd(), sorted(os.environ), len.__name__, np.exp(0.0), sys.path)
print(sorted(os.listdir("/proc/self/fd"))[:-1], open("/proc/self/oom_score_adj").read())
print([line for line in open("/proc/self/maps") if line.split()[1] == "rw-s"])
from utils import plots
plots.lines([1, 10], {"$x^2$": [1, 100]}, "a title", logx=True)
socket.create_server(("127.0.0.1", 8080)).close()
"""


@pytest.fixture(scope="module")
def alone():
    workers.end_idle()
    return traces(run(RIGHT, CHECK, SPY))


def traces(result):
    assert [cell.status for cell in result.cells] == ["ok"] * 3, result
    return [repr(a.to_wire()) for a in result.answers["softmax"]], result.cells[2].outputs


def test_a_worker_serves_one_after_the_other(alone):
    again, pid = traces(run(RIGHT, CHECK, SPY)), workers._idle[0].process.pid
    assert again == alone and traces(run(RIGHT, CHECK, SPY)) == alone
    assert [worker.process.pid for worker in workers._idle] == [pid], "it was not used again"
    beside = "/tmp" in [str(folder) for folder in ROOT.parents]  # then the packages show there
    assert beside or alone[1][0]["text"].startswith("[[], [], [], []]")


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_who_comes_next_notices_nothing(name, alone, outside):
    run(WRONG, aimed(NEIGHBOURS[name], outside), CHECK)
    assert traces(run(RIGHT, CHECK, SPY)) == alone


def test_there_are_walls_and_they_were_tried():
    assert tiers.best().isolated, tiers.self_test(tiers.Bubblewrap())
    assert len(ATTACKS) >= 60
    assert tiers.self_test(tiers.Plain()), "the probe finds nothing even without walls"
    assert run(WRONG).tier == tiers.best().name


@pytest.mark.parametrize("jobs", [1, 2])
def test_neighbours_of_attackers_get_what_they_earn(jobs, outside):
    bad = ["forks for ever", "fills the scratch folder", "kills everything", "takes it bit by bit"]
    batch = [(RIGHT, CHECK)]
    for name in bad:
        batch += [(WRONG, aimed(ATTACKS[name], outside), CHECK), (RIGHT, CHECK)]
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda sources: run(*sources), batch))
    assert [judged(result).score for result in results] == [1, 0] * len(bad) + [1]
    alone = run(RIGHT, CHECK)
    wire = [[a.to_wire() for a in result.answers["softmax"]] for result in (alone, *results[::2])]
    assert all(repr(other) == repr(wire[0]) for other in wire)


SYSTEM_PYTHON = Path(f"/usr/bin/python3.{sys.version_info.minor}")


def open_to_all(path):
    """May everybody look into every folder above this one?"""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


@pytest.mark.skipif(
    os.name != "posix"
    or os.geteuid() != 0
    or not SYSTEM_PYTHON.exists()
    or not shutil.which("setpriv")
    or not all(open_to_all(Path(folder)) for folder in (ROOT, *tiers.packages())),
    reason="needs root, to become somebody else, and a Python and a course that all may read",
)
@pytest.mark.parametrize("half", [0, 1])
def test_an_ordinary_user_has_the_same_walls(half, outside):
    """The self-test and every attack, as nobody."""
    nobody = pwd.getpwnam("nobody")
    names = list(ATTACKS)[half::2]
    sources = {name: aimed(ATTACKS[name], outside) for name in names}
    code = f"""
import sys
sys.path[:0] = {[str(ROOT), str(ROOT / "tests"), *tiers.packages()]!r}
import json
import test_attacks as t
from grader import tiers
found = {{"walls": tiers.self_test(tiers.Bubblewrap())}}
for name, source in {sources!r}.items():
    result = t.run(t.WRONG, source, t.CHECK, limits=t.SHORT)
    shown = json.dumps([c.outputs for c in result.cells])
    found[name] = [t.judged(result).score, t.SECRET in shown or "it worked" in shown]
found["right"] = t.judged(t.run(t.RIGHT, t.CHECK)).score
print(json.dumps(found))
"""
    command = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [*command, str(SYSTEM_PYTHON), "-c", code], env=env, capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("walls") == [] and found.pop("right") == 1
    assert found == {name: [0, False] for name in names}
    with pytest.raises(BlockingIOError):
        outside[1].accept()


def test_the_container_command_holds_the_walls(tmp_path):
    """No engine runs here, so only the command is tested."""
    launch = tiers.Container("docker").launch(
        [sys.executable, "-c", "pass"], {"HOME": tiers.HOME}, tmp_path
    )
    line = " ".join(launch.argv)
    for wall in ("--network none", "--read-only", "--cap-drop ALL", "no-new-privileges", "--pids-limit",
                 "--memory", "--user 65534", f"{tmp_path}:/stage:ro"):  # fmt: skip
        assert wall in line
    assert launch.argv[-3:] == ["python", "-c", "pass"]


def test_answers_of_the_honest_are_answers():
    result = run(RIGHT, CHECK)
    assert all(isinstance(a, Answer) for a in result.answers["softmax"]) and judged(result).passed
