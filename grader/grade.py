"""One submission, from its bytes to verdicts: normalise, run, judge."""

import hashlib
import hmac
import json
from dataclasses import dataclass, field

from grader import exercises, judge, sandbox
from grader.normalise import Unreadable, normalise


@dataclass
class Graded:
    """What came of one submission; `verdicts` and `seeds` go by exercise id."""

    notebook: dict = field(default_factory=dict)
    verdicts: dict = field(default_factory=dict)
    seeds: dict = field(default_factory=dict)
    repairs: list = field(default_factory=list)
    result: sandbox.Result | None = None


def grade(submitted, chapter, released, secret, limits=None, tier=None):
    """Grade the bytes of a submitted notebook of this chapter, behind the walls of `tier`.

    `released` is the student notebook as handed out. Raises Unreadable.
    """
    notebook, repairs = normalise(submitted, released)
    text = json.dumps(notebook, sort_keys=True).encode()
    listed = exercises.of_chapter(chapter.concept)
    seeds = {e.id: hidden_seed(secret, text, e.id) for e in listed}
    cases = {e.id: e.cases(seeds[e.id], hidden=True) for e in listed}
    result = sandbox.run_submission(text, cases, limits, tier)
    if result.status == "unreadable":
        raise Unreadable(result.message)
    return Graded(notebook, judge_all(listed, result, seeds), seeds, repairs, result)


def judge_all(listed, result, seeds):
    """{exercise id: Verdict}, each knowing which of those it builds on have failed."""
    verdicts, failed = {}, set()
    for exercise in listed:
        answers, stopped = result.answers.get(exercise.id, []), _stopped(exercise.id, result.cells)
        verdict = judge.verdict(exercise, answers, seeds[exercise.id], True, failed, stopped)
        verdicts[exercise.id] = verdict
        if not verdict.passed:
            failed.add(exercise.id)
    return verdicts


def _stopped(exercise_id, reports):
    """What the exercise's own cells ended with, in words; "" where they ended well."""
    for report in reports:
        if report.grade_id in (f"{exercise_id}_solution", exercise_id):
            for output in report.outputs:
                if output["output_type"] == "error":
                    which = "its check" if report.grade_id == exercise_id else "your cell"
                    return f"{which} stopped with {output['ename']}: {output['evalue']}"
    return ""


def hidden_seed(secret, notebook_text, exercise_id):
    """The seed of an exercise's hidden cases: the same notebook always gets the same ones."""
    digest = hashlib.sha256(notebook_text).digest()
    return hmac.new(secret, digest + exercise_id.encode(), hashlib.sha256).hexdigest()
