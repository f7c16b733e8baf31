"""`check` as a learner meets it: one verdict, one card, one line, for whatever he hands in."""

import contextlib
import re
import sys
import threading
import time

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from grader.judge import judge
from utils.check import check, collect, yours_or_ours
from utils.errors import CheckFailed
from utils.reference import dictionary_lookup as right
from utils.time_limit import TooSlow, time_limit


def raises(x, axis=-1):
    return x.nonsense


def loops_for_ever(x, axis=-1):
    while True:
        pass


def sleeps(x, axis=-1):
    time.sleep(1000)


def swallows_exceptions(x, axis=-1):
    while True:
        with contextlib.suppress(Exception):
            time.sleep(1000)


BAD = {
    "raises": (raises, "raises", "AttributeError", "x.nonsense"),
    "None": (lambda x, axis=-1: None, "returns_none", "None", "return"),
    "a string": (lambda x, axis=-1: "0.5", "wrong_type", "string", "shape (5,)"),
    "a generator": (lambda x, axis=-1: (v for v in x), "wrong_type", "generator", "shape (5,)"),
    "NaN": (lambda x, axis=-1: np.full(np.shape(x), np.nan), "nan", "NaN", "Values"),
    "a shape": (lambda x, axis=-1: right.softmax(x)[..., None], "wrong_shape", "(5, 1)", "(5,)"),
    "a scalar": (lambda x, axis=-1: 1.0, "wrong_shape", "()", "(5,)"),
    "a huge array": (lambda x, axis=-1: np.broadcast_to(1.0, (10**5, 10**5)), "too_large", "80,000 MB", "(100000, 100000)"),
    "memory": (lambda x, axis=-1: np.zeros((10**7, 10**7)), "raises", "Memory", ""),
    "a dict": (lambda x, axis=-1: {"w": x}, "wrong_type", "dict", ""),
    "a ragged list": (lambda x, axis=-1: [[1], [2, 3]], "wrong_type", "list", ""),
    "a tuple": (lambda x, axis=-1: (x, x), "wrong_shape", "(2, 5)", "(5,)"),
    "complex": (lambda x, axis=-1: right.softmax(x) * 1j, "wrong_type", "no real numbers", ""),
    "a set": (lambda x, axis=-1: {1.0}, "wrong_type", "set", ""),
    "exits": (lambda x, axis=-1: exit(3), "raises", "SystemExit", ""),
    "recursion": (lambda x, axis=-1: BAD["recursion"][0](x), "raises", "RecursionError", ""),
    "takes nothing": (lambda: 1, "raises", "TypeError", "argument"),
    "not a function": (np.zeros(3), "not_callable", "array of shape (3,)", "function"),
    "nothing": (None, "not_callable", "None", "function"),
    "not written": (lambda x, axis=-1: (_ for _ in ()).throw(NotImplementedError()), "not_written", "Not written yet", ""),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_sentence_names_what_came_back(what):
    candidate, name, *words = BAD[what]
    verdict = judge("softmax", candidate)
    assert not verdict.passed and verdict.score == 0
    assert verdict.mistake == name, verdict.message
    assert all(word in verdict.message for word in words), verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("candidate", [loops_for_ever, sleeps, swallows_exceptions])
def test_what_never_returns_is_stopped(candidate):
    started = time.monotonic()
    verdict = judge("softmax", candidate)
    assert verdict.mistake == "never_returns" and time.monotonic() - started < 8


def test_the_time_limit_holds_in_another_thread_and_nests():
    caught = []

    def run():
        try:
            with time_limit(0.1):
                while True:
                    pass
        except TooSlow:
            caught.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(5)
    assert caught == [True]
    with pytest.raises(TooSlow), time_limit(0.1):  # noqa: SIM117
        with time_limit(60):
            time.sleep(10)
    with time_limit(60):
        with pytest.raises(TooSlow), time_limit(0.05):
            time.sleep(10)
        time.sleep(0.01)


def test_hidden_verdicts_show_no_numbers():
    def off(x, axis=-1):
        return right.softmax(x, axis) * 1.01

    def tells(x, axis=-1):
        raise RuntimeError(f"I saw {x!r}")

    for candidate in (off, tells):
        verdict = judge("softmax", candidate, seed="s", hidden=True)
        assert verdict.evidence is None
        assert not re.search(r"\d\.\d|\(\d", verdict.message), verdict.message


def test_prints_and_warnings_of_the_candidate_stay_inside(capsys):
    import sys
    import warnings

    def noisy(x, axis=-1):
        print("hello")
        print("beware", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        return right.softmax(x, axis)

    check("softmax", noisy)
    out, err = capsys.readouterr()
    assert "softmax passes" in out and "hello" not in out and err == ""


def test_a_failed_check_raises_one_line(capsys):
    with pytest.raises(AssertionError) as caught:
        check("softmax", lambda x, axis=-1: None)
    assert "\n" not in str(caught.value) and isinstance(caught.value, CheckFailed)
    assert "✗ values" in capsys.readouterr().out


def test_an_unknown_exercise_names_the_nearest():
    for name in ("sofmax", "soft_max", None, len, 3):
        with pytest.raises(LookupError, match="Near to it") as caught:
            check(name, len)
        assert caught.value._render_traceback_()[0].startswith("LookupError: There is no exercise")
    with pytest.raises(LookupError, match="softmax"):
        check("sofmax", len)


def test_an_exercise_built_on_one_that_fails_says_so(monkeypatch):
    monkeypatch.setattr("utils.check._passed", {})
    with pytest.raises(CheckFailed):
        check("similarity", lambda query, keys: 0)
    with pytest.raises(CheckFailed, match="Mend similarity first"):
        check("soft_lookup", lambda query, keys, values, temperature=1.0: 0)
    check("similarity", right.similarity)
    with pytest.raises(CheckFailed) as caught:
        check("soft_lookup", lambda query, keys, values, temperature=1.0: 0)
    assert "Mend" not in str(caught.value)


def test_inputs_are_copies_and_changes_are_seen():
    def in_place(x, axis=-1):
        x = np.asarray(x)
        result = right.softmax(x, axis)
        x *= 2 if x.dtype.kind == "i" else 1.5
        return result

    verdict = judge("softmax", in_place)
    assert verdict.mistake == "changes_inputs" and "x" in verdict.message
    assert 0 < verdict.score < 1
    assert judge("softmax", right.softmax).passed


def test_state_and_chance_are_seen():
    count = iter(range(10**6))

    def drifts(x, axis=-1):
        return right.softmax(x, axis) * (1 if next(count) % 2 == 0 else 1.5)

    assert judge("softmax", drifts).mistake == "not_repeatable"
    first = []

    def remembers(x, axis=-1):
        first.append(right.softmax(x, axis))
        return first[0]

    assert not judge("softmax", remembers).passed


def test_no_credit_for_edge_cases_without_the_ordinary_one():
    verdict = judge("soft_lookup", lambda *args, **kwargs: (_ for _ in ()).throw(ValueError()))
    assert verdict.groups["impossible temperature"] and verdict.score == 0
    assert judge("softmax", lambda x, axis=-1: np.zeros(np.shape(x))).score == 0


@pytest.mark.parametrize(
    "exercise_id", ["softmax", "soft_lookup", "learn_query", "temperature_for"]
)
def test_a_check_is_quick(exercise_id):
    """Not a benchmark: a ceiling far above what is measured, for the one promise a reader notices."""
    wrong = {
        "softmax": lambda x, axis=-1: x,
        "soft_lookup": lambda q, k, v, temperature=1.0: (q, k),
    }
    candidate = wrong.get(exercise_id, getattr(right, exercise_id))
    judge(exercise_id, candidate)
    started = time.monotonic()
    judge(exercise_id, candidate)
    assert time.monotonic() - started < 0.5


def test_too_slow_leaves_the_rest_unrun():
    from grader.exercises import find

    cases = find("softmax").cases()
    answers = collect(cases, sleeps, seconds=0.05)
    assert [a.status for a in answers] == ["too slow"] + ["not run"] * (len(cases) - 1)


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_in_a_notebook_the_card_is_html_with_a_text_twin(shell):
    with capture_output() as captured, pytest.raises(CheckFailed):
        check("softmax", lambda x, axis=-1: np.asarray(x) * 1.0)
    (card,) = captured.outputs
    assert "does not pass yet" in card.data["text/plain"]
    assert "yours − wanted" in card.data["text/html"] and "<script" not in card.data["text/html"]
    assert captured.stdout == "" and captured.stderr == ""


def test_a_card_escapes_what_the_candidate_says():
    def hostile(x, axis=-1):
        raise RuntimeError("<script>alert(1)</script>")

    assert "<script" not in judge("softmax", hostile)._repr_html_()


def test_a_cell_takes_yours_once_it_passes_and_ours_before(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["utils.check"], "_passed", {})
    from utils.reference import scaling as right

    def soft_cap(scores, cap):
        return cap * np.tanh(np.asarray(scores) / cap)

    assert yours_or_ours("soft_cap", soft_cap) is right.soft_cap
    assert "soft_cap has not passed" in capsys.readouterr().out
    check("soft_cap", soft_cap)
    assert yours_or_ours("soft_cap", soft_cap) is soft_cap
