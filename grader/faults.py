"""What is wrong with one answer: its name, and a sentence about what came back."""

from dataclasses import dataclass

import numpy as np

from grader import compare, exercises
from utils.wire import Other

LATE = "no result after 5 seconds: does a loop never end, or is more computed than was asked for?"


@dataclass(frozen=True, eq=False)
class Fault:
    """What is wrong with one answer: its name, and a sentence about what came back."""

    name: str | None
    sentence: str
    evidence: tuple | None = None
    alone: bool = False  # as in a Complaint, and so is the hint
    hint: str | None = None


def find_fault(exercise, case, answer, wanted):
    """What is wrong with this answer's value or exception, or None."""
    match answer.status, wanted.status:
        case "raised", "raised" if wanted.errors[0] in answer.errors:
            return None
        case "returned", "raised" if _is_exception(answer.value, wanted):
            return Fault("returns_exception", f"{wanted.errors[0]} is returned: `raise` it instead")
        case "returned", "raised":
            came = compare.describe(answer.value)
            return Fault(
                "raises_nothing", f"wanted is a {wanted.errors[0]}; what came back is {came}"
            )
        case "returned", _:
            return _value_fault(exercise, case, answer.value, wanted.value)
    return _status_fault(exercise, answer)


def _is_exception(value, wanted):
    return isinstance(value, Other) and value.type == wanted.errors[0]


def _status_fault(exercise, answer):
    match answer.status:
        case "raised" if answer.errors[0] == "NotImplementedError" and not answer.message:
            return _unwritten(exercise, answer.raiser)
        case "raised":
            at = f" (at `{answer.line}`)" if answer.line else ""
            text = f": {answer.message}" if answer.message else ""
            return Fault("raises", f"{answer.errors[0]}{text}{at}")
        case "too slow":
            return Fault("never_returns", LATE)
        case "not callable":
            came = compare.describe(answer.value)
            return Fault("not_callable", f"a function is wanted; what was handed in is {came}")
    return Fault("not_run", "this case was not run, because one before it was too slow")


def _unwritten(exercise, raiser):
    if raiser != exercise.id and raiser in exercises.all_exercises():
        return Fault("calls_unwritten", f"It calls {raiser}, which is not written yet.")
    return Fault("not_written", "Not written yet: replace the line that raises.")


def _value_fault(exercise, case, value, wanted):
    if case.drive == "value" and value is None:
        return Fault("not_written", "Not filled in yet.")
    try:
        if exercise.accept:
            complaint = exercise.accept(case, value, wanted)
            return _complained(complaint)
        fault = _compared_fault(exercise, case, value, compare.arrays(wanted))
    except compare.Misfit as misfit:
        return Fault(misfit.name, misfit.sentence)
    return _complained(exercise.form(case, value)) if exercise.form and fault is None else fault


def _complained(complaint):
    return complaint and Fault(
        complaint.name, complaint.sentence, alone=complaint.alone, hint=complaint.hint
    )


def _compared_fault(exercise, case, value, wanted):
    if isinstance(wanted, tuple) and exercise.results:
        return _parts_fault(exercise, case, value, wanted)
    return _conformed_fault(exercise, case, compare.conform(value, wanted), wanted)


def _parts_fault(exercise, case, value, wanted):
    """The first fault of a tuple's parts, told by the part's name: "weights: the shape is ..."."""
    parts = compare.items(value, wanted)
    for name, part, right in zip(exercise.results, parts, wanted, strict=True):
        try:
            part = compare.conform(part, right)
        except compare.Misfit as misfit:
            return Fault(misfit.name, f"{name}: {misfit.sentence}")
    value = compare.conform(value, wanted)
    fault = _conformed_fault(exercise, case, value, wanted)
    if (
        fault is None
        or fault.evidence is None
        or any(fault.name == law.name for law in exercise.laws)
    ):
        return fault
    wrong = next(
        name
        for name, part, right in zip(exercise.results, value, wanted, strict=True)
        if not compare.close(part, right, exercise.within)
    )
    return Fault(fault.name, f"{wrong}: {fault.sentence}", fault.evidence)


def _conformed_fault(exercise, case, value, wanted):
    for law in exercise.laws:
        if law.to_the_last_bit and not law.holds(case, value):
            return Fault(law.name, law.advice)
    if compare.close(value, wanted, exercise.within):
        return None
    if case.drive == "value":
        return _typed_fault(np.ravel(value), np.ravel(wanted), exercise.within)
    evidence = _evidence(value, wanted, exercise.within)
    if evidence and np.isnan(evidence[0]).any():
        return Fault("nan", "the result holds NaN", evidence)
    for law in exercise.laws:
        if not law.holds(case, value):
            return Fault(law.name, law.advice, evidence)
    if evidence is None:
        return Fault(None, f"what came back is {value!r}; wanted is {wanted!r}")
    return _difference(*evidence, exercise.within)


def _typed_fault(yours, right, within):
    """What is wrong with numbers typed by hand, without saying what they should be."""
    if np.isnan(yours).any():
        return Fault("nan", "NaN is no number to type")
    if compare.close(np.sort(yours), np.sort(right), within):
        return Fault("other_order", "these are the right numbers in another order")
    if compare.close(np.round(yours / 100, 2), np.round(right, 2), within):
        return Fault("percentages", "these are percentages: the weights should sum to 1")
    wrong = int(np.argmin(compare.agree(yours, right, within)))
    way = "large" if yours[wrong] > right[wrong] else "small"
    return Fault(None, f"number {wrong + 1} is too {way}")


def _difference(yours, right, within):
    """The first row that is wrong, beside the right one."""
    row = int(np.argmin(compare.agree(yours, right, within).all(axis=-1)))
    where = f"row {row} of yours" if len(right) > 1 else "yours"
    for digits in (4, 8, 12):  # as many as it takes to tell the two apart
        came, should = _numbers(yours[row], digits), _numbers(right[row], digits)
        if came != should:
            break
    return Fault(None, f"{where} is {came}; wanted is {should}", (yours, right))


def _evidence(value, wanted, within):
    """The first pair of matrices that differ, as (yours, wanted), floats or booleans, two axes."""
    if isinstance(wanted, tuple):
        pairs = (_evidence(v, w, within) for v, w in zip(value, wanted, strict=True))
        return next((pair for pair in pairs if pair), None)
    if not isinstance(wanted, compare.NUMBER) or compare.close(value, wanted, within):
        return None
    both = (np.asarray(value), np.asarray(wanted))
    kind = bool if all(array.dtype.kind == "b" for array in both) else np.float64
    # Added to False, -0.0 becomes 0.0 and a boolean stays one.
    value, wanted = (np.atleast_2d(array.astype(kind) + np.False_) for array in both)
    flat = [m.reshape(-1, *wanted.shape[-2:]) for m in (value, wanted)]
    return next((v, w) for v, w in zip(*flat, strict=True) if not compare.close(v, w, within))


def _numbers(row, digits):
    if len(row) == 1:
        return f"{float(row[0]):.{digits}g}"
    shown = ", ".join(f"{float(x):.{digits}g}" for x in row[:6])
    return f"[{shown}{', ...' if len(row) > 6 else ''}]"
