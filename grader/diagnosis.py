"""Why answers fail, in words: a named mistake if one explains them, else the first fault."""

import builtins
import inspect
from dataclasses import dataclass

import numpy as np

from grader import compare
from grader.exercise import Fault
from grader.faults import find_fault
from utils.cases import Answer, Case
from utils.check import collect
from utils.wire import Code, Rng, as_array


@dataclass(frozen=True, eq=False)
class Outcome:
    """One case with its answer, the wanted answer, and the fault found, if any."""

    case: Case
    answer: Answer
    wanted: Answer
    fault: Fault | None


def diagnose(exercise, outcomes, traces, hidden):
    """(name, message, evidence) for answers that do not pass."""
    order = [group for group in exercise.groups if group not in exercise.remarks]
    faulty = [o for g in order for o in outcomes if o.fault and o.case.group == g]
    if not faulty:
        return _trace_words(exercise, traces[0])
    first = _plainest(exercise, faulty)
    if first.fault.name == "not_run":  # for the sake of one that never returned
        first = next((o for o in faulty if o.fault.name == "never_returns"), first)
    if first.fault.name in ("not_written", "calls_unwritten", "never_returns", "not_callable"):
        return first.fault.name, _sentence(first.fault.sentence), None
    if mistake := _fingerprint(exercise, outcomes, faulty):
        return mistake.name, mistake.advice, first.fault.evidence
    words = _words(exercise, first, hidden)
    if exercise.all_or_nothing and first.fault.alone:
        words += f" Of {len(outcomes)} it judges {len(outcomes) - len(faulty)} rightly."
    return first.fault.name, words, first.fault.evidence


def _plainest(exercise, faulty):
    """The outcome to speak of: the first, unless the exercise ranks the cases of a group."""
    if exercise.rank is None:
        return faulty[0]
    group = [o for o in faulty if o.case.group == faulty[0].case.group]
    return min(group, key=lambda outcome: exercise.rank(outcome.case))


def _trace_words(exercise, outcome):
    changed = outcome.answer.changed
    if changed:
        names = ", ".join(_argument_name(exercise, index) for index in changed)
        return (
            "changes_inputs",
            f"The values are right, but the call changes its caller's {names}. "
            "Work on a copy: `x = x - m` makes a new array, `x -= m` and `x[...] = 0` write into "
            "the old one.",
            None,
        )
    drawn = "something is kept from one call to the next, or drawn at random."
    if any(isinstance(arg, Rng) for arg in outcome.case.args):
        drawn = "draw from the generator that is handed in, and keep nothing between calls."
    words = f"A second call with the same arguments gives another result: {drawn}"
    return "not_repeatable", words, None


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
        (wrong,) = collect([outcome.case], mistake.candidate, watch=False)
    if outcome.fault and not _wrong_alike(outcome, wrong, exercise.within):
        return False
    if not find_fault(exercise, outcome.case, wrong, outcome.wanted):
        return False
    return True if outcome.fault else None


def _wrong_alike(outcome, wrong, within):
    """Is a faulty answer the same as this one, to the words of an uncalled-for exception?"""
    answer = outcome.answer
    if "raised" == wrong.status == answer.status and outcome.wanted.status != "raised":
        return (answer.errors[0], answer.message) == (wrong.errors[0], wrong.message)
    return same(answer, wrong, within)


def same(answer, other, within=compare.USUAL):
    """Are two answers to one case the same, right or wrong?"""
    if answer.status != other.status:
        return False
    if answer.status == "raised":
        return answer.errors[0] == other.errors[0]
    return answer.status != "returned" or compare.alike(answer.value, other.value, within)


# What a verdict on hidden cases says: nothing that came from an input or from the student's code.
HIDDEN = {
    "returns_none": "None comes back",
    "wrong_type": "Something of another kind comes back",
    "too_large": "Something far too large comes back",
    "wrong_shape": "The shape is wrong",
    "nan": "The result holds NaN",
    "raises_nothing": "An error should be raised, and none is",
    "returns_exception": "An error is returned where it should be raised",
}


def _without_numbers(outcome):
    name = outcome.fault.name
    if name == "raises":
        error = outcome.answer.errors[0]
        return error if hasattr(builtins, error) else "An error is raised"
    if name is None or name in HIDDEN:
        return HIDDEN.get(name, "Wrong values")
    return outcome.fault.sentence.rstrip(".?").replace("\n", " ")


# What Python and NumPy say when a shape or a type does not fit, and what to do about it.
EXCEPTION_HINTS = {
    "could not be broadcast": "Two shapes do not line up here: print them. Is a new axis missing "
    "or in the wrong place? Is * meant to be @? A sum or maximum drops its axis unless "
    "keepdims=True keeps it.",
    "non-broadcastable output": "`a &= b` and its like write into `a`, which keeps its shape (and "
    "may be the caller's): `a = a & b` makes a new array.",
    "boolean index did not match": "A boolean index needs the array's own shape, and does not "
    "broadcast; np.where does.",
    "einstein sum": "In einsum, `...` stands for whatever axes there are in front.",
    "axes don't match": "Count axes from the end: -1 and -2 are there whatever stands in front.",
    "axis1: axis": "Count axes from the end: -1 and -2 are there whatever stands in front.",
    "out of bounds for array of dimension": "An axis is asked for that is not there: the array has "
    "fewer axes here, or it is None.",
    "empty iterable": "Here there is nothing to join: ask for that first.",
    "empty sequence": "Here there is nothing to choose from: is a list empty that should not be?",
    "division by zero": "A sum or a count is 0 here: is something empty that should not be?",
    "zero-size array": "An array is empty here, and what is empty has no largest number.",
    "missing 1 required positional": "An argument is missing in a call; or what may be left out "
    "needs a default in the definition, as in `S=None`.",
    "local variable": "A variable inside the function has the name of something outside and hides "
    "it: give it another name.",
    "does not have enough dimensions": "A product meets a single number where it needs an axis: "
    "does this line fit one vector as well as several?",
    "mismatch in its core dimension": "The inner sizes of a matrix product differ: print both "
    "shapes. Is a transpose missing, or one too many?",
    "not aligned": "The inner sizes of a product differ: print both shapes. Is a transpose "
    "missing, or one too many?",
    "truth value of an array": "`if`, `and`, `or` and a chain such as `0 <= a < b` need one yes or "
    "no, and here is an array of them: put each comparison in brackets and join them with `&`, or "
    "use np.where, .any() or .all().",
    "inhomogeneous shape": "Arrays of different shapes are put into one here: join them two at a "
    "time, so that they broadcast. A pair such as (out, weights) has to be unpacked first.",
    "'NoneType'": "Something here is None: an argument that may be None, such as a scale that was "
    "not given, or the result of a function without a return.",
    "too many indices": "An index too many: the array has fewer axes than this line expects.",
    "not enough values to unpack": "Fewer values come back than this line unpacks: an axis or a "
    "result is missing.",
    "too many values to unpack": "More values come back than this line unpacks: there may be more "
    "axes in front.",
}


def _words(exercise, outcome, hidden):
    """What to say of a fault that no named mistake explains: where, what, and a hint."""
    fault, group = outcome.fault, outcome.case.group
    hint = exercise.hints.get(group, "") if fault.hint is None else fault.hint
    hint = _exception_hint(outcome.answer) if fault.name == "raises" else hint
    hint = f" {hint}" if hint else ""
    if fault.alone and (fault.name or not hidden):
        return f"{_sentence(fault.sentence)}{hint}"
    if hidden:
        return f"{_without_numbers(outcome)} in “{group}”.{hint}"
    sentence = _sentence(fault.sentence, capital=False)
    join = "." if sentence[0].isupper() else ":"
    return f"{_inputs(exercise, outcome.case)}{join} {sentence}{hint}"


def _exception_hint(answer):
    return next((hint for part, hint in EXCEPTION_HINTS.items() if part in answer.message), "")


def _sentence(text, capital=True):
    text = _capital(text) if capital else text
    return text if text.endswith((".", "?")) else text + "."


def _capital(text):
    return text[:1].upper() + text[1:]


def _inputs(exercise, case):
    """The case in words: "batch, with query (3, 4), keys (5, 4)"."""
    if case.drive == "value":
        return _capital(case.group)
    named = [(_argument_name(exercise, str(i)), arg) for i, arg in enumerate(case.args)]
    shown = ", ".join(_argument(name, arg) for name, arg in [*named, *case.kwargs.items()])
    return f"{_capital(case.group)}{', with ' if shown else ''}{shown}"


def _argument_name(exercise, index):
    if not index.isdigit():
        return index
    place, parameters = int(index), inspect.signature(exercise.reference).parameters.values()
    for number, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"{parameter.name}[{place - number}]"
        if number == place:
            return parameter.name
    return index


def _argument(name, arg):
    if isinstance(arg, np.ndarray):
        return f"{name} of shape {arg.shape}"
    if isinstance(arg, Code | Rng):
        article = "an" if name[:1] in "aeiou" else "a"
        return f"{article} {name}" if isinstance(arg, Code) else "a generator"
    if isinstance(arg, float):
        return f"{name}={arg:.6g}"
    text = repr(arg)
    if len(text) <= 40:
        return f"{name}={text}"
    array = as_array(arg)
    if array is None or array.ndim < 2:
        return f"{name} as a list of {len(arg)}"
    return f"{name} as lists of shape {array.shape}"
