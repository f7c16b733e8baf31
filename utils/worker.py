"""Runs a notebook's code cells, in a process that a grader has started for them.

    python -c "from utils.worker import main; main()"   with a request (`utils.wire`) on stdin

Answers leave through the mailbox's pipe; what the cells print is captured and
sent back cell by cell. No verdict is taken here, and nothing to take one with
is in reach.
"""

import base64
import contextlib
import os
import sys
import time

from utils import mailbox, wire
from utils.time_limit import TooSlow, time_limit

MAX_TEXT = 20_000


def main():
    """Serve the one request on standard input; standard output becomes the pipe."""
    request, pipe = sys.stdin.buffer.read(), os.dup(1)
    shell = make_shell()
    be_quiet()  # only now: what keeps the worker from starting should be heard
    run(request, pipe, shell)


def be_quiet():
    """Nothing comes in or goes out by the standard streams from here on."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def make_shell():
    """An IPython shell without a terminal or a kernel: magics, display and plots work."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        def enable_gui(self, gui=None):
            """There are no windows here; `%matplotlib inline` asks for none."""

    config = Config()
    config.HistoryManager.enabled = False  # else a thread and a database
    config.InteractiveShell.xmode = "Plain"  # ten times as quick as tracebacks with context
    return Shell.instance(config=config)


def run(request, pipe, shell):
    """Run the request's cells in order; a message goes down the pipe before and after each."""
    request = wire.unpack(request)
    _limit_resources(request["memory_bytes"])
    os.environ[mailbox.PIPE] = str(pipe)
    mailbox.inputs = request["inputs"]
    mailbox.send(("ready",))
    for index, grade_id, source in request["cells"]:
        mailbox.cell = grade_id
        mailbox.send(("started", index))
        started = time.monotonic()
        status, outputs = _run_cell(shell, source, request["cell_seconds"])
        mailbox.send(("finished", index, status, time.monotonic() - started, outputs))
    mailbox.send(("end",))


def _limit_resources(memory_bytes):
    """Caps that hold for this process and all it starts; Windows has none of them."""
    try:
        import resource
    except ImportError:
        return
    for name, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 32 << 20),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(name)
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS
            resource.setrlimit(name, (limit, limit))


def _run_cell(shell, source, seconds):
    """(status, outputs) of one cell; status is "ok", "error" or "too slow"."""
    from IPython.core.displayhook import CapturingDisplayHook
    from IPython.utils.capture import capture_output

    tracebacks = []
    shell._showtraceback = lambda kind, error, lines: tracebacks.append((kind, error, lines))
    with capture_output() as captured:
        shell.display_trap.hook = CapturingDisplayHook(shell, shell.display_pub.outputs)
        try:
            with time_limit(seconds):
                result = shell.run_cell(source, store_history=True)
            error = result.error_before_exec or result.error_in_exec
        except TooSlow as late:
            error = late
    outputs = [
        ("stream", name, text[:MAX_TEXT])
        for name, text in (("stdout", captured.stdout), ("stderr", captured.stderr))
        if text
    ]
    outputs += [("display", _shown(rich.data)) for rich in captured.outputs]
    if isinstance(error, TooSlow):
        return "too slow", [*outputs, ("error", "TooSlow", f"stopped after {seconds:g} s", [])]
    outputs += [_error(*traceback) for traceback in tracebacks]
    return "error" if error else "ok", outputs


def _error(kind, error, lines):
    try:
        text = str(error)
    except Exception:
        text = ""
    return ("error", kind.__name__, text[:MAX_TEXT], [line[:MAX_TEXT] for line in lines[-50:]])


def _shown(data):
    """The text and the PNG (as bytes) of one display; nothing that could be active in a page."""
    shown = {"text/plain": str(data.get("text/plain", ""))}
    png = data.get("image/png", b"")
    try:
        shown["image/png"] = base64.b64decode(png) if isinstance(png, str) else bytes(png)
    except (TypeError, ValueError):
        shown["image/png"] = b""
    return shown
