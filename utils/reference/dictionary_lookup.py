"""Chapter 1: a dictionary look-up, made soft until it can learn."""

import numpy as np


def as_floating(x):
    """`x` as an array, integers and booleans turned into float64."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def hard_lookup(query, keys, values):
    """The value whose key equals `query`; of several, the first.

    `keys` and `values` are sequences of one length. Raises KeyError when no
    key equals the query.
    """
    for key, value in zip(keys, values, strict=True):
        if key == query:
            return value
    raise KeyError(query)


def similarity(query, keys):
    """Dot product of each query with each key: `(..., d), (n, d) -> (..., n)`."""
    return np.asarray(query) @ np.asarray(keys).T


def softmax(x, axis=-1):
    """Positive weights that sum to 1 along `axis`; same shape as `x`.

    The maximum is subtracted first, so that exp never overflows. A score of
    -inf weighs 0; a slice that is all -inf has no key to look at and gets
    zeros. Source: I. Goodfellow et al., "Deep Learning", section 4.1.
    """
    x = as_floating(x)
    top = np.max(x, axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)


def soft_lookup(query, keys, values, temperature=1.0):
    """Average of the values, weighted by how well each key fits the query.

    query `(..., d)`, keys `(n, d)`, values `(n, d_v)` -> out `(..., d_v)`,
    weights `(..., n)`. A low temperature sharpens the weights, a high one
    evens them out. Raises ValueError unless temperature > 0.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    weights = softmax(as_floating(similarity(query, keys)) / temperature)  # (..., n)
    return weights @ np.asarray(values), weights


def temperature_for(query, keys, weight):
    """The temperature at which the best key of one query weighs `weight`.

    query `(d,)`, keys `(n, d)` -> float. The largest weight falls steadily from
    1/m (m keys tied for the best score) to 1/n as the temperature rises, so
    bisection finds it. Raises ValueError when `weight` is not between the two.
    """
    scores = as_floating(similarity(query, keys))
    gaps = scores.max() - scores  # (n,): 0 for the best keys
    n, m = gaps.size, np.count_nonzero(gaps == 0)
    if not 1 / n < weight < 1 / m:
        raise ValueError(f"weight must lie between 1/{n} and 1/{m}, not {weight}")
    low = high = gaps.max()
    while 1 / np.exp(-gaps / low).sum() < weight:
        low /= 2
    while 1 / np.exp(-gaps / high).sum() > weight:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if 1 / np.exp(-gaps / middle).sum() > weight:
            low = middle
        else:
            high = middle
    return float((low + high) / 2)


def softmax_jacobian(p):
    """Derivative of softmax where its output is `p`: `(n,) -> (n, n)`.

    Entry (i, j) is d p_i / d x_j = p_i * ((i == j) - p_j).
    """
    p = np.asarray(p)
    return np.diag(p) - np.outer(p, p)


def query_gradient(query, keys, values, target):
    """Gradient of 0.5 * |out - target|^2 in the query, at temperature 1.

    query `(d,)`, keys `(n, d)`, values `(n, d_v)`, target `(d_v,)` -> `(d,)`.
    The chain rule, read from the loss back to the query.
    """
    out, weights = soft_lookup(query, keys, values)
    d_weights = np.asarray(values) @ (out - np.asarray(target))  # (n,)
    d_scores = softmax_jacobian(weights) @ d_weights  # (n,)
    return d_scores @ np.asarray(keys)  # (d,)


def learn_query(keys, values, target, steps=200, lr=1.0):
    """Gradient descent from a query of zeros towards out = target -> `(d,)`."""
    query = np.zeros(np.shape(keys)[1])
    for _ in range(steps):
        query -= lr * query_gradient(query, keys, values, target)
    return query


CAT_SAT_TEMPERATURE = 2**0.5
CAT_SAT_QUERY = np.array([1.0, 0.0])
CAT_SAT_KEYS = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]])  # the, cat, sat
CAT_SAT_VALUES = np.eye(3)
cat_sat_output, cat_sat_weights = soft_lookup(
    CAT_SAT_QUERY, CAT_SAT_KEYS, CAT_SAT_VALUES, CAT_SAT_TEMPERATURE
)
