"""Chapter 3: why the scores are divided by the square root of their width."""

import numpy as np

from utils.reference.dictionary_lookup import as_floating, softmax


def score_std(d_k, n, rng):
    """Standard deviation of n dot products of fresh pairs of random vectors, `d_k` wide -> float.

    The components are independent with mean 0 and variance 1. `rng` is a
    `np.random.Generator`.
    """
    q, k = rng.standard_normal((2, n, d_k))
    return float(np.std(np.sum(q * k, axis=-1)))


def _scale_of(q, scale):
    return np.shape(q)[-1] ** -0.5 if scale is None else scale


def scaled_scores(q, k, scale=None):
    """Dot products times `scale`: `(..., T, d_k), (..., S, d_k) -> (..., T, S)`.

    None means 1 / sqrt(d_k); 0.0 is a scale like any other.
    Source: A. Vaswani et al., "Attention Is All You Need", section 3.2.1.
    """
    q, k = as_floating(q), as_floating(k)
    return q @ np.swapaxes(k, -1, -2) * _scale_of(q, scale)


def scaled_dot_product_attention(q, k, v, scale=None):
    """Attention of one head, not masked -> out `(..., T, d_v)`, weights `(..., T, S)`.

    q `(..., T, d_k)`, k `(..., S, d_k)`, v `(..., S, d_v)`; `scale` as in `scaled_scores`.
    """
    weights = softmax(scaled_scores(q, k, scale))
    return weights @ np.asarray(v), weights


def row_entropy(weights):
    """Entropy of each row in nats, with 0 log 0 = 0: `(..., T, S) -> (..., T)`."""
    p = as_floating(weights)
    return -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=-1)


def softmax_vjp(weights, upstream):
    """Gradient in the scores, from `upstream`, the gradient in the weights; all `(..., T, S)`.

    Each row of `upstream` times the Jacobian diag(p) - p pᵀ, without making it.
    """
    p, g = as_floating(weights), as_floating(upstream)
    return p * (g - np.sum(p * g, axis=-1, keepdims=True))


def attention_gradients(q, k, v, d_out, scale=None):
    """Gradients of sum(out * d_out) in q, k and v -> dq, dk, dv, shaped like q, k, v.

    q `(..., T, d_k)`, k `(..., S, d_k)`, v `(..., S, d_v)`, d_out `(..., T, d_v)`.
    """
    q, k, v, d_out = map(as_floating, (q, k, v, d_out))
    _, weights = scaled_dot_product_attention(q, k, v, scale)
    dv = np.swapaxes(weights, -1, -2) @ d_out
    d_weights = d_out @ np.swapaxes(v, -1, -2)
    d_scores = softmax_vjp(weights, d_weights) * _scale_of(q, scale)
    return d_scores @ k, np.swapaxes(d_scores, -1, -2) @ q, dv


def saturation_curve(widths, scaled, rng, n_keys=64, n=256):
    """Mean entropy and mean sensitivity of `n` random rows of weights, for each width.

    A row is one standard normal query on `n_keys` standard normal keys, drawn
    anew; `scaled` divides its scores by sqrt(width). Sensitivity is 1 - sum p^2,
    the trace of softmax's Jacobian. -> two arrays `(len(widths),)`.
    """
    entropy, sensitivity = [], []
    for width in widths:
        rows = np.empty((n, n_keys))
        for i in range(n):
            rows[i] = rng.standard_normal((n_keys, width)) @ rng.standard_normal(width)
        weights = softmax(rows / np.sqrt(width) if scaled else rows)
        entropy.append(row_entropy(weights).mean())
        sensitivity.append(1 - np.sum(weights**2, axis=-1).mean())
    return np.array(entropy), np.array(sensitivity)


def qk_norm_scores(q, k, gain=1.0):
    """`gain` times the cosine of each query with each key: -> `(..., T, S)`.

    q `(..., T, d_k)`, k `(..., S, d_k)`; a vector of zeros scores 0.
    Source: A. Henry et al., "Query-Key Normalization for Transformers", 2020.
    """
    return gain * _units(q) @ np.swapaxes(_units(k), -1, -2)


def _units(x):
    x = as_floating(x)
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(length == 0, 1, length)


def soft_cap(scores, cap):
    """`cap * tanh(scores / cap)`: small scores nearly unchanged, none beyond `cap`; same shape.

    Source: Gemma Team, "Gemma 2", 2024, section 2.
    """
    return cap * np.tanh(as_floating(scores) / cap)


LAST_TOKEN_Q = LAST_TOKEN_K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
LAST_TOKEN_V = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
last_token_output, last_token_weights = (
    part[-1] for part in scaled_dot_product_attention(LAST_TOKEN_Q, LAST_TOKEN_K, LAST_TOKEN_V)
)
