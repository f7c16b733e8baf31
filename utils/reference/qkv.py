"""Chapter 2: three views of every token, from one pair to the whole matrix."""

import math

import numpy as np

from utils.reference.dictionary_lookup import as_floating, softmax


def project(x, W_q, W_k, W_v):
    """Queries, keys and values of every token.

    x `(..., T, d_model)`, W_q and W_k `(d_model, d_k)`, W_v `(d_model, d_v)`
    -> q, k `(..., T, d_k)`, v `(..., T, d_v)`.
    """
    x = np.asarray(x)
    return x @ np.asarray(W_q), x @ np.asarray(W_k), x @ np.asarray(W_v)


def scores(q, k):
    """Dot product of every query with every key: `(..., T, d_k), (..., S, d_k) -> (..., T, S)`."""
    return np.asarray(q) @ np.swapaxes(np.asarray(k), -1, -2)


def attend(scores, v):
    """Output and weights: `(..., T, S), (..., S, d_v) -> (..., T, d_v), (..., T, S)`."""
    weights = softmax(scores)
    return weights @ np.asarray(v), weights


def one_row(i, x, W_q, W_k, W_v):
    """Output of token `i` alone, read from x `(T, d_model)` one pair at a time: -> `(d_v,)`."""
    x = as_floating(x)
    query = x[i] @ np.asarray(W_q)
    scores = [float(query @ (token @ np.asarray(W_k))) for token in x]
    top = max(scores)
    exponentials = [math.exp(score - top) for score in scores]
    total = sum(exponentials)
    out = np.zeros(np.shape(W_v)[1])
    for token, e in zip(x, exponentials, strict=True):
        out += e / total * (token @ np.asarray(W_v))
    return out


def self_attention(x, W_q, W_k, W_v):
    """One head, not scaled: x `(..., T, d_model)` -> out `(..., T, d_v)`, weights `(..., T, T)`."""
    q, k, v = project(x, W_q, W_k, W_v)
    return attend(scores(q, k), v)


def cross_attention(x, memory, W_q, W_k, W_v):
    """Queries from x `(..., T, d_model)`, keys and values from memory `(..., S, d_memory)`.

    -> out `(..., T, d_v)`, weights `(..., T, S)`; not scaled.
    """
    memory = np.asarray(memory)
    q, k, v = np.asarray(x) @ W_q, memory @ np.asarray(W_k), memory @ np.asarray(W_v)
    return attend(scores(q, k), v)


def is_permutation_equivariant(layer, x, rng):
    """Does `layer`, `(T, d) -> (T, d')`, give shuffled outputs for shuffled tokens? x `(T, d)`.

    Tries the reversal, every shift and a number of random permutations, up to
    float noise, on `x` itself.
    """
    x = np.asarray(x)
    T = len(x)
    wanted = np.asarray(layer(x.copy()))
    size = max(1.0, float(np.abs(wanted).max(initial=0)))
    perms = [np.arange(T)[::-1], *(np.roll(np.arange(T), s) for s in range(1, T))]
    perms += [rng.permutation(T) for _ in range(20)]
    return all(
        np.allclose(np.asarray(layer(x[perm])), wanted[perm], rtol=0, atol=1e-6 * size)
        for perm in perms
    )


def previous_token(T, strength=20.0):
    """q, k `(T, T)` so that token i scores token i - 1 above all others by `strength`.

    Each token has an axis of its own; a query points along the axis of the
    token before. Row 0 has no token before it and is left at 0.
    """
    k = np.eye(T)
    q = strength * np.eye(T, k=-1)
    return q, k


shape_ledger = {
    "Q": (10, 64),
    "K": (10, 64),
    "V": (10, 64),
    "scores": (10, 10),
    "out": (10, 64),
    "cross_scores": (7, 11),
    "cross_out": (7, 64),
}


def self_share(x):
    """Share of rows of X X^T whose largest entry stands on the diagonal: x `(T, d)` -> float.

    A row tied between the diagonal and another entry counts.
    """
    x = np.asarray(x)
    similarity = x @ x.T
    return float(np.mean(np.diag(similarity) >= similarity.max(axis=1)))
