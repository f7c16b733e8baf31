"""What makes grading fail, looked for one trap at a time: `course doctor`.

Each check looks at a course folder, changes nothing of what it looks at and
returns a Finding. Packages are imported where they are used: that one is
missing is itself a finding.
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from grader import course_files, tiers
from utils.chapters import CHAPTERS

CONFIGURATION = "nbgrader_config.py"
SETUP = "from grader.nbgrader_hooks import configure; configure(get_config())"
OWN_FOLDERS = ("utils", "grader")  # the course's own, in the folder it is installed from
PIP_NAMES = {"psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}  # of drivers, by module
ENTERING = "`course grade` enters a chapter, `nbgrader autograde` needs generate_assignment first"
WANTED_BYTES = 1_000_000_000


@dataclass
class Finding:
    """What one check found; `ok` is None where nothing is wrong and something is to be known."""

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


class NotLookedAt(Exception):
    """What a check needs is not there, and that is either fine or another check's finding."""


def examine(root):
    """What each check finds in a course folder; one that fails itself is a finding, too."""
    root = Path(root).resolve()
    return [_finding(check, root) for check in CHECKS]


def _finding(check, root):
    name = check.__name__.replace("_", " ")
    try:
        return check(root)
    except NotLookedAt as reason:
        return Finding(name, None, str(reason))
    except Exception as error:
        return Finding(name, False, f"This could not be looked at: {_sentence(error)}")


def _sentence(error):
    return f"{type(error).__name__}: {error}".rstrip(": ").replace("\n", " ")


def _pip_install(*names):
    return shlex.join([sys.executable, "-m", "pip", "install", *names])


def packages(root):
    """Whether what is installed is within the bounds that the course asks for."""
    from packaging.requirements import Requirement

    try:
        needs = [Requirement(text) for text in importlib.metadata.requires("attention-course")]
    except importlib.metadata.PackageNotFoundError:
        return Finding("packages", False, "The course is not installed.", "make lab")
    needs = [need for need in needs if not need.marker or need.marker.evaluate({"extra": ""})]
    wrong = {need: misfit for need in needs if (misfit := _misfit(need))}
    if wrong:
        remedy = _pip_install(*(f"{need.name}{need.specifier}" for need in wrong))
        return Finding("packages", False, f"{'; '.join(wrong.values())}.", remedy)
    return Finding("packages", True, f"all {len(needs)} are as the course asks")


def _misfit(need):
    """How the installed package fails to be what is needed, "" where it is."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version(need.name)
        fits = need.specifier.contains(version, prereleases=True)
        return "" if fits else f"{need.name} is {version}, not {need.specifier}"
    return f"{need.name} is not installed"


def configuration(root):
    """Whether nbgrader's commands, run in this folder, use our sandbox and judge."""
    from grader.nbgrader_hooks import RunAndJudge

    if not (root / CONFIGURATION).exists():
        found = f"There is no {CONFIGURATION} here, and nbgrader looks for it in the current folder"
        remedy = f"Change to the course's folder, or put into {CONFIGURATION}: {SETUP}"
        return Finding("configuration", False, f"{found} alone.", remedy)
    try:
        used = _configuration(root).Autograde.autograde_preprocessors
    except (Exception, SystemExit) as error:
        found = f"{CONFIGURATION} stops with {_sentence(error)}"
        return Finding("configuration", False, found, f"Mend it; all it must hold is: {SETUP}")
    if not isinstance(used, list) or RunAndJudge not in used:
        found = f"With {CONFIGURATION} nbgrader runs submissions itself, without sandbox and judge."
        return Finding("configuration", False, found, f"Put at the end of the file: {SETUP}")
    return Finding("configuration", True, "nbgrader uses the sandbox and the judge")


def _configuration(root):
    from traitlets.config.loader import PyFileConfigLoader

    return PyFileConfigLoader(CONFIGURATION, path=str(root)).load_config()


def other_configuration(root):
    """Whether nbgrader reads settings of this user or machine, which `course grade` does not."""
    from jupyter_core.paths import jupyter_config_path

    folders = [Path(folder) for folder in jupyter_config_path()]
    files = [folder / f"nbgrader_config.{kind}" for folder in folders for kind in ("py", "json")]
    if read := [str(file) for file in files if file.exists()]:
        found = f"nbgrader also reads {', '.join(read)}, and `course grade` does not: what the "
        found += "folder's own file leaves open, such as db_url, may differ between the two."
        return Finding("other configuration", None, found)
    return Finding("other configuration", True, "none besides the folder's own")


def alembic(root):
    """Whether nbgrader, which calls `alembic` by name, will find it."""
    # configure() puts the interpreter's own folder first
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    found = shutil.which("alembic", path=path)
    if not found:
        words = "nbgrader calls alembic to make a gradebook, and there is none."
        return Finding("alembic", False, words, _pip_install("--force-reinstall", "alembic"))
    return Finding("alembic", True, found)


def database(root):
    """Whether the gradebook's database can be reached and written."""
    import sqlalchemy
    from sqlalchemy.exc import ArgumentError

    setting = f"In {CONFIGURATION}: get_config().CourseDirectory.db_url = "
    try:
        url = _url(root)
        shown = url.render_as_string(hide_password=True)
        if url.get_backend_name() == "postgres":
            right = shown.replace(url.drivername, "postgresql+psycopg2", 1)
            found = f"SQLAlchemy 2 does not know postgres:// any more, as in {shown}."
            return Finding("database", False, found, f'{setting}"{right}"')
        engine = sqlalchemy.create_engine(url)
    except (ArgumentError, ValueError):  # whose words may hold a password
        found = "db_url is not the address of a database that SQLAlchemy knows."
        return Finding("database", False, found, f'{setting}"sqlite:///gradebook.db"')
    except ModuleNotFoundError as error:
        found = f"{shown} needs the module {error.name}, which is not installed."
        remedy = _pip_install(PIP_NAMES.get(error.name, error.name))
        return Finding("database", False, found, remedy)
    if url.get_backend_name() == "sqlite" and (trouble := _file_trouble(Path(url.database or ""))):
        return trouble
    return _connection(engine, shown)


def _url(root):
    """The database's address; a file's is taken from the course folder, where nbgrader runs."""
    from nbgrader.coursedir import CourseDirectory
    from sqlalchemy.engine import make_url

    try:
        config = _configuration(root)
    except (Exception, SystemExit):
        raise NotLookedAt(f"not looked at, as {CONFIGURATION} cannot be read") from None
    config.CourseDirectory.root = str(root)
    url = make_url(CourseDirectory(config=config).db_url)
    if url.get_backend_name() == "sqlite" and url.database:
        url = url.set(database=str(root / url.database))
    return url


def _file_trouble(path):
    """A Finding where a SQLite file is not there or cannot be written, else None."""
    folder = shlex.quote(str(path.parent))
    if not path.parent.is_dir():
        found = f"{path} would lie in a folder that does not exist."
        return Finding("database", False, found, f"mkdir -p {folder}")
    # SQLite writes a journal beside the file
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        remedy = f"chmod u+w {folder} {shlex.quote(str(path)) if path.exists() else ''}".strip()
        return Finding("database", False, f"{path} cannot be written.", remedy)
    if not path.exists():
        return Finding("database", None, f"{path} is not made yet; grading makes it")
    return None


def _connection(engine, shown):
    import sqlalchemy
    from sqlalchemy.exc import SQLAlchemyError

    try:
        sqlalchemy.inspect(engine).get_table_names()
    except SQLAlchemyError as error:
        words = " ".join(str(getattr(error, "orig", error)).split())
        if engine.url.password:
            words = words.replace(engine.url.password, "***")
        remedy = f"See that the database is up and whole, or correct db_url in {CONFIGURATION}."
        return Finding("database", False, f"{shown} cannot be read: {words}.", remedy)
    finally:
        engine.dispose()
    return Finding("database", True, shown)


@contextlib.contextmanager
def _gradebook(root):
    """A session that only reads, as nbgrader's own class would write. Raises NotLookedAt."""
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.orm import Session

    reachable = database(root).ok
    if reachable is False:
        raise NotLookedAt("not looked at, as the database cannot be used")
    engine = create_engine(_url(root))
    try:
        if reachable is None or not inspect(engine).get_table_names():
            raise NotLookedAt(f"there is no gradebook yet; {ENTERING}")
        with Session(engine) as session:
            yield session
    finally:
        engine.dispose()


def gradebook(root):
    """Whether the gradebook fits the installed nbgrader and the released notebooks."""
    with _gradebook(root) as session:
        has, wanted = _revisions(session)
        if has != wanted:
            found = f"An nbgrader of another version made it: revision {has}, not {wanted}."
            return Finding("gradebook", False, found, "nbgrader db upgrade")
        standing = {one.name: _standing(one, session, root) for one in CHAPTERS}
    return _entered(standing)


def _revisions(session):
    """The revision of the gradebook's tables, or None, and that which nbgrader would make."""
    from alembic.script import ScriptDirectory
    from nbgrader import dbutil
    from sqlalchemy import inspect, text

    has = None
    if inspect(session.connection()).has_table("alembic_version"):
        has = session.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return has, ScriptDirectory(dbutil.ALEMBIC_DIR).get_current_head()


def _standing(chapter, session, root):
    """How a chapter stands in the gradebook: "same", "not entered", "changed" or "stuck"."""
    from nbgrader.api import Assignment, Notebook
    from sqlalchemy import select

    query = select(Notebook).join(Assignment).where(Assignment.name == chapter.name)
    book = session.scalars(query.where(Notebook.name == chapter.name)).first()
    if book is None:
        return "not entered"
    try:
        cells = course_files.released(chapter, root)["cells"]
    except FileNotFoundError:
        raise NotLookedAt("not looked at, as a released notebook is missing") from None
    metas = [cell["metadata"].get("nbgrader", {}) for cell in cells]
    points = {meta["grade_id"]: meta["points"] for meta in metas if meta.get("grade")}
    solutions = {meta["grade_id"] for meta in metas if meta.get("solution")}
    entered = {cell.name: cell.max_score for cell in book.grade_cells}
    if (set(entered), {cell.name for cell in book.solution_cells}) != (set(points), solutions):
        return "stuck" if book.submissions else "changed"  # nbgrader refuses other cells then
    return "same" if entered == points else "changed"


def _entered(standing):
    """The worst of how the chapters stand in the gradebook."""
    named = {how: [] for how in ("same", "not entered", "changed", "stuck")}
    for name, how in standing.items():
        named[how].append(name)
    if names := named["stuck"]:
        found = f"The gradebook has other cells of {', '.join(names)} than were released, and "
        found += "submissions: grading would stop, the released notebook deleted. The remedy drops "
        found += "the chapter's scores, those set by hand as well: keep a copy of the gradebook."
        commands = [f"nbgrader db assignment remove {name} --force" for name in names]
        return Finding("gradebook", False, found, " && ".join(commands))
    if names := named["changed"]:
        found = f"The gradebook has old cells or points of {', '.join(names)}."
        commands = [f"nbgrader generate_assignment {name} --force" for name in names]
        return Finding("gradebook", False, found, " && ".join(commands))
    if names := named["not entered"]:
        return Finding("gradebook", None, f"{', '.join(names)}: not entered yet; {ENTERING}")
    return Finding("gradebook", True, "it has the cells and points that were released")


def notebooks(root):
    """Whether both notebooks of every chapter are what their source makes."""
    from grader.build import BuildError, build

    try:
        files = {path: text for one in CHAPTERS for path, text in build(one, root).items()}
    except BuildError as error:
        return Finding("notebooks", False, str(error), "git diff solutions")
    if stale := [path for path, text in files.items() if not _holds(path, text)]:
        found = f"Missing, or not what solutions/*.py make: {_listed(stale, root)}."
        return Finding("notebooks", False, found, "python -m grader.build")
    return Finding("notebooks", True, "as their sources make them")


def _holds(path, text):
    return path.exists() and path.read_text(encoding="utf-8") == text


def _listed(paths, root):
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return ", ".join(str(path.relative_to(root)) for path in paths[:5]) + more


def shadowing_files(root):
    """Whether a file would be imported in place of a module, by nbgrader or beside a notebook."""
    own = [root / name for name in OWN_FOLDERS if (root / name).is_dir()]
    folders = [root, *(path for path in (root / "my_work").glob("*") if path.is_dir())]
    if found := [path.relative_to(root) for path in _shadows(folders) if path not in own]:
        commands = [shlex.join(["mv", str(path), f"{path}.away"]) for path in found]
        words = f"Python would import {', '.join(map(str, found))} in place of the true modules."
        return Finding("shadowing files", False, words, " && ".join(commands))
    return Finding("shadowing files", True, "none in this folder and in my_work/")


def submitted_files(root):
    """The same of what students handed in, which only an assignment of one's own would import."""
    place = root / "submitted"
    folders = [path for path in [*place.glob("*"), *place.glob("*/*")] if path.is_dir()]
    if found := _shadows(folders):
        words = f"{_listed(found, root)} have names of modules. The chapters of the course are "
        words += "run without them; nbgrader would import them in an assignment of your own."
        return Finding("submitted files", None, words)
    return Finding("submitted files", True, "none that stands in a module's way")


def _shadows(folders):
    """Files and packages with a module's name. A folder without __init__.py gives way to it."""
    modules = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    inside = [path for folder in sorted(folders) for path in sorted(folder.iterdir())]
    return [
        path
        for path in inside
        if (path.suffix == ".py" and path.is_file() and path.stem in modules)
        or (path.name in modules and (path / "__init__.py").is_file())
    ]


def isolation(root):
    """Whether submissions can be walled off; what was tried is kept in .course/isolation.json."""
    broken = ""
    try:
        name = tiers.for_others().name
    except tiers.NotIsolated as error:
        name, broken = tiers.Plain.name, str(error)
    if (root / CONFIGURATION).exists():  # elsewhere nothing is left behind
        date = datetime.now(UTC).isoformat(timespec="seconds")
        record = {"date": date, "tier": name, "kernel": platform.release(), "broken": broken}
        path = root / ".course" / "isolation.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return Finding("isolation", not broken, broken or f"{name}, tried just now")


def secret(root):
    """Whether nobody else can read the key from which hidden cases are made."""
    path = root / ".course" / "secret"
    if not path.exists():
        return Finding("secret", None, "not made yet; grading makes it")
    mode = path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        found = f"{path} can be read by others (mode {mode:o}): they could foresee hidden cases."
        return Finding("secret", False, found, f"chmod 600 {shlex.quote(str(path))}")
    return Finding("secret", True, "readable by its owner alone")


def room(root):
    """Whether the disk has room for the answers that .course keeps."""
    free = shutil.disk_usage(root / ".course" if (root / ".course").exists() else root).free
    found = f"{free / 1e9:.1f} GB free"
    if free < WANTED_BYTES:
        remedy = f"du -sh {shlex.quote(str(root))}/.course/* ~/.cache"
        return Finding("room", False, f"Only {found}, and 1 GB is wanted.", remedy)
    return Finding("room", True, found)


CHECKS = (
    *(packages, configuration, other_configuration, alembic, database, gradebook),
    *(notebooks, shadowing_files, submitted_files, isolation, secret, room),
)
