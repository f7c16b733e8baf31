"""The `course` command."""

import contextlib
import json
import os
import shutil
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import ProgressColumn
from rich.table import Table
from rich.text import Text

from grader import course_files
from utils import progress
from utils.chapters import CHAPTERS, Chapter, find_chapter

app = typer.Typer(
    help="Attention from First Principles: open it, check your work, list the exercises.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()


@app.command()
def lab():
    """Open JupyterLab on the chapter you are at, in my_work/; nothing there is overwritten."""
    from jupyterlab.labapp import LabApp

    _copy_notebooks()
    here = next((row.chapter for row in _progress() if row.left), CHAPTERS[-1]).name
    options = lab_options(progress.MY_WORK, here)
    if not _has_browser():
        options.append("--no-browser")
        console.print("No browser here: open the address below that begins with http.")
    LabApp.launch_instance(options)


def lab_options(folder, chapter_name):
    """JupyterLab's options: serve `folder`, open a chapter, leave out what only teachers need."""
    root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.default_url=/lab/tree/{chapter_name}/{chapter_name}.ipynb",
        f"--LabServerApp.app_settings_dir={course_files.ROOT / 'grader' / 'lab_settings'}",
        *root,
    ]


def _copy_notebooks():
    for chapter in CHAPTERS:
        source = course_files.ROOT / "notebooks" / chapter.name / f"{chapter.name}.ipynb"
        target = progress.MY_WORK / chapter.name / source.name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def _has_browser():
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


@dataclass
class Progress:
    """How far a learner is in a chapter: its core exercises, and those that do not pass yet."""

    chapter: Chapter
    core: list
    left: list

    @property
    def minutes_left(self):
        return round(self.chapter.minutes * len(self.left) / len(self.core))


def _progress():
    passed = progress.read(progress.MY_WORK)
    rows = []
    for chapter in CHAPTERS:
        points = course_files.points(course_files.released(chapter))
        core = [name for name, worth in points.items() if worth]
        rows.append(Progress(chapter, core, [name for name in core if not passed.get(name)]))
    return rows


@app.command()
def status():
    """Show what passes in my_work/ as you last checked it, what comes next, and the time left."""
    rows = _progress()
    table = Table("chapter", "core", "minutes left", "next")
    for row in rows:
        done = f"{len(row.core) - len(row.left)} of {len(row.core)}"
        coming = row.left[0] if row.left else "✓"
        table.add_row(row.chapter.name, done, str(row.minutes_left), coming)
    console.print(table)
    row = next((row for row in rows if row.left), None)
    if row:
        console.print("Minutes are planned, not measured: each core exercise has its share.")
        console.print(
            f"Next: {row.left[0]}, in chapter {row.chapter.number}. Open it with: make lab"
        )
    else:
        console.print("Every core exercise passes. The stretch exercises are left.")


@app.command()
def exercises(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False):
    """List every exercise: chapter, points, case groups and named mistakes."""
    listed = _listed()
    if as_json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    for row in listed:
        points = f"{row['points']:g} points" if row["points"] else "stretch"
        console.print(f"[bold]{row['id']}[/]  {row['chapter']}, {points}")
        for key in ("groups", "mistakes"):
            console.print(Padding(f"{key}: {', '.join(row[key])}", (0, 0, 0, 2)))


def _listed():
    from grader import exercises

    rows = []
    for chapter in CHAPTERS:
        points = course_files.points(course_files.released(chapter))
        rows += [
            {
                "id": exercise.id,
                "chapter": chapter.name,
                "points": points[exercise.id],
                "groups": exercise.groups,
                "mistakes": [mistake.name for mistake in exercise.mistakes],
            }
            for exercise in exercises.of_chapter(chapter.concept)
        ]
    return rows


@app.command()
def check(
    chapter: Annotated[str, typer.Argument(help="The chapter: 1, 01 or its name.")],
    notebook: Annotated[Path | None, typer.Option(help="Another notebook than my_work's.")] = None,
):
    """Grade your own notebook exactly as a teacher's run would, on hidden cases."""
    from grader.grade import grade
    from grader.normalise import Unreadable
    from grader.workers import WorkerFailed

    try:
        found = find_chapter(chapter)
        path = notebook or progress.MY_WORK / found.name / f"{found.name}.ipynb"
        submitted = path.read_bytes()
        released = course_files.released(found)
        with console.status(f"Running {path.name} ..."):
            graded = grade(submitted, found, released, course_files.secret())
    except (LookupError, Unreadable) as error:
        _stop(error.args[0])
    except FileNotFoundError:
        _stop(f"There is no {path}. `make lab` puts the notebooks into my_work/.")
    except (OSError, WorkerFailed) as error:
        _stop(str(error))
    if notebook is None:
        progress.record({n: v.passed for n, v in graded.verdicts.items()}, progress.MY_WORK)
    raise typer.Exit(_report(graded, course_files.points(released)))


@app.command()
def intake(
    path: Annotated[Path, typer.Argument(help="A zip, a folder or an nbgrader exchange.")],
    submitted: Annotated[Path, typer.Option(help="Folder of submissions.")] = Path("submitted"),
    as_json: Annotated[Path | None, typer.Option("--json", help="Write decisions here.")] = None,
):
    """Put what Canvas, Moodle, nbgrader or a person handed over where `course grade` finds it."""
    from grader.arrivals import Unknown
    from grader.intake import STATUSES, printable, take

    try:
        decisions = take(path, submitted, Path.cwd())
    except Unknown as error:
        _stop(printable(str(error)))
    except FileNotFoundError as error:
        _stop(f"{error.filename} is missing: run this in the course's folder.")
    except OSError as error:
        _stop(printable(str(error)))
    rows = [one.record() for one in decisions]
    if as_json:
        as_json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    table = Table("student", "file", "what happened", "reason")
    for row in sorted(rows, key=lambda row: STATUSES.index(row["status"])):
        if row["status"] != "taken":
            words = (row[key] for key in ("student", "entry", "status", "reason"))
            table.add_row(*(escape(printable(word)) for word in words))
    if table.rows:
        console.print(table)
    counts = {status: sum(row["status"] == status for row in rows) for status in STATUSES}
    console.print(", ".join(f"{count} {status}" for status, count in counts.items()) + ".")
    raise typer.Exit(3 if counts["refused"] else 0)


@app.command()
def grade(
    chapter: Annotated[str | None, typer.Argument(help="One chapter; all, if left out.")] = None,
    submitted: Annotated[Path, typer.Option(help="Folder of submissions.")] = Path("submitted"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    dask: Annotated[str, typer.Option(help="Run them on the workers of this scheduler.")] = "",
    as_json: Annotated[Path | None, typer.Option("--json", help="Write each verdict here.")] = None,
    judge_only: Annotated[bool, typer.Option(help="Judge kept answers again, run none.")] = False,
    require_isolation: Annotated[
        bool, typer.Option(help="Nothing that ran without walls.")
    ] = False,
    trust_submissions: Annotated[bool, typer.Option(help="Run them without walls, too.")] = False,
):
    """Grade a class: run what is new, judge everything, write the gradebook.

    Submissions lie where nbgrader puts them: <student>/<chapter>/<chapter>.ipynb.
    """
    from grader import class_run, tiers, workers

    trusted = trust_submissions and not require_isolation
    rows = []
    try:
        chapters = [find_chapter(chapter)] if chapter else CHAPTERS
        found = {one: class_run.find(submitted, one) for one in chapters}
        found = {one: submissions for one, submissions in found.items() if submissions}
        if not found:
            _stop(f"There are no submissions in {submitted}/<student>/<chapter>/<chapter>.ipynb.")
        if not (judge_only or dask):
            tiers.for_others(trusted)
        with _executors(jobs, dask, judge_only, next(iter(found))) as (pool, executor, at_a_time):
            options = {"pool": pool, "executor": executor, "trusted": trusted}
            options["isolated"] = require_isolation
            for one, submissions in found.items():
                rows += _grade_chapter(one, submissions, at_a_time, options)
    except (
        *(LookupError, OSError, tiers.NotIsolated, workers.WorkerFailed),
        course_files.StaleGradebook,
    ) as error:
        _stop(_words(error))
    if as_json:
        as_json.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
    raise typer.Exit(_report_class(rows))


def _words(error):
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is missing: run this in the course's folder."
    return str(error.args[0] if isinstance(error, LookupError) else error)


@contextlib.contextmanager
def _executors(jobs, dask, judge_only, first):
    """(pool, executor, submissions at a time): `jobs` processes, or the workers of a scheduler."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from grader import class_run

    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(jobs, get_context("spawn")))
        if judge_only:
            yield pool, None, 2 * jobs
        elif dask:
            client = stack.enter_context(_dask_client(dask))
            yield pool, client.get_executor(), 2 * sum(client.nthreads().values())
        else:
            for _ in range(jobs):  # while this process imports nbgrader
                pool.submit(class_run.get_ready, first)
            yield pool, pool, 2 * jobs


def _dask_client(address):
    try:
        from distributed import Client
    except ImportError:
        _stop("Dask is not installed here: pip install 'attention-course[dask]'.")
    try:
        return Client(address, timeout=10)
    except (OSError, ValueError) as error:
        _stop(f"There is no Dask scheduler at {address}: {error}")


def _grade_chapter(chapter, found, at_a_time, options):
    """Grade one chapter's submissions; their records."""
    from rich.progress import MofNCompleteColumn, Progress

    # nbgrader imports jsonschema, which would parse a grammar for a second that nobody here uses
    sys.modules.setdefault("rfc3987_syntax", None)
    from grader import class_run, gradebook

    root = Path.cwd()
    course = gradebook.course_of(root)
    gradebook.enter_chapter(chapter, root, course)
    pages = root / course.autograded_directory
    run = class_run.Run(chapter, root, course_files.results(root), pages=pages, **options)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), _Rate())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(chapter.name, total=len(found))
        run.grade(found, at_a_time, lambda: bar.advance(task))
    gradebook.write(found, chapter, course)
    return class_run.records(found, chapter)


class _Rate(ProgressColumn):
    """Submissions a second, of those that are done."""

    def render(self, task):
        return Text(f"{task.finished_speed or task.speed or 0:.1f}/s", style="progress.data.speed")


def _report_class(rows):
    """Print a line for each student; the exit code is 3 if any could not be graded."""
    table = Table("student", "chapter", "points", "does not pass, or why not")
    students = dict.fromkeys((row["student"], row["chapter"]) for row in rows)
    for student, chapter in students:
        own = [row for row in rows if (row["student"], row["chapter"]) == (student, chapter)]
        graded = [row for row in own if "exercise" in row]
        points = sum(row["score"] for row in graded)
        failed = [f"{row['exercise']} ({row['mistake']})" for row in graded if not row["passed"]]
        words = own[0]["reason"] or ", ".join(failed)
        table.add_row(escape(student), chapter, f"{points:.3g}" if graded else "", escape(words))
    console.print(table)
    behind = sorted({row["tier"] for row in rows if row.get("tier")})
    console.print(f"Ran behind: {', '.join(behind) or 'nothing'}.")
    return 3 if any("exercise" not in row for row in rows) else 0


@app.command()
def doctor():
    """Look for what makes grading fail. Run it in the course's folder."""
    from grader.doctor import examine

    findings = examine(Path.cwd())
    for one in findings:
        sign = {True: "✓", False: "✗", None: "–"}[one.ok]
        # the remedy stands alone on its line, unwrapped, to be copied
        remedy = f"\n    {one.remedy}" if one.remedy else ""
        words = f"{sign} {one.name}: {one.found}{remedy}"
        console.print(words, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(int(any(one.ok is False for one in findings)))


def _stop(message):
    console.print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(2)


def _report(graded, points):
    """Print the verdicts; the exit code is 1 while an exercise with points does not pass."""
    table = Table("exercise", "", "points", "verdict")
    earned = 0.0
    for name, verdict in graded.verdicts.items():
        earned += verdict.score * points[name]
        sign = "[green]✓[/]" if verdict.passed else "[red]✗[/]"
        share = (
            f"{verdict.score * points[name]:.3g} / {points[name]:g}" if points[name] else "stretch"
        )
        table.add_row(name, sign, share, escape(verdict.message))
    console.print(table)
    for repair in graded.repairs:
        console.print(f"Repaired: {repair}", markup=False)
    console.print(f"Ran behind: {graded.result.tier}.")
    if graded.result.message:
        console.print(graded.result.message, markup=False)
    console.print(f"{earned:.3g} of {sum(points.values()):g} points, without the written answers.")
    core = [v.passed for name, v in graded.verdicts.items() if points[name]]
    return 0 if all(core) else 1


if __name__ == "__main__":
    app()
