"""One submission, from its bytes to verdicts: normalise, run, judge.

The middle step is a unit of work of its own: bytes in, bytes out, the same each
time. So it can run anywhere, and its result can be kept and judged again.
"""

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, field

from grader import exercises, judge, sandbox
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
    result: sandbox.Result | None = None


@dataclass(frozen=True)
class Unit:
    """A submission made ready to run: what `run_unit` needs, and what its result is kept under."""

    notebook: dict
    repairs: list
    seeds: dict
    request: bytes

    @property
    def key(self):
        return hashlib.sha256(self.request).hexdigest()


def grade(submitted, chapter, released, secret, limits=None, tier=None):
    """Grade the bytes of a submitted notebook of this chapter, behind the walls of `tier`.

    `released` is the student notebook as handed out. Raises Unreadable.
    """
    unit = make_unit(submitted, chapter, released, secret, limits)
    return judged(unit, chapter, run_unit(unit.request, tier))


def make_unit(submitted, chapter, released, secret, limits=None):
    """Normalise a submission and draw its hidden cases. Raises Unreadable."""
    notebook, repairs = normalise(submitted, released)
    text = json.dumps(notebook, sort_keys=True).encode()
    listed = exercises.of_chapter(chapter.concept)
    seeds = {e.id: hidden_seed(secret, text, e.id) for e in listed}
    cases = {e.id: [c.to_wire() for c in e.cases(seeds[e.id], hidden=True)] for e in listed}
    request = wire.pack((text, cases, asdict(limits or sandbox.Limits())))
    return Unit(notebook, repairs, seeds, request)


def run_unit(request, tier=None):
    """The bytes of the Result of one unit's bytes: all that a worker, wherever it is, has to do."""
    text, cases, limits = wire.unpack(request, inputs=True)
    cases = {name: [Case.from_wire(case) for case in listed] for name, listed in cases.items()}
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
    reports = [sandbox.CellReport(**report) for report in json.loads(cells)]
    return sandbox.Result(status, message, answers, cells=reports, seconds=seconds, tier=tier)


def judged(unit, chapter, data):
    """The verdicts on a unit's result. Runs nobody's code."""
    result = unpack_result(data)
    if result.status == "unreadable":
        raise Unreadable(result.message)
    listed = exercises.of_chapter(chapter.concept)
    verdicts = judge_all(listed, result, unit.seeds)
    return Graded(unit.notebook, verdicts, unit.seeds, unit.repairs, result)


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
