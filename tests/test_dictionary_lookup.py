"""Chapter 1: right answers in many styles pass; wrong ones that no list foresaw are still told what is wrong."""

import math

import numpy as np
import pytest
import torch

from grader.judge import judge
from utils.reference import dictionary_lookup as right

# ---- right ways of writing --------------------------------------------------------------


def textbook_softmax(x, axis=-1):
    x = np.asarray(x, dtype=float) if np.asarray(x).dtype.kind in "iu" else np.asarray(x)
    top = x.max(axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=axis, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def loop_softmax(x, axis=-1):
    def one(row):
        top = max(row)
        if top == -math.inf:
            return [0.0] * len(row)
        e = [math.exp(value - top) for value in row]
        return [value / sum(e) for value in e]

    return np.apply_along_axis(lambda row: one(row.tolist()), axis, np.asarray(x, dtype=float))


def log_space_softmax(x, axis=-1):
    x = np.asarray(x, dtype=float)
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isneginf(top), 0, top)
    with np.errstate(divide="ignore"):
        lse = top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True))
    return np.exp(x - np.where(np.isneginf(lse), 0, lse))


def torch_softmax(x, axis=-1):
    x = torch.as_tensor(np.asarray(x))
    return torch.softmax(x if x.is_floating_point() else x.double(), dim=axis).nan_to_num(0.0)


def float32_softmax(x, axis=-1):
    return textbook_softmax(np.asarray(x, dtype=np.float32), axis)


def nan_cleaned_softmax(x, axis=-1):
    x = np.asarray(x) * 1.0
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.nan_to_num(e / e.sum(axis, keepdims=True))


def list_softmax(x, axis=-1):
    return textbook_softmax(x, axis).tolist()


def moved_axis_softmax(x, axis=-1):
    x = np.moveaxis(np.asarray(x, dtype=float), axis, 0)
    top = x.max(0)
    e = np.exp(x - np.where(top == -np.inf, 0, top))
    return np.moveaxis(e / np.maximum(e.sum(0), 1e-300), 0, axis)


def inner(query, keys):
    return np.inner(query, keys)


def einsum(query, keys):
    return np.einsum("...d,nd->...n", query, keys)


def broadcast(query, keys):
    return (np.asarray(query)[..., None, :] * np.asarray(keys)).sum(-1)


def tensordot(query, keys):
    return np.tensordot(query, keys, axes=(-1, -1))


def plain_matmul(query, keys):
    return query @ keys.T


def loops(query, keys):
    query = np.asarray(query)
    if query.ndim > 1:
        return [loops(row, keys) for row in query]
    return [sum(float(a) * float(b) for a, b in zip(query, key, strict=True)) for key in keys]


def as_torch(query, keys):
    return torch.as_tensor(np.asarray(query)) @ torch.as_tensor(np.asarray(keys)).T


def float32(query, keys):
    return np.asarray(query, "f4") @ np.asarray(keys, "f4").T


def fortran_order(query, keys):
    return np.asfortranarray(np.asarray(query) @ np.asarray(keys).T)


def refuse(temperature):
    if temperature <= 0:
        raise ValueError("temperature must be > 0")


def matmul_lookup(query, keys, values, temperature=1.0):
    refuse(temperature)
    weights = textbook_softmax(query @ keys.T / temperature)
    return weights @ values, weights


def einsum_lookup(query, keys, values, temperature=1.0):
    assert_positive = temperature > 0
    if not assert_positive:
        raise ValueError
    w = textbook_softmax(np.einsum("...d,nd->...n", query, keys) / temperature)
    return [np.einsum("...n,nd->...d", w, values), w]


def torch_lookup(query, keys, values, temperature=1.0):
    refuse(temperature)
    query, keys, values = (torch.as_tensor(np.asarray(a)) for a in (query, keys, values))
    query, keys, values = (
        a if a.is_floating_point() else a.double() for a in (query, keys, values)
    )
    weights = torch.softmax(query @ keys.T / temperature, -1)
    return weights @ values, weights


def late_division_lookup(query, keys, values, temperature=1.0):
    refuse(temperature)
    s = np.asarray(query) @ np.asarray(keys).T / temperature
    e = np.exp(s - s.max(-1, keepdims=True))
    total = e.sum(-1, keepdims=True)
    return e @ np.asarray(values) / total, e / total


def query_over_temperature(query, keys, values, temperature=1.0):
    refuse(temperature)
    weights = textbook_softmax(np.asarray(query) / temperature @ np.asarray(keys).T)
    return weights @ np.asarray(values), weights


def list_lookup(query, keys, values, temperature=1.0):
    out, weights = matmul_lookup(*map(np.asarray, (query, keys, values)), temperature)
    return out.tolist(), weights.tolist()


def float32_lookup(query, keys, values, temperature=1.0):
    return matmul_lookup(*(np.asarray(a, "f4") for a in (query, keys, values)), temperature)


def first_index(query, keys, values):
    keys = list(keys)
    if query not in keys:
        raise KeyError(query)
    return values[keys.index(query)]


def reversed_dict(query, keys, values):
    return dict(zip(reversed(keys), reversed(values), strict=True))[query]


def setdefault(query, keys, values):
    table = {}
    for key, value in zip(keys, values, strict=True):
        table.setdefault(key, value)
    return table[query]


def next_match(query, keys, values):
    matches = [value for key, value in zip(keys, values, strict=True) if key == query]
    if not matches:
        raise KeyError
    return matches[0]


def newton_in_logs(query, keys, weight):
    scores = np.asarray(query) @ np.asarray(keys).T
    gaps = scores.max() - scores
    if weight <= 1 / len(scores) or weight >= 1 / (gaps == 0).sum():
        raise ValueError("out of reach")
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        if 1 / np.exp(-gaps / np.exp(middle)).sum() > weight:
            low = middle
        else:
            high = middle
    return np.array(np.exp(middle))


def entrywise_jacobian(p):
    n = len(p)
    return [[p[i] * ((i == j) - p[j]) for j in range(n)] for i in range(n)]


def broadcast_jacobian(p):
    p = np.asarray(p)
    return p[:, None] * (np.eye(len(p)) - p[None, :])


def autograd_jacobian(p):
    x = torch.log(torch.as_tensor(np.asarray(p, dtype=float)))
    return torch.autograd.functional.jacobian(lambda t: torch.softmax(t, 0), x)


def centred_gradient(query, keys, values, target):
    keys, values = np.asarray(keys), np.asarray(values)
    p = textbook_softmax(keys @ np.asarray(query))
    g = values @ (p @ values - target)
    return keys.T @ (p * (g - p @ g))


def float32_gradient(query, keys, values, target):
    return centred_gradient(*(np.asarray(a, "f4") for a in (query, keys, values, target)))


def autograd_gradient(query, keys, values, target):
    query, keys, values, target = (
        torch.as_tensor(np.asarray(a, dtype=float)) for a in (query, keys, values, target)
    )
    query.requires_grad_()
    out = torch.softmax(keys @ query, 0) @ values
    (0.5 * ((out - target) ** 2).sum()).backward()
    return query.grad


def numeric_gradient(query, keys, values, target, h=1e-5):
    def loss(q):
        return 0.5 * np.sum((right.soft_lookup(q, keys, values)[0] - target) ** 2)

    query = np.asarray(query, dtype=float)
    steps = np.eye(len(query)) * h
    return np.array([(loss(query + e) - loss(query - e)) / (2 * h) for e in steps])


def momentum(keys, values, target, steps=200, lr=1.0):
    query, speed = np.zeros(np.shape(keys)[1]), 0.0
    for _ in range(steps):
        speed = 0.5 * speed - lr / 2 * centred_gradient(query, keys, values, target)
        query = query + speed
    return query


def descent(keys, values, target, steps=200, lr=1.0):
    query = [0.0] * len(keys[0])
    for _ in range(steps):
        gradient = centred_gradient(query, keys, values, target)
        query = [q - lr * g for q, g in zip(query, gradient, strict=True)]
    return query


RIGHT = {
    "softmax": [
        textbook_softmax, loop_softmax, log_space_softmax, torch_softmax, float32_softmax,
        nan_cleaned_softmax, list_softmax, moved_axis_softmax,
    ],
    "similarity": [
        inner, einsum, broadcast, tensordot, plain_matmul, loops, as_torch, float32, fortran_order,
    ],
    "soft_lookup": [
        matmul_lookup, einsum_lookup, torch_lookup, late_division_lookup, query_over_temperature,
        list_lookup, float32_lookup,
    ],
    "hard_lookup": [first_index, reversed_dict, setdefault, next_match],
    "temperature_for": [newton_in_logs],
    "softmax_jacobian": [entrywise_jacobian, broadcast_jacobian, autograd_jacobian],
    "query_gradient": [centred_gradient, autograd_gradient, float32_gradient],
    "learn_query": [momentum, descent],
    "cat_sat_weights": [[0.14, 0.58, 0.28], (0.14, 0.576, 0.284), np.array([0.14, 0.58, 0.28], "f4")],
    "cat_sat_output": [[0.14, 0.58, 0.28], torch.tensor([0.14, 0.576, 0.284])],
}  # fmt: skip


@pytest.mark.parametrize(
    ("exercise_id", "candidate"),
    [
        pytest.param(e, c, id=f"{e}-{getattr(c, '__name__', c)}")
        for e, cs in RIGHT.items()
        for c in cs
    ],
)
@pytest.mark.parametrize("seed", [0, *range(100, 106)])
def test_right_answers_pass_however_they_are_written(exercise_id, candidate, seed):
    verdict = judge(exercise_id, candidate, seed)
    assert verdict.passed, verdict.message


# ---- wrong ways of writing that are like a named mistake, but not the same -----------------


def plainest_softmax(x, axis=-1):
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


def no_keepdims(x, axis=-1):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def one_axis_two_faults(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=0)


def nan_twice(x, axis=-1):
    return plainest_softmax(plainest_softmax(x, axis), axis)


def transposed_with_T(query, keys):
    return keys @ query.T


def plain_dict(query, keys, values):
    return dict(zip(keys, values, strict=True)).get(query)


def list_index(query, keys, values):
    return values[keys.index(query)]


def swapped_and_unrefused(query, keys, values, temperature=1.0):
    weights = plainest_softmax(query @ keys.T / temperature)
    return weights, weights @ values


def unstable_lookup(query, keys, values, temperature=1.0):
    weights = plainest_softmax(query @ keys.T / temperature)
    return weights @ values, weights


def keys_for_values(query, keys, values, temperature=1.0):
    weights = textbook_softmax(query @ keys.T / temperature)
    return weights @ keys, weights


def temperature_forgotten(query, keys, values, temperature=1.0):
    weights = textbook_softmax(query @ keys.T)
    return weights @ values, weights


def in_one_go(x, axis=-1):
    x -= np.where(np.isneginf(x.max(axis, keepdims=True)), 0, x.max(axis, keepdims=True))
    return nan_cleaned_softmax(x, axis)


LIKE = [
    ("softmax", plainest_softmax, "no_maximum"),
    ("softmax", no_keepdims, "over_everything"),
    ("softmax", one_axis_two_faults, "always_first_axis"),
    ("softmax", nan_twice, "applied_twice"),
    ("softmax", in_one_go, "changes_inputs"),
    ("similarity", transposed_with_T, "transposed"),
    ("hard_lookup", plain_dict, "last_match_wins"),
    ("hard_lookup", list_index, "raises_value_error"),
    ("soft_lookup", swapped_and_unrefused, "swapped_results"),
    ("soft_lookup", unstable_lookup, "overflows"),
    ("soft_lookup", keys_for_values, "averages_keys"),
    ("soft_lookup", temperature_forgotten, "ignores_temperature"),
]


@pytest.mark.parametrize(
    ("exercise_id", "candidate", "name"), LIKE, ids=lambda x: getattr(x, "__name__", x)
)
@pytest.mark.parametrize("hidden", [False, True])
def test_mistakes_are_named_however_they_are_written(exercise_id, candidate, name, hidden):
    verdict = judge(exercise_id, candidate, seed=3, hidden=hidden)
    assert not verdict.passed
    assert verdict.mistake == name, verdict.message


def test_numeric_differences_are_close_enough_for_a_gradient_to_a_millionth():
    assert judge("query_gradient", numeric_gradient).groups["values"]
