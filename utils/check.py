"""`check`: run the cases of an exercise on a student's answer and hand what came out to a judge.

This module is the only one that calls student code. In a learner's kernel the
judge is installed and its verdict is shown at once. In a graded run there is
none in reach: the cases come from the mailbox and the answers go back to it.
"""

import contextlib
import copy
import io
import linecache
import sys
import time
import traceback
import warnings

import numpy as np

from utils import mailbox, progress
from utils.cases import Answer
from utils.errors import CheckFailed
from utils.time_limit import TooSlow, time_limit
from utils.wire import Code, Other, Rng, pack, unpack

SECONDS_A_CASE = 5.0
SECONDS_A_CHECK = 50.0  # less than the sandbox gives a cell, so that what there is arrives
LATE = ("too slow", "not run")

_passed = {}  # exercise id -> did its last check in this kernel pass


def check(exercise_id, candidate):
    """Check `candidate`, your answer to the exercise: shows a card, raises if it does not pass.

    `candidate` is whatever the exercise asks for: a function, a class, a value.
    Raises UnknownExercise for an id that does not exist, with the nearest ones.
    """
    if mailbox.is_open():
        cases = mailbox.cases(exercise_id)
        mailbox.post(exercise_id, collect(cases, candidate))
        return
    judge = _judge()
    failed = {name for name, passed in _passed.items() if not passed}
    verdict = judge.judge(exercise_id, candidate, failed=failed)
    _passed[exercise_id] = verdict.passed
    if progress.in_my_work():
        progress.record({exercise_id: verdict.passed})
    _show(verdict)
    if not verdict.passed:
        raise CheckFailed(f"{exercise_id}: {verdict.message}".replace("\n", " "))


def yours_or_ours(exercise_id, yours):
    """`yours` if its last check here passed, else the course's own answer to the exercise.

    For cells that need an exercise which may be skipped; a line says so. In a
    graded run there is none but yours.
    """
    if mailbox.is_open() or _passed.get(exercise_id):
        return yours
    print(f"{exercise_id} has not passed its check here: this cell uses the course's own.")
    return _judge().exercises.find(exercise_id).reference


def collect(cases, candidate, seconds=SECONDS_A_CASE, watch=True):
    """The candidate's answers to `cases`, in order: a list of Answer.

    To `watch` is to call each case twice with the same objects, and to see
    whether they change; the grader leaves it out where the code is its own.
    Nothing the candidate prints, warns or draws is shown. After a case that
    was too slow the others are not run.
    """
    answers, deadline = [], time.monotonic() + SECONDS_A_CHECK
    with _quietly():
        for case in cases:
            late = time.monotonic() > deadline or (answers and answers[-1].status in LATE)
            late = Answer(case.name, "not run") if late else None
            answers.append(late or _ask(case, candidate, seconds, watch))
    return answers


def _ask(case, candidate, seconds, watch):
    if case.drive == "value":
        return Answer(case.name, "returned", _snapshot(candidate))
    if not callable(candidate):
        return Answer(case.name, "not callable", _snapshot(candidate))
    args, kwargs = _alive(case)
    before = _parts(args, kwargs) if watch else {}
    try:
        with time_limit(seconds):
            first = _snapshot(candidate(*args, **kwargs))
            if not watch:
                return Answer(case.name, "returned", first)
            changed = _changed(before, _parts(args, kwargs))
            second = _call_again(candidate, case, args, kwargs)
    except TooSlow:
        return Answer(case.name, "too slow")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        changed = _changed(before, _parts(args, kwargs)) if watch else ()
        return _raised(case, error, candidate, changed)
    again = None if pack(first) == pack(second) else second
    return Answer(case.name, "returned", first, changed=changed, again=again)


def _snapshot(value):
    """`value` as it would arrive at the judge, taken down before anyone can change it."""
    return unpack(pack(value))


def _call_again(candidate, case, args, kwargs):
    """A second call with the same arrays, changed or not, and with fresh generators."""
    fresh, _ = _alive(case)
    again = [
        new if isinstance(old, Rng) else arg
        for old, new, arg in zip(case.args, fresh, args, strict=True)
    ]
    try:
        return _snapshot(candidate(*again, **kwargs))
    except Exception as error:
        return Other(type(error).__name__, "raised in the second call")


def _alive(case):
    """The case's inputs as the candidate gets them: copies, generators and functions."""
    args = [_living(arg) for arg in case.args]
    return args, {name: _living(arg) for name, arg in case.kwargs.items()}


def _living(arg):
    if isinstance(arg, Rng):
        return np.random.default_rng(arg.seed)
    if isinstance(arg, Code):
        namespace = {"np": np}
        exec(arg.source, namespace)
        return namespace["specimen"]
    return copy.deepcopy(arg)


def _changed(before, after):
    return tuple(name for name, was in before.items() if was != after[name])


def _parts(args, kwargs):
    return {str(name): pack(value) for name, value in [*enumerate(args), *kwargs.items()]}


def _raised(case, error, candidate, changed):
    names = tuple(cls.__name__[:100] for cls in type(error).__mro__ if cls is not object)
    try:
        message = str(error)[:300]
    except Exception:
        message = ""
    frames = traceback.extract_tb(error.__traceback__)
    home = getattr(getattr(candidate, "__code__", None), "co_filename", None)
    own = [frame for frame in frames if frame.filename == home]
    line = linecache.getline(home, own[-1].lineno).strip()[:160] if own else ""
    raiser = frames[-1].name[:100]
    return Answer(case.name, "raised", None, names, message, line, raiser, changed)


@contextlib.contextmanager
def _quietly():
    """Drop what is printed, warned and displayed, so that an honest warning costs nothing."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        ipython = sys.modules.get("IPython")
        if ipython and ipython.get_ipython():
            from IPython.utils.capture import capture_output

            stack.enter_context(capture_output())
        else:
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield


def _judge():
    try:
        from grader import judge
    except ImportError as error:
        raise ImportError(
            "check needs the course's judge, which is not installed beside utils: "
            "run `make lab` in the course's folder and open the notebook from there."
        ) from error
    return judge


def _show(verdict):
    ipython = sys.modules.get("IPython")
    if ipython and ipython.get_ipython():
        ipython.display.display(verdict)
    else:
        print(verdict)
