"""Attention of `(B, T, d)` and lengths `(B,)`: docstrings go on from "an attention that ...".

In SOUND ones no key or value beyond a length reaches a row within it, not even
as NaN; in LEAKY ones one does. Each stands alone: a copy of its source runs in
the student's process. A docstring's second paragraph says what a test lacks that
judges it wrongly; the first that is judged wrongly is the one named. Every LEAKY
one shows in every batch that holds lengths of 1, of T and between them, whatever
else is in it and in whatever order.
"""

import numpy as np

# ---- sound -----------------------------------------------------------------------------------


def skips_padding(q, k, v, lengths):
    """hides padded keys from the softmax and puts zeros for padded values"""
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None, None]
    s = np.where(m, q @ np.swapaxes(k, 1, 2) / np.sqrt(q.shape[2]), -np.inf)
    top = s.max(axis=2, keepdims=True)
    w = np.exp(s - np.where(np.isneginf(top), 0.0, top))
    w = w / np.where(m.any(axis=2, keepdims=True), w.sum(axis=2, keepdims=True), 1.0)
    return w @ np.where(m[:, 0, :, None], v, 0.0)


def cuts_each_sequence(q, k, v, lengths):
    """cuts every sequence to its length first, and leaves zeros behind"""
    out = np.zeros(v.shape)
    for b, n in enumerate(lengths):
        if n:
            s = q[b, :n] @ k[b, :n].T
            w = np.exp(s - s.max(axis=1, keepdims=True))
            out[b, :n] = w / w.sum(axis=1, keepdims=True) @ v[b, :n]
    return out


def says_nonsense_behind(q, k, v, lengths):
    """is right within each length; what its padded rows hold does not matter

    Compare rows within each length only.
    """
    out = 5.0 * v + k
    for b, n in enumerate(lengths):
        if n:
            s = q[b, :n] @ k[b, :n].T
            w = np.exp(s - s.max(axis=1, keepdims=True))
            out[b, :n] = w / w.sum(axis=1, keepdims=True) @ v[b, :n]
    return out


def has_nan_behind(q, k, v, lengths):
    """is right within each length, and NaN beyond it

    Compare rows within each length only.
    """
    out = np.full(v.shape, np.nan)
    for b, n in enumerate(lengths):
        if n:
            out[b, :n] = np.tanh(q[b, :n] @ k[b, :n].T) @ v[b, :n]
    return out


def rounds_by_padding(q, k, v, lengths):
    """adds a number made of all values and takes it away again: only rounding is left

    Allow for rounding: np.allclose instead of equality.
    """
    shift = 1000.0 * np.sin(np.where(np.isfinite(v), v, 0.0)).sum()
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None]
    return np.cumsum(np.where(m[..., None], v, 0.0), axis=1) + shift - shift


def is_causal_too(q, k, v, lengths):
    """hides padding and the future"""
    T = k.shape[1]
    m = (np.arange(T) < np.asarray(lengths)[:, None, None]) & np.tri(T, dtype=bool)
    s = np.where(m, q @ np.swapaxes(k, 1, 2), -np.inf)
    top = s.max(axis=2, keepdims=True)
    w = np.exp(s - np.where(np.isneginf(top), 0.0, top))
    w = w / np.where(m.any(axis=2, keepdims=True), w.sum(axis=2, keepdims=True), 1.0)
    return w @ np.where((np.arange(T) < np.asarray(lengths)[:, None])[..., None], v, 0.0)


def divides_by_the_slots(q, k, v, lengths):
    """divides by the number of slots, which is neither a key nor a value

    Keep the number of slots, and change what stands in them.
    """
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None]
    total = np.where(m[..., None], v, 0.0).sum(axis=1, keepdims=True)
    return q + total / k.shape[1]


def takes_the_mean(q, k, v, lengths):
    """takes the mean of the values within the length"""
    n = np.asarray(lengths)[:, None, None]
    total = np.where(np.arange(v.shape[1])[:, None] < n, v, 0.0).sum(axis=1, keepdims=True)
    return q + total / np.maximum(n, 1)


def reads_itself(q, k, v, lengths):
    """reads its own token alone"""
    return v * np.tanh((q * k).sum(axis=2, keepdims=True))


def says_nothing(q, k, v, lengths):
    """returns zeros

    Rows that do not move are no leak: compare two outputs of one attention, and nothing else.
    """
    return np.zeros(v.shape)


def scales_by_the_length(q, k, v, lengths):
    """sharpens the scores by the length"""
    out = np.zeros(v.shape)
    for b, n in enumerate(lengths):
        if n:
            s = q[b, :n] @ k[b, :n].T * np.log(1 + n)
            w = np.exp(s - s.max(axis=1, keepdims=True))
            out[b, :n] = w / w.sum(axis=1, keepdims=True) @ v[b, :n]
    return out


def mixes_the_batch(q, k, v, lengths):
    """adds the mean of all real values of the batch to every row

    Keep the batch together, and change the padding alone.
    """
    m = (np.arange(k.shape[1]) < np.asarray(lengths)[:, None])[..., None]
    return q + np.where(m, v, 0.0).sum(axis=(0, 1)) / max(m.sum(), 1)


def counts_from_the_end(q, k, v, lengths):
    """weighs each token by how far it stands from the end of its sequence"""
    ago = np.asarray(lengths)[:, None] - 1 - np.arange(k.shape[1])
    w = np.where(ago >= 0, 0.5 ** np.maximum(ago, 0), 0.0)[..., None]
    return q + (w * np.where(ago[..., None] >= 0, v, 0.0)).sum(axis=1, keepdims=True)


def divides_by_the_longest(q, k, v, lengths):
    """divides by the longest length of the batch, which is neither a key nor a value

    Leave the lengths and the batch as they are, and change the padding alone.
    """
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None]
    total = np.where(m[..., None], v, 0.0).sum(axis=1, keepdims=True)
    return q + total / max(np.max(lengths), 1)


def reads_its_neighbours(q, k, v, lengths):
    """adds the tokens before and after, as far as they lie within the length"""
    real = np.where((np.arange(v.shape[1]) < np.asarray(lengths)[:, None])[..., None], v, 0.0)
    out = q + real
    out[:, 1:] += real[:, :-1]
    out[:, :-1] += real[:, 1:]
    return out


def adds_up_the_past(q, k, v, lengths):
    """adds up the values so far, with zeros for padding"""
    m = (np.arange(v.shape[1]) < np.asarray(lengths)[:, None])[..., None]
    return np.tanh(q) * np.cumsum(np.where(m, v * np.tanh(k), 0.0), axis=1)


def takes_the_largest(q, k, v, lengths):
    """adds the largest value of each column within the length"""
    m = (np.arange(v.shape[1]) < np.asarray(lengths)[:, None])[..., None]
    return q + np.where(m, v, -50.0).max(axis=1, keepdims=True)


# ---- leaky -----------------------------------------------------------------------------------


def has_no_mask(q, k, v, lengths):
    """reads padding like everything else"""
    s = q @ np.swapaxes(k, 1, 2) / np.sqrt(q.shape[2])
    w = np.exp(s - s.max(axis=2, keepdims=True))
    return w / w.sum(axis=2, keepdims=True) @ v


def whispers_padding(q, k, v, lengths):
    """moves by a few thousandths with the padding, however large its numbers are

    Is your tolerance too wide? Rounding is far smaller than a thousandth.
    """
    m = (np.arange(k.shape[1]) < np.asarray(lengths)[:, None])[..., None]
    padded = np.nan_to_num(np.where(m, 0.0, k + v), posinf=0.0, neginf=0.0)
    out = 2.0 + np.tanh(q + np.where(m, v, 0.0).sum(axis=1, keepdims=True))
    return out + 0.003 * np.sin(padded.sum(axis=1, keepdims=True))


def gives_and_takes(q, k, v, lengths):
    """moves one column by as much as another the other way, so that their mean stays

    Compare every number, not a mean or a sum of them.
    """
    m = (np.arange(k.shape[1]) < np.asarray(lengths)[:, None])[..., None]
    padded = np.nan_to_num(np.where(m, 0.0, k + v), posinf=0.0, neginf=0.0)
    moved = np.sin(padded.sum(axis=1, keepdims=True)[..., 0])
    out = q + np.where(m, v, 0.0).sum(axis=1, keepdims=True)
    out[..., 0] += moved
    out[..., 1] -= moved
    return out


def counts_what_is_a_number(q, k, v, lengths):
    """divides by the number of slots that hold no NaN, so that NaN moves it to another number

    Put NaN into the padding, and compare the numbers that come back as well.
    """
    n = np.isfinite(k + v).all(axis=2).sum(axis=1)
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None]
    total = np.where(m[..., None], v, 0.0).sum(axis=1, keepdims=True)
    return q + total / (1.0 + n[:, None, None])


def counts_padded_values(q, k, v, lengths):
    """hides padded keys, and adds the mean of all values

    Change padded values as well.
    """
    m = (np.arange(k.shape[1]) < np.asarray(lengths)[:, None])[..., None]
    w = np.where(m, np.tanh(np.where(m, k, 0.0)), 0.0)
    return q + (w * np.where(m, v, 0.0)).sum(axis=1, keepdims=True) + v.mean(axis=1, keepdims=True)


def counts_padded_keys(q, k, v, lengths):
    """weighs padded values with 0, but counts their keys in the sum it divides by

    Change padded keys as well.
    """
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None, None]
    s = q @ np.swapaxes(k, 1, 2) / np.sqrt(q.shape[2])
    w = np.exp(s - s.max(axis=2, keepdims=True))
    w = w / w.sum(axis=2, keepdims=True)
    return np.where(m, w, 0.0) @ np.where(m[:, 0, :, None], v, 0.0)


def takes_anothers_length(q, k, v, lengths):
    """mixes up the lengths: each sequence is cut at the longest of the others

    Put sequences of different lengths into one batch.
    """
    n = [max([0, *lengths[:b], *lengths[b + 1 :]]) for b in range(len(lengths))]
    m = np.arange(k.shape[1]) < np.array(n)[:, None]
    w = np.where(m, 1.0, 0.0)[..., None]
    return q + np.where(m[..., None], v, 0.0).sum(axis=1, keepdims=True) / (
        1.0 + w.sum(axis=1, keepdims=True)
    )


def stops_one_late(q, k, v, lengths):
    """reads the first padded token

    Change every padded slot, the first among them.
    """
    m = np.arange(k.shape[1]) <= np.asarray(lengths)[:, None]
    return q + np.where(m[..., None], v, 0.0).sum(axis=1, keepdims=True)


def stops_two_late(q, k, v, lengths):
    """reads the second padded token

    Change every padded slot, those in the middle among them.
    """
    slots, n = np.arange(k.shape[1]), np.asarray(lengths)[:, None]
    return q + np.where(((slots < n) | (slots == n + 1))[..., None], v, 0.0).sum(
        axis=1, keepdims=True
    )


def multiplies_values_by_zero(q, k, v, lengths):
    """gives padding a weight of 0, and lets NaN through: 0 times NaN is NaN

    Put NaN into padded values, and see that your comparison notices it: NaN > x is False.
    """
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None, None]
    s = np.where(m, q @ np.swapaxes(k, 1, 2), -1e30)
    w = np.exp(s - s.max(axis=2, keepdims=True)) * m
    return w / np.where(m.any(axis=2, keepdims=True), w.sum(axis=2, keepdims=True), 1.0) @ v


def adds_to_its_scores(q, k, v, lengths):
    """adds minus infinity to the scores of padded keys, and lets NaN through: NaN stays NaN

    Put NaN into padded keys, and see that your comparison notices it: NaN > x is False.
    """
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None, None]
    s = q @ np.swapaxes(k, 1, 2) + np.where(m, 0.0, -np.inf)
    top = s.max(axis=2, keepdims=True)
    w = np.exp(s - np.where(np.isneginf(top), 0.0, top))
    w = w / np.where(m.any(axis=2, keepdims=True), w.sum(axis=2, keepdims=True), 1.0)
    return w @ np.where(m[:, 0, :, None], v, 0.0)


def goes_by_the_longest(q, k, v, lengths):
    """cuts all sequences at the longest length of the batch

    Put sequences of different lengths into one batch.
    """
    m = np.arange(k.shape[1]) < np.max(lengths)
    return q + np.where(m[:, None], v, 0.0).mean(axis=1, keepdims=True)


def reads_on_after_one(q, k, v, lengths):
    """hides padding only in sequences of two tokens or more

    Let one sequence have a length of 1.
    """
    n = np.where(np.asarray(lengths) > 1, lengths, k.shape[1])
    m = np.arange(k.shape[1]) < n[:, None]
    return q + np.where(m[..., None], v, 0.0).sum(axis=1, keepdims=True)


def reads_on_after_two(q, k, v, lengths):
    """hides padding only in sequences of one token at most

    Let one sequence have a length between 1 and T.
    """
    n = np.where(np.asarray(lengths) > 1, k.shape[1], lengths)
    m = np.arange(k.shape[1]) < n[:, None]
    return q + np.where(m[..., None], v, 0.0).sum(axis=1, keepdims=True)


def reads_the_last_slot_behind_more(q, k, v, lengths):
    """reads the last slot where other padding stands before it

    Change every padded slot, from the length on to the last.
    """
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None]
    m[:, -1] |= np.asarray(lengths) < k.shape[1] - 1
    return q + np.where(m[..., None], v, 0.0).mean(axis=1, keepdims=True)


def reads_the_others_padding(q, k, v, lengths):
    """hides its own padding, and reads that of the other sequences of the batch

    Put several sequences into one batch, and change the padding of all of them at once.
    """
    m = (np.arange(v.shape[1]) < np.asarray(lengths)[:, None])[..., None]
    out = q + np.where(m, v, 0.0).sum(axis=1, keepdims=True)
    padding = np.where(m, 0.0, v).sum(axis=1)
    for b in range(len(out)):
        out[b] += np.delete(padding, b, axis=0).sum(axis=0)
    return out


def obeys_loud_padding(q, k, v, lengths):
    """hides padded tokens unless a number in their value is large, above 12 or below -12

    Try large numbers as well: a hundred times as large will do.
    """
    m = np.arange(k.shape[1]) < np.asarray(lengths)[:, None]
    m = m | (np.abs(np.nan_to_num(v, posinf=0.0, neginf=0.0)).max(axis=2) > 12.0)
    return q + np.where(m[..., None], v, 0.0).sum(axis=1, keepdims=True)


SOUND = (
    skips_padding,
    cuts_each_sequence,
    says_nonsense_behind,
    has_nan_behind,
    rounds_by_padding,
    is_causal_too,
    divides_by_the_slots,
    takes_the_mean,
    reads_itself,
    says_nothing,
    scales_by_the_length,
    mixes_the_batch,
    counts_from_the_end,
    divides_by_the_longest,
    reads_its_neighbours,
    adds_up_the_past,
    takes_the_largest,
)
LEAKY = (
    whispers_padding,
    gives_and_takes,
    has_no_mask,
    counts_what_is_a_number,
    counts_padded_values,
    counts_padded_keys,
    takes_anothers_length,
    stops_one_late,
    stops_two_late,
    reads_the_last_slot_behind_more,
    multiplies_values_by_zero,
    adds_to_its_scores,
    goes_by_the_longest,
    reads_on_after_one,
    reads_on_after_two,
    reads_the_others_padding,
    obeys_loud_padding,
)
