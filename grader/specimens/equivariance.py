"""Layers `(T, d) -> (T, d)`: the docstring goes on from "a layer that ...".

SOUND ones give shuffled outputs for shuffled tokens, UNSOUND ones do not. Each
stands alone: a copy of its source runs in the student's process.
"""

import numpy as np

# ---- sound -----------------------------------------------------------------------------------


def attends(x):
    """is plain self-attention"""
    s = x @ x.T
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ x


def works_token_by_token(x):
    """treats every token by itself"""
    return np.maximum(x @ np.array([[1.0, -0.5], [0.3, 0.8]]), 0)


def gives_every_row_the_mean(x):
    """gives every token the mean of all: its rows are equal, and shuffling changes nothing"""
    return np.repeat(x.mean(axis=0, keepdims=True), len(x), axis=0)


def sums_in_order(x):
    """adds the tokens up one after another, so that rounding depends on their order"""
    total = np.zeros(x.shape[1])
    for token in x:
        total = total + (token + 1e4)
    return x + (total / len(x) - 1e4)


def copies(x):
    """returns its input"""
    return x.copy()


def adds_the_largest(x):
    """adds the largest value of each column to every token"""
    return x + x.max(axis=0)


def centres(x):
    """subtracts the mean and divides by the spread over all tokens"""
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-5)


def sorts_columns(x):
    """sorts each column and adds its median, whatever the order was"""
    return x - np.sort(x, axis=0)[len(x) // 2]


def adds_the_spread(x):
    """adds the spread of each column to every token"""
    return x + x.std(axis=0)


def scales_by_the_longest(x):
    """divides by the length of the longest token"""
    return x / np.sqrt((x**2).sum(axis=1)).max()


def squares(x):
    """squares every entry"""
    return x**2


def is_constant(x):
    """returns zeros for everything"""
    return np.zeros_like(x)


def looks_at_distances(x):
    """weighs tokens by how near they lie to each other in space, not in order"""
    far = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    w = np.exp(-far)
    return x + w @ x / w.sum(axis=1, keepdims=True)


# ---- unsound ----------------------------------------------------------------------------------


def adds_positions(x):
    """adds a number that grows with the position"""
    return x + 0.1 * np.arange(len(x))[:, None]


def attends_to_the_past(x):
    """is causal: a token reads only those before it"""
    s = np.where(np.tri(len(x), dtype=bool), x @ x.T, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ x


def shifts(x):
    """hands every token the one before it"""
    return np.roll(x, 1, axis=0)


def marks_the_last(x):
    """changes only the token in the last position"""
    out = x @ np.array([[1.0, -0.5], [0.3, 0.8]])
    out[-1] += 0.5
    return out


def counts_when_long(x):
    """adds positions, but only to inputs of more than 12 tokens"""
    return x + 0.1 * np.arange(len(x))[:, None] * (len(x) > 12)


def ranks_with_ties(x):
    """adds each token's rank, and ranks equal ones by their position"""
    rank = np.argsort(np.argsort(x[:, 0], kind="stable"), kind="stable")
    return x + 0.1 * rank[:, None]


def weighs_positions_in_a_total(x):
    """adds to all tokens one total in which later ones count more"""
    weight = np.linspace(1.0, 2.0, len(x))[:, None]
    return x + (weight * x).mean(axis=0)


def gives_every_row_the_first(x):
    """hands every token the first one: its rows are equal, but they depend on the order"""
    return np.repeat(x[:1], len(x), axis=0)


def asks_who_comes_first(x):
    """changes when the token of largest first entry stands before that of the smallest"""
    return x + 0.3 * (x[:, 0].argmax() < x[:, 0].argmin())


def asks_who_comes_last(x):
    """changes when the token of smallest second entry stands after that of the largest"""
    return x - 0.2 * (x[:, 1].argmin() > x[:, 1].argmax())


def compares_two_by_order(x):
    """looks which of the longest and the shortest token comes first"""
    size = (x**2).sum(axis=1)
    return x * (1.0 + 0.1 * (size.argmax() > size.argmin()))


def reverses(x):
    """returns the tokens in reverse"""
    return x[::-1].copy()


def leaks_a_little(x):
    """adds a thousandth of the position to one column"""
    out = x + x.mean(axis=0)
    out[:, 0] += 0.001 * np.arange(len(x))
    return out


SOUND = (
    attends,
    works_token_by_token,
    gives_every_row_the_mean,
    sums_in_order,
    copies,
    adds_the_largest,
    centres,
    sorts_columns,
    is_constant,
    adds_the_spread,
    scales_by_the_longest,
    squares,
    looks_at_distances,
)
# Half of all permutations leave these alone.
BY_ORDER = (asks_who_comes_first, asks_who_comes_last, compares_two_by_order)
UNSOUND = (
    adds_positions,
    attends_to_the_past,
    shifts,
    marks_the_last,
    counts_when_long,
    ranks_with_ties,
    weighs_positions_in_a_total,
    gives_every_row_the_first,
    reverses,
    leaks_a_little,
    *BY_ORDER,
)
