"""Chapter 4: who may read whom. A mask is boolean, and True means "may attend"."""

import math

import numpy as np

from utils.reference.dictionary_lookup import as_floating, softmax


def causal_mask(T, S=None):
    """Each query reads itself and what came before: `(T, S)` bool, S = T unless given.

    The last query stands at the last key. With T < S it sees every key; with
    S < T the first T - S queries come before all keys and see none.
    """
    S = T if S is None else S
    return np.arange(S) <= np.arange(T)[:, None] + (S - T)


def padding_mask(lengths, S):
    """Keys within each sequence's length: lengths `(B,)` -> `(B, 1, S)` bool."""
    return np.arange(S) < np.asarray(lengths)[:, None, None]


def sliding_window_mask(T, window, S=None):
    """Causal, and no further back than `window` keys, the token's own among them: `(T, S)` bool."""
    S = T if S is None else S
    ago = np.arange(T)[:, None] + (S - T) - np.arange(S)  # (T, S)
    return (ago >= 0) & (ago < window)


def segment_mask(q_segments, k_segments):
    """Same segment, and not 0, which is padding: `(..., T), (..., S) -> (..., T, S)` bool."""
    q = np.asarray(q_segments)[..., :, None]
    k = np.asarray(k_segments)[..., None, :]
    return (q == k) & (q != 0)


def combine_masks(*masks):
    """What every mask allows, with broadcasting. None is no constraint; none at all gives None."""
    combined = None
    for mask in masks:
        if mask is not None:
            mask = np.asarray(mask, dtype=bool)
            combined = mask if combined is None else combined & mask
    return combined


def additive_mask(mask, dtype=float):
    """What to add to the scores instead: 0 where allowed, -inf where not, of the mask's shape."""
    return np.where(np.asarray(mask, dtype=bool), 0.0, -np.inf).astype(dtype)


def masked_softmax(scores, mask=None):
    """Weights over the allowed keys: scores `(..., T, S)`, mask broadcasts -> `(..., T, S)`.

    What stands in a forbidden slot, NaN and inf included, never matters. A row
    with no allowed key gets zeros.
    """
    scores = as_floating(scores)
    if mask is not None:
        scores = np.where(np.asarray(mask, dtype=bool), scores, -np.inf)
    return softmax(scores)


def masked_attention(q, k, v, mask=None, scale=None):
    """Scaled dot-product attention under a mask.

    q `(..., T, d_k)`, k `(..., S, d_k)`, v `(..., S, d_v)`; the mask broadcasts
    against the scores `(..., T, S)`; scale is 1/sqrt(d_k) unless given. -> out
    `(..., T, d_v)`, weights `(..., T, S)`. Keys and values that no query may
    read may hold anything: zeros stand in for such values, since 0 * NaN is NaN.
    """
    q, k, v = as_floating(q), np.asarray(k), np.asarray(v)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    weights = masked_softmax(q @ np.swapaxes(k, -1, -2) * scale, mask)  # (..., T, S)
    if mask is not None:
        mask = np.atleast_2d(np.asarray(mask, dtype=bool))
        v = np.where(mask.any(axis=-2)[..., None], v, 0)  # (..., S, d_v)
    return weights @ v, weights


def causal_attention_loops(q, k, v):
    """Causal attention of one head by loops over lists, every index visible.

    q, k `(T, d_k)`, v `(T, d_v)` -> out `(T, d_v)`, weights `(T, T)`, as lists.
    """
    T, d_k, d_v = len(q), len(q[0]), len(v[0])
    out, weights = [], []
    for i in range(T):
        scores = []
        for j in range(i + 1):  # j <= i: itself and what came before
            dot = sum(q[i][c] * k[j][c] for c in range(d_k))
            scores.append(dot / math.sqrt(d_k))
        top = max(scores)
        exponentials = [math.exp(score - top) for score in scores]
        total = sum(exponentials)
        row = [e / total for e in exponentials] + [0.0] * (T - 1 - i)
        weights.append(row)
        out.append([sum(row[j] * v[j][c] for j in range(i + 1)) for c in range(d_v)])
    return out, weights


def wasted_mass(scores, mask):
    """Probability on forbidden keys, lost when the mask comes after the softmax.

    scores `(..., T, S)`, mask broadcasts -> `(..., T)`.
    """
    return np.where(np.asarray(mask, dtype=bool), 0, softmax(scores)).sum(axis=-1)


def _unmoved(after, before):
    """Are two outputs the same, up to float noise? What was NaN before may stay so."""
    size = np.abs(np.where(np.isfinite(before), before, 0)).max(initial=1.0)
    return np.allclose(after, before, rtol=0, atol=1e-5 * size, equal_nan=True)


def leaks_future(attention, T, d, rng):
    """Does a row of `attention(q, k, v)`, arrays `(T, d)`, depend on tokens after its own? -> bool

    From every position on, all tokens are replaced by others, small and large;
    the rows before it must stay as they are, up to float noise.
    """
    q, k, v = rng.normal(size=(3, T, d))
    before = np.asarray(attention(q.copy(), k.copy(), v.copy()))  # (T, d_v)
    for t in range(1, T):
        for size in (1.0, 100.0):
            other = rng.normal(size=(3, T, d)) * size
            other[:, :t] = q[:t], k[:t], v[:t]
            if not _unmoved(np.asarray(attention(*other))[:t], before[:t]):
                return True
    return False


def padding_is_ignored(attention, T, d, rng):
    """Are keys and values beyond each length without influence on the rows within it? -> bool

    `attention(q, k, v, lengths)` takes arrays `(B, T, d)` and lengths `(B,)`.
    Padding is replaced by other numbers, small and large, by NaN and by inf.
    """
    lengths = np.clip([T // 2, T, 1, 0, T - 1, 2], 0, T)
    q, k, v = rng.normal(size=(3, len(lengths), T, d))
    within = np.arange(T) < lengths[:, None]  # (B, T)
    before = np.asarray(attention(q.copy(), k.copy(), v.copy(), lengths.copy()))[within]
    random = rng.normal(size=(2, *k.shape))
    for padding in (random, 100 * random, np.full(random.shape, np.nan), np.inf * random):
        k2, v2 = np.where(within[..., None], (k, v), padding)
        after = np.asarray(attention(q.copy(), k2, v2, lengths.copy()))[within]
        if not _unmoved(after, before):
            return False
    return True


def next_token_losses(logits, tokens):
    """Cross-entropy of each next token, in nats: logits `(T, n)`, tokens `(T,)` -> `(T - 1,)`.

    Row t of the logits predicts token t + 1; the last row has nothing to predict.
    """
    logits, tokens = as_floating(logits)[:-1], np.asarray(tokens)[1:]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    right = shifted[np.arange(len(tokens)), tokens]
    return np.log(np.exp(shifted).sum(axis=-1)) - right
