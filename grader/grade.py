"""One submission, from its bytes to verdicts: normalise, run, judge.

The middle step is a unit of work of its own: bytes in, bytes out, the same each
time. So it can run anywhere, and its result can be kept and judged again.
"""

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, field

from grader import exercises, judge, sandbox
from grader.listening import CellReport, Result
from grader.normalise import Unreadable, normalise
from utils import wire
from utils.cases import Answer, Case


@dataclass
class Graded:
    """What came of one submission; `verdicts` and `seeds` go by exercise id."""

    notebook: dict = field(default_factory=dict)
    verdicts: dict = field(default_factory=dict)
    seeds: dict = field(default_factory=dict)
    repairs: list = field(default_factory=list)
    result: Result | None = None


@dataclass(frozen=True)
class Unit:
    """A submission made ready: `request` is what runs, `key` what its result is kept under."""

    notebook: dict
    repairs: list
    seeds: dict
    cases: dict  # exercise id -> [Case], as the judge knows them
    request: bytes

    @property
    def key(self):
        return hashlib.sha256(self.request).hexdigest()


def grade(submitted, chapter, released, secret, tier=None, store=None):
    """Grade the bytes of a submitted notebook of this chapter, behind the walls of `tier`.

    `released` is the student notebook as handed out. What `store` holds
    already is not run again. Raises Unreadable.
    """
    unit = make_unit(submitted, chapter, released, secret)
    data = store.get(unit.key) if store else None
    if data is None:
        data = run_unit(unit.request, tier)
        if store:
            store.put(unit.key, data)
    return judged(unit, chapter, data)


def make_unit(submitted, chapter, released, secret, limits=None):
    """Normalise a submission and draw its hidden cases. Raises Unreadable."""
    notebook, repairs = normalise(submitted, released)
    text = json.dumps(notebook, sort_keys=True).encode()
    listed = exercises.of_chapter(chapter.concept)
    seeds = {e.id: hidden_seed(secret, text, e.id) for e in listed}
    cases = {e.id: e.cases(seeds[e.id], hidden=True) for e in listed}
    inputs = {name: [case.to_wire() for case in made] for name, made in cases.items()}
    request = wire.pack((text, inputs, asdict(limits or sandbox.Limits())))
    return Unit(notebook, repairs, seeds, cases, request)


def run_unit(request, tier=None):
    """The bytes of the Result of one unit's bytes: all that a worker, wherever it is, has to do."""
    text, inputs, limits = wire.unpack(request, inputs=True)
    cases = {name: [Case.from_wire(case) for case in listed] for name, listed in inputs.items()}
    return pack_result(sandbox.run_submission(text, cases, sandbox.Limits(**limits), tier))


def pack_result(result):
    answers = {name: [a.to_wire() for a in listed] for name, listed in result.answers.items()}
    cells = json.dumps([asdict(report) for report in result.cells]).encode()
    head = (result.status, result.message, result.seconds, result.tier)
    return wire.pack((*head, answers, cells))


def unpack_result(data):
    *head, answers, cells = wire.unpack(data)
    status, message, seconds, tier = head
    answers = {name: [Answer.from_wire(a) for a in listed] for name, listed in answers.items()}
    reports = [CellReport(**report) for report in json.loads(cells)]
    return Result(status, message, answers, cells=reports, seconds=seconds, tier=tier)


def judged(unit, chapter, data):
    """The verdicts on a unit's result. Runs nobody's code."""
    result = unpack_result(data)
    if result.status == "unreadable":
        raise Unreadable(result.message)
    verdicts = judge_all(exercises.of_chapter(chapter.concept), result, unit.cases)
    return Graded(unit.notebook, verdicts, unit.seeds, unit.repairs, result)


def judge_all(listed, result, cases):
    """{exercise id: Verdict}, each knowing which of those it builds on have failed."""
    verdicts, failed = {}, set()
    for exercise in listed:
        answers, stopped = result.answers.get(exercise.id, []), _stopped(exercise.id, result.cells)
        verdict = judge.verdict(exercise, cases[exercise.id], answers, True, failed, stopped)
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


def with_outputs(graded):
    """The notebook with cards under the tests, and text and plots under the other cells."""
    cells = list(graded.notebook["cells"])
    for report in graded.result.cells:
        verdict = graded.verdicts.get(report.grade_id)
        outputs = [_card(verdict)] if verdict else report.outputs
        cells[report.index] = {**cells[report.index], "outputs": outputs}
    return {**graded.notebook, "cells": cells}


def _card(verdict):
    data = {"text/plain": repr(verdict), "text/html": verdict._repr_html_()}
    return {"output_type": "display_data", "data": data, "metadata": {}}
