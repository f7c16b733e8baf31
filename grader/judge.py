"""Answers + reference -> verdict; `judge` alone also collects the answers, in this process."""

import functools
import inspect
from dataclasses import dataclass, field

import numpy as np

from grader import card, compare, exercises
from utils.cases import Answer, Case
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


@dataclass(frozen=True, eq=False)
class Fault:
    """What is wrong with one answer: its name, and a sentence about what came back."""

    name: str | None
    sentence: str
    evidence: tuple | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """One case with its answer, the wanted answer, and the fault found, if any."""

    case: Case
    answer: Answer
    wanted: Answer
    fault: Fault | None


def judge(exercise_id, candidate, seed=0, hidden=False, failed=()):
    """Collect a candidate's answers in this process and judge them.

    `candidate` is what the exercise asks for; `failed` holds the ids of
    exercises known to fail, so that the verdict can send the reader there
    first. With `hidden` the message never shows an input or a number.
    Raises LookupError, naming the nearest ids, for an unknown exercise.
    """
    exercise = exercises.find(exercise_id)
    answers = collect(exercise.cases(seed, hidden), candidate)
    return verdict(exercise, answers, seed, hidden, failed)


def verdict(exercise, answers, seed=0, hidden=False, failed=()):
    """The verdict on answers to the exercise's cases of this seed, wherever they were collected."""
    if not answers:
        return _no_answer(exercise, failed)
    outcomes = _outcomes(exercise, answers, seed, hidden)
    groups, traces = _groups(exercise, outcomes)
    partial = groups[exercise.groups[0]] and not exercise.all_or_nothing
    score = sum(groups.values()) / len(groups) if partial else 0.0
    if all(groups.values()):
        message = _praise(exercise, outcomes, groups)
        return Verdict(exercise.id, True, 1.0, None, message, groups)
    name, message, evidence = _diagnosis(exercise, outcomes, traces, hidden)
    if name != "not_written":
        message = _mend_first(exercise, failed) + message
    evidence = None if hidden else evidence
    return Verdict(exercise.id, False, score, name, message, groups, evidence)


def _no_answer(exercise, failed):
    groups = {group: False for group in exercise.groups if group not in exercise.remarks}
    message = f"No answer arrived: the cell did not get as far as its check of {exercise.id}."
    message = _mend_first(exercise, failed) + message
    return Verdict(exercise.id, False, 0.0, "no_answer", message, groups)


def _mend_first(exercise, failed):
    first = [name for name in exercise.builds_on if name in failed]
    return f"Mend {first[0]} first, which this builds on. " if first else ""


# ---- from answers to outcomes ------------------------------------------------------------


def _outcomes(exercise, answers, seed, hidden):
    by_name = {answer.case: answer for answer in answers}
    outcomes = []
    for case, wanted in zip(*_wanted(exercise.id, seed, hidden), strict=True):
        answer = by_name.get(case.name, Answer(case.name, "not run"))
        outcomes.append(Outcome(case, answer, wanted, _fault(exercise, case, answer, wanted)))
    return outcomes


@functools.lru_cache(maxsize=64)
def _wanted(exercise_id, seed, hidden):
    exercise = exercises.find(exercise_id)
    cases = exercise.cases(seed, hidden)
    with np.errstate(all="ignore"):
        return cases, collect(cases, exercise.reference, twice=False)


def _fault(exercise, case, answer, wanted):
    """What is wrong with this answer's value or exception, or None."""
    match answer.status, wanted.status:
        case "raised", "raised" if wanted.errors[0] in answer.errors:
            return None
        case "returned", "raised":
            came = compare.describe(answer.value)
            return Fault(
                "raises_nothing", f"wanted is a {wanted.errors[0]}; what came back is {came}"
            )
        case "returned", _:
            return _value_fault(exercise, case, answer.value, wanted.value)
    return _status_fault(exercise, answer)


def _status_fault(exercise, answer):
    match answer.status:
        case "raised" if answer.errors[0] == "NotImplementedError":
            return Fault("not_written", "Not written yet: replace the line that raises.")
        case "raised":
            at = f" (at `{answer.line}`)" if answer.line else ""
            text = f": {answer.message}" if answer.message else ""
            return Fault("raises", f"{answer.errors[0]}{text}{at}")
        case "too slow":
            return Fault("never_returns", "no result after 5 seconds: does a loop never end?")
        case "not callable":
            came = compare.describe(answer.value)
            return Fault("not_callable", f"a function is wanted; what was handed in is {came}")
    return Fault("not_run", "this case was not run, because one before it was too slow")


def _value_fault(exercise, case, value, wanted):
    if case.drive == "value" and value is None:
        return Fault("not_written", "Not filled in yet.")
    try:
        if exercise.accept:
            complaint = exercise.accept(case, value, wanted)
            return complaint and Fault(complaint.name, complaint.sentence)
        value = compare.conform(value, wanted)
    except compare.Misfit as misfit:
        return Fault(misfit.name, misfit.sentence)
    if compare.close(value, wanted, exercise.within):
        return None
    evidence = _evidence(value, wanted, exercise.within)
    if evidence and np.isnan(evidence[0]).any():
        return Fault("nan", "the result holds NaN", evidence)
    for law in exercise.laws:
        if not law.holds(case, value):
            return Fault(law.name, law.advice, evidence)
    if evidence is None:
        return Fault(None, f"what came back is {value!r}; wanted is {wanted!r}")
    return _difference(*evidence, exercise.within)


def _difference(yours, right, within):
    """The first row that is wrong, beside the right one."""
    row = int(np.argmin(compare.agree(yours, right, within).all(axis=-1)))
    where = f"row {row} of yours" if len(right) > 1 else "yours"
    sentence = f"{where} is {_numbers(yours[row])}; wanted is {_numbers(right[row])}"
    return Fault(None, sentence, (yours, right))


def _evidence(value, wanted, within):
    """The first pair of matrices that differ, as (yours, wanted) floats with two axes."""
    if isinstance(wanted, tuple):
        pairs = (_evidence(v, w, within) for v, w in zip(value, wanted, strict=True))
        return next((pair for pair in pairs if pair), None)
    if not isinstance(wanted, compare.NUMBER) or compare.close(value, wanted, within):
        return None
    wanted = np.atleast_2d(np.asarray(wanted, dtype=np.float64))
    value = np.asarray(value, dtype=np.float64).reshape(wanted.shape)
    flat = [m.reshape(-1, *wanted.shape[-2:]) for m in (value, wanted)]
    return next((v, w) for v, w in zip(*flat, strict=True) if not compare.close(v, w, within))


def _numbers(row):
    shown = ", ".join(f"{x:.4g}" for x in row[:6])
    return f"[{shown}{', ...' if len(row) > 6 else ''}]"


# ---- from outcomes to groups, score and words ------------------------------------------------


def _groups(exercise, outcomes):
    """{group: passes} and the outcomes that left a trace behind them."""
    groups = {g: True for g in exercise.groups if g not in exercise.remarks}
    for outcome in outcomes:
        if outcome.fault and outcome.case.group in groups:
            groups[outcome.case.group] = False
    traces = [o for o in outcomes if o.fault is None and _left_trace(exercise, o)]
    if any(outcome.case.drive == "call" for outcome in outcomes):
        groups[NO_TRACE] = not traces and groups[exercise.groups[0]]
    return groups, traces


def _left_trace(exercise, outcome):
    answer = outcome.answer
    if answer.status != "returned":
        return False
    twice = answer.again is None or compare.alike(answer.again, answer.value, exercise.within)
    return bool(answer.changed) or not twice


def _praise(exercise, outcomes, groups):
    count = "It is right." if len(groups) == 1 else f"All {len(groups)} groups pass."
    remarked = [o.case.group for o in outcomes if o.fault and o.case.group in exercise.remarks]
    return f"{count} {exercise.remarks[remarked[0]]}" if remarked else count


def _diagnosis(exercise, outcomes, traces, hidden):
    """(name, message, evidence) for answers that do not pass."""
    order = [group for group in exercise.groups if group not in exercise.remarks]
    faulty = [o for g in order for o in outcomes if o.fault and o.case.group == g]
    if not faulty:
        return _trace_words(exercise, traces[0])
    first = faulty[0]
    if first.fault.name in ("not_written", "never_returns", "not_callable"):
        return first.fault.name, _sentence(first.fault.sentence), None
    mistake = _fingerprint(exercise, outcomes, faulty)
    if mistake:
        return mistake.name, mistake.advice, first.fault.evidence
    return first.fault.name, _words(exercise, first, hidden), first.fault.evidence


def _trace_words(exercise, outcome):
    changed = outcome.answer.changed
    if changed:
        names = ", ".join(_argument_name(exercise, index) for index in changed)
        return (
            "changes_inputs",
            f"The values are right, but the call changes its caller's {names}. "
            "Work on a copy: `x = x - m` makes a new array, `x -= m` writes into the old one.",
            None,
        )
    return (
        "not_repeatable",
        "A second call with the same arguments gives another result: "
        "something is kept from one call to the next, or drawn at random.",
        None,
    )


def _argument_name(exercise, index):
    names = list(inspect.signature(exercise.reference).parameters)
    return names[int(index)] if index.isdigit() and int(index) < len(names) else index


def _fingerprint(exercise, outcomes, faulty):
    """The mistake that explains all that is wrong in the first group that fails, or None.

    It may not be wrong where these answers are right. Of several the one that
    explains the most cases is taken; what it does not explain has another cause.
    """
    group = faulty[0].case.group
    first = [o for o in faulty if o.case.group == group]
    rest = [o for o in outcomes if o not in first and o.case.group not in exercise.remarks]
    best, most = None, 0
    for mistake in exercise.mistakes:
        if not all(_shows(exercise, mistake, outcome) for outcome in first):
            continue
        shown = [_shows(exercise, mistake, outcome) for outcome in rest]
        if None not in shown and len(first) + sum(shown) > most:
            best, most = mistake, len(first) + sum(shown)
    return best


def _shows(exercise, mistake, outcome):
    """Does the answer show what the mistake does in this case?

    True where both are wrong in the same way; None where the mistake is wrong
    and the answer right, which clears it; False where nothing can be said.
    """
    with np.errstate(all="ignore"):
        (wrong,) = collect([outcome.case], mistake.candidate, twice=False)
    if not _fault(exercise, outcome.case, wrong, outcome.wanted):
        return False
    if not outcome.fault:
        return None
    return same(outcome.answer, wrong, exercise.within)


def same(answer, other, within=compare.USUAL):
    """Are two answers to one case the same, right or wrong?"""
    if answer.status != other.status:
        return False
    if answer.status == "raised":
        return answer.errors[0] == other.errors[0]
    return answer.status != "returned" or compare.alike(answer.value, other.value, within)


def _words(exercise, outcome, hidden):
    """What to say of a fault that no named mistake explains: where, what, and a hint."""
    hint = exercise.hints.get(outcome.case.group, "")
    hint = f" {hint}" if hint else ""
    fault = outcome.fault
    if hidden and fault.name is None:
        return f"Wrong values in “{outcome.case.group}”.{hint}"
    if hidden and fault.name == "raises":
        return f"{outcome.answer.errors[0]} in “{outcome.case.group}”.{hint}"
    where = outcome.case.group if hidden else _inputs(exercise, outcome.case)
    return f"{where}: {_sentence(fault.sentence, capital=False)}{hint}"


def _sentence(text, capital=True):
    text = text[0].upper() + text[1:] if capital else text
    return text if text.endswith((".", "?")) else text + "."


def _inputs(exercise, case):
    """The case in words: "batch, with query (3, 4), keys (5, 4)"."""
    if case.drive == "value":
        return case.group.capitalize()
    named = [(_argument_name(exercise, str(i)), arg) for i, arg in enumerate(case.args)]
    shown = ", ".join(_argument(name, arg) for name, arg in [*named, *case.kwargs.items()])
    return f"{case.group.capitalize()}, with {shown}"


def _argument(name, arg):
    if isinstance(arg, np.ndarray):
        return f"{name} of shape {arg.shape}"
    text = repr(arg)
    return f"{name}={text}" if len(text) <= 40 else f"{name}={text[:37]}..."
