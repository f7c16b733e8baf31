"""Whatever answers arrive, there is a verdict; what it says of hidden cases gives nothing away."""

import re
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader import course_files, exercises
from grader.judge import judge, verdict
from utils.cases import STATUSES, Answer
from utils.wire import Other, TooLarge, WireError, pack, unpack

ALL = exercises.all_exercises()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        [np.zeros(3), np.ones((2, 3)), np.full((5, 4), np.nan), np.zeros(0), np.array(1)]
    )
    | st.builds(Other, st.text(max_size=9), st.text(max_size=9))
    | st.builds(TooLarge, st.tuples(st.integers(0, 9)), st.integers(0, 9)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.lists(st.text(max_size=12), max_size=3).map(tuple)
ANSWERS = st.builds(
    Answer,
    st.sampled_from([str(n) for n in range(40)]),
    st.sampled_from(STATUSES),
    VALUES,
    st.lists(st.text(max_size=12), min_size=1, max_size=3).map(tuple),
    st.text(max_size=20),
    st.text(max_size=20),
    st.text(max_size=12),
    NAMES,
    VALUES,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(ALL)), st.lists(ANSWERS, max_size=12), st.booleans())
def test_any_answers_get_a_verdict(exercise_id, answers, hidden):
    kept = [Answer.from_wire(unpack(pack(answer.to_wire()))) for answer in answers]
    found = verdict(ALL[exercise_id], ALL[exercise_id].cases(0, hidden), kept, hidden)
    assert 0 <= found.score <= 1 and found.message
    assert found._repr_html_() and repr(found)


@pytest.mark.parametrize("code", [{"$rng": 3}, {"$code": "def specimen(x): return x"}])
def test_generators_and_functions_only_go_in(code):
    from frames import frame

    assert unpack(frame(code), inputs=True)
    with pytest.raises(WireError):
        unpack(frame(code))


def speaks_of_its_inputs(*args, **kwargs):
    raise type(repr(args)[:300], (Exception,), {})(repr(args))


def returns_its_inputs(*args, **kwargs):
    return repr(args)


def returns_a_type_of_its_inputs(*args, **kwargs):
    return type(repr(args)[:60], (), {})()


ODD = {
    "None": lambda *args, **kwargs: None,
    "text": returns_its_inputs,
    "type": returns_a_type_of_its_inputs,
    "error": speaks_of_its_inputs,
    "inf": lambda *args, **kwargs: np.inf,
    "huge": lambda *args, **kwargs: 1e308,
    "tiny": lambda *args, **kwargs: 1e-320,
    "nan": lambda *args, **kwargs: np.full((2, 2), np.nan),
    "pair": lambda *args, **kwargs: (np.ones(3), np.ones((3, 3))),
    "array": lambda *args, **kwargs: np.array([True, False]),
    "list": lambda *args, **kwargs: [1.0] * 20_000,
    "object": lambda *args, **kwargs: np.array([object()]),
    "value": 3,
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("exercise_id", ALL)
def test_odd_answers_are_named_without_a_word_of_hidden_inputs(exercise_id, what):
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = judge(exercise_id, ODD[what])
        hidden = judge(exercise_id, ODD[what], seed="s", hidden=True)
    for found in (shown, hidden):
        assert not found.passed and len(found.message) < 600
    assert hidden.evidence is None
    advice = {m.advice for m in ALL[exercise_id].mistakes}
    said = hidden.message
    for sentence in [*advice, *ALL[exercise_id].hints.values()]:
        said = said.replace(sentence, "")
    assert not re.search(r"\d\.\d|array\(|\(\d", said), said


def test_the_secret_is_one_whoever_asks_first(tmp_path):
    for trial in range(20):
        root = tmp_path / str(trial)
        root.mkdir()
        found = []
        threads = [
            threading.Thread(target=lambda r=root, f=found: f.append(course_files.secret(r)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8 and len(set(found)) == 1 and len(found[0]) == 32
