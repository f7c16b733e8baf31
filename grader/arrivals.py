"""What a teacher was handed, file by file: out of a zip, a folder or nbgrader's exchange.

Names and bytes are strangers'. Nothing here writes, follows a link or believes a size.
"""

import contextlib
import functools
import io
import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from grader.normalise import MAX_NOTEBOOK_BYTES
from utils.chapters import CHAPTERS

MAX_TOTAL_BYTES = 2 << 30
MAX_ENTRIES = 20_000
MAX_LIST_BYTES = 16 << 20  # of a zip's list of entries: 20,000 long names are half of it
MAX_NAME = 300
MAX_RATIO, RATIO_FROM_BYTES = 200, 1 << 20
CHUNK = 1 << 12  # zipfile reads no less
TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f UTC"  # nbgrader's
EARLIEST = datetime(1980, 1, 1)  # what a zip says that knows no time
SKIPPED = {".DS_Store", "__MACOSX", ".ipynb_checkpoints"}
SKIPPED |= {"timestamp.txt", "submission_secret.txt"}  # a student can write what nbgrader writes
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, OverflowError)
DAMAGE += (RuntimeError, struct.error)

# sortable name, user, file, and the name it was handed in under; names have no _digits_ in them
CANVAS = re.compile(r"(.+?)(?:_late)?_(\d+)_\d+_(.+)", re.IGNORECASE)
# full name, number of the submission, then a folder or the name it was handed in under
MOODLE = re.compile(r"([^_]+)_(\d+)_assignsubmission_file(?:_(.*))?")


class Unknown(ValueError):
    """The path is nothing that submissions come in; the text says what is."""


class NotTaken(Exception):
    """A file that is not read; the text says why. `status` is refused, or ignored if harmless."""

    def __init__(self, reason, status="refused"):
        super().__init__(reason)
        self.status = status


@dataclass
class Arrival:
    """One file that was handed over. `read()` gives its bytes or raises NotTaken.

    `student` is what its name says, unchecked, and `number` what Moodle added to that;
    `labels` are the names in which a chapter's may stand, `copy` is N in Canvas's name-N.ipynb.
    """

    name: str
    time: datetime
    read: Callable
    student: str = ""
    number: str = ""
    labels: tuple = ()
    copy: int = 0


@contextlib.contextmanager
def handed_over(path):
    """The arrivals of a zip, a folder or an exchange, readable within the `with`.

    Times are UTC, without saying so: of an exchange the one in the folder's name, of a folder
    the file's. A zip has no time zone, so what it says is taken for UTC; Canvas and Moodle put
    there when they made the zip, which at least is later for what was handed in later.
    Raises Unknown.
    """
    if path.is_dir():
        inbound = _inbound(path)
        yield _arrivals(_of_folder(inbound or path), inbound is not None)
    elif path.is_file():
        with _opened(path) as archive:
            yield _arrivals(_of_zip(archive))
    else:
        raise Unknown(f"There is no {path}. Give a zip, a folder or an nbgrader exchange.")


def read_time(text):
    """The time that a text in nbgrader's format says, in UTC; None if it says none."""
    text = text.strip()
    with contextlib.suppress(ValueError):
        return datetime.strptime(text, TIME_FORMAT)
    from nbgrader.utils import parse_utc

    with contextlib.suppress(ValueError, OverflowError, TypeError):
        return parse_utc(text)


# ---- zips --------------------------------------------------------------------------------------


class _CarefulFile(io.FileIO):
    """A file that counts what it gives, and gives zipfile no list of entries that is too long."""

    given = 0

    def read(self, size=-1):
        if size > MAX_LIST_BYTES:
            raise zipfile.BadZipFile("Its list of entries is too long.")
        data = super().read(size)
        self.given += len(data)
        return data


@contextlib.contextmanager
def _opened(path):
    with _CarefulFile(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except DAMAGE:
            raise Unknown(
                f"{path} is no zip, or not all of one. Download it again; if it is something "
                "else, give a folder in which each student has a folder."
            ) from None
        yield archive


def _of_zip(archive):
    """(name, time, read) of each entry that matters."""
    infos = archive.infolist()
    if len(infos) > MAX_ENTRIES:
        raise Unknown(f"The zip has {len(infos)} entries, more than {MAX_ENTRIES}: split it.")
    reader = _ZipReader(archive, Counter(_entry_name(info) for info in infos))
    for info in infos:
        name, is_link = _entry_name(info), stat.S_ISLNK(info.external_attr >> 16)
        if not _flaw(name) and (_is_skipped(name) or (name.endswith("/") and not is_link)):
            continue
        try:
            time = datetime(*info.date_time)
        except ValueError:
            time = EARLIEST
        yield name, time, functools.partial(reader.read, info)


def _entry_name(info):
    """The whole name. Canvas writes UTF-8 and does not say so, which zipfile takes for cp437."""
    if not info.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            return info.orig_filename.encode("cp437").decode()
    return info.orig_filename


class _ZipReader:
    """Reads a zip's entries, and stops where all together are too large."""

    def __init__(self, archive, names):
        self.archive = archive
        self.names = names
        self.left = MAX_TOTAL_BYTES

    def read(self, info):
        name, mode = _entry_name(info), info.external_attr >> 16
        _check(name, mode if stat.S_IFMT(mode) else stat.S_IFREG)
        if self.names[name] > 1:
            raise NotTaken("The zip has several entries of this name; none of them was read.")
        if info.flag_bits & 0x1:
            raise NotTaken("It is encrypted: unpack the zip and give the folder.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # the others expand a chunk in one go, whatever that comes to
            raise NotTaken("It is packed in an unusual way: unpack the zip and give the folder.")
        try:
            return self._stream(info)
        except DAMAGE:
            raise NotTaken("It is damaged: download the zip again.") from None

    def _stream(self, info):
        data, before = bytearray(), self.archive.fp.given
        with self.archive.open(info) as file:
            while chunk := file.read(CHUNK):
                data += chunk
                self.left -= len(chunk)
                if self.left < 0:
                    raise NotTaken("The zip expands to more than 2 GB; split it.")
                _check_size(len(data))
                packed = self.archive.fp.given - before
                if len(data) > max(RATIO_FROM_BYTES, MAX_RATIO * packed):
                    raise NotTaken(f"It expands to more than {MAX_RATIO} times its size.")
        if len(data) != info.file_size:
            raise EOFError
        return bytes(data)


# ---- folders -----------------------------------------------------------------------------------


def _inbound(path):
    """The folder of submissions of the exchange that `path` is; None if it is no exchange."""
    path = path.resolve()
    if path.name == "inbound":
        return path
    if (path / "inbound").is_dir():
        return path / "inbound"
    courses = [inner for inner in path.iterdir() if inner.is_dir() and inner.name[0] != "."]
    # all of them: in a folder of students, one may well have made a folder of that name
    if not courses or not all((course / "inbound").is_dir() for course in courses):
        return None
    if len(courses) > 1:
        names = ", ".join(sorted(course.name for course in courses))
        raise Unknown(f"{path} is an exchange of several courses. Give one of: {names}.")
    return courses[0] / "inbound"


def _of_folder(base):
    """(name, time, read) of each file that matters below a folder; no linked folder is entered."""
    missed = []
    for folder, folders, files in os.walk(base, onerror=missed.append):
        for inner in sorted(folders + files):
            path = Path(folder, inner)
            name = path.relative_to(base).as_posix()
            try:
                status = path.lstat()
            except OSError as error:
                missed.append(error)
                continue
            is_way = stat.S_ISDIR(status.st_mode) and not _is_notebook(name) and not _flaw(name)
            if inner in folders and (_is_skipped(name) or not is_way):
                folders.remove(inner)
            if not _is_skipped(name) and not is_way:
                read = functools.partial(_read_file, base, name, status.st_mode)
                yield name, utc(status.st_mtime), read
    for error in missed:
        name = Path(error.filename).relative_to(base).as_posix()
        yield name, EARLIEST, functools.partial(_refuse, _cannot_be_read(error))


def _read_file(base, name, mode):
    _check(name, mode)
    try:
        with open(_open_below(base, name), "rb") as file:
            status = os.fstat(file.fileno())
            _check(name, status.st_mode)
            _check_size(status.st_size)
            data = file.read(MAX_NOTEBOOK_BYTES + 1)
    except OSError as error:
        raise NotTaken(_cannot_be_read(error)) from None
    _check_size(len(data))
    return data


def _open_below(base, name):
    """A descriptor of the file; no link is followed on the way there, not even one made just now.

    Students can write to their folders in an exchange, and teachers can read their solutions.
    """
    flags = os.O_RDONLY
    for wish in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, wish, 0)
    if os.open not in os.supports_dir_fd:  # Windows, where no exchange is
        return os.open(base / name, flags)
    *folders, last = name.split("/")
    place = os.open(base, os.O_RDONLY)
    try:
        for folder in folders:
            outer = place
            place = os.open(folder, flags | os.O_DIRECTORY, dir_fd=outer)
            os.close(outer)
        return os.open(last, flags, dir_fd=place)
    finally:
        os.close(place)


def _cannot_be_read(error):
    return f"It cannot be read: {error.strerror}."


def utc(seconds):
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return EARLIEST


# ---- what is read, and whose it is -------------------------------------------------------------


def _is_notebook(name):
    return name.lower().endswith(".ipynb")


def _is_skipped(name):
    return not SKIPPED.isdisjoint(name.split("/"))


def _flaw(name):
    """What is wrong with a file's name, "" if nothing is."""
    if len(name) > MAX_NAME:
        return f"is longer than {MAX_NAME} characters"
    if any(unicodedata.category(character) == "Cc" for character in name):
        return "has control characters in it"
    if "\\" in name:
        return "has backslashes in it"
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        return "is that of a place, and not of a file in a folder"
    return "leads out of its folder" if ".." in name.split("/") else ""


def _check(name, mode):
    """Raises NotTaken for what is not to be opened."""
    if flaw := _flaw(name):
        raise NotTaken(f"Its name {flaw}.")
    if not stat.S_ISREG(mode):
        raise NotTaken("It is no file of its own, but a link, a folder or a device.")
    if name.lower().endswith(ARCHIVES):
        raise NotTaken("One level only: unpack it, and give the notebooks.")
    if not _is_notebook(name):
        raise NotTaken("It is no notebook.", "ignored")


def _refuse(reason):
    raise NotTaken(reason)


def _check_size(size):
    if size > MAX_NOTEBOOK_BYTES:
        raise NotTaken(f"It is larger than {MAX_NOTEBOOK_BYTES >> 20} MB.")


def _arrivals(files, is_exchange=False):
    """The files as arrivals, with what their names say of students and chapters."""
    arrivals = [Arrival(*file) for file in files]
    names = [a.name for a in arrivals if _is_notebook(a.name) and not _flaw(a.name)]
    is_wrapped = not is_exchange and _is_wrapped([_parts(name) for name in names])
    for arrival in arrivals:
        parts = _parts(arrival.name)[1 if is_wrapped else 0 :] or [""]
        if is_exchange:
            _name_by_exchange(arrival, parts)
        elif not _name_by_lms(arrival, parts):
            arrival.student = parts[0] if len(parts) > 1 else ""
            arrival.labels = (*parts[1:-1], Path(parts[-1]).stem)
    return arrivals


def _parts(name):
    return [part for part in name.split("/") if part not in ("", ".")]


def _is_wrapped(books):
    """Whether there is one folder around all students, by the parts of the notebooks' names."""
    if len({parts[0] for parts in books}) != 1 or MOODLE.fullmatch(books[0][0]):
        return False
    found = {_has_student(parts[1:]) for parts in books}
    if len(found) == 2:
        raise Unknown(
            f"It is unclear whether {books[0][0]!r} is a student or a folder of students. "
            "Put each notebook into <student>/<notebook>.ipynb."
        )
    return found.pop()


def _has_student(parts):
    chapters = [chapter.name for chapter in CHAPTERS]
    is_folder = len(parts) > 1 and parts[0] not in chapters
    return is_folder or (len(parts) == 1 and bool(CANVAS.match(parts[0]) or MOODLE.match(parts[0])))


def _name_by_lms(arrival, parts):
    """Take the names from Canvas's `lastfirst_LATE_USER_FILE_name-N.ipynb` or Moodle's
    `Full Name_NUMBER_assignsubmission_file_/name.ipynb`, also without the slash; whether it fits.

    Only the first part is the LMS's; what comes after it a student has chosen.
    """
    if found := MOODLE.fullmatch(parts[0]):
        arrival.student, arrival.number = found[1].replace(" ", "_"), found[2]
        arrival.labels = (*parts[1:-1], Path(parts[-1] if len(parts) > 1 else found[3] or "").stem)
    elif len(parts) == 1 and (found := CANVAS.fullmatch(parts[0])):
        arrival.student = f"{found[1]}_{found[2]}"
        stem, number = re.fullmatch(r"(.*?)(?:-(\d+))?", Path(found[3]).stem, re.DOTALL).groups()
        arrival.labels, arrival.copy = (stem,), int(number or 0)
    return bool(found)


def _name_by_exchange(arrival, parts):
    """Take names and time from nbgrader's `student+assignment+time+random` as its collect does."""
    words = parts[0].rsplit("+", 3)
    time = read_time(words[2]) if len(words) > 2 else None
    if time is not None:
        arrival.student, arrival.time = words[0], time
        arrival.labels = (words[1], *parts[1:-1], Path(parts[-1]).stem)
