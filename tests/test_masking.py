"""Chapter 4: right answers in many styles pass; wrong ones that no list foresaw are told apart."""

import functools
import itertools
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from grader.course_files import ROOT
from grader.exercises import find
from grader.exercises.masking import LABELS
from grader.faults import find_fault
from grader.judge import judge
from grader.judge import verdict as judged
from grader.specimens import leaks, padding
from utils.check import collect
from utils.reference import masking as right
from utils.reference.dictionary_lookup import softmax


def tri_causal(T, S=None):
    S = T if S is None else S
    return np.tri(T, S, S - T, dtype=bool)


def tril_causal(T, S=None):
    S = T if S is None else S
    return np.tril(np.ones((T, S), bool), S - T)


def torch_causal(T, S=None):
    S = T if S is None else S
    return torch.ones(T, S, dtype=torch.bool).tril(S - T)


def listed_causal(T, S=None):
    S = T if S is None else S
    return [[j <= i + S - T for j in range(S)] for i in range(T)]


def cut_causal(T, S=None):
    S = T if S is None else S
    n = max(T, S)
    return ~np.triu(np.ones((n, n)), 1).astype(bool)[n - T :, n - S :]


def filled_padding(lengths, S):
    mask = np.zeros((len(lengths), 1, S), dtype=bool)
    for b, n in enumerate(lengths):
        mask[b, :, :n] = True
    return mask


def torch_padding(lengths, S):
    return (torch.arange(S)[None] < torch.as_tensor(np.asarray(lengths))[:, None]).unsqueeze(1)


def listed_padding(lengths, S):
    return [[[True] * int(n) + [False] * int(S - n)] for n in lengths]


def triangles_window(T, window, S=None):
    S = T if S is None else S
    return np.tri(T, S, S - T, dtype=bool) & ~np.tri(T, S, S - T - window, dtype=bool)


def xor_window(T, window, S=None):
    S = T if S is None else S
    ones = torch.ones(T, S, dtype=torch.bool)
    return ones.tril(S - T).logical_xor(ones.tril(S - T - window))


def looped_window(T, window, S=None):
    S = T if S is None else S
    mask = np.full((T, S), False)
    for i in range(T):
        at = i + S - T
        mask[i, max(0, at - window + 1) : max(0, at + 1)] = True
    return mask


def torch_segments(q_segments, k_segments):
    q, k = torch.as_tensor(np.asarray(q_segments)), torch.as_tensor(np.asarray(k_segments))
    return q.unsqueeze(-1).eq(k.unsqueeze(-2)) & k.ne(0).unsqueeze(-2)


def expanded_segments(q_segments, k_segments):
    q = np.expand_dims(np.asarray(q_segments), -1)
    k = np.expand_dims(np.asarray(k_segments), -2)
    return ~((q != k) | (k == 0))


def reduced_masks(*masks):
    given = [mask for mask in masks if mask is not None]
    return functools.reduce(np.logical_and, given) if given else None


def multiplied_masks(*masks):
    given = [np.asarray(mask, bool) for mask in masks if mask is not None]
    return np.asarray(math.prod(given), dtype=bool) if given else None


def stacked_masks(*masks):
    given = [np.asarray(mask) for mask in masks if mask is not None]
    return np.all(np.broadcast_arrays(*given), axis=0) if given else None


def log_mask(mask, dtype=float):
    return np.log(np.asarray(mask, dtype=float)).astype(dtype)


def poured_mask(mask, dtype=float):
    out = np.zeros(np.shape(mask), dtype)
    out[~np.asarray(mask, bool)] = -np.inf
    return out


def torch_mask(mask, dtype=float):
    mask = torch.as_tensor(np.asarray(mask, dtype=bool))
    kind = {"float16": torch.float16, "float32": torch.float32}.get(str(dtype), torch.float64)
    return torch.zeros(mask.shape, dtype=kind).masked_fill(~mask, -torch.inf)


def own_softmax(scores, mask=None):
    scores = np.asarray(scores, dtype=float)
    mask = np.ones(scores.shape, bool) if mask is None else np.asarray(mask, bool)
    s = np.where(mask, scores, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def nan_to_num_softmax(scores, mask=None):
    s = np.array(scores, dtype=float)
    if mask is not None:
        s, mask = np.broadcast_arrays(s, np.asarray(mask, bool))
        s = s.copy()
        s[~mask] = -np.inf
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.nan_to_num(e / e.sum(axis=-1, keepdims=True))


def torch_softmax(scores, mask=None):
    s = torch.as_tensor(np.asarray(scores, dtype=float))
    if mask is not None:
        mask = torch.as_tensor(np.asarray(mask, dtype=bool))
        s, mask = torch.broadcast_tensors(s, mask)
        s = s.masked_fill(~mask, -torch.inf)
    return torch.softmax(s, -1).nan_to_num(0.0)


def ma_softmax(scores, mask=None):
    mask = True if mask is None else np.asarray(mask, bool)
    scores = np.asarray(scores, dtype=float)
    scores, mask = np.broadcast_arrays(scores, mask)
    hidden = np.ma.array(scores.copy(), mask=~mask | np.isneginf(scores))
    e = np.ma.exp(hidden - hidden.max(-1, keepdims=True))
    return np.ma.filled(e / e.sum(-1, keepdims=True), 0.0)


def looped_softmax(scores, mask=None):
    scores = np.asarray(scores, dtype=float)
    mask = True if mask is None else np.asarray(mask, bool)
    scores, mask = np.broadcast_arrays(scores, mask)
    out = np.zeros(scores.shape)
    for at in np.ndindex(scores.shape[:-1]):
        allowed = mask[at] & (scores[at] > -np.inf)
        if allowed.any():
            e = np.exp(scores[at][allowed] - scores[at][allowed].max())
            out[at][allowed] = e / e.sum()
    return out


def guarded_softmax(scores, mask=None):
    """A very low finite number for forbidden slots, and zeros there afterwards."""
    scores = np.asarray(scores, dtype=float)
    mask = True if mask is None else np.asarray(mask, bool)
    mask = mask & (scores > -np.inf)
    s = np.where(mask, scores, -1e300)
    e = np.exp(s - s.max(-1, keepdims=True)) * mask
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300)


def einsum_attention(q, k, v, mask=None, scale=None):
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    s = np.einsum("...td,...sd->...ts", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    w = own_softmax(s, mask)
    terms = np.where(w[..., None] == 0, 0, w[..., None] * v[..., None, :, :])
    return terms.sum(-2), w


def cleaned_attention(q, k, v, mask=None, scale=None):
    """Zeros for the values of a key that no query gives any weight."""
    k, v = np.asarray(k, dtype=float).copy(), np.asarray(v, dtype=float).copy()
    q = np.asarray(q, dtype=float)
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    w = nan_to_num_softmax(scores, mask)
    v = np.broadcast_to(v, (*w.shape[:-2], *v.shape[-2:])).copy()
    v[np.all(w == 0, axis=-2)] = 0
    return w @ v, w


def torch_attention(q, k, v, mask=None, scale=None):
    q, k, v = (torch.as_tensor(np.asarray(a, dtype=float)) for a in (q, k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    w = torch_softmax(q @ k.mT * scale, mask)
    if mask is not None:
        read = torch.as_tensor(np.atleast_2d(np.asarray(mask, dtype=bool))).any(-2).unsqueeze(-1)
        v = torch.where(read, v, 0.0)
    return [w @ v, w]


def sdpa_attention(q, k, v, mask=None, scale=None):
    q, k, v = (torch.as_tensor(np.asarray(a, dtype=float)) for a in (q, k, v))
    s = None if mask is None else torch.as_tensor(np.atleast_2d(np.asarray(mask, dtype=bool)))
    if s is not None:
        read = s.any(-2).unsqueeze(-1)
        k, v = torch.where(read, k, 0.0), torch.where(read, v, 0.0)
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=s, scale=scale)
    w = right.masked_attention(q.numpy(), k.numpy(), v.numpy(), mask, scale)[1]
    return out if s is None else torch.where(s.any(-1, keepdim=True), out, 0.0), w


def zipped_loops(q, k, v):
    out, weights = [], []
    for i, query in enumerate(q):
        past = [sum(a * b for a, b in zip(query, key, strict=True)) for key in k[: i + 1]]
        past = [x * len(query) ** -0.5 for x in past]
        e = [math.exp(x - max(past)) for x in past] + [0.0] * (len(q) - i - 1)
        weights.append([x / sum(e) for x in e])
        columns = zip(*v, strict=True)
        out.append([sum(w * x for w, x in zip(weights[-1], c, strict=True)) for c in columns])
    return out, weights


def tupled_loops(q, k, v):
    """A list of two, whose rows are tuples."""
    return [[tuple(row) for row in part] for part in zipped_loops(q, k, v)]


def sum_of_forbidden(scores, mask):
    scores = np.asarray(scores, dtype=float)
    w = torch.softmax(torch.as_tensor(scores), -1).numpy()
    return 1 - (w * np.asarray(mask, bool)).sum(-1)


def log_softmax_losses(logits, tokens):
    logits = torch.as_tensor(np.asarray(logits, dtype=float))[:-1]
    tokens = torch.as_tensor(np.asarray(tokens))[1:].long()
    return torch.nn.functional.cross_entropy(logits, tokens, reduction="none")


def looped_losses(logits, tokens):
    losses = []
    for t in range(len(tokens) - 1):
        row = [float(x) for x in logits[t]]
        top = max(row)
        total = math.log(sum(math.exp(x - top) for x in row)) + top
        losses.append(total - row[tokens[t + 1]])
    return losses


def one_token_at_a_time(attention, T, d, rng):
    """Moves each token by itself, up and down, each of q, k and v by itself."""
    base = rng.standard_normal((3, T, d))
    before = attention(*base)
    for which in range(3):
        for t in range(1, T):
            for by in (-50, -1, 1, 50):
                moved = base.copy()
                moved[which, t] += by * rng.standard_normal(d)
                if np.abs(attention(*moved)[:t] - before[:t]).max() > 1e-8:
                    return True
    return False


def many_futures(attention, T, d, rng):
    q, k, v = (rng.uniform(-2, 2, (T, d)) for _ in range(3))
    old = attention(q.copy(), k.copy(), v.copy())
    for t in range(T - 1):
        for _ in range(5):
            new = [
                np.concatenate([a[: t + 1], rng.uniform(-90, 90, (T - t - 1, d))])
                for a in (q, k, v)
            ]
            if not np.allclose(attention(*new)[: t + 1], old[: t + 1]):
                return np.bool_(True)
    return np.bool_(False)


def sequence_by_sequence(attention, T, d, rng):
    lengths = [0, 1, T // 3, T - 1, T, 4]
    q, k, v = (rng.normal(size=(6, T, d)) for _ in range(3))
    old = np.asarray(attention(q, k, v, lengths))
    for junk in (0.0, -77.0, 77.0, 3.0, np.nan, np.inf):
        k2, v2 = k.copy(), v.copy()
        for b, n in enumerate(lengths):
            k2[b, n:] = v2[b, n:] = junk
        new = np.asarray(attention(q, k2, v2, lengths))
        for b, n in enumerate(lengths):
            if n and not np.allclose(new[b, :n], old[b, :n]):
                return False
    return True


def from_indices(T, S=None):
    S = T if S is None else S
    return np.fromfunction(lambda i, j: j - i <= S - T, (T, S))


def tril_indices(T, S=None):
    S = T if S is None else S
    mask = np.zeros((T, S), bool)
    mask[np.tril_indices(T, S - T, S)] = True
    return mask


def isin_window(T, window, S=None):
    S = T if S is None else S
    return np.isin(np.subtract.outer(np.arange(S - T, S), np.arange(S)), np.arange(window))


def one_hot_segments(q_segments, k_segments):
    q, k = (np.eye(9)[np.asarray(x)][..., 1:] for x in (q_segments, k_segments))
    return np.einsum("...tn,...sn->...ts", q, k).astype(bool)


def not_any_forbids(*masks):
    forbids = [~np.asarray(mask, bool) for mask in masks if mask is not None]
    return ~functools.reduce(np.logical_or, forbids) if forbids else None


def looked_up_mask(mask, dtype=float):
    return np.array([-np.inf, 0.0], dtype)[np.asarray(mask, int)]


def added_softmax(scores, mask=None):
    if mask is None:
        return softmax(scores)
    cleaned = np.where(np.asarray(mask, bool), np.asarray(scores, float), 0)
    return softmax(cleaned + right.additive_mask(mask))


def weighed_attention(q, k, v, mask=None, scale=None):
    w = right.masked_attention(q, k, v, mask, scale)[1]
    return w @ np.where(w.any(-2)[..., None], v, 0), w


def broadcast_attention(q, k, v, mask=None, scale=None):
    q = np.asarray(q, float)
    s = q * (q.shape[-1] ** -0.5 if scale is None else scale) @ np.swapaxes(k, -1, -2)
    if mask is None:
        return softmax(s) @ np.asarray(v), softmax(s)
    mask = np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), s.shape)).astype(bool)
    w = own_softmax(s, mask)
    return w @ np.where(mask.any(axis=-2)[..., None], v, 0), w


def dictionary_loops(q, k, v, past=lambda i: range(i + 1)):
    out, weights = [], []
    for i in range(len(q)):
        dots = {j: sum(a * b for a, b in zip(q[i], k[j], strict=True)) for j in past(i)}
        e = {j: math.exp((x - max(dots.values())) / math.sqrt(len(q[i]))) for j, x in dots.items()}
        row = [e.get(j, 0) / sum(e.values()) for j in range(len(q))]
        weights.append(row)
        out.append([sum(row[j] * v[j][c] for j in range(len(q))) for c in range(len(v[0]))])
    return out, weights


def einsum_mass(scores, mask):
    forbidden = np.broadcast_to(1.0 - np.asarray(mask), np.shape(scores))
    return np.einsum("...s,...s->...", softmax(scores), forbidden)


def logaddexp_losses(logits, tokens):
    z, y = np.asarray(logits, dtype=float)[:-1], np.asarray(tokens)[1:]
    return np.logaddexp.reduce(z, axis=-1) - z[range(len(y)), y]


def one_array_for_all(attention, T, d, rng):
    """Tokens that are their own queries, keys and values."""
    x = rng.normal(size=(T, d))
    before = attention(x, x, x)
    for t, size in itertools.product(range(1, T), (1, 100)):
        y = np.concatenate([x[:t], size * rng.normal(size=(T - t, d))])
        if np.abs(attention(y, y, y)[:t] - before[:t]).max() > 1e-9:
            return True
    return False


def fills_in_place(attention, T, d, rng):
    lengths = np.array(of_all_kinds(T))
    q, k, v = rng.normal(size=(3, len(lengths), T, d))
    within = np.arange(T) < lengths[:, None]
    before = np.nan_to_num(attention(q, k, v, lengths)[within])
    for junk in (1, 100, np.nan):
        k[~within] = v[~within] = junk
        if not np.allclose(np.nan_to_num(attention(q, k, v, lengths)[within]), before):
            return False
    return True


def plain_leak_test(sizes=(1, 100), atol=1e-6, rtol=1e-5):
    """The test that the chapter's hints lead to."""

    def follows_the_hints(attention, T, d, rng):
        q, k, v = (rng.normal(size=(T, d)) for _ in range(3))
        before = attention(q, k, v)
        for t, size in itertools.product(range(1, T), sizes):
            new = [x.copy() for x in (q, k, v)]
            for x in new:
                x[t:] = size * rng.normal(size=(T - t, d))
            if not np.allclose(attention(*new)[:t], before[:t], rtol=rtol, atol=atol):
                return True
        return False

    follows_the_hints.__name__ += f"_{sizes}_{atol}_{rtol}"
    return follows_the_hints


def plain_padding_test(lengths_of, sizes=(1, 100, np.nan), atol=1e-6, rtol=1e-5, moved=None):
    moved = moved or (lambda a, b: not np.allclose(a, b, rtol=rtol, atol=atol))

    def follows_the_hints(attention, T, d, rng):
        lengths = np.array(lengths_of(T))
        q, k, v = (rng.normal(size=(len(lengths), T, d)) for _ in range(3))
        within = np.arange(T) < lengths[:, None]
        before = attention(q, k, v, lengths)[within]
        for size in sizes:
            k2, v2 = (
                np.where(within[..., None], x, size * rng.normal(size=x.shape)) for x in (k, v)
            )
            if moved(attention(q, k2, v2, lengths)[within], before):
                return False
        return True

    follows_the_hints.__name__ += f"_{lengths_of(9)}_{sizes}_{atol}_{rtol}"
    return follows_the_hints


def of_all_kinds(T):
    return [T // 2, T, 1, 0, T - 1]


SENSIBLE = [(1e-9, 0), (1e-8, 1e-5), (1e-4, 0), (1e-8, 1e-4), (1e-4, 1e-4)]  # (atol, rtol)
TOO_WIDE = [(1e-2, 0), (1e-8, 1e-2), (1e-1, 0), (1e-8, 1e-1), (0.1, 0.1)]

RIGHT = {
    "causal_mask": [
        tri_causal, tril_causal, torch_causal, listed_causal, cut_causal, from_indices, tril_indices,
    ],
    "padding_mask": [filled_padding, torch_padding, listed_padding],
    "sliding_window_mask": [triangles_window, xor_window, looped_window, isin_window],
    "segment_mask": [torch_segments, expanded_segments, one_hot_segments],
    "combine_masks": [reduced_masks, multiplied_masks, stacked_masks, not_any_forbids],
    "additive_mask": [log_mask, poured_mask, torch_mask, looked_up_mask],
    "masked_softmax": [
        own_softmax, nan_to_num_softmax, torch_softmax, ma_softmax, looped_softmax, guarded_softmax,
        added_softmax,
    ],
    "masked_attention": [
        einsum_attention, cleaned_attention, torch_attention, sdpa_attention, weighed_attention,
        broadcast_attention,
    ],
    "causal_attention_loops": [zipped_loops, tupled_loops, dictionary_loops],
    "wasted_mass": [sum_of_forbidden, einsum_mass],
    "next_token_losses": [log_softmax_losses, looped_losses, logaddexp_losses],
    "leaks_future": [
        one_token_at_a_time, many_futures, one_array_for_all, plain_leak_test(sizes=[100]),
        *(plain_leak_test(atol=atol, rtol=rtol) for atol, rtol in SENSIBLE),
    ],
    "padding_is_ignored": [
        sequence_by_sequence, fills_in_place,
        plain_padding_test(of_all_kinds, sizes=[100, np.nan]),
        *(plain_padding_test(of_all_kinds, atol=atol, rtol=rtol) for atol, rtol in SENSIBLE),
        plain_padding_test(lambda T: [0, 1, T // 2, T - 1, T]),
        plain_padding_test(lambda T: [T, T - 1, T // 2, 1, 0]),
        plain_padding_test(lambda T: list(range(T + 1))),
        *(
            plain_padding_test(lambda T, turn=turn: [[T // 2, 1, T][at] for at in turn])
            for turn in itertools.permutations(range(3))
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("exercise_id", "candidate"),
    [pytest.param(e, c, id=f"{e}-{c.__name__}") for e, cs in RIGHT.items() for c in cs],
)
@pytest.mark.parametrize("seed", [0, *range(100, 104)])
def test_right_answers_pass_however_they_are_written(exercise_id, candidate, seed):
    verdict = judge(exercise_id, candidate, seed)
    assert verdict.passed, verdict.message


def triu_causal(T, S=None):
    return np.triu(np.ones((T, S or T), dtype=bool), 1 + (S or T) - T)


def column_slip(T, S=None):
    S = T if S is None else S
    return [[j < i + S - T for j in range(S)] for i in range(T)]


def float_triangle(T, S=None):
    S = T if S is None else S
    return np.tri(T, S, S - T)


def flat_padding(lengths, S):
    return np.array([np.arange(S) < n for n in lengths])


def inclusive_padding(lengths, S):
    return np.arange(S)[None, None] <= np.asarray(lengths).reshape(-1, 1, 1)


def wide_window(T, window, S=None):
    S = T if S is None else S
    return np.tri(T, S, S - T, dtype=bool) & ~np.tri(T, S, S - T - window - 1, dtype=bool)


def equal_segments(q_segments, k_segments):
    return np.asarray(q_segments)[..., None] == np.asarray(k_segments)[..., None, :]


def any_mask(*masks):
    given = [m for m in masks if m is not None]
    return functools.reduce(lambda a, b: np.asarray(a) | np.asarray(b), given) if given else None


def weights_times_mask(scores, mask=None):
    w = torch.softmax(torch.as_tensor(np.asarray(scores, dtype=float)), -1).numpy()
    return w if mask is None else w * np.asarray(mask)


def billion(scores, mask=None):
    scores = np.array(scores, dtype=float)
    s = scores if mask is None else np.where(np.asarray(mask, bool), scores, -1e10)
    return torch.softmax(torch.as_tensor(s), -1)


def empty_is_nan(scores, mask=None):
    s = torch.as_tensor(np.asarray(scores, dtype=float))
    if mask is not None:
        s = torch.where(torch.as_tensor(np.asarray(mask, bool)), s, -torch.inf)
    return torch.softmax(s, -1)


def truthy_scale(q, k, v, mask=None, scale=None):
    return right.masked_attention(q, k, v, mask, scale if scale else None)


def dirty_values(q, k, v, mask=None, scale=None):
    q, k = np.asarray(q, dtype=float), np.asarray(k)
    s = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    w = own_softmax(s, mask)
    return np.matmul(w, v), w


def half_open_loop(q, k, v):
    return right.masked_attention(q, k, v, np.tri(len(q), k=-1, dtype=bool))


def unshifted_losses(logits, tokens):
    return log_softmax_losses(np.asarray(logits), np.append(0, tokens)[:-1])


def last_future(attention, T, d, rng):
    q, k, v = rng.normal(size=(3, T, d))
    old = attention(q.copy(), k.copy(), v.copy())
    q[-1], k[-1], v[-1] = 100 * rng.normal(size=(3, d))
    return not np.allclose(attention(q, k, v)[:-1], old[:-1])


def never(attention, T, d, rng):
    attention(*rng.normal(size=(3, T, d)))
    return False


def single_sentence(attention, T, d, rng):
    return bool(sequence_by_sequence_of(attention, T, d, rng, [T - 4]))


def sequence_by_sequence_of(attention, T, d, rng, lengths):
    q, k, v = rng.normal(size=(3, len(lengths), T, d))
    inside = np.arange(T) < np.array(lengths)[:, None]
    old = attention(q, k, v, lengths)[inside]
    for junk in (50.0, -50.0, np.nan):
        k2, v2 = (np.where(inside[..., None], a, junk) for a in (k, v))
        if not np.allclose(attention(q, k2, v2, lengths)[inside], old):
            return False
    return True


def or_causal(T, S=None):
    S = S or T
    return np.tri(T, S, S - T, dtype=bool)


def or_window(T, window, S=None):
    S = S or T
    ago = np.arange(T)[:, None] + S - T - np.arange(S)
    return (ago >= 0) & (ago < window)


def blind_values(q, k, v, mask=None, scale=None):
    w = right.masked_attention(q, k, v, mask, scale)[1]
    return w @ np.nan_to_num(np.asarray(v, dtype=float), posinf=0, neginf=0), w


def blind_output(q, k, v, mask=None, scale=None):
    out, w = right.masked_attention(q, k, v, mask, scale)
    return np.where(np.isfinite(out), out, 0), w


def two_axes_only(q, k, v, mask=None, scale=None):
    w = right.masked_attention(q, k, v, mask, scale)[1]
    if mask is not None:
        v = np.where(np.asarray(mask, bool).any(axis=-2)[..., None], v, 0)
    return w @ np.asarray(v), w


def array_loops(q, k, v):
    return right.masked_attention(q, k, v, right.causal_mask(len(q)))


def rows_of_arrays(q, k, v):
    return tuple(list(part) for part in array_loops(q, k, v))


def numpy_exp_loops(q, k, v):
    return tuple([list(row) for row in part] for part in array_loops(q, k, v))


def after_and(finish, pick=lambda w, m: np.where(m, w, 0)):
    """A masked softmax that masks the weights of chapter 1's softmax, and finishes them."""

    def late(scores, mask=None):
        mask = np.asarray(True if mask is None else mask, bool)
        return finish(pick(softmax(scores), mask))

    return late


def over_its_sum(w):
    return w / w.sum(-1, keepdims=True)


def over_its_sum_or_0(w):
    total = w.sum(-1, keepdims=True)
    return np.where(total > 0, w / np.where(total > 0, total, 1), 0)


def even_rows(scores, mask=None):
    s = np.asarray(scores, dtype=float)
    s = s if mask is None else np.where(np.asarray(mask, bool), s, -np.inf)
    w = over_its_sum(np.exp(s - s.max(-1, keepdims=True)))
    return np.where(np.isnan(w), 1 / w.shape[-1], w)


def attending(weigh):
    def attention(q, k, v, mask=None, scale=None):
        q, k = np.asarray(q, dtype=float), np.asarray(k)
        w = weigh(
            q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale), mask
        )
        if mask is not None:
            v = np.where(np.atleast_2d(np.asarray(mask, bool)).any(-2)[..., None], v, 0)
        return w @ np.asarray(v), w

    return attention


LATE = [
    (lambda w: w, lambda w, m: w * m, "mask_after_softmax"),
    (lambda w: w, lambda w, m: np.where(m, w, 0), "mask_after_softmax"),
    (over_its_sum, lambda w, m: w * m, "renormalised_to_nan"),
    (over_its_sum, lambda w, m: np.where(m, w, 0), "renormalised_to_nan"),
    (over_its_sum_or_0, lambda w, m: w * m, "renormalised_after"),
    (over_its_sum_or_0, lambda w, m: np.where(m, w, 0), "renormalised_after"),
]


def chance(logits, tokens):
    """p of each token that came."""
    p = softmax(np.asarray(logits, dtype=float)[:-1])
    return p[np.arange(len(p)), np.asarray(tokens)[1:]]


def kept_away(keep, name):
    return ("next_token_losses", lambda logits, tokens: -np.log(keep(chance(logits, tokens))), name)


def leaves_changes_in(sizes, start=1):
    """`q2 = q` where a copy was meant."""

    def no_copy(attention, T, d, rng):
        q, k, v = (rng.normal(size=(T, d)) for _ in range(3))
        before = attention(q, k, v)
        for t, size in itertools.product(range(start, T), sizes):
            q2, k2, v2 = q, k, v
            for x in (q2, k2, v2):
                x[t:] = size * rng.normal(size=(T - t, d))
            if not np.allclose(attention(q2, k2, v2)[:t], before[:t]):
                return True
        return False

    return no_copy


def compares_with_itself(attention, T, d, rng):
    q, k, v = (rng.normal(size=(T, d)) for _ in range(3))
    for t in range(1, T):
        q2, k2, v2 = q, k, v
        q2[t:] = k2[t:] = v2[t:] = 100 * rng.normal(size=(T - t, d))
        if not np.allclose(attention(q2, k2, v2)[:t], attention(q, k, v)[:t]):
            return True
    return False


def turns_to_the_past(replaced):
    def past(attention, T, d, rng):
        base = rng.normal(size=(3, T, d))
        before = attention(*base.copy())
        for t in range(1, T):
            other = base.copy()
            other[:, replaced(t)] = 10 * rng.normal(size=other[:, replaced(t)].shape)
            if not np.allclose(attention(*other)[t:], before[t:]):
                return True
        return False

    return past


def has_its_own(attention, T, d, rng):
    q, k, v = rng.normal(size=(3, T, d))
    own = torch.nn.functional.scaled_dot_product_attention(
        *(torch.as_tensor(x) for x in (q, k, v)), is_causal=True
    )
    return not np.allclose(attention(q, k, v), own.numpy())


def shifts_right_only(T, S=None):
    S = T if S is None else S
    return np.arange(S) <= np.arange(T)[:, None] + max(0, S - T)


def sliced_window(T, window, S=None):
    S = T if S is None else S
    mask = np.zeros((T, S), dtype=bool)
    for i in range(T):
        at = i + S - T
        mask[i, at + 1 - window : at + 1] = True
    return mask


def looks_ahead(T, window, S=None):
    S = T if S is None else S
    return np.triu(np.ones((T, S), bool), S - T) & ~np.triu(np.ones((T, S), bool), S - T + window)


def only_then(change):
    """A masked softmax that does nothing without a mask."""
    return lambda scores, mask=None: softmax(scores) if mask is None else change(scores, mask)


def exponentials_times_mask(scores, mask):
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True)) * np.asarray(mask)
    return e / e.sum(-1, keepdims=True)


def maximum_of_all(scores, mask):
    e = np.exp(np.where(mask, scores, -np.inf) - np.max(scores, axis=-1, keepdims=True))
    return e / np.where(e.sum(-1, keepdims=True) == 0, 1, e.sum(-1, keepdims=True))


def values_kept(keep):
    def attention(q, k, v, mask=None, scale=None):
        w = right.masked_attention(q, k, v, mask, scale)[1]
        v = np.asarray(v) if mask is None else np.where(keep(np.atleast_2d(mask))[..., None], v, 0)
        return w @ v, w

    return attention


def one_row_many_times(q, k, v):
    out, weights = zipped_loops(q, k, v)
    table = [[0.0] * len(q)] * len(q)
    for i in range(len(q)):
        table[i][: i + 1] = weights[i][: i + 1]
    return out, table


def returns_in_the_loop(attention, T, d, rng):
    q, k, v = rng.normal(size=(3, T, d))
    before = attention(q.copy(), k.copy(), v.copy())
    for t in range(1, T):
        q[t:], k[t:], v[t:] = 100 * rng.normal(size=(3, T - t, d))
        return not np.allclose(attention(q, k, v)[:t], before[:t])


def returns_in_the_padding_loop(attention, T, d, rng):
    for size in (1, 100, np.nan):
        return plain_padding_test(of_all_kinds, sizes=[size])(attention, T, d, rng)


LIKE = [
    ("causal_mask", shifts_right_only, "shifted_right_only"),
    ("sliding_window_mask", sliced_window, "window_from_the_end"),
    ("sliding_window_mask", looks_ahead, "window_ahead"),
    ("combine_masks", lambda *masks: sum(1 * m for m in masks if m is not None), "added_up"),
    ("masked_softmax", only_then(exponentials_times_mask), "renormalised_to_nan"),
    ("masked_softmax", only_then(maximum_of_all), "renormalised_after"),
    (
        "masked_softmax",
        only_then(lambda s, m: softmax(s - 1e9 * (1 - np.asarray(m)))),
        "adds_a_billion",
    ),
    (
        "masked_softmax",
        only_then(lambda s, m: softmax(np.where(m, s, -1e6))),
        "fills_with_a_billion",
    ),
    ("masked_attention", values_kept(lambda m: m.all(axis=-2)), "clears_what_some_read"),
    ("masked_attention", values_kept(lambda m: m.any(axis=-1)), "asks_the_queries"),
    ("causal_attention_loops", one_row_many_times, "loop_shares_weights"),
    ("next_token_losses", lambda z, y: 1 - chance(z, y), "one_minus_p"),
    ("leaks_future", returns_in_the_loop, "first_row_only"),
    ("padding_is_ignored", returns_in_the_padding_loop, "ordinary_numbers_only"),
    (
        "padding_is_ignored",
        plain_padding_test(of_all_kinds, moved=lambda a, b: np.isnan(a).any()),
        "looks_for_nan_only",
    ),
    ("causal_attention_loops", array_loops, "returns_arrays"),
    ("causal_attention_loops", rows_of_arrays, "returns_arrays"),
    ("causal_attention_loops", numpy_exp_loops, "numpy_numbers"),
    ("masked_softmax", even_rows, "even_where_zero"),
    ("masked_attention", attending(even_rows), "attention_even_where_empty"),
    *(("masked_softmax", after_and(f, pick), name) for f, pick, name in LATE),
    *(
        ("masked_attention", attending(after_and(f, pick)), f"attention_{name}")
        for f, pick, name in LATE
    ),
    *(
        kept_away(lambda p, small=10.0**-n: p + small, f"small_number_added_1e_{n}")
        for n in (4, 6, 8, 9, 10, 12, 15)
    ),
    *(
        kept_away(lambda p, small=10.0**-n: np.clip(p, small, 1), f"small_number_added_1e_{n}")
        for n in (10, 12, 15)
    ),
    kept_away(lambda p: p, "log_of_nothing"),
    *(
        ("leaks_future", plain_leak_test(atol=a, rtol=r), "leak_too_tolerant")
        for a, r in TOO_WIDE[:3]
    ),
    *(
        (
            "padding_is_ignored",
            plain_padding_test(of_all_kinds, atol=a, rtol=r),
            "padding_too_tolerant",
        )
        for a, r in TOO_WIDE[:3]
    ),
    ("leaks_future", leaves_changes_in([1, 100]), "changes_stay"),
    ("leaks_future", leaves_changes_in([5]), "changes_stay"),
    ("leaks_future", leaves_changes_in([1, 100], start=2), "changes_stay"),
    ("leaks_future", compares_with_itself, "never_leaks"),
    ("leaks_future", turns_to_the_past(lambda t: slice(t)), "changes_the_past"),
    ("leaks_future", turns_to_the_past(lambda t: slice(t - 1, t)), "changes_the_past"),
    ("leaks_future", has_its_own, "compares_with_its_own"),
    ("padding_is_ignored", plain_padding_test(of_all_kinds, sizes=[1, 100]), "no_nan_tried"),
    ("padding_is_ignored", plain_padding_test(of_all_kinds, sizes=[1, np.nan]), "no_large_padding"),
    ("padding_is_ignored", plain_padding_test(of_all_kinds, sizes=[np.nan]), "no_large_padding"),
    *(
        ("padding_is_ignored", plain_padding_test(of_all_kinds, moved=moved), "blind_to_nan")
        for moved in (
            lambda a, b: (abs(a - b) > 1e-6).any(),
            lambda a, b: np.abs(a - b).max() > 1e-6,
        )
    ),
    *(
        ("padding_is_ignored", plain_padding_test(lengths), "no_padding_behind")
        for lengths in (lambda T: [T, 0], lambda T: [0, T, T], lambda T: [0, T, 0])
    ),
    ("padding_is_ignored", plain_padding_test(lambda T: [T]), "always_ignored"),
    ("causal_mask", triu_causal, "turned_round"),
    ("causal_mask", column_slip, "leaves_itself_out"),
    ("causal_mask", float_triangle, "numbers_for_booleans"),
    ("causal_mask", lambda T, S=None: np.tril(np.ones((T, S or T), bool)), "aligned_to_the_start"),
    ("padding_mask", flat_padding, "no_query_axis"),
    ("padding_mask", inclusive_padding, "one_key_more"),
    ("sliding_window_mask", wide_window, "counts_itself_extra"),
    ("segment_mask", equal_segments, "padding_meets_padding"),
    ("combine_masks", any_mask, "joined_with_or"),
    ("masked_softmax", weights_times_mask, "mask_after_softmax"),
    ("masked_softmax", billion, "fills_with_a_billion"),
    ("masked_softmax", empty_is_nan, "nan_where_empty"),
    ("masked_attention", truthy_scale, "zero_is_no_scale"),
    ("masked_attention", dirty_values, "zero_times_nan"),
    ("causal_attention_loops", half_open_loop, "loop_stops_before_itself"),
    ("next_token_losses", unshifted_losses, "not_shifted"),
    ("leaks_future", last_future, "changes_the_last_only"),
    ("leaks_future", never, "never_leaks"),
    ("padding_is_ignored", single_sentence, "one_sequence_only"),
]


@pytest.mark.parametrize(
    ("exercise_id", "candidate", "name"), LIKE, ids=[f"{e}-{n}" for e, _, n in LIKE]
)
@pytest.mark.parametrize("hidden", [False, True])
def test_mistakes_are_named_however_they_are_written(exercise_id, candidate, name, hidden):
    verdict = judge(exercise_id, candidate, seed=3, hidden=hidden)
    assert not verdict.passed
    assert verdict.mistake == name, verdict.message


def test_the_policies_of_the_chapter_hold_in_the_reference():
    nan = np.full((3, 5, 4), np.nan)
    q = np.random.default_rng(0).normal(size=(3, 6, 4))
    mask = right.padding_mask([0, 2, 5], 5)
    inside = np.swapaxes(mask, 1, 2)
    k, v = np.where(inside, 0.5, nan), np.where(inside, 2.0, nan)
    out, weights = right.masked_attention(q, k, v, mask)
    assert np.array_equal(weights.sum(-1), [[0] * 6, [1] * 6, [1] * 6])
    assert np.allclose(out, 2.0 * weights.sum(-1, keepdims=True))
    assert right.combine_masks() is None and right.combine_masks(None) is None
    assert right.causal_mask(4, 2).tolist() == [[False] * 2] * 2 + [[True, False], [True, True]]
    assert right.masked_softmax(np.ones((2, 3), "f4"), mask[1, :, :3]).dtype == np.float32
    assert right.additive_mask([[True, False]], "float16").dtype == np.float16


# ---- the tests that the student writes ----------------------------------------------------------


@pytest.mark.parametrize("exercise_id", ["leaks_future", "padding_is_ignored"])
@pytest.mark.parametrize("seed", range(8))
def test_the_reference_knows_every_specimen(exercise_id, seed):
    exercise = find(exercise_id)
    cases = exercise.cases(seed)
    sound = [LABELS[case.args[0].source][0] for case in cases]
    for case, answer in zip(cases, collect(cases, exercise.reference), strict=True):
        label, what, *_ = LABELS[case.args[0].source]
        assert answer.value is (label if exercise_id == "padding_is_ignored" else not label), what
    text = (
        (ROOT / "solutions" / "04_masking.py")
        .read_text()
        .partition(f"### Exercise: `{exercise_id}`")[2]
    )
    assert f"{len(cases)} functions" in text[:2000]
    assert 2 * sum(sound) == len(sound)


@pytest.mark.parametrize("f", [*leaks.SOUND, *leaks.LEAKY], ids=lambda f: f.__name__)
def test_a_leaky_specimen_reacts_to_a_later_token_and_a_sound_one_to_none(f):
    """By derivative: one number moved at a time, from several starting points, row by row."""
    reacts = False
    for seed in range(3):
        rng = np.random.default_rng(seed)
        base = rng.normal(size=(3, 11, 4))
        base[:, 8:] *= 1 + 9 * seed
        before = f(*base.copy())
        for part in range(3):
            for t in range(1, 11):
                for by in (0.5, 40.0):
                    moved = base.copy()
                    moved[part, t, seed % 4] += by
                    gap = np.abs(f(*moved)[:t] - before[:t]).max()
                    assert gap < 1e-10 or f in leaks.LEAKY, f.__doc__
                    reacts |= gap > 1e-6
    assert reacts == (f in leaks.LEAKY)


@pytest.mark.parametrize("f", [*padding.SOUND, *padding.LEAKY], ids=lambda f: f.__name__)
def test_a_specimen_of_padding_is_what_it_says(f):
    """One padded slot at a time, keys and values apart; sound ones also equal their cut version."""
    rng = np.random.default_rng(1)
    lengths = np.array([6, 0, 1, 9, 4])
    q, k, v = rng.normal(size=(3, 5, 9, 3))
    within = np.arange(9) < lengths[:, None]
    before = f(q, k, v, lengths)[within]
    assert np.isfinite(before).all()
    reacts = False
    for b, n in enumerate(lengths):
        for slot in range(n, 9):
            for junk in (0.5, 60.0, np.nan, -np.inf):
                for which in "kv":
                    k2, v2 = k.copy(), v.copy()
                    (k2 if which == "k" else v2)[b, slot] = junk
                    with np.errstate(all="ignore"):
                        after = f(q, k2, v2, lengths)[within]
                    reacts |= not np.allclose(after, before, rtol=0, atol=1e-9)
    assert reacts == (f in padding.LEAKY)


@pytest.mark.parametrize("exercise_id", ["leaks_future", "padding_is_ignored"])
def test_the_labels_do_not_travel(exercise_id):
    """Neither name, docstring nor order says which specimens are sound."""
    orders = set()
    for seed in range(3):
        wire = [case.to_wire() for case in find(exercise_id).cases(seed)]
        orders.add(tuple(args[0].source for args, *_ in wire))
        for number, (args, _, name, _) in enumerate(wire):
            assert name == str(number) and args[0].source.startswith("def specimen(q, k, v")
            assert '"""' not in args[0].source and "#" not in args[0].source
    assert len(orders) == 3


def test_too_weak_and_too_strict_are_told_apart_in_words():
    def trusts_the_first(attention, T, d, rng):
        base = rng.normal(size=(3, T, d))
        before = attention(*base.copy())
        for t in range(2, T):
            other = base.copy()
            other[:, t:] = 90 * rng.normal(size=(3, T - t, d))
            if not np.allclose(attention(*other)[1:t], before[1:t]):
                return True
        return False

    def hates_zeros(attention, T, d, rng):
        return right.leaks_future(attention, T, d, rng) or not np.any(
            attention(*rng.normal(size=(3, T, d)))
        )

    weak = judge("leaks_future", trusts_the_first)
    assert weak.mistake == "too_weak" and "leaks in row 0 only" in weak.message
    strict = judge("leaks_future", hates_zeros)
    assert strict.mistake == "too_strict" and "returns zeros" in strict.message
    assert weak.score == strict.score == 0
    assert weak.message.startswith("Too weak: ") and "Of 32 it judges" in weak.message


def test_what_is_said_of_a_test_belongs_to_what_it_misjudges():
    """Every position was tried, so nothing is said of positions; plain attention is named first."""

    def sums_of_small_numbers(attention, T, d, rng):
        base = rng.normal(size=(3, T, d))
        before = attention(*base.copy())
        for t in range(1, T):
            other = base.copy()
            other[:, t:] = rng.normal(size=(3, T - t, d))
            if abs(attention(*other)[:t].sum() - before[:t].sum()) > 1e-6:
                return True
        return False

    missed = judge("leaks_future", sums_of_small_numbers)
    assert missed.mistake == "too_weak" and "Of 32 it judges 30 rightly" in missed.message
    assert "position" not in missed.message and "large numbers" in missed.message

    def turns_down(what):
        return lambda attention, T, d, rng: (
            any(
                np.allclose(attention(*x), f(*x))
                for x in [rng.normal(size=(3, T, d))]
                for f in what
            )
            or right.leaks_future(attention, T, d, rng)
        )

    strict = judge("leaks_future", turns_down([leaks.rounds_by_all, leaks.reads_the_past]))
    assert strict.mistake == "too_strict" and "is plain causal attention" in strict.message
    strict = judge("leaks_future", turns_down([leaks.counts_the_tokens]))
    assert strict.mistake == "too_strict" and "Keep T tokens" in strict.message


# A batch as the chapter asks for: lengths of 1, T and between among others, in any order.
BATCHES = [(1, 5, 9), (0, 1, 4, 8, 9), (0, 0, 1, 1, 2, 9), tuple(range(10)), (1, 8, 9)]
MIX_UPS = (
    padding.takes_anothers_length,
    padding.goes_by_the_longest,
    padding.reads_the_others_padding,
)


def _orders(lengths):
    """All orders of a few; of many, rising, falling, every turn of them and some at random."""
    if len(lengths) <= 5:
        return list(itertools.permutations(lengths))
    rng = np.random.default_rng(0)
    turns = [lengths[i:] + lengths[:i] for i in range(len(lengths))]
    return [*turns, *(turn[::-1] for turn in turns), *(rng.permutation(lengths) for _ in range(30))]


def _finds(f, lengths, atol=1e-4):
    test = plain_padding_test(lambda T: lengths, sizes=[1, 100, np.nan], atol=atol)
    return not test(f, 9, 3, np.random.default_rng(sum(n * 10**i for i, n in enumerate(lengths))))


@pytest.mark.parametrize("f", padding.LEAKY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("lengths", BATCHES, ids=str)
def test_every_batch_that_the_chapter_asks_for_shows_every_leak(f, lengths):
    with np.errstate(all="ignore"):
        missed = [order for order in _orders(lengths) if not _finds(f, [int(n) for n in order])]
    assert not missed


@pytest.mark.parametrize("f", MIX_UPS, ids=lambda f: f.__name__)
def test_any_two_different_lengths_show_a_mix_up(f):
    batches = [(2, 3, 9), (3, 8), (0, 2, 5), (4, 4, 5), (1, 1, 1, 2), (0, 0, 7, 8)]
    with np.errstate(all="ignore"):
        missed = [order for b in batches for order in _orders(b) if not _finds(f, list(order))]
    assert not missed


@pytest.mark.parametrize(("atol", "rtol"), TOO_WIDE)
def test_a_tolerance_of_a_hundredth_is_too_wide(atol, rtol):
    for seed in range(3):
        leak = judge("leaks_future", plain_leak_test(atol=atol, rtol=rtol), seed)
        pad = judge(
            "padding_is_ignored", plain_padding_test(of_all_kinds, atol=atol, rtol=rtol), seed
        )
        for verdict in (leak, pad):
            assert not verdict.passed and "tolerance" in verdict.message


def test_means_hide_leaks():
    def by_mean(attention, T, d, rng):
        base = rng.normal(size=(3, T, d))
        before = attention(*base.copy())
        for t, size in itertools.product(range(1, T), (1, 100)):
            other = base.copy()
            other[:, t:] = size * rng.normal(size=(3, T - t, d))
            if abs(attention(*other)[:t].sum() - before[:t].sum()) > 1e-6:
                return True
        return False

    assert judge("leaks_future", by_mean).mistake == "leak_compares_means"
    test = plain_padding_test(of_all_kinds, moved=lambda a, b: not abs((a - b).mean()) < 1e-6)
    assert judge("padding_is_ignored", test).mistake == "padding_compares_means"


# ---- what a card says ----------------------------------------------------------------------------


@pytest.mark.parametrize("exercise_id", RIGHT)
def test_advice_speaks_of_the_answer_and_gives_no_line_away(exercise_id):
    """Advice is about what came in; what is said where nothing is known holds no line of code."""
    exercise = find(exercise_id)
    for mistake in exercise.mistakes:
        assert re.match(r"Yours? ", mistake.advice), mistake.advice
    for hint in exercise.hints.values():
        assert not re.search(r"<=|np\.where\(|np\.arange|&|== |\[:|any\(", hint), hint


def brackets_forgotten(T, window, S=None):
    S = T if S is None else S
    ago = np.arange(T)[:, None] + S - T - np.arange(S)
    return ago >= 0 & ago < window


def chained(T, window, S=None):
    S = T if S is None else S
    return 0 <= np.arange(T)[:, None] + S - T - np.arange(S) < window


def joined_by_and(T, window, S=None):
    S = T if S is None else S
    ago = np.arange(T)[:, None] + S - T - np.arange(S)
    return (ago >= 0) and (ago < window)


@pytest.mark.parametrize("candidate", [brackets_forgotten, chained, joined_by_and])
def test_conditions_that_want_one_yes_or_no_are_joined_with_an_ampersand(candidate):
    message = judge("sliding_window_mask", candidate).message
    assert all(word in message for word in ("`and`", "brackets", "`&`"))


@pytest.mark.parametrize(
    ("exercise_id", "candidate", "words"),
    [
        ("causal_mask", lambda T, S: right.causal_mask(T, S), "needs a default"),
        (
            "combine_masks",
            lambda *masks: functools.reduce(np.logical_and, (m for m in masks if m is not None)),
            "nothing to join",
        ),
        ("masked_attention", values_kept(lambda m: m.any(axis=-3)), "fewer axes here"),
        (
            "causal_attention_loops",
            functools.partial(dictionary_loops, past=range),
            "is something empty that should not be",
        ),
        ("padding_mask", lambda lengths, S: np.arange(S) < lengths, "Is a new axis missing"),
    ],
)
def test_an_error_is_explained(exercise_id, candidate, words):
    message = judge(exercise_id, candidate).message
    assert words in message and "with :" not in message


def test_masks_of_different_shapes_do_not_go_into_one_array():
    verdict = judge(
        "combine_masks", lambda *masks: np.all([m for m in masks if m is not None], axis=0)
    )
    assert (
        "Arrays of different shapes" in verdict.message and "masks[1] of shape" in verdict.message
    )


@pytest.mark.parametrize("column", range(9))
def test_the_numbers_that_differ_are_shown_wherever_they_stand(column):
    def one_cell_flipped(T, S=None):
        mask = right.causal_mask(T, S)
        if mask.shape == (9, 9):
            mask[4, column] ^= True
        return mask

    exercise = find("causal_mask")
    case = replace(exercise.cases()[0], args=(9,))
    (wanted,), (wrong,) = collect([case], exercise.reference), collect([case], one_cell_flipped)
    came, should = find_fault(exercise, case, wrong, wanted).sentence.split("; ")
    assert came.startswith("row 4 of yours") and came.partition("[")[2] != should.partition("[")[2]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_test_that_never_ends_is_told_so(hidden):
    def endless(attention, T, d, rng):
        while True:
            pass

    cases = find("leaks_future").cases(0, hidden)
    answers = collect(cases, endless, seconds=0.2)
    verdict = judged(find("leaks_future"), cases, answers, hidden)
    assert verdict.mistake == "never_returns"


def test_a_remark_says_what_to_do():
    def as_hinted(*masks):
        combined = None
        for mask in masks:
            if mask is not None:
                combined = mask if combined is None else combined & mask
        return combined

    verdict = judge("combine_masks", as_hinted)
    assert verdict.passed and "np.asarray(mask, dtype=bool)" in verdict.message


@pytest.mark.parametrize(
    ("exercise_id", "candidate", "words"),
    [
        ("causal_mask", or_causal, "`S is None`"),
        ("sliding_window_mask", or_window, "`S is None`"),
        ("masked_attention", blind_values, "A NaN that is read"),
        ("masked_attention", blind_output, "A NaN that is read"),
        ("masked_attention", two_axes_only, "np.atleast_2d"),
    ],
)
def test_what_no_text_asks_for_is_remarked_and_costs_nothing(exercise_id, candidate, words):
    for hidden in (False, True):
        verdict = judge(exercise_id, candidate, seed=2, hidden=hidden)
        assert verdict.passed and words in verdict.message


def _card(exercise_id, candidate):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return judge(exercise_id, candidate)._repr_html_()


def test_a_card_shows_masks_as_marks_and_frames_what_differs():
    card = _card("causal_mask", lambda T, S=None: np.ones((T, T if S is None else S), bool))
    assert "✓</td>" in card and "·</td>" in card and "1.00" not in card and "−" not in card
    assert card.count("2px solid;") > 0 and "framed" in card


@pytest.mark.parametrize("fill", [np.finfo(float).min, np.inf, -1e9, np.nan])
def test_a_card_has_short_numbers_and_no_warnings(fill):
    card = _card("additive_mask", lambda mask, dtype=float: np.where(mask, 0, fill).astype(dtype))
    cells = re.findall(r">([^<>]*)</td>", card)
    assert cells and all(len(cell) <= 10 for cell in cells)


def test_nested_lists_are_named_by_their_shape():
    message = judge("causal_attention_loops", lambda q, k, v: (v, v)).message
    assert "as lists of shape" in message and "items" not in message


# ---- one pass and many ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_one_causal_pass_gives_the_losses_of_separate_passes(seed):
    rng = np.random.default_rng(seed)
    E, W_q, W_k, W_v, W_o = (rng.normal(size=s) for s in ((9, 6), (6, 4), (6, 4), (6, 5), (5, 9)))
    tokens = rng.integers(9, size=8)

    def logits(tokens):
        x = E[tokens]
        mask = right.causal_mask(len(tokens))
        return right.masked_attention(x @ W_q, x @ W_k, x @ W_v, mask)[0] @ W_o

    whole = right.next_token_losses(logits(tokens), tokens)
    for t in range(7):
        row = logits(tokens[: t + 1])[-1]
        p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        assert whole[t] == pytest.approx(-np.log(p[tokens[t + 1]]))
