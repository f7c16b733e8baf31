"""A class: every submission of a chapter, run in parallel and judged."""

import hashlib
import json
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from grader import course_files, exercises, sandbox, tiers, workers
from grader.grade import judged, make_unit, run_unit, unpack_result, with_outputs
from grader.normalise import Unreadable, grade_id
from grader.store import Store, write_whole
from utils.chapters import Chapter


@dataclass
class Finished:
    """What the gradebook and a report are made of; small, and plain data.

    `scores` has the points of each graded cell, None where a person has to
    mark it; `unanswered` names written answers that were left as released.
    """

    scores: dict = field(default_factory=dict)
    unanswered: list = field(default_factory=list)
    rows: list = field(default_factory=list)


@dataclass
class Submission:
    """One student's notebook. `reason` says why it could not be read or run, "" where it could."""

    student: str
    path: Path
    finished: Finished | None = None
    reason: str = ""


def find(folder, chapter):
    """The submissions of a chapter in nbgrader's layout, by student."""
    paths = sorted(Path(folder).glob(f"*/{chapter.name}/{chapter.name}.ipynb"))
    return [Submission(path.parent.parent.name, path) for path in paths]


@dataclass(frozen=True)
class Run:
    """How a class is graded.

    `pool` prepares and judges, `executor` runs the units: the same, or many
    machines, or None where only what has been run before is to be judged.
    `trusted` submissions run without walls, too; `isolated` results are
    wanted where one that ran without walls is to be run again.
    """

    chapter: Chapter
    root: Path
    store: Store
    pool: Executor
    executor: Executor | None
    pages: Path  # nbgrader's autograded folder
    trusted: bool = False
    isolated: bool = False

    def grade(self, submissions, at_a_time, progress=lambda: None):
        """Grade all, so many at a time; `progress` is called after each.

        What cannot be read is graded as an empty notebook, what cannot be run
        gets its reason, and the others go on. Raises WorkerFailed, and tries
        no more, where nothing can be run at all.
        """
        with ThreadPoolExecutor(at_a_time) as threads:
            try:
                for done in as_completed([threads.submit(self._grade, one) for one in submissions]):
                    done.result()
                    progress()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _grade(self, one):
        """Prepare, run unless that was done before, judge."""
        task = (_prepare, one.path, self.chapter, self.root)
        unit, one.reason, digest = self.pool.submit(*task).result()
        data = self._result_of(one, unit)
        if data is None:
            return
        page = self.pages / one.student / self.chapter.name / one.path.name
        task = (_finish, unit, data, self.chapter, self.root, page)
        one.finished = self.pool.submit(*task).result()
        for row in one.finished.rows:
            row.update(student=one.student, reason=one.reason, sha256=digest)

    def _result_of(self, one, unit):
        """The bytes of the unit's result; None, with a reason, where there is none to be had."""
        data = self.store.get(unit.key)
        if data and not (self.isolated and unpack_result(data).tier == tiers.Plain.name):
            return data
        if self.executor is None:
            one.reason = "It has not been run yet."
            return None
        try:
            data = self.executor.submit(run_for_others, unit.request, self.trusted).result()
        except workers.WorkerFailed:
            raise
        except Exception as error:  # whatever an executor's worker died of
            one.reason = f"It could not be run: {error}"
            return None
        self.store.put(unit.key, data)
        return data


def get_ready(chapter):
    """What a process of a pool may do before there is work: its imports, and start a worker."""
    tier = tiers.best()
    if tier.forks:
        files = sandbox.staged_files([e.id for e in exercises.of_chapter(chapter.concept)])
        with workers.lent(tier, files, []) as worker:
            worker.ended_well = True


def run_for_others(request, trusted):
    """Run a unit, wherever this is, behind the walls of the machine it is on."""
    return run_unit(request, tiers.for_others(trusted))


def _prepare(path, chapter, root):
    """(unit, reason, SHA-256 of the file); what cannot be read gets a reason and an empty unit."""
    released, secret = course_files.released(chapter, root), course_files.secret(root)
    submitted = b""
    try:
        submitted = path.read_bytes()
        return make_unit(submitted, chapter, released, secret), "", _sha256(submitted)
    except (OSError, Unreadable) as error:
        note = {"cell_type": "markdown", "metadata": {}, "source": str(error)}
        empty = json.dumps({"cells": [note]}).encode()
        return make_unit(empty, chapter, released, secret), str(error), _sha256(submitted)


def _sha256(data):
    return hashlib.sha256(data).hexdigest()


def _finish(unit, data, chapter, root, page):
    """Judge a result and write the notebook that feedback is made of."""
    graded, released = judged(unit, chapter, data), course_files.released(chapter, root)
    worth = course_files.points(released)
    scores = {name: verdict.score * worth[name] for name, verdict in graded.verdicts.items()}
    sources = {grade_id(cell): cell["source"] for cell in graded.notebook["cells"]}
    unanswered = []
    for cell in released["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        if meta.get("solution") and sources[meta["grade_id"]] == cell["source"]:
            unanswered.append(meta["grade_id"])
        if meta.get("solution") and meta.get("grade"):
            scores[meta["grade_id"]] = 0.0 if meta["grade_id"] in unanswered else None
    shown = json.dumps(with_outputs(graded), indent=1, ensure_ascii=False).encode()
    if not page.exists() or page.read_bytes() != shown:
        write_whole(page, shown)
    return Finished(scores, unanswered, _rows(unit, graded, chapter, worth))


def _rows(unit, graded, chapter, worth):
    """One dict an exercise: all that a report or an export may want, but whose it is."""
    common = {
        "chapter": chapter.name,
        "hash": unit.key,
        "tier": graded.result.tier,
        "repairs": graded.repairs,
    }
    seconds = dict.fromkeys(worth, 0.0)
    for report in graded.result.cells:
        name = report.grade_id.removesuffix("_solution")
        if name in seconds:
            seconds[name] += report.seconds
    return [
        common
        | {
            "exercise": name,
            "score": verdict.score * worth[name],
            "maximum": worth[name],
            "passed": verdict.passed,
            "mistake": verdict.mistake,
            "message": verdict.message,
            "seed": unit.seeds[name],
            "seconds": round(seconds[name], 3),
        }
        for name, verdict in graded.verdicts.items()
    ]


def records(submissions, chapter):
    """The rows of all; of a submission that was not graded, one row with the reason."""
    rows = []
    for one in submissions:
        missing = {"student": one.student, "chapter": chapter.name, "reason": one.reason}
        rows += one.finished.rows if one.finished else [missing]
    return rows
