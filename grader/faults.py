"""What is wrong with one answer: its name, and a sentence about what came back."""

import numpy as np

from grader import compare, exercises
from grader.exercise import Fault
from utils.wire import Other

LATE = "no result after 5 seconds: does a loop never end, or is more computed than was asked for?"


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
            return exercise.accept(case, value, wanted)
        fault = _compared_fault(exercise, case, value, compare.arrays(wanted))
    except compare.Misfit as misfit:
        return Fault(misfit.name, misfit.sentence)
    return exercise.form(case, value) if exercise.form and fault is None else fault


def _compared_fault(exercise, case, value, wanted):
    if isinstance(wanted, tuple) and exercise.results:
        return _parts_fault(exercise, case, value, wanted)
    return _conformed_fault(exercise, case, compare.conform(value, wanted), wanted)


def _parts_fault(exercise, case, value, wanted):
    """The first fault of a tuple's parts, told by the part's name: "weights: the shape is ..."."""
    parts = []
    for name, part, right in zip(
        exercise.results, compare.items(value, wanted), wanted, strict=True
    ):
        try:
            parts.append(compare.conform(part, right))
        except compare.Misfit as misfit:
            return Fault(misfit.name, f"{name}: {misfit.sentence}")
    value = tuple(parts)
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
    differing = _differing(value, wanted, exercise.within)
    evidence = differing and differing[:2]
    if evidence and np.isnan(evidence[0]).any():
        return Fault("nan", "the result holds NaN", evidence)
    for law in exercise.laws:
        if not law.holds(case, value):
            return Fault(law.name, law.advice, evidence)
    if evidence is None:
        return Fault(None, f"what came back is {value!r}; wanted is {wanted!r}")
    return Fault(None, _difference(*differing), evidence)


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


def _difference(yours, right, agreed):
    """The first row that is wrong, beside the right one."""
    row = int(np.argmin(agreed.all(axis=-1)))
    column = int(np.argmin(agreed[row]))
    where = f"row {row} of yours" if len(right) > 1 else "yours"
    for digits in (4, 8, 12):  # as many as it takes to tell the two apart
        came, should = (_numbers(matrix[row], column, digits) for matrix in (yours, right))
        if came != should:
            break
    return f"{where} is {came}; wanted is {should}"


def _differing(value, wanted, within):
    """The first pair of matrices that differ: (yours, wanted, where they agree), two axes each."""
    if isinstance(wanted, tuple):
        pairs = (_differing(v, w, within) for v, w in zip(value, wanted, strict=True))
        return next((pair for pair in pairs if pair), None)
    if not isinstance(wanted, compare.NUMBER) or compare.close(value, wanted, within):
        return None
    agreed = compare.agree(value, wanted, within)
    both = (np.asarray(value), np.asarray(wanted))
    kind = bool if all(array.dtype.kind == "b" for array in both) else np.float64
    # Added to False, -0.0 becomes 0.0 and a boolean stays one.
    value, wanted = (array.astype(kind) + np.False_ for array in both)
    arrays = [np.atleast_2d(array) for array in (value, wanted, agreed)]
    matrices = [array.reshape(-1, *array.shape[-2:]) for array in arrays]
    return next(trio for trio in zip(*matrices, strict=True) if not trio[2].all())


def _numbers(row, column, digits):
    """Some numbers of a row, that of the column among them."""
    numbers = [f"{float(x):.{digits}g}" for x in row]
    if len(row) == 1:
        return numbers[0]
    start = max(0, column - 2) if column >= 6 else 0
    dots = ["..."] * (start > 0), ["..."] * (len(row) > start + 6)
    return f"[{', '.join([*dots[0], *numbers[start : start + 6], *dots[1]])}]"
