"""What a teacher is handed lands where `course grade` looks, and nothing else lands anywhere."""

import hashlib
import json
import os
import re
import stat
import tempfile
import unicodedata
import warnings
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from students import fill
from typer.testing import CliRunner

from grader import arrivals, class_run, cli, intake
from grader.course_files import ROOT
from utils.chapters import CHAPTERS

ONE, TWO = CHAPTERS[:2]
BOOK, OTHER, LATER = fill({}), fill({"why_soft": "because"}), fill({"why_soft": "after all"})
SECOND = fill({}, TWO)
NOON, EVENING = (2025, 3, 1, 12, 0, 0), (2025, 3, 1, 18, 0, 0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A course's folder with its released notebooks, in which the command is run."""
    place = tmp_path / "course"
    place.mkdir()
    (place / "notebooks").symlink_to(ROOT / "notebooks")
    monkeypatch.chdir(place)
    monkeypatch.setattr(cli.console, "_width", 400)
    return place


def pack(entries, path="handed.zip"):
    """A zip of (name, bytes) or (name, bytes, time); a name may be a ZipInfo."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of names that come twice
        for name, data, *time in entries:
            info = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name, *time)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return Path(path)


def lay(files, base="handed"):
    """A folder of {name: bytes}, last written at noon; the exchange's time is in its names."""
    for name, data in files.items():
        path = Path(base, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        moment = datetime(*NOON).timestamp()
        os.utime(path, (moment, moment))
    return Path(base)


def take(path):
    """{name of an arrival: its decision}."""
    decisions = intake.take(Path(path), Path("submitted"), Path.cwd())
    return {one.arrival.name: one for one in decisions}


def statuses(path):
    return {name: one.status for name, one in take(path).items()}


def reason(name, data=BOOK):
    """Why a notebook of this name in a zip is refused, while its neighbour is taken."""
    taken, refused = sorted(take(pack([("zoe/x.ipynb", BOOK), (name, data)])).values(), key=rank)
    assert taken.status in ("taken", "unchanged") and taken.student == "zoe"
    assert refused.status == "refused"
    assert written() == {("zoe", ONE.name)}
    return refused.reason


def rank(one):
    return one.status == "refused"


def written(base="submitted"):
    """Whose submissions of which chapters there are; fails if there is anything else."""
    found = {path.relative_to(base).parts for path in Path(base).glob("**/*") if path.is_file()}
    for student, chapter, name in found:
        assert name in (f"{chapter}.ipynb", "timestamp.txt")
        assert (student, chapter, "timestamp.txt") in found
    return {parts[:2] for parts in found}


def there(student, chapter=ONE):
    return Path("submitted", student, chapter.name, f"{chapter.name}.ipynb").read_bytes()


def stamp(student, chapter=ONE):
    return Path("submitted", student, chapter.name, "timestamp.txt").read_text()


def course(*arguments, code=0):
    done = CliRunner().invoke(cli.app, ["intake", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


# ---- what it comes in --------------------------------------------------------------------------


def test_from_canvas_to_the_class(folder):
    path = pack(
        [
            ("curiemarie_101_5001_01_dictionary_lookup.ipynb", BOOK),
            ("curiemarie_LATE_102_5002_homework final_1_2_x.ipynb", OTHER),
            ("müllerzoë_late_103_5003_qkv.ipynb", SECOND),
            ("noetheremmy_104_5004_01_dictionary_lookup-1.ipynb", OTHER),
            ("noetheremmy_104_5003_01_dictionary_lookup.ipynb", BOOK),
            ("noetheremmy_104_5005_notes.pdf", b"%PDF"),
        ]
    )
    output = course(path, "--json", "decisions.json")
    found = class_run.find("submitted", ONE)
    assert [one.student for one in found] == ["curiemarie_101", "curiemarie_102", "noetheremmy_104"]
    assert [one.student for one in class_run.find("submitted", TWO)] == ["müllerzoë_103"]
    assert found[0].path.read_bytes() == BOOK and found[1].path.read_bytes() == OTHER
    assert found[2].path.read_bytes() == OTHER, "the one with the higher suffix counts"
    assert "4 taken, 0 unchanged, 1 ignored, 1 superseded, 0 refused." in output
    rows = {row["entry"]: row for row in json.loads(Path("decisions.json").read_text())}
    assert rows["noetheremmy_104_5003_01_dictionary_lookup.ipynb"]["status"] == "superseded"
    assert rows["noetheremmy_104_5005_notes.pdf"]["reason"] == "It is no notebook."


def test_canvas_does_not_say_that_its_names_are_utf_8():
    path = pack([("mXllerzoe_103_5003_x.ipynb", BOOK)])
    data = path.read_bytes().replace(b"mXllerzoe_", "müllerzo_".encode())
    path.write_bytes(data)
    take(path)
    assert written() == {("müllerzo_103", ONE.name)}


@pytest.mark.parametrize("end", ["/sub/", "_/", "/", "_"])
def test_from_moodle(end):
    path = pack(
        [
            (f"Anna Schmidt_11_assignsubmission_file{end}a.ipynb", BOOK),
            (f"José Núñez de Ávila_12_assignsubmission_file{end}9_9_b.ipynb", OTHER),
            ("Anna Schmidt_11_assignsubmission_onlinetext_/onlinetext.html", b"<p>"),
        ]
    )
    assert set(statuses(path).values()) == {"taken", "ignored"}
    assert written() == {("Anna_Schmidt", ONE.name), ("José_Núñez_de_Ávila", ONE.name)}


def test_two_of_one_name_are_not_made_one():
    entry = "{}_{}_assignsubmission_file_/a.ipynb"
    people = [("Anna Schmidt", 11), ("Anna Schmidt", 12), ("Bo Li", 13)]
    files = {entry.format(*person): BOOK for person in people}
    found = take(pack(files.items()))
    assert [one.status for one in found.values()] == ["refused", "refused", "taken"]
    assert "add something to their folders' names" in found[entry.format(*people[0])].reason
    people[0] = ("Anna Schmidt B", 11)  # as it says
    assert statuses(lay({entry.format(*person): BOOK for person in people})) == {
        entry.format(*people[0]): "taken",
        entry.format(*people[1]): "taken",
        entry.format(*people[2]): "unchanged",
    }


def test_an_unpacked_zip_is_read_by_the_zip_s_rules():
    lay({"smithbob_7_8_x.ipynb": BOOK, "Bo Li_13_assignsubmission_file_/y.ipynb": BOOK})
    take("handed")
    assert written() == {("smithbob_7", ONE.name), ("Bo_Li", ONE.name)}


EXCHANGE = {
    f"cs1/inbound/ada+{ONE.name}+2025-03-01 18:00:00.5 UTC+aGk_-x/{ONE.name}.ipynb": LATER,
    f"cs1/inbound/ada+{ONE.name}+2025-03-01 12:00:00.5 UTC+aGk_-y/{ONE.name}.ipynb": OTHER,
    "cs1/inbound/bob+ps1+2025-03-01 13:00:00.000000 UTC/sub/my.ipynb": SECOND,
    "cs1/inbound/bob+ps1+2025-03-01 13:00:00.000000 UTC/timestamp.txt": b"1999-01-01",
    "cs1/inbound/bob+ps1+2025-03-01 13:00:00.000000 UTC/submission_secret.txt": b"s",
    "cs1/inbound/notes/x.ipynb": BOOK,
    "cs1/outbound/ps1/x.ipynb": BOOK,
}


@pytest.mark.parametrize("part", ["", "cs1", "cs1/inbound"])
def test_from_an_exchange(part):
    lay(EXCHANGE)
    found = statuses(f"handed/{part}")
    assert sorted(found.values()) == ["refused", "superseded", "taken", "taken"]
    assert written() == {("ada", ONE.name), ("bob", TWO.name)} and there("ada") == LATER
    assert stamp("ada") == "2025-03-01 18:00:00.500000 UTC"
    assert stamp("bob", TWO) == "2025-03-01 13:00:00.000000 UTC"


def test_an_exchange_of_several_courses_asks_which():
    lay(EXCHANGE | {"cs2/inbound/x": b""})
    assert "Give one of: cs1, cs2" in course("handed", code=2)


def test_no_student_can_make_a_folder_an_exchange():
    name = f"ada/inbound/bob+{ONE.name}+2025-03-01 18:00:00 UTC/x.ipynb"
    lay({name: BOOK, "cy/x.ipynb": BOOK})
    take("handed")
    assert written() == {("ada", ONE.name), ("cy", ONE.name)}


PLAIN = {
    f"ada/{ONE.name}/any.ipynb": BOOK,
    "bob/any.ipynb": BOOK,
    f"bob/{TWO.name}/x.ipynb": SECOND,
}
PLAIN_WRITTEN = {("ada", ONE.name), ("bob", ONE.name), ("bob", TWO.name)}


@pytest.mark.parametrize("top", ["", "submitted by hand/", "./"])
def test_from_folders_packed_and_not(top):
    take(pack([(f"{top}__MACOSX/x.ipynb", b""), *((top + n, d) for n, d in PLAIN.items())]))
    assert written() == PLAIN_WRITTEN
    lay({top + name: data for name, data in PLAIN.items()})
    assert set(statuses("handed").values()) == {"unchanged"}


def test_a_student_alone_is_not_taken_for_a_folder_of_students():
    assert statuses(pack([(f"ada/{ONE.name}/x.ipynb", BOOK), ("ada/y.ipynb", SECOND)])) == {
        f"ada/{ONE.name}/x.ipynb": "taken",
        "ada/y.ipynb": "taken",
    }
    assert written() == {("ada", ONE.name), ("ada", TWO.name)}
    unclear = pack([("all/ada/x.ipynb", BOOK), ("all/y.ipynb", SECOND)])
    assert "a student or a folder of students" in course(unclear, code=2)


def test_a_wrapped_canvas_zip_is_one_all_the_same():
    take(pack([("submissions/smithbob_7_8_x.ipynb", BOOK), ("submissions/wug_8_9_x.ipynb", BOOK)]))
    assert written() == {("smithbob_7", ONE.name), ("wug_8", ONE.name)}


def test_words_for_what_is_nothing_known(tmp_path):
    Path("empty").mkdir()
    Path("page.html").write_text("<html>")
    os.mkfifo("pipe")
    path = pack(PLAIN.items())
    Path("part.zip").write_bytes(path.read_bytes()[:-40])
    assert "There is no nowhere" in course("nowhere", code=2)
    assert "no notebook" in course("empty", code=2)
    assert "no notebook" in course(pack([("a/b.txt", b"x")], "texts.zip"), code=2)
    for name in ("page.html", "part.zip"):
        assert f"{name} is no zip, or not all of one" in course(name, code=2)
    assert "Give a zip" in course("pipe", code=2)
    os.chdir(tmp_path)
    assert "run this in the course's folder" in course(path.absolute(), code=2)


# ---- which chapter -----------------------------------------------------------------------------


def changed(data, change):
    notebook = json.loads(data)
    for cell in notebook["cells"]:
        change(cell)
    return json.dumps(notebook).encode()


def test_a_notebook_is_known_by_its_cells_then_its_name_then_what_it_says():
    bare = changed(SECOND, lambda cell: cell["metadata"].clear())
    empty = json.dumps({"cells": []}).encode()
    files = {
        f"ada/{ONE.name}/{ONE.name}.ipynb": SECOND,
        "bob/Untitled (3).ipynb": bare,
        f"cy/{TWO.name}.ipynb": empty,
        f"dan/{TWO.name}/x.ipynb": empty,
        "eve/x.ipynb": empty,
        f"anna_1_2_{TWO.name}-3.ipynb": empty,
    }
    found = take(lay(files))
    assert found.pop("eve/x.ipynb").reason.startswith("It has no exercise of this course")
    assert {one.chapter for one in found.values()} == {TWO}
    assert len(written()) == 5


def test_what_cannot_be_read_replaces_nothing():
    take(pack([("ada/x.ipynb", BOOK, NOON)]))
    found = take(pack([("ada/x.ipynb", b"{", EVENING), ("ada/y.ipynb", OTHER, NOON)]))
    assert "not JSON" in found["ada/x.ipynb"].reason
    assert found["ada/y.ipynb"].status == "superseded" and there("ada") == BOOK
    kept = Path(".course/intake", found["ada/x.ipynb"].sha256[:2], found["ada/x.ipynb"].sha256)
    assert kept.read_bytes() == b"{"


# ---- whose -------------------------------------------------------------------------------------


NO_IDS = [
    "CON",
    "nul.txt",
    "com1",
    "COM¹",
    "Lpt9.x",
    "-ada",
    "=cmd|'/C",
    "..",
    ".ada",
    "_ada",
    "ada.",
]
NO_IDS += ["ada+b", "a*b", "a:b", "'a'", "x;y", "a,b", "a b", "a\u202eb", "a\u200bb", "a\u00a0b"]
NO_IDS += ["x" * 101, "漢" * 90, "ada\u0301" + "x" * 100]


@pytest.mark.parametrize("student", NO_IDS)
def test_names_that_are_no_ids(student):
    reason_given = reason(f"{student}/x.ipynb")
    assert reason_given.isprintable() and len(reason_given) < 300


def test_names_that_are():
    names = [
        "Zoë",
        "ada",
        "a-b_c.d@e.org",
        "7",
        "李",
        "हिन्दी",
        "Łukasz",
        "Ωmega",
        "connie",
        "x" * 100,
    ]
    assert [name for name in names if intake.id_flaw(name)] == []


def test_spellings_that_are_one_on_some_disks():
    for pair in (
        ("Ada", "ada"),
        ("Zo\u00eb", "Zoe\u0308"),
        ("stra\u00dfe", "STRASSE"),
        ("Ⅳa", "iva"),
    ):
        found = take(pack([(f"{name}/x.ipynb", BOOK) for name in pair] + [("cy/x.ipynb", BOOK)]))
        assert [one.status for one in found.values()][:2] == ["refused", "refused"], pair
        assert "rename one of them" in found[f"{pair[0]}/x.ipynb"].reason
    assert written() == {("cy", ONE.name)}


def test_spellings_of_those_that_are_there():
    take(pack([("Zo\u00eb/x.ipynb", BOOK), ("Ada/x.ipynb", BOOK)]))
    assert statuses(pack([("Zoe\u0308/x.ipynb", BOOK), ("ada/x.ipynb", BOOK)])) == {
        "Zoe\u0308/x.ipynb": "unchanged",  # a name is one in both forms, as macOS writes it
        "ada/x.ipynb": "refused",
    }
    assert statuses(pack([("Ada/x.ipynb", BOOK), ("ADA/x.ipynb", BOOK), ("b/x.ipynb", BOOK)])) == {
        "Ada/x.ipynb": "unchanged",
        "ADA/x.ipynb": "refused",
        "b/x.ipynb": "taken",
    }


def test_a_notebook_in_no_folder_is_nobody_s():
    assert "tells no student" in reason("x.ipynb")


# ---- what a zip may try ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, words",
    {
        "../ada/x.ipynb": "leads out",
        "ada/../../x.ipynb": "leads out",
        "../../../../../../tmp/x.ipynb": "leads out",
        "/etc/x.ipynb": "is that of a place",
        "C:/ada/x.ipynb": "is that of a place",
        "c:x.ipynb": "is that of a place",
        "ada\\x.ipynb": "backslashes",
        "ada/x\n.ipynb": "control characters",
        "ada\x1b[31m/x.ipynb": "control characters",
        "ada/\x7f.ipynb": "control characters",
        f"ada/{'x' * 300}.ipynb": "longer than 300",
        "ada/homework.zip": "One level only",
        "ada/homework.TAR.GZ": "One level only",
        "ada/__MACOSX/../../x.ipynb": "leads out",
    }.items(),
)
def test_names_in_a_zip(name, words):
    assert words in reason(name)


def test_a_zip_named_as_a_notebook_is_not_one():
    assert "not JSON" in reason("ada/x.ipynb", pack([("bob/x.ipynb", BOOK)], "inner").read_bytes())


def test_an_end_of_text_in_a_name():
    path = pack([("zoe/x.ipynb", BOOK), ("ada/x.ipynb#.ipynb", BOOK)])
    path.write_bytes(path.read_bytes().replace(b"#.ipynb", b"\0.ipynb"))
    assert "control characters" in take(path)["ada/x.ipynb\0.ipynb"].reason
    assert written() == {("zoe", ONE.name)}


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_entries_that_are_no_files(kind):
    info = zipfile.ZipInfo("ada/x.ipynb")
    info.external_attr = (kind | 0o644) << 16
    assert "no file of its own" in reason(info, b"/etc/passwd")
    info = zipfile.ZipInfo("linked/")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    found = take(pack([("zoe/x.ipynb", BOOK), (info, b"/etc")]))
    assert found["linked/"].status == "refused"


def test_two_entries_of_one_name():
    found = intake.take(
        pack([("ada/x.ipynb", BOOK), ("ada/x.ipynb", OTHER), ("zoe/x.ipynb", BOOK)]),
        Path("submitted"),
        Path.cwd(),
    )
    assert [one.status for one in found] == ["refused", "refused", "taken"]
    assert written() == {("zoe", ONE.name)}


def test_bombs(monkeypatch):
    assert "200 times" in reason("ada/x.ipynb", b" " * (2 << 20))
    assert reason("ada/x.ipynb", b" " * (1 << 20)).startswith("This is not a notebook")
    noise = os.urandom(1 << 18).hex().encode()
    monkeypatch.setattr(arrivals, "MAX_NOTEBOOK_BYTES", 1 << 18)
    assert "larger than" in reason("ada/x.ipynb", noise)


def test_a_zip_that_is_too_large_altogether(monkeypatch):
    monkeypatch.setattr(arrivals, "MAX_TOTAL_BYTES", 2 * len(BOOK) + 1)
    found = statuses(pack([(f"{name}/x.ipynb", BOOK) for name in "abcd"]))
    assert list(found.values()) == ["taken", "taken", "refused", "refused"]
    monkeypatch.setattr(arrivals, "MAX_ENTRIES", 3)
    assert "more than 3" in course("handed.zip", code=2)
    monkeypatch.setattr(arrivals, "MAX_LIST_BYTES", 100)
    assert "no zip" in course("handed.zip", code=2)


FIELDS = {"flags": (8, 2), "method": (10, 2), "crc": (16, 4), "packed": (20, 4), "size": (24, 4)}


def patched(field, value, second=BOOK):
    """Three submissions in a zip, whose list has another value for the second one."""
    path = pack([("a/x.ipynb", BOOK), ("b/x.ipynb", second), ("c/x.ipynb", BOOK)])
    data = bytearray(path.read_bytes())
    at, size = FIELDS[field]
    at += [found.start() for found in re.finditer(b"PK\1\2", data)][1]
    data[at : at + size] = value.to_bytes(size, "little")
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "field, value, words",
    [
        ("flags", 1, "encrypted"),
        ("method", 12, "unusual"),
        ("method", 99, "unusual"),
        ("crc", 1, "damaged"),
        ("size", 10, "damaged"),
        ("size", 1 << 30, "damaged"),
        ("packed", 10, "damaged"),
    ],
)
def test_an_entry_that_is_not_what_the_list_says(field, value, words):
    found = take(patched(field, value))
    assert [one.status for one in found.values()] == ["taken", "refused", "taken"]
    assert words in found["b/x.ipynb"].reason


def test_a_bomb_that_says_it_is_none():
    found = take(patched("packed", 1 << 31, b" " * (2 << 20)))
    assert [one.status for one in found.values()] == ["taken", "refused", "taken"]
    assert "200 times" in found["b/x.ipynb"].reason


def test_a_byte_that_was_lost_in_the_middle():
    path = pack([(f"{name}/x.ipynb", BOOK) for name in "abc"])
    data = bytearray(path.read_bytes())
    data[data.index(b"b/x.ipynb") + 500] ^= 1
    path.write_bytes(data)
    assert list(statuses(path).values()) == ["taken", "refused", "taken"]


NAMES = st.text(
    st.sampled_from("/\\.:-_=+@ a\u0301Zé1\0\n\x1b\u202e~$") | st.characters(codec="utf-8"),
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(NAMES.map(lambda name: name + ".ipynb") | NAMES, max_size=6), st.booleans())
def test_whatever_the_names_are_nothing_is_written_elsewhere(names, unmarked):
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "a", "b", "course")
        root.mkdir(parents=True)
        (root / "notebooks").symlink_to(ROOT / "notebooks")
        path = pack([(name or "x", BOOK) for name in names], root / "handed.zip")
        if unmarked:  # names that zipfile takes for cp437
            path.write_bytes(
                re.sub(
                    rb"(PK\x01\x02.{4}|PK\x03\x04..)(.)\x08",
                    rb"\1\2\0",
                    path.read_bytes(),
                    flags=re.S,
                )
            )
        before = everything(place)
        try:
            decisions = intake.take(path, root / "submitted", root)
        except arrivals.Unknown:
            decisions = []
        grown = {str(p.relative_to(root)) for p in everything(place) - before if p.is_file()}
        kept = {name for name in grown if name.startswith(".course/intake/")}
        assert all(
            re.fullmatch(r"submitted/[^/]+/01_\w+/(01_\w+\.ipynb|timestamp.txt)", n)
            for n in grown - kept
        )
        taken = {one.student for one in decisions if one.status == "taken"}
        assert {name.split("/")[1] for name in grown - kept} == taken
        assert not any(intake.id_flaw(student) for student in taken)


def everything(place):
    return set(Path(place).rglob("*"))


# ---- what a folder may hold --------------------------------------------------------------------


def test_only_files_of_its_own_are_read(tmp_path):
    lay({"solutions/x.ipynb": OTHER}, tmp_path / "teacher")
    lay({"zoe/x.ipynb": BOOK, "big/x.ipynb": b" " * ((20 << 20) + 1), "zoe/folder.ipynb/x": b""})
    for name in "abcde":
        Path("handed", name).mkdir()
    Path("handed/a/x.ipynb").symlink_to(tmp_path / "teacher/solutions/x.ipynb")
    Path("handed/b/sub").symlink_to(tmp_path / "teacher/solutions")
    Path("handed/linked").symlink_to(tmp_path / "teacher/solutions")
    os.mkfifo("handed/c/x.ipynb")
    Path("handed/d/x.ipynb").mkdir()
    os.link(lay({"x.ipynb": BOOK}, "elsewhere") / "x.ipynb", "handed/e/x.ipynb")
    found = take("handed")
    assert found.pop("zoe/x.ipynb").status == found.pop("e/x.ipynb").status == "taken"
    assert "larger than" in found.pop("big/x.ipynb").reason
    assert set(found) == {
        "a/x.ipynb",
        "b/sub",
        "linked",
        "c/x.ipynb",
        "d/x.ipynb",
        "zoe/folder.ipynb",
    }
    assert {one.reason[:24] for one in found.values()} == {"It is no file of its own"}
    assert written() == {("zoe", ONE.name), ("e", ONE.name)}


def test_a_folder_that_turns_into_a_link_is_not_entered(tmp_path):
    """As a student may do in an exchange, between the list of files and their reading."""
    lay({"sub/x.ipynb": OTHER}, tmp_path / "teacher")
    lay({"ada/sub/x.ipynb": BOOK, "zoe/x.ipynb": BOOK})
    with arrivals.handed_over(Path("handed")) as found:
        one = next(one for one in found if one.student == "ada")
        Path("handed/ada/sub").rename("moved")
        Path("handed/ada/sub").symlink_to(tmp_path / "teacher/sub")
        with pytest.raises(arrivals.NotTaken, match="cannot be read"):
            one.read()


def test_a_folder_that_may_not_be_listed_is_named(monkeypatch):
    lay({"ada/x.ipynb": BOOK, "zoe/x.ipynb": BOOK})
    real = os.scandir

    def scandir(path):
        if Path(path).name == "ada":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = take("handed")
    assert found["ada"].reason == "It cannot be read: Permission denied."
    assert found["zoe/x.ipynb"].status == "taken"


@pytest.mark.parametrize("link", ["ada", f"ada/{ONE.name}", f"ada/{ONE.name}/{ONE.name}.ipynb"])
def test_nothing_is_written_through_a_link(link, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "there").write_text("untouched")
    path = Path("submitted", link)
    path.parent.mkdir(parents=True)
    path.symlink_to(elsewhere / "there" if link.endswith("ipynb") else elsewhere)
    found = take(pack([("ada/x.ipynb", BOOK)]))["ada/x.ipynb"]
    assert found.status == "refused" and "is a link" in found.reason
    assert [p.name for p in elsewhere.iterdir()] == ["there"]
    assert (elsewhere / "there").read_text() == "untouched"


# ---- again and again ---------------------------------------------------------------------------


def test_the_latest_counts_and_what_is_there_yields_to_a_newer_one_only():
    path = pack([("ada/b.ipynb", OTHER, NOON), ("ada/a.ipynb", BOOK, EVENING)])
    assert statuses(path) == {"ada/b.ipynb": "superseded", "ada/a.ipynb": "taken"}
    assert there("ada") == BOOK and stamp("ada") == "2025-03-01 18:00:00.000000 UTC"
    older = take(pack([("ada/x.ipynb", OTHER, NOON)]))["ada/x.ipynb"]
    assert older.status == "superseded" and "2025-03-01 18:00" in older.reason
    same = pack([("ada/x.ipynb", BOOK, (2025, 3, 2, 0, 0, 0))])
    assert statuses(same) == {"ada/x.ipynb": "unchanged"}
    assert stamp("ada") == "2025-03-01 18:00:00.000000 UTC", "it was in at that time"
    assert statuses(pack([("ada/x.ipynb", LATER, (2025, 3, 1, 18, 0, 2))])) == {
        "ada/x.ipynb": "taken"
    }
    assert there("ada") == LATER and stamp("ada") == "2025-03-01 18:00:02.000000 UTC"


def test_without_a_timestamp_the_file_s_own_time_counts():
    lay({f"ada/{ONE.name}/{ONE.name}.ipynb": BOOK}, "submitted")  # at noon, by hand
    assert statuses(pack([("ada/x.ipynb", OTHER, (2025, 2, 1, 0, 0, 0))])) == {
        "ada/x.ipynb": "superseded"
    }
    assert statuses(pack([("ada/x.ipynb", OTHER, (2025, 4, 1, 0, 0, 0))])) == {
        "ada/x.ipynb": "taken"
    }
    assert written() == {("ada", ONE.name)}


def test_a_planted_time_is_not_believed():
    take(
        pack([("ada/x.ipynb", BOOK, NOON), ("ada/timestamp.txt", b"2099-01-01 00:00:00 UTC", NOON)])
    )
    assert stamp("ada") == "2025-03-01 12:00:00.000000 UTC"


@pytest.mark.parametrize("time", [(1980, 0, 0, 0, 0, 0), (2025, 2, 31, 0, 0, 0)])
def test_a_time_that_is_none(time):
    path = pack([("ada/x.ipynb", BOOK, time)])
    assert statuses(path) == {"ada/x.ipynb": "taken"} and stamp("ada").startswith(
        "1980-01-01 00:00"
    )


@pytest.mark.parametrize("steps", range(4))
def test_a_killed_run_leaves_whole_files_and_the_next_one_ends_the_work(steps, monkeypatch):
    """Killed before the first write, the second ...; then an older and the same zip again."""
    take(pack([("ada/x.ipynb", BOOK, NOON)], "first.zip"))
    second = pack([("ada/x.ipynb", OTHER, EVENING)])
    left = [steps]

    def until(real):
        def step(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return real(*arguments, **options)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", until(Path.unlink))
        patch.setattr(intake, "_replace", until(intake._replace))
        try:
            take(second)
        except KeyboardInterrupt:
            assert there("ada") in (BOOK, OTHER)
    take("first.zip")
    assert set(statuses(second).values()) <= {"taken", "unchanged"}
    assert there("ada") == OTHER and stamp("ada") == "2025-03-01 18:00:00.000000 UTC"
    assert written() == {("ada", ONE.name)}


def test_what_cannot_be_written_is_refused_and_the_others_go_on(monkeypatch):
    real = os.replace

    def replace(fresh, path):
        if "/ada/" in str(path):
            raise OSError(28, "No space left on device")
        real(fresh, path)

    monkeypatch.setattr(intake.os, "replace", replace)
    found = take(pack([("ada/x.ipynb", BOOK), ("zoe/x.ipynb", BOOK)]))
    assert found["ada/x.ipynb"].status == "refused" and found["zoe/x.ipynb"].status == "taken"
    assert "No space left" in found["ada/x.ipynb"].reason
    assert written() == {("zoe", ONE.name)}


# ---- what is kept and told ---------------------------------------------------------------------


def test_everything_that_came_is_kept_and_logged():
    Path(".course/intake").mkdir(parents=True)
    Path(".course/intake/log.jsonl").write_bytes(b'{"half a li')
    entries = [
        ("ada/x.ipynb", BOOK, NOON),
        ("bob/x.ipynb", b"no"),
        ("-c/x.ipynb", OTHER),
        ("d/e.txt", b""),
    ]
    take(pack(entries))
    take(pack(entries))
    half, *lines = Path(".course/intake/log.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert half == '{"half a li' and len(rows) == 8
    assert [row["status"] for row in rows[:4]] == ["taken", "refused", "refused", "ignored"]
    assert rows[4]["status"] == "unchanged" and rows[4]["taken"] >= rows[0]["taken"]
    assert rows[0] == {
        "source": "handed.zip",
        "entry": "ada/x.ipynb",
        "student": "ada",
        "chapter": ONE.name,
        "sha256": hashlib.sha256(BOOK).hexdigest(),
        "bytes": len(BOOK),
        "submitted": "2025-03-01 12:00:00.000000 UTC",
        "taken": rows[0]["taken"],
        "status": "taken",
        "reason": "",
    }
    for row, (_, data, *_) in zip(rows[:3], entries, strict=False):
        assert Path(".course/intake", row["sha256"][:2], row["sha256"]).read_bytes() == data


def test_nothing_in_a_name_reaches_the_terminal():
    nasty = "\x1b]0;owned\x07[bold red]\u202e\x9b2J[/]"
    output = course(pack([(f"{nasty}/x.ipynb", BOOK), (f"ada/{nasty}.txt", b"")]), code=3)
    assert all(line.isprintable() for line in output.splitlines())
    assert "[bold red]" in output and r"\x1b]0;owned\x07" in output
    output = course(lay({"ada/\udc80[/].ipynb": b"", "a\u202eb/x.ipynb": BOOK}), code=3)
    assert r"\udc80[/]" in output and r"a\u202eb" in output


def test_all_taken_is_told_in_a_line():
    path = pack([("ada/x.ipynb", BOOK)])
    assert course(path) == "1 taken, 0 unchanged, 0 ignored, 0 superseded, 0 refused.\n"
    assert re.search(r"ada +│ ada/x.ipynb +│ unchanged", course(path, "--submitted", "submitted"))
    course(path, "--submitted", "other")
    assert written("other") == {("ada", ONE.name)}


@pytest.mark.slow
def test_nbgrader_reads_the_times_and_intake_reads_nbgrader_s():
    from nbgrader.utils import parse_utc

    for time in (datetime(2025, 3, 1, 12), datetime(1, 2, 3), datetime(2025, 3, 1, 12, 0, 0, 7)):
        assert parse_utc(intake._text(time)) == time == arrivals.read_time(intake._text(time))
    assert arrivals.read_time("2025-03-01 12:00:00.000000 CET\n") == datetime(2025, 3, 1, 11)
    assert [arrivals.read_time(text) for text in ("", "soon", "9" * 30)] == [None] * 3


def test_names_in_the_log_are_normal():
    take(pack([("Zoe\u0308/x.ipynb", BOOK)]))
    row = json.loads(Path(".course/intake/log.jsonl").read_text())
    assert row["student"] == unicodedata.normalize("NFC", "Zoe\u0308")
