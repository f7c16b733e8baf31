"""Submissions put where `course grade` finds them, from whatever they were handed over in.

Nothing of a submission is run. Each notebook is kept as it came, in .course/intake, and
what was decided of each file is a line of the log there.
"""

import hashlib
import json
import os
import tempfile
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from grader import arrivals, course_files
from grader.arrivals import EARLIEST, Arrival
from grader.normalise import Unreadable, by_content, grade_id, read_cells
from grader.store import Store
from utils.chapters import CHAPTERS, Chapter

STATUSES = ("taken", "unchanged", "ignored", "superseded", "refused")
MAX_ID = 100
MAX_ID_BYTES = 255  # what a folder's name may have
RESERVED = {"CON", "PRN", "AUX", "NUL"}  # to Windows, with any ending
RESERVED |= {f"{port}{number}" for port in ("COM", "LPT") for number in range(10)}


@dataclass
class Decision:
    """What becomes of one file that arrived; `status` is "" until that is clear."""

    source: str
    arrival: Arrival
    student: str
    chapter: Chapter | None = None
    sha256: str = ""
    bytes: int = 0
    status: str = ""
    reason: str = ""
    time: str = ""  # of the decision

    def end(self, status, reason=""):
        self.status, self.reason = status, reason
        self.time = _text(datetime.now(UTC))

    def record(self):
        """The decision as plain data, for the log."""
        return {
            "source": self.source,
            "entry": self.arrival.name,
            "student": self.student,
            "chapter": self.chapter.name if self.chapter else "",
            "sha256": self.sha256,
            "bytes": self.bytes,
            "submitted": _text(self.arrival.time),
            "taken": self.time,
            "status": self.status,
            "reason": self.reason,
        }


def take(path, submitted, root):
    """Put the submissions of `path` into the folder `submitted`; a Decision for each file.

    `root` is the course's folder. Raises arrivals.Unknown.
    """
    store = Store(root / ".course" / "intake")
    released = {chapter: _cells(course_files.released(chapter, root)) for chapter in CHAPTERS}
    with arrivals.handed_over(path) as found:
        decisions = [_examined(path, one, released, store) for one in found]
    if all(one.status == "ignored" for one in decisions):
        raise arrivals.Unknown(f"There is no notebook in {path}.")
    _check_students(decisions, submitted)
    _choose(decisions)
    store.folder.mkdir(parents=True, exist_ok=True)
    with open(store.folder / "log.jsonl", "a+b") as log:
        _end_line(log)
        for one in decisions:
            if not one.status:
                _place(one, submitted, store)
            log.write(json.dumps(one.record()).encode() + b"\n")
            log.flush()
    return decisions


def shown(text):
    """Somebody's text, quoted and fit for a line of a terminal."""
    text = repr(text)
    return text if len(text) <= 80 else text[:79] + "…"


def printable(text):
    """The text with what a terminal might obey spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# ---- which chapter -----------------------------------------------------------------------------


def _cells(notebook):
    return {grade_id(cell): cell for cell in notebook["cells"] if grade_id(cell)}


def _examined(path, arrival, released, store):
    """The decision so far: the file is kept, and read as far as its chapter."""
    one = Decision(path.resolve().name, arrival, unicodedata.normalize("NFC", arrival.student))
    try:
        data = arrival.read()
        one.sha256, one.bytes = hashlib.sha256(data).hexdigest(), len(data)
        store.put(one.sha256, data)
        one.chapter = recognise(read_cells(data), arrival.labels, released)
        if one.chapter is None:
            one.end("refused", "It has no exercise of this course and is named after no chapter.")
    except arrivals.NotTaken as error:
        one.end(error.status, str(error))
    except Unreadable as error:
        one.end("refused", str(error))
    return one


def recognise(cells, labels, released):
    """The chapter by the ids of the cells, else by `labels`, else by what stands in the cells.

    `released` is {chapter: {grade_id: cell}}; None if nothing tells.
    """
    ids = {grade_id(cell) for cell in cells}
    tests = (
        lambda chapter: len(ids & released[chapter].keys()),
        lambda chapter: chapter.name in labels,
        lambda chapter: sum(by_content(c, released[chapter]) in released[chapter] for c in cells),
    )
    for test in tests:
        fits = {chapter: test(chapter) for chapter in released}
        best = max(fits, key=lambda chapter: (fits[chapter], chapter.name in labels))
        if fits[best]:
            return best
    return None


# ---- whose -------------------------------------------------------------------------------------


def _check_students(decisions, submitted):
    """Refuse notebooks whose student's name cannot be a folder's, or may mean two students."""
    numbers, spellings = defaultdict(set), defaultdict(set)
    for one in decisions:
        numbers[one.student] |= {one.arrival.number} - {""}
        spellings[_folded(one.student)].add(one.arrival.student)
    there = os.listdir(submitted) if submitted.exists() else []
    for one in decisions:
        same = spellings[_folded(one.student)]
        reason = id_flaw(one.student) or _other_spelling(one.arrival.student, same, there)
        if not reason and len(numbers[one.student]) > 1:
            reason = (
                f"There are several students {shown(one.student)} here. Unpack the zip, add "
                "something to their folders' names before the number, and give the folder. "
                "If these are several assignments, give one at a time."
            )
        if reason and not one.status:
            one.end("refused", reason)


def id_flaw(student):
    """Why a name cannot be a student's id, "" if it can."""
    if not student:
        return "Its name tells no student: put it into a folder with the student's name."
    if unicodedata.normalize("NFKC", student).split(".")[0].upper() in RESERVED:
        return f"{shown(student)} is a name that Windows keeps to itself: rename it."
    allowed = all(_is_of_word(character) or character in "_-.@" for character in student)
    fits = len(student) <= MAX_ID and len(student.encode("utf-8", "replace")) <= MAX_ID_BYTES
    if allowed and fits and student[0].isalnum() and student[-1] != ".":
        return ""
    return (
        f"{shown(student)} is no student's id: begin it with a letter or digit, and use only "
        f"these and _ - . @, no more than {MAX_ID} ({MAX_ID_BYTES} bytes)."
    )


def _is_of_word(character):
    """A letter, a digit, or a sign that some scripts write vowels with."""
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc")


def _folded(student):
    """What is the same for two names that are one on some disks."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", student).casefold())


def _other_spelling(student, same, there):
    """Why a name may be mistaken for another of this batch or the folder, "" if it may not.

    `student` and those of `same` are as they came, and not normalised.
    """
    normal = unicodedata.normalize("NFC", student)
    if student == normal and student in there:
        return ""
    others = sorted(same - {student})
    if normal not in there:
        others += [name for name in there if _folded(name) == _folded(normal)]
    if not others:
        return ""
    return (
        f"{shown(student)} and {shown(others[0])} are one name to some disks, "
        "and may be two students: rename one of them."
    )


# ---- which of several, and where to ------------------------------------------------------------


def _choose(decisions):
    """Of several notebooks of a student for a chapter the latest counts."""
    groups = defaultdict(list)
    for one in decisions:
        if not one.status:
            groups[one.student, one.chapter].append(one)
    for group in groups.values():
        *earlier, latest = sorted(group, key=_rank)
        for one in earlier:
            one.end("superseded", f"{shown(latest.arrival.name)} counts.")


def _rank(one):
    return one.arrival.time, one.arrival.copy, one.arrival.name


def _place(one, submitted, store):
    """Write a notebook and its time, unless what is there is the same or newer."""
    folder = submitted / one.student / one.chapter.name
    target, stamp = folder / f"{one.chapter.name}.ipynb", folder / "timestamp.txt"
    fitting = {folder.parent: Path.is_dir, folder: Path.is_dir}
    fitting |= {target: Path.is_file, stamp: Path.is_file}
    try:
        for path, fits in fitting.items():
            if path.is_symlink() or (path.exists() and not fits(path)):
                one.end("refused", f"{path} is a link, or not what should be there: remove it.")
                return
        one.end(*_written(one.arrival.time, store.get(one.sha256), target, stamp))
    except OSError as error:
        one.end("refused", f"It could not be written: {error.strerror}.")


def _written(time, data, target, stamp):
    """Write a notebook where that is due; the status, and a reason."""
    there = target.read_bytes() if target.exists() else None
    if there is not None and there != data and time <= (known := _time_there(target, stamp)):
        return "superseded", f"What is there was handed in at {_text(known)}."
    target.parent.mkdir(parents=True, exist_ok=True)
    if there != data:
        # a run that is killed between these leaves a notebook whose own time is the right one
        stamp.unlink(missing_ok=True)
        _replace(target, data, time)
    if not stamp.exists():
        _replace(stamp, _text(time).encode(), time)
    return ("unchanged" if there == data else "taken", "")


def _time_there(target, stamp):
    """When the notebook that is there was handed in."""
    known = arrivals.read_time(stamp.read_text(errors="replace")) if stamp.exists() else None
    return known or arrivals.utc(target.stat().st_mtime)


def _replace(path, data, time):
    """Write a file whole or not at all, with a time of its own."""
    handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=".intake-")
    seconds = max(time, EARLIEST).replace(tzinfo=UTC).timestamp()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.utime(fresh, (seconds, seconds))
        os.replace(fresh, path)
    except OSError:
        os.unlink(fresh)
        raise


def _text(time):
    """A time as nbgrader writes it. Years before 1000 get their zeros, unlike with strftime."""
    return time.replace(tzinfo=None).isoformat(" ", "microseconds") + " UTC"


def _end_line(log):
    """A killed run may have left half a line."""
    if log.tell():
        log.seek(-1, os.SEEK_END)
        if log.read(1) != b"\n":
            log.write(b"\n")
