"""One submission in, answers out, nothing else.

A submission runs in a process of its own, walled off by a tier of
`grader.tiers`, on a staged copy of what its chapter may use. Only inputs go in
and only bytes come out, through the strict reader of `utils.wire`; an exit
status never counts as success. A cell that kills or outlives the process costs
its own exercise: the rest runs again without it.
"""

import base64
import contextlib
import io
import os
import queue
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from grader import exercises, tiers
from grader.normalise import Unreadable, read_cells
from utils import wire
from utils.cases import Answer
from utils.chapters import CHAPTERS

UTILS = Path(__file__).resolve().parent.parent / "utils"
STAGED = (
    "__init__.py", "cases.py", "chapters.py", "check.py", "data.py", "errors.py", "mailbox.py",
    "palette.py", "plots.py", "progress.py", "time_limit.py", "wire.py", "worker.py", "widgets",
    "reference/__init__.py",
)  # fmt: skip
RUNS = 4  # the first, and one more after each of at most three cells that end a process
MAX_TEXT = 20_000
MAX_PNG_BYTES = 2 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use."""

    cell_seconds: float = 60.0
    notebook_seconds: float = 300.0
    memory_bytes: int = 8 << 30  # of addresses, a process
    resident_bytes: int = 4 << 30  # of memory, all processes together
    output_bytes: int = 64 << 20


@dataclass
class CellReport:
    """What happened to one cell; `index` is its place in the notebook.

    `status` is "ok", "error", "too slow", "died", "figure" (never run) or
    "not run". `outputs` are nbformat outputs of text and PNG alone.
    """

    index: int
    grade_id: str
    status: str = "not run"
    seconds: float = 0.0
    outputs: list = field(default_factory=list)


@dataclass
class Result:
    """`status` is "finished", "unreadable", "too slow", "died", "too much output" or "garbled"."""

    status: str
    message: str = ""
    answers: dict = field(default_factory=dict)  # exercise id -> [Answer]
    official: set = field(default_factory=set)  # those that came from the exercise's own test cell
    cells: list = field(default_factory=list)  # [CellReport], one a code cell
    seconds: float = 0.0
    tier: str = ""


class WorkerFailed(RuntimeError):
    """The process that runs submissions does not start on this machine; the text says why."""


def run_submission(notebook_bytes, cases, limits=None, tier=None):
    """Run a notebook's code cells on `cases`, {exercise id: [Case]}, and return a Result.

    What is staged goes by the latest chapter among the exercises. Never raises
    for what is in the notebook; raises WorkerFailed when the worker cannot even
    start, which is no student's fault. `tier` is the wall around it, by default
    the best of this machine.
    """
    limits, tier = limits or Limits(), tier or tiers.best()
    started = time.monotonic()
    try:
        reports, sources = _read(notebook_bytes)
    except Unreadable as error:
        return Result("unreadable", str(error))
    result = Result("finished", cells=list(reports.values()), tier=tier.name)
    with tempfile.TemporaryDirectory(prefix="submission-") as folder:
        stage = _stage(Path(folder), cases)
        for _ in range(RUNS):
            left = limits.notebook_seconds - (time.monotonic() - started)
            fatal = _run_once(tier, stage, sources, result, reports, limits, left)
            if fatal is None or left <= 0:
                break
            sources.pop(fatal)
    result.seconds = time.monotonic() - started
    return result


def _read(notebook_bytes):
    """({index: CellReport} of code cells, {index: (grade_id, source)} of those to run)."""
    reports, sources = {}, {}
    for index, cell in enumerate(read_cells(notebook_bytes)):
        if cell["cell_type"] != "code":
            continue
        grade_id = str(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))
        reports[index] = CellReport(index, grade_id)
        if "figure" in cell["metadata"].get("tags", []):
            reports[index].status = "figure"
        else:
            sources[index] = (grade_id, cell["source"])
    return reports, sources


# ---- staging ---------------------------------------------------------------------------------


def _stage(folder, cases):
    """Copy what the chapter may use, and the inputs, into `folder`."""
    for name in staged_files(cases):
        target = folder / "utils" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (UTILS / name).is_dir():
            shutil.copytree(UTILS / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(UTILS / name, target)
    (folder / "home").mkdir()
    (folder / "work").mkdir()
    inputs = {name: [case.to_wire() for case in listed] for name, listed in cases.items()}
    (folder / "inputs").write_bytes(wire.pack(inputs))
    for path in (folder, *folder.rglob("*")):  # another user may have to read it
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def staged_files(cases):
    """What of `utils` a run of these exercises may hold: references of earlier chapters only."""
    concepts = {exercises.find(name).chapter for name in cases}
    chapter = max((c.number for c in CHAPTERS if c.concept in concepts), default=0)
    earlier = [f"reference/{c.concept}.py" for c in CHAPTERS if c.number < chapter]
    return [*STAGED, *earlier, *(["glassbox.py"] if chapter > 4 else [])]


def _command(place):
    """A Python that sees the stage and the installed packages; no path file leads it here."""
    paths = [place, *tiers.packages()]
    start = f"import sys; sys.path[:0] = {paths!r}; from utils.worker import main; main()"
    return [sys.executable, "-I", "-S", "-c", start]


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


# ---- one run -----------------------------------------------------------------------------------


def _run_once(tier, stage, sources, result, reports, limits, seconds):
    """Run the cells once. Returns the index of a cell that ended the process, or None."""
    place = tier.stage_path(stage)
    request = {
        "cells": [(index, *source) for index, source in sources.items()],
        "inputs": f"{place}/inputs",
        "cell_seconds": limits.cell_seconds,
        "memory_bytes": limits.memory_bytes,
    }
    home = tiers.HOME if tier.isolated else str(stage / "home")
    with tier.launch(_command(place), _environment(home), stage) as launch:
        process = subprocess.Popen(
            launch.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=launch.env,
            cwd=stage / "work",
            pass_fds=launch.pass_fds,
            start_new_session=True,
        )
    try:
        threading.Thread(target=_feed, args=(process, wire.pack(request)), daemon=True).start()
        threading.Thread(target=_watch_memory, args=(process, limits), daemon=True).start()
        return _listen(process, result, reports, limits, seconds, set(sources))
    finally:
        _end(process)


def _watch_memory(process, limits):
    """End the process when it and all it started hold more memory than allowed."""
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(process.pid)
        while process.poll() is None:
            held = 0
            for one in [top, *top.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    held += one.memory_info().rss
            if held > limits.resident_bytes:
                process.out_of_memory = True
                _kill(process)
            time.sleep(0.1)


def _feed(process, data):
    try:
        process.stdin.write(data)
        process.stdin.close()
    except OSError:
        pass  # it died before it had read its request; _listen says so


def _end(process):
    """Kill the process and its group. Its pipe is closed by the thread that reads it.

    Without walls a grandchild that left the group may live on and hold the
    pipe open: nothing here waits for it.
    """
    _kill(process)
    process.wait()
    process.stderr.close()


def _kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, ProcessLookupError, PermissionError):
        process.kill()


def _listen(process, result, reports, limits, seconds, to_run):
    """Take in the worker's messages until it ends; the index of the cell that ended it, or None."""
    messages = queue.Queue()
    reader = threading.Thread(
        target=_read_messages, args=(process.stdout, messages, limits.output_bytes), daemon=True
    )
    reader.start()
    running, ready, deadline = None, False, time.monotonic() + seconds
    grace = limits.cell_seconds + 5  # a worker stops its cell by itself, unless it cannot
    while True:
        try:
            message = messages.get(timeout=max(0.0, min(grace, deadline - time.monotonic())))
        except queue.Empty:
            return _ended(result, reports, running, "too slow", "No result within the time limit.")
        match message:
            case ("ready",):
                ready = True
            case ("started", int(index)) if index in to_run:
                running = index
            case ("finished", int(index), str(status), float(taken), list(outputs)) if (
                index == running and status in ("ok", "error", "too slow")
            ):
                report = reports[index]
                report.status, report.seconds = status, taken
                report.outputs = [o for o in map(_output, outputs) if o]
                running = None
            case ("answers", str(cell), str(exercise_id), list(answers)):
                _keep(result, cell, exercise_id, answers)
            case ("end",):
                result.status, result.message = "finished", ""
                return None
            case ("broken", *_) if not ready:
                raise WorkerFailed(_last_words(process))
            case ("broken", *_) if getattr(process, "out_of_memory", False):
                words = "It took more memory than is allowed."
                return _ended(result, reports, running, "died", words)
            case ("broken", str(status), str(words)):
                return _ended(result, reports, running, status, words)
            case _:
                return _ended(result, reports, running, "garbled", "A message makes no sense.")


def _last_words(process):
    """What a worker that did not start has said."""
    process.kill()
    words = process.stderr.read().decode(errors="replace").strip()[-1000:]
    return f"The process that runs submissions does not start here: {words or 'it says nothing'}"


def _read_messages(pipe, messages, budget):
    """Put each message on the queue; at the end, or at the first that is bad, a ("broken", ...)."""
    try:
        while header := pipe.read(4):
            (length,) = struct.unpack("<I", header)
            budget -= length
            if budget < 0 or length > wire.MAX_MESSAGE_BYTES:
                messages.put(("broken", "too much output", "More came back than is allowed."))
                return
            messages.put(wire.unpack(pipe.read(length)))
        messages.put(("broken", "died", "The process ended before its last cell."))
    except (wire.WireError, struct.error, ValueError, OSError) as error:
        messages.put(("broken", "garbled", f"What came back cannot be read: {error}."))
    finally:
        pipe.close()


def _ended(result, reports, running, status, words):
    """Note an abnormal end, and whose cell it was."""
    result.status, result.message = status, words
    if running is not None:
        report = reports[running]
        report.status = "too slow" if status == "too slow" else "died"
        report.outputs = [_error_output("Stopped", words)]
    return running


def _keep(result, cell, exercise_id, answers):
    """Keep an exercise's answers; those of its own test cell win over any others."""
    if exercise_id in result.official and cell != exercise_id:
        return
    try:
        result.answers[exercise_id] = [Answer.from_wire(answer) for answer in answers]
    except ValueError:
        return
    if cell == exercise_id:
        result.official.add(exercise_id)


# ---- what a teacher may see ----------------------------------------------------------------------


def _output(message):
    """A worker's output as an nbformat output of text or PNG, or None."""
    match message:
        case ("stream", ("stdout" | "stderr") as name, str(text)):
            return {"output_type": "stream", "name": name, "text": text[:MAX_TEXT]}
        case ("error", str(name), str(text), list(lines)):
            return _error_output(name, text, [line for line in lines if isinstance(line, str)])
        case ("display", dict(data)):
            shown = {"text/plain": str(data.get("text/plain", ""))[:MAX_TEXT]}
            if png := _clean_png(data.get("image/png")):
                shown["image/png"] = png
            return {"output_type": "display_data", "data": shown, "metadata": {}}
    return None


def _error_output(name, text, lines=()):
    return {
        "output_type": "error",
        "ename": name[:200],
        "evalue": text[:MAX_TEXT],
        "traceback": [line[:MAX_TEXT] for line in lines[-50:]] or [f"{name}: {text}"[:MAX_TEXT]],
    }


def _clean_png(data):
    """The picture decoded and encoded again, as base64; None for anything else."""
    from PIL import Image

    try:
        if not isinstance(data, bytes) or not 0 < len(data) <= MAX_PNG_BYTES:
            return None
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.width * image.height > 16_000_000:
                return None
            out = io.BytesIO()
            image.convert("RGBA").save(out, "PNG")
    except Exception:
        return None
    return base64.b64encode(out.getvalue()).decode()
