"""What must hold for every exercise of every chapter."""

import itertools

import numpy as np
import pytest

from grader import exercises
from grader.diagnosis import same
from grader.faults import find_fault
from grader.judge import judge
from utils.check import collect

ALL = exercises.all_exercises()
MISTAKES = [(e.id, m.name) for e in ALL.values() for m in e.mistakes]
SEEDS = (0, "a", "b")


def mistake(exercise_id, name):
    return next(m for m in ALL[exercise_id].mistakes if m.name == name)


@pytest.mark.parametrize("exercise_id", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_reference_passes(exercise_id, seed):
    for hidden in (False, True):
        verdict = judge(exercise_id, ALL[exercise_id].reference, seed, hidden)
        assert verdict.passed and verdict.score == 1, verdict.message
        assert all(verdict.groups.values()) and verdict.mistake is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("exercise_id", "name"), MISTAKES)
def test_every_mistake_is_rejected_by_its_own_name(exercise_id, name, seed):
    wrong = mistake(exercise_id, name)
    for hidden in (False, True):
        verdict = judge(exercise_id, wrong.candidate, seed, hidden)
        assert not verdict.passed and verdict.score < 1
        assert verdict.mistake == name, verdict.message
        assert wrong.advice in verdict.message


@pytest.mark.parametrize("exercise_id", ALL)
def test_no_two_mistakes_look_the_same(exercise_id):
    exercise = ALL[exercise_id]
    with np.errstate(all="ignore"):
        answers = {
            m.name: collect(exercise.cases(), m.candidate, watch=False) for m in exercise.mistakes
        }
    for (a, first), (b, second) in itertools.combinations(answers.items(), 2):
        told_apart = any(
            not same(x, y, exercise.within) for x, y in zip(first, second, strict=True)
        )
        assert told_apart, f"no case of {exercise_id} tells {a} from {b}"


@pytest.mark.parametrize("exercise_id", ALL)
def test_an_exercise_has_mistakes_and_says_what_to_do(exercise_id):
    exercise = ALL[exercise_id]
    names = [m.name for m in exercise.mistakes]
    assert len(names) >= 5 and len(set(names)) == len(names)
    assert all(len(m.advice) > 25 and m.advice.endswith((".", "?")) for m in exercise.mistakes)
    assert set(exercise.hints) <= set(exercise.groups)
    assert set(exercise.remarks) < set(exercise.groups)
    assert set(exercise.builds_on) <= set(ALL)


@pytest.mark.parametrize("exercise_id", ALL)
def test_the_reference_obeys_the_laws(exercise_id):
    exercise = ALL[exercise_id]
    for case, answer in zip(
        exercise.cases(), collect(exercise.cases(), exercise.reference), strict=True
    ):
        assert find_fault(exercise, case, answer, answer) is None
        if answer.status == "returned":
            assert all(law.holds(case, answer.value) for law in exercise.laws)


@pytest.mark.parametrize("exercise_id", ALL)
def test_another_seed_gives_other_numbers_of_the_same_kinds(exercise_id):
    exercise = ALL[exercise_id]
    first, second = exercise.cases(0), exercise.cases(1)
    assert [c.name for c in first] == [c.name for c in second]
    if any(c.args for c in first):
        assert repr([c.args for c in first]) != repr([c.args for c in second])
        assert repr([c.args for c in first]) != repr(
            [c.args for c in exercise.cases(0, hidden=True)]
        )
