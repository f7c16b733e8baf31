"""A worker that has imported everything already and forks for each submission.

    python -c "from utils.warm_worker import main; main()"   with a socket as stdin

What the grader says on the socket, a word a message:

    torch        import it, too; answered "ready"
    run          with two pipes, for a request and for answers: fork a child that serves them
    clean        end all that the child left; answered "clean"

A child never holds the socket, and each has pipes of its own: it cannot speak
for another one or for this process. It may signal this process, which then
ends or does not answer; the grader throws it away with its sandbox. Linux only.
"""

import contextlib
import ctypes
import gc
import os
import re
import shutil
import signal
import socket
import stat
import sys
import time

from utils import worker

SCRATCH = ("/tmp", "/dev/shm")  # and the home folder: all that can be written to
PR_SET_DUMPABLE = 4
PATIENCE = 5.0  # seconds for what was killed to be gone


def main():
    """Answer the socket until it closes."""
    grader, mounts = socket.socket(fileno=os.dup(0)), _mounts()
    shell = worker.make_shell()  # first: matplotlib looks for it when it is imported
    _import_ahead()
    shell.run_cell("pass", silent=True)
    _be_opaque(True)
    worker.be_quiet()
    _clean(mounts)  # the first submission finds what every later one does
    grader.send(b"ready")
    while True:
        word, pipes, _, _ = socket.recv_fds(grader, 16, 2)
        if word == b"torch":
            _import_torch()
            _clean(mounts)
            grader.send(b"ready")
        elif word == b"run":
            _fork(grader, pipes, shell)
        elif word == b"clean":
            _clean(mounts)
            grader.send(b"clean")
        else:
            sys.exit()


def _import_ahead():
    """What nearly every notebook uses, down to the first picture drawn."""
    import matplotlib.pyplot as plt
    import numpy as np
    from IPython.core.pylabtools import print_figure

    import utils.check
    import utils.plots

    decades = np.logspace(-3, 3, 7)
    utils.plots.lines(decades, {"$x$": decades, "y": decades}, "x", "x", "y", logx=True, logy=True)
    print_figure(plt.gcf(), "png")
    plt.close("all")
    plt.uninstall_repl_displayhook()  # it draws every picture once more, before it is shown


def _import_torch():
    """Import torch, and take the optimiser's first step, which imports the rest of it."""
    import torch

    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.ones(2, 2))
    optimiser = torch.optim.AdamW([weight])
    (weight @ weight).sum().backward()
    optimiser.step()


def _fork(grader, pipes, shell):
    gc.freeze()  # a collection in the child would copy every page it looks at
    if os.fork():
        for pipe in pipes:
            os.close(pipe)
        return
    try:
        grader.close()
        _be_opaque(False)
        incoming, outgoing = pipes
        with open(incoming, "rb") as file:
            request = file.read()
        _open_afresh()
        _draw_afresh()
        worker.run(request, outgoing, shell)
    finally:
        os._exit(0)


def _be_opaque(opaque):
    """May this process be looked into by others of its user? The child may; its parent may not."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0 if opaque else 1, 0, 0, 0)


def _open_afresh():
    """Open inherited files, which are fonts, again: a position in a shared one could be moved."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that listed the folder is closed
            if stat.S_ISREG(os.fstat(int(name)).st_mode):
                fresh = os.open(os.readlink(f"/proc/self/fd/{name}"), os.O_RDONLY)
                os.lseek(fresh, os.lseek(int(name), 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(fresh, int(name))
                os.close(fresh)


def _draw_afresh():
    """Children would otherwise all draw the same numbers where they set no seed."""
    import numpy as np

    np.random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


def _clean(mounts):
    """End every process but this one, then empty what can be written to.

    What cannot be ended or emptied ends this process instead.
    """
    deadline = time.monotonic() + PATIENCE
    while others := _others():
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if time.monotonic() > deadline:
            sys.exit(f"still there: {others}")
        time.sleep(0.0005)
    for folder in (*SCRATCH, os.environ["HOME"]):
        _empty(folder, mounts)


def _others():
    """Every process in here, but the first, which reaps, and this one."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()}


def _empty(folder, mounts):
    """Remove what is in a folder, but not what the sandbox itself has put there."""
    for entry in os.scandir(folder):
        if any(mount.startswith(f"{entry.path}/") for mount in mounts):
            _empty(entry.path, mounts)
        elif entry.path in mounts:
            continue
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _mounts():
    """Where something is mounted in here: Python itself may lie below a folder of SCRATCH."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        paths = [line.split(" ")[4] for line in file]
    return {re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), path) for path in paths}
