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


def grade(submitted, chapter, released, secret, limits=None):
    """Grade the bytes of a submitted notebook of this chapter.

    `released` is the student notebook as handed out. Raises Unreadable.
    """
    notebook, repairs = normalise(submitted, released)
    text = json.dumps(notebook, sort_keys=True).encode()
    listed = exercises.of_chapter(chapter.concept)
    seeds = {e.id: hidden_seed(secret, text, e.id) for e in listed}
    cases = {e.id: e.cases(seeds[e.id], hidden=True) for e in listed}
    result = sandbox.run_submission(text, cases, limits)
    if result.status == "unreadable":
        raise Unreadable(result.message)
    return Graded(notebook, judge_all(listed, result.answers, seeds), seeds, repairs, result)


def judge_all(listed, answers, seeds):
    """{exercise id: Verdict}, each knowing which of those it builds on have failed."""
    verdicts, failed = {}, set()
    for exercise in listed:
        answer = answers.get(exercise.id, [])
        verdict = judge.verdict(exercise, answer, seeds[exercise.id], hidden=True, failed=failed)
        verdicts[exercise.id] = verdict
        if not verdict.passed:
            failed.add(exercise.id)
    return verdicts


def hidden_seed(secret, notebook_text, exercise_id):
    """The seed of an exercise's hidden cases: the same notebook always gets the same ones."""
    digest = hashlib.sha256(notebook_text).digest()
    return hmac.new(secret, digest + exercise_id.encode(), hashlib.sha256).hexdigest()
