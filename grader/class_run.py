"""A class: every submission of a chapter, run in parallel and judged."""

import json
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

from grader import course_files
from grader.grade import Graded, Unit, judged, make_unit, run_unit
from grader.normalise import Unreadable


@dataclass
class Submission:
    """One student's notebook. `reason` says why it could not be read or run, "" where it could."""

    student: str
    path: Path
    unit: Unit | None = None
    graded: Graded | None = None
    reason: str = ""
    ran: bool = False  # in this run, and not in an earlier one


def find(folder, chapter):
    """The submissions of a chapter in nbgrader's layout, by student."""
    paths = sorted(Path(folder).glob(f"*/{chapter.name}/{chapter.name}.ipynb"))
    return [Submission(path.parent.parent.name, path) for path in paths]


def prepare(submissions, chapter, root):
    """Make a unit of work of each; what cannot be read gets its reason and an empty notebook."""
    released, secret = course_files.released(chapter, root), course_files.secret(root)
    for one in submissions:
        try:
            submitted = one.path.read_bytes()
            one.unit = make_unit(submitted, chapter, released, secret)
        except (OSError, Unreadable) as error:
            one.reason = str(error)
            note = {"cell_type": "markdown", "metadata": {}, "source": one.reason}
            empty = json.dumps({"cells": [note]}).encode()
            one.unit = make_unit(empty, chapter, released, secret)


def run(submissions, store, executor, tier, progress=lambda: None):
    """Run each unit that the store does not hold yet; `progress` is called after each.

    What an executor cannot run gets its reason; the others go on.
    """
    missing = {}
    for one in submissions:
        if store.get(one.unit.key) is None:
            missing.setdefault(one.unit.key, []).append(one)
        else:
            progress()
    futures = {
        executor.submit(run_unit, ones[0].unit.request, tier): ones for ones in missing.values()
    }
    for future in as_completed(futures):
        ones = futures[future]
        try:
            store.put(ones[0].unit.key, future.result())
        except Exception as error:  # whatever an executor's worker died of
            for one in ones:
                one.reason = f"It could not be run: {error}"
        for one in ones:
            one.ran = True
            progress()


def judge(submissions, store, chapter):
    """Judge every submission whose result the store holds. Runs nobody's code."""
    for one in submissions:
        data = store.get(one.unit.key)
        if data is not None:
            one.graded = judged(one.unit, chapter, data)
        elif not one.reason:
            one.reason = "It has not been run yet."


def records(submissions, chapter, points):
    """One dict a student and exercise: all that a report or an export may want."""
    rows = []
    for one in submissions:
        if one.graded is None:
            rows.append({"student": one.student, "chapter": chapter.name, "reason": one.reason})
            continue
        result = one.graded.result
        common = {
            "student": one.student,
            "chapter": chapter.name,
            "hash": one.unit.key,
            "tier": result.tier,
            "repairs": one.graded.repairs,
            "reason": one.reason,
        }
        for name, verdict in one.graded.verdicts.items():
            seconds = sum(c.seconds for c in result.cells if c.grade_id == name)
            rows.append(
                common
                | {
                    "exercise": name,
                    "score": verdict.score * points[name],
                    "maximum": points[name],
                    "passed": verdict.passed,
                    "mistake": verdict.mistake,
                    "message": verdict.message,
                    "seed": one.unit.seeds[name],
                    "seconds": round(seconds, 3),
                }
            )
    return rows
