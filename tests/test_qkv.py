"""Chapter 2: right answers in many styles pass; wrong ones that no list foresaw are told apart."""

import itertools

import numpy as np
import pytest
import torch

from grader.exercises import find
from grader.exercises.qkv import LABELS
from grader.judge import judge
from utils.check import collect
from utils.reference import qkv as right
from utils.reference.dictionary_lookup import softmax


def einsum_project(x, W_q, W_k, W_v):
    return [np.einsum("...i,io->...o", x, W) for W in (W_q, W_k, W_v)]


def torch_project(x, W_q, W_k, W_v):
    return tuple(
        torch.as_tensor(np.asarray(x)) @ torch.as_tensor(np.asarray(W)) for W in (W_q, W_k, W_v)
    )


def fused_project(x, W_q, W_k, W_v):
    fused = x @ np.concatenate([W_q, W_k, W_v], axis=1)
    return np.split(fused, [W_q.shape[1], 2 * W_q.shape[1]], axis=-1)


def linear_project(x, W_q, W_k, W_v):
    return tuple((W.T @ x[..., None])[..., 0] for W in (W_q, W_k, W_v))


def float32_project(x, W_q, W_k, W_v):
    return tuple(np.asarray(x, "f4") @ np.asarray(W, "f4") for W in (W_q, W_k, W_v))


def einsum_scores(q, k):
    return np.einsum("...td,...sd->...ts", q, k)


def broadcast_scores(q, k):
    return (np.asarray(q)[..., :, None, :] * np.asarray(k)[..., None, :, :]).sum(-1)


def matrix_transpose_scores(q, k):
    return q @ k.mT


def torch_scores(q, k):
    return torch.as_tensor(np.asarray(q)) @ torch.as_tensor(np.asarray(k)).transpose(-2, -1)


def listed_scores(q, k):
    q, k = np.asarray(q), np.asarray(k)
    if q.ndim == 2:
        return [[sum(a * b for a, b in zip(row, key, strict=True)) for key in k] for row in q]
    return [listed_scores(a, b) for a, b in zip(q, k, strict=True)]


def own_softmax_attend(scores, v):
    scores = np.asarray(scores)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    w = e / e.sum(-1, keepdims=True)
    return np.einsum("...ts,...sd->...td", w, v), w


def late_division_attend(scores, v):
    scores = np.asarray(scores)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = e.sum(-1, keepdims=True)
    return [e @ np.asarray(v) / total, e / total]


def torch_attend(scores, v):
    scores = torch.as_tensor(np.asarray(scores))
    w = torch.softmax(scores if scores.is_floating_point() else scores.double(), -1)
    return w @ torch.as_tensor(np.asarray(v)).to(w.dtype), w


def matrix_row(i, x, W_q, W_k, W_v):
    return right.self_attention(x, W_q, W_k, W_v)[0][i]


def generator_row(i, x, W_q, W_k, W_v):
    s = np.array([(x[i] @ W_q) @ (token @ W_k) for token in x])
    return sum(w * (token @ W_v) for w, token in zip(softmax(s), x, strict=True)).tolist()


def absorbed(x, W_q, W_k, W_v):
    x = np.asarray(x)
    s = x @ (np.asarray(W_q) @ np.asarray(W_k).T) @ np.swapaxes(x, -1, -2)
    return softmax(s) @ x @ W_v, softmax(s)


def looped_head(x, W_q, W_k, W_v):
    x = np.asarray(x)
    if x.ndim > 2:
        parts = [looped_head(one, W_q, W_k, W_v) for one in x]
        return tuple(np.stack(part) for part in zip(*parts, strict=True))
    return right.attend(listed_scores(x @ W_q, x @ W_k), x @ W_v)


def sdpa_head(x, W_q, W_k, W_v):
    q, k, v = (
        torch.as_tensor(np.asarray(x)).double() @ torch.as_tensor(np.asarray(W)).double()
        for W in (W_q, W_k, W_v)
    )
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)
    return out, torch.softmax(q @ k.transpose(-2, -1), -1)


def einsum_cross(x, memory, W_q, W_k, W_v):
    q, k, v = np.asarray(x) @ W_q, np.asarray(memory) @ W_k, np.asarray(memory) @ W_v
    return right.attend(einsum_scores(q, k), v)


def absorbed_cross(x, memory, W_q, W_k, W_v):
    s = (
        np.asarray(x)
        @ (np.asarray(W_q) @ np.asarray(W_k).T)
        @ np.swapaxes(np.asarray(memory), -1, -2)
    )
    return softmax(s) @ np.asarray(memory) @ W_v, softmax(s)


def thirty_permutations(layer, x, rng):
    out = layer(x)
    perms = [rng.permutation(len(x)) for _ in range(30)]
    return all(np.allclose(layer(x[p]), out[p]) for p in perms)


def largest_difference(layer, x, rng):
    worst = 0.0
    for _ in range(40):
        p = rng.permutation(x.shape[0])
        worst = max(worst, np.abs(np.asarray(layer(x[p])) - np.asarray(layer(x))[p]).max())
    return np.bool_(worst < 1e-7)


def neighbour_swaps(layer, x, rng):
    for i, j in itertools.combinations(range(len(x)), 2):
        p = np.arange(len(x))
        p[[i, j]] = j, i
        if not np.allclose(layer(x[p]), layer(x)[p], atol=1e-6):
            return 0
    return 1


def narrow_previous(T, strength=20.0):
    """Keys on a circle: two columns are enough when they are long."""
    angle = 2 * np.pi * np.arange(T) / T
    k = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    gap = 1 - np.cos(2 * np.pi / max(T, 2))
    return np.roll(k, 1, axis=0) * strength / gap * 1.001, k


def split_previous(T, strength=20.0):
    root = np.sqrt(2 * strength)
    return (root * np.eye(T, k=-1)).tolist(), torch.eye(T) * root


def counted(x):
    x = np.asarray(x)
    hits = sum(all(row @ x[i] <= x[i] @ x[i] for row in x) for i in range(len(x)))
    return hits / len(x)


LEDGER = right.shape_ledger

RIGHT = {
    "project": [einsum_project, torch_project, fused_project, linear_project, float32_project],
    "scores": [einsum_scores, broadcast_scores, matrix_transpose_scores, torch_scores, listed_scores],
    "attend": [own_softmax_attend, late_division_attend, torch_attend],
    "one_row": [matrix_row, generator_row],
    "self_attention": [absorbed, looped_head, sdpa_head],
    "cross_attention": [einsum_cross, absorbed_cross],
    "is_permutation_equivariant": [thirty_permutations, largest_difference, neighbour_swaps],
    "previous_token": [narrow_previous, split_previous],
    "shape_ledger": [
        {name: list(shape) for name, shape in LEDGER.items()},
        {name: torch.Size(shape) for name, shape in LEDGER.items()},
        LEDGER | {"weights": (10, 10)},
    ],
    "self_share": [counted],
}  # fmt: skip


@pytest.mark.parametrize(
    ("exercise_id", "candidate"),
    [
        pytest.param(e, c, id=f"{e}-{getattr(c, '__name__', i)}")
        for e, cs in RIGHT.items()
        for i, c in enumerate(cs)
    ],
)
@pytest.mark.parametrize("seed", [0, *range(100, 106)])
def test_right_answers_pass_however_they_are_written(exercise_id, candidate, seed):
    verdict = judge(exercise_id, candidate, seed)
    assert verdict.passed, verdict.message


def plain_T(q, k):
    return np.matmul(q, k.T)


def axis_zero(scores, v):
    e = np.exp(scores - scores.max())
    w = e / e.sum(axis=0)
    return w @ v, w


def cross_as_self(x, memory, W_q, W_k, W_v):
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    return right.attend(q @ np.swapaxes(k, -1, -2), v)


def values_are_keys(x, W_q, W_k, W_v):
    q, k = x @ W_q, x @ W_k
    return right.attend(q @ np.swapaxes(k, -1, -2), k)


def always(layer, x, rng):
    return layer(x) is not None


def not_permuted(layer, x, rng):
    return bool(np.allclose(layer(x[rng.permutation(len(x))]), layer(x)))


def roll_forward(T, strength=20.0):
    return strength * np.roll(np.eye(T), 1, axis=1), np.eye(T)


LIKE = [
    ("scores", plain_T, "all_axes_transposed"),
    ("attend", axis_zero, "softmax_over_first_axis"),
    ("cross_attention", cross_as_self, "ignores_memory"),
    ("self_attention", values_are_keys, "head_averages_keys"),
    ("is_permutation_equivariant", always, "accepts_everything"),
    ("is_permutation_equivariant", not_permuted, "tests_invariance"),
    ("shape_ledger", LEDGER | {"scores": (10, 64)}, "scores_have_d"),
    ("shape_ledger", {k: v for k, v in LEDGER.items() if k != "cross_out"}, "missing_key"),
    ("shape_ledger", dict.fromkeys(LEDGER), "not_written"),
    ("shape_ledger", [1, 2, 3], "wrong_type"),
    ("previous_token", lambda T, strength=20.0: np.eye(T), "wrong_type"),
]


@pytest.mark.parametrize(
    ("exercise_id", "candidate", "name"), LIKE, ids=[f"{e}-{n}" for e, _, n in LIKE]
)
@pytest.mark.parametrize("hidden", [False, True])
def test_mistakes_are_named_however_they_are_written(exercise_id, candidate, name, hidden):
    verdict = judge(exercise_id, candidate, seed=3, hidden=hidden)
    assert not verdict.passed
    assert verdict.mistake == name, verdict.message


# ---- the test that the student writes -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_reference_knows_every_specimen(seed):
    exercise = find("is_permutation_equivariant")
    cases = exercise.cases(seed)
    for case, answer in zip(cases, collect(cases, exercise.reference), strict=True):
        sound, what = LABELS[case.args[0].source]
        assert answer.value is sound, what
    assert len(cases) == 26 and sum(sound for sound, _ in LABELS.values()) == 13


def test_the_labels_do_not_travel():
    """Neither name, docstring nor order says which specimens are sound."""
    exercise = find("is_permutation_equivariant")
    orders = set()
    for seed in range(3):
        wire = [case.to_wire() for case in exercise.cases(seed)]
        orders.add(tuple(args[0].source for args, *_ in wire))
        for number, (args, _, name, _) in enumerate(wire):
            assert name == str(number) and args[0].source.startswith("def specimen(x)")
            assert '"""' not in args[0].source and "#" not in args[0].source
    assert len(orders) == 3


def test_too_weak_and_too_strict_are_told_apart_in_words():
    def leaves_the_last(layer, x, rng):
        perms = [[*rng.permutation(len(x) - 1), len(x) - 1] for _ in range(20)]
        return all(np.allclose(layer(x[p]), layer(x)[p]) for p in perms)

    def hates_zeros(layer, x, rng):
        return right.is_permutation_equivariant(layer, x, rng) and bool(np.any(layer(x)))

    weak = judge("is_permutation_equivariant", leaves_the_last)
    assert (
        weak.mistake == "too_weak" and "changes only the token in the last position" in weak.message
    )
    strict = judge("is_permutation_equivariant", hates_zeros)
    assert strict.mistake == "too_strict" and "returns zeros" in strict.message
    assert weak.score == strict.score == 0
    assert weak.groups["accepts sound layers"] and not strict.groups["accepts sound layers"]
