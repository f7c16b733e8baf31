"""The processes that run submissions: started behind a tier's walls, lent out, and ended.

A `Cold` one serves a single request. A `Warm` one has imported everything,
forks for each request, and is lent again after it has cleaned up; after any
other end than a good one it is thrown away with its sandbox.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from multiprocessing import util
from pathlib import Path

import psutil

from grader import tiers

UTILS = Path(__file__).resolve().parent.parent / "utils"
START_SECONDS = 60.0  # for a slow disk that holds torch
CLEAN_SECONDS = 8.0
SHARED_BYTES = 512 << 20  # below this nobody asks how much of it is shared, which takes longer


class WorkerFailed(RuntimeError):
    """The process that runs submissions does not start on this machine; the text says why."""


@contextlib.contextmanager
def lent(tier, files, sources):
    """A worker that holds these `files` of utils, for the length of the body.

    `sources` are what will run: libraries they name are there beforehand. The
    body says with `worker.ended_well = True` that the worker may serve again.
    """
    kind = Warm if tier.forks else Cold
    worker = _take(tier, tuple(files)) or kind(tier, tuple(files))
    try:
        worker.prepare(sources)
        worker.ended_well = False
        yield worker
        if worker.ended_well and worker.clean():
            _idle.append(worker)
            worker = None
    finally:
        if worker:
            worker.end()


_idle = []  # warm workers that serve nobody now


def _take(tier, files):
    """An idle worker for these files; idle ones for others, an earlier chapter's, are ended."""
    while _idle:
        try:
            worker = _idle.pop()
        except IndexError:  # another thread was quicker
            return None
        same = (worker.tier.name, worker.files) == (tier.name, files)
        if same and worker.clean():  # it is clean; so it also says that it lives
            return worker
        worker.end()
    return None


def end_idle():
    """End the workers that wait for the next submission."""
    while _idle:
        _idle.pop().end()


util.Finalize(None, end_idle, exitpriority=1)  # unlike atexit, heard in pool processes too


class Worker:
    """A process behind walls, on a staged copy of what its chapter may use."""

    entry = ""  # the function of utils that it runs

    def __init__(self, tier, files, stdin, stdout):
        self.tier, self.files, self.ended_well = tier, files, False
        self._folder = tempfile.TemporaryDirectory(prefix="submission-")
        stage = _stage(Path(self._folder.name), files)
        home = tiers.HOME if tier.isolated else str(stage / "home")
        with tier.launch(self._command(), _environment(home), stage) as launch:
            self.process = subprocess.Popen(
                launch.argv,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=launch.env,
                cwd=stage / "work",
                pass_fds=launch.pass_fds,
                start_new_session=True,
            )

    def _command(self):
        """A Python that sees the stage and the installed packages; no path file leads it here."""
        paths = [self.tier.stage_path(self._folder.name), *tiers.packages()]
        start = f"import sys; sys.path[:0] = {paths!r}; from utils.{self.entry} import main; main()"
        return [sys.executable, "-I", "-S", "-c", start]

    def prepare(self, sources):
        """Import what the sources name, where that pays."""

    def start(self, request):
        """Begin to serve a request's bytes; returns the file that answers are read from."""
        raise NotImplementedError

    def clean(self):
        """Take away all that the last request left; True if the worker may serve again."""
        return False

    def kill(self):
        """Kill the process and its group."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError, PermissionError):
            self.process.kill()

    def end(self):
        """Kill it and forget its stage. Whoever reads its answers closes that file himself.

        Without walls a grandchild that left the group may live on and hold
        the pipe open: nothing here waits for it.
        """
        self.kill()
        self.process.wait()
        self.process.stderr.close()
        self._folder.cleanup()

    def failed(self):
        """WorkerFailed, with the last words of a worker that did not start."""
        self.kill()
        words = self.process.stderr.read().decode(errors="replace").strip()[-1000:]
        return WorkerFailed(
            f"The process that runs submissions does not start here: {words or 'it says nothing'}"
        )

    def memory(self):
        """Bytes that it and all it started hold together."""
        try:
            top = psutil.Process(self.process.pid)
            processes = [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return 0
        held = sum(map(_resident, processes))
        if held > SHARED_BYTES:  # forks share pages, which must not count twice
            held = sum(map(_proportional, processes))
        return held


class Cold(Worker):
    """Serves one request, by its standard input and output."""

    entry = "worker"

    def __init__(self, tier, files):
        super().__init__(tier, files, subprocess.PIPE, subprocess.PIPE)

    def start(self, request):
        threading.Thread(target=_feed, args=(self.process.stdin, request), daemon=True).start()
        return self.process.stdout


class Warm(Worker):
    """Forks for each request; see `utils.warm_worker` for what is said on the socket."""

    entry = "warm_worker"

    def __init__(self, tier, files):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            super().__init__(tier, files, theirs, subprocess.DEVNULL)
        self._libraries = set()
        self._expect(b"ready")

    def prepare(self, sources):
        if "torch" not in self._libraries and any("torch" in source for source in sources):
            self._socket.send(b"torch")
            self._expect(b"ready")
            self._libraries.add("torch")

    def start(self, request):
        request_read, request_write = os.pipe()
        answers_read, answers_write = os.pipe()
        with contextlib.suppress(OSError):  # it has died: the pipes say so
            socket.send_fds(self._socket, [b"run"], [request_read, answers_write])
        os.close(request_read)
        os.close(answers_write)
        pipe = open(request_write, "wb")  # noqa: SIM115
        threading.Thread(target=_feed, args=(pipe, request), daemon=True).start()
        return open(answers_read, "rb")

    def clean(self):
        try:
            self._socket.send(b"clean")
            return self._hears(CLEAN_SECONDS) == b"clean"
        except OSError:
            return False

    def end(self):
        self._socket.close()
        super().end()

    def _expect(self, word):
        try:
            heard = self._hears(START_SECONDS)
        except OSError:
            heard = b""
        if heard != word:
            failed = self.failed()
            self.end()
            raise failed

    def _hears(self, seconds):
        self._socket.settimeout(seconds)
        return self._socket.recv(16)


# ---- the stage -----------------------------------------------------------------------------------


def _stage(folder, files):
    """Copy these files of utils into `folder`, with a home and a place to work beside them."""
    for name in files:
        target = folder / "utils" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(UTILS / name, target)
    (folder / "home").mkdir()
    (folder / "work").mkdir()
    for path in (folder, *folder.rglob("*")):  # another user may have to read it
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def _environment(home):
    kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    return kept | {
        "PATH": os.defpath,
        "HOME": home,
        "IPYTHONDIR": home,
        "MPLCONFIGDIR": home,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


# ---- while it runs -------------------------------------------------------------------------------


def _feed(pipe, data):
    try:
        with pipe:
            pipe.write(data)
    except OSError:
        pass  # it died before it had read its request; whoever listens says so


def _resident(process):
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def _proportional(process):
    try:
        return process.memory_full_info().pss
    except (psutil.Error, AttributeError):
        return _resident(process)


@contextlib.contextmanager
def memory_watched(worker, limit):
    """Kill the worker when it holds more than `limit` bytes; yields an Event that says so."""
    over, done = threading.Event(), threading.Event()

    def watch():
        while not done.wait(0.1):
            if worker.memory() > limit:
                over.set()
                worker.kill()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield over
    finally:
        done.set()
        watcher.join()
