"""Answers + reference -> verdict; `judge` alone also collects the answers, in this process."""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from grader import card, compare, exercises
from grader.diagnosis import Outcome, diagnose
from grader.exercise import Fault
from grader.faults import find_fault
from utils.cases import Answer
from utils.check import collect

NO_TRACE = "inputs unchanged, same result twice"


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """What the judge found.

    `score` is in [0, 1]: the share of groups that pass, and 0 while the first
    group, the ordinary use, does not. `mistake` is the name of what went
    wrong, where it has one. `evidence` is a (yours, wanted) pair of matrices
    to look at, or None.
    """

    exercise: str
    passed: bool
    score: float
    mistake: str | None
    message: str
    groups: dict = field(default_factory=dict)
    evidence: tuple | None = None

    def _repr_html_(self):
        return card.html(self)

    def __repr__(self):
        return card.text(self)


def judge(exercise_id, candidate, seed=0, hidden=False, failed=()):
    """Collect a candidate's answers in this process and judge them.

    `candidate` is what the exercise asks for; `failed` holds the ids of
    exercises known to fail, so that the verdict can send the reader there
    first. With `hidden` the message never shows an input or a number.
    Raises LookupError, naming the nearest ids, for an unknown exercise.
    """
    exercise = exercises.find(exercise_id)
    cases = exercise.cases(seed, hidden)
    return verdict(exercise, cases, collect(cases, candidate), hidden, failed)


def verdict(exercise, cases, answers, hidden=False, failed=(), stopped=""):
    """The verdict on answers to these cases of the exercise, wherever they were collected.

    `stopped` says, where it is known, what kept answers from coming.
    """
    if not answers:
        return _no_answer(exercise, failed, stopped)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _verdict(exercise, cases, answers, hidden, failed)


def _verdict(exercise, cases, answers, hidden, failed):
    outcomes = _outcomes(exercise, cases, answers)
    groups, traces = _groups(exercise, outcomes)
    partial = groups[exercise.groups[0]] and not exercise.all_or_nothing
    score = sum(groups.values()) / len(groups) if partial else 0.0
    if all(groups.values()):
        message = _praise(exercise, outcomes, groups)
        return Verdict(exercise.id, True, 1.0, None, message, groups)
    name, message, evidence = diagnose(exercise, outcomes, traces, hidden)
    if name in {mistake.name for mistake in exercise.mistakes}:
        message += _builds_on(exercise, failed)
    elif name != "not_written":
        message = _mend_first(exercise, failed) + message
    evidence = None if hidden else evidence
    return Verdict(exercise.id, False, score, name, message, groups, evidence)


def _no_answer(exercise, failed, stopped):
    groups = {group: False for group in exercise.groups if group not in exercise.remarks}
    why = stopped or f"the notebook did not get as far as its check of {exercise.id}."
    message = f"{_mend_first(exercise, failed)}No answer arrived: {why}"
    return Verdict(exercise.id, False, 0.0, "no_answer", message, groups)


def _mend_first(exercise, failed):
    first = [name for name in exercise.builds_on if name in failed]
    return f"Mend {first[0]} first, which this builds on. " if first else ""


def _builds_on(exercise, failed):
    also = [name for name in exercise.builds_on if name in failed]
    return f" ({also[0]}, which this builds on, does not pass yet either.)" if also else ""


# ---- from answers to outcomes ------------------------------------------------------------


def _outcomes(exercise, cases, answers):
    by_name = {answer.case: answer for answer in answers}
    outcomes = []
    for case, wanted in zip(cases, collect(cases, exercise.reference, watch=False), strict=True):
        answer = by_name.get(case.name, Answer(case.name, "not run"))
        outcomes.append(Outcome(case, answer, wanted, find_fault(exercise, case, answer, wanted)))
    for law in exercise.together:
        outcomes = _taken_together(law, outcomes)
    return outcomes


def _taken_together(law, outcomes):
    """The outcomes, with a fault in those of the law's group if they break it together."""
    group = [o for o in outcomes if o.case.group == law.group]
    if any(o.fault for o in group):
        return outcomes
    if law.holds([o.case for o in group], [o.answer.value for o in group]):
        return outcomes
    fault = Fault(law.name, law.advice, alone=True, hint="")
    return [replace(o, fault=fault) if o in group else o for o in outcomes]


# ---- from outcomes to groups, score and words ------------------------------------------------


def _groups(exercise, outcomes):
    """{group: passes} and the outcomes that left a trace behind them."""
    groups = {g: True for g in exercise.groups if g not in exercise.remarks}
    for outcome in outcomes:
        if outcome.fault and outcome.case.group in groups:
            groups[outcome.case.group] = False
    traces = [o for o in outcomes if o.fault is None and _left_trace(exercise, o)]
    if groups[exercise.groups[0]] and any(o.case.drive == "call" for o in outcomes):
        groups[NO_TRACE] = not traces
    return groups, traces


def _left_trace(exercise, outcome):
    answer = outcome.answer
    twice = answer.again is None or compare.alike(answer.again, answer.value, exercise.within)
    return bool(answer.changed) or not twice


def _praise(exercise, outcomes, groups):
    count = "It is right." if len(groups) == 1 else f"All {len(groups)} groups pass."
    remarked = [o.case.group for o in outcomes if o.fault and o.case.group in exercise.remarks]
    return f"{count} {exercise.remarks[remarked[0]]}" if remarked else count
