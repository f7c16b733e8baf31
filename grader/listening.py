"""What a worker's messages make of a Result. Nothing that arrives is believed but answers."""

import base64
import contextlib
import io
import queue
import struct
import threading
import time
from dataclasses import dataclass, field

from utils import wire
from utils.cases import Answer

MAX_TEXT = 20_000
MAX_PNG_BYTES = 2 << 20


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


class Listener:
    """Takes in one worker's messages, into `result`, for the cells with the indices `to_run`."""

    def __init__(self, result, to_run, limits):
        self.result, self.to_run, self.limits = result, to_run, limits
        self.reports = {report.index: report for report in result.cells}
        self.running = None  # index of the cell that has started and not finished
        self.ready = False

    def listen(self, pipe, seconds, out_of_memory):
        """Read until the worker ends or is late; True if it got to its last cell.

        `out_of_memory` is an Event that tells why it died.
        """
        messages = queue.Queue()
        arguments = (pipe, messages, self.limits.output_bytes)
        threading.Thread(target=_read_messages, args=arguments, daemon=True).start()
        deadline = time.monotonic() + seconds
        grace = self.limits.cell_seconds + 5  # a worker stops its cell by itself, unless it cannot
        while True:
            try:
                message = messages.get(timeout=max(0.0, min(grace, deadline - time.monotonic())))
            except queue.Empty:
                return self._ended("too slow", "No result within the time limit.")
            match message:
                case ("end",):
                    self.result.status, self.result.message = "finished", ""
                    return True
                case ("broken", *_) if out_of_memory.is_set():
                    return self._ended("died", "It took more memory than is allowed.")
                case ("broken", str(status), str(words)):
                    return self._ended(status, words)
                case _ if not self._take_in(message):
                    return self._ended("garbled", "A message makes no sense.")

    def _take_in(self, message):
        """Note what a message says; False if it says nothing that may be said now."""
        match message:
            case ("ready",):
                self.ready = True
            case ("started", int(index)) if index in self.to_run:
                self.running = index
            case ("finished", int(index), str(status), float(taken), list(outputs)) if (
                index == self.running and status in ("ok", "error", "too slow")
            ):
                report = self.reports[index]
                report.status, report.seconds = status, taken
                report.outputs = [o for o in map(_output, outputs) if o]
                self.running = None
            case ("answers", str(cell), str(exercise_id), list(answers)):
                self._keep(cell, exercise_id, answers)
            case _:
                return False
        return True

    def _ended(self, status, words):
        """Note an end before the last cell, and whose cell it was."""
        self.result.status, self.result.message = status, words
        if self.running is not None:
            report = self.reports[self.running]
            report.status = "too slow" if status == "too slow" else "died"
            report.outputs = [_error_output("Stopped", words)]
        return False

    def _keep(self, cell, exercise_id, answers):
        """Keep an exercise's answers; those of its own test cell win over any others."""
        if exercise_id in self.result.official and cell != exercise_id:
            return
        with contextlib.suppress(ValueError):
            self.result.answers[exercise_id] = [Answer.from_wire(answer) for answer in answers]
            if cell == exercise_id:
                self.result.official.add(exercise_id)


def _read_messages(pipe, messages, budget):
    """Put each message on the queue; at the end, or at the first that is bad, a ("broken", ...)."""
    try:
        while header := pipe.read(4):
            (length,) = struct.unpack("<I", header)
            budget -= length
            if budget < 0 or length > wire.MAX_MESSAGE_BYTES:
                messages.put(("broken", "too much output", "More came back than is allowed."))
                return
            message = wire.unpack(pipe.read(length))
            messages.put(message)
            if message == ("end",):  # a warm worker's pipe may stay open in what was left behind
                return
        messages.put(("broken", "died", "The process ended before its last cell."))
    except (wire.WireError, struct.error, ValueError, OSError) as error:
        messages.put(("broken", "garbled", f"What came back cannot be read: {error}."))
    finally:
        pipe.close()


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
