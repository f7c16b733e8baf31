"""Chapter 1: cases, laws and named mistakes of the soft dictionary."""

import numpy as np

from grader.compare import Within, conform
from grader.exercise import LISTS, Exercise, Fault, Law, call, value
from utils.reference import dictionary_lookup as right

CHAPTER = "dictionary_lookup"


def _signed(rng, *shape):
    """Signed, unsaturated numbers, none of them near 0, no two slices alike."""
    return rng.uniform(0.3, 1.5, shape) * rng.choice([-1.0, 1.0], shape)


def _exact(rng, *shape):
    """Multiples of 1/8: float32 holds them exactly, also with 1000 added."""
    return rng.integers(-12, 13, shape) / 8


# ---- hard_lookup -------------------------------------------------------------------------


def _hard_lookup_cases(rng):
    words = [str(w) for w in rng.permutation(["ant", "bee", "cat", "dog", "eel", "fox"])]
    numbers = [int(n) for n in rng.permutation(np.arange(1000, 1006))]
    yield call("found", words[3], words, numbers)
    yield call("found", words[0], words, numbers)
    yield call("found", words[5], words, [w.upper() for w in words])
    yield call("any hashable", (1, words[1]), [(1, w) for w in words], words)
    yield call("any hashable", numbers[2], numbers, words)
    yield call("any hashable", None, [words[0], None, 2.5], ["a", "b", "c"])
    yield call("whole keys only", "cat", ["cathedral", "cat", "concat"], numbers[:3])
    yield call("first match wins", words[1], [words[0], words[1], words[1]], numbers[:3])
    yield call("first match wins", words[2], [words[2], words[4], words[2]], numbers[:3])
    yield call("falsy values", words[1], words[:3], [1, 0, 2])
    yield call("falsy values", words[0], words[:3], [None, 1, 2])
    yield call("falsy values", 0, [1, 0, 2], ["a", "", "c"])
    yield call("absent", "gnu", words, numbers)
    yield call("absent", 7, [], [])
    yield call("absent", words[0].upper(), words, numbers)


hard_lookup = Exercise(
    "hard_lookup",
    CHAPTER,
    right.hard_lookup,
    _hard_lookup_cases,
    hints={
        "found": "Walk over keys and values together and return the value whose key equals the query.",
        "any hashable": "Keys may be numbers, tuples or None as well as strings: compare with ==.",
        "whole keys only": "A key matches only if it equals the query as a whole.",
        "falsy values": "0, '' and None are values like any other.",
        "absent": "After the loop has found nothing, raise KeyError(query).",
    },
)


@hard_lookup.mistake(
    "Where a key stands twice you return its last value; the first match should win."
)
def last_match_wins(query, keys, values):
    return dict(zip(keys, values, strict=True))[query]


@hard_lookup.mistake("An absent query gets None; it should raise KeyError.")
def none_when_absent(query, keys, values):
    for key, val in zip(keys, values, strict=True):
        if key == query:
            return val


@hard_lookup.mistake("You return the position of the key; wanted is the value at that position.")
def returns_position(query, keys, values):
    for i, key in enumerate(keys):
        if key == query:
            return i
    raise KeyError(query)


@hard_lookup.mistake("You return the key that was found; wanted is its value.")
def returns_key(query, keys, values):
    for key in keys:
        if key == query:
            return key
    raise KeyError(query)


@hard_lookup.mistake(
    "An absent query raises ValueError, as list.index does; it should raise KeyError."
)
def raises_value_error(query, keys, values):
    return list(values)[list(keys).index(query)]


@hard_lookup.mistake("A value such as 0 or None is taken for absent: test the key, not the value.")
def falsy_is_absent(query, keys, values):
    for key, val in zip(keys, values, strict=True):
        if key == query and val:
            return val
    raise KeyError(query)


@hard_lookup.mistake("A value of None is taken for absent: test the key, not the value.")
def none_is_absent(query, keys, values):
    for key, val in zip(keys, values, strict=True):
        if key == query and val is not None:
            return val
    raise KeyError(query)


@hard_lookup.mistake(
    "A query that is only part of a key matches it: compare with ==, not with `in`."
)
def part_of_a_key(query, keys, values):
    for key, val in zip(keys, values, strict=True):
        if key == query or (isinstance(key, str) and isinstance(query, str) and query in key):
            return val
    raise KeyError(query)


@hard_lookup.mistake("Keys are compared as text, so a query of another case or kind may match.")
def compares_text(query, keys, values):
    for key, val in zip(keys, values, strict=True):
        if str(key).lower() == str(query).lower():
            return val
    raise KeyError(query)


@hard_lookup.mistake(
    "Only the first pair is ever compared: raise KeyError after the loop, not inside it."
)
def gives_up_after_one(query, keys, values):
    for key, val in zip(keys, values, strict=True):
        if key == query:
            return val
        raise KeyError(query)
    raise KeyError(query)


# ---- similarity --------------------------------------------------------------------------


def _similarity_cases(rng):
    for n, d in ((5, 3), (2, 7)):
        yield call("one query", _signed(rng, d), _signed(rng, n, d))
    yield call("several queries", _signed(rng, 4, 3), _signed(rng, 5, 3))
    yield call("several queries", _signed(rng, 3, 3), _signed(rng, 3, 3))
    yield call("several queries", _signed(rng, 1, 6), _signed(rng, 4, 6))
    yield call("batch", _signed(rng, 2, 4, 3), _signed(rng, 5, 3))
    yield call("batch", _signed(rng, 2, 2, 2), _signed(rng, 2, 2))
    keys = np.repeat(_signed(rng, 1, 4), 3, axis=0) * np.array([[1.0], [2.0], [-3.0]])
    yield call("long keys", _signed(rng, 4), keys)
    yield call("integers", rng.integers(-9, 10, (4, 3)), rng.integers(-9, 10, (5, 3)) * 2 + 1)
    yield call("float32", _signed(rng, 3).astype("f4"), _signed(rng, 5, 3).astype("f4"))
    yield call("nested lists", _signed(rng, 3).tolist(), _signed(rng, 5, 3).tolist())


similarity = Exercise(
    "similarity",
    CHAPTER,
    right.similarity,
    _similarity_cases,
    hints={
        "one query": "Multiply the query with each key entry by entry and add up: one number a key.",
        "several queries": "For m queries and n keys the result has m rows and n columns.",
        "batch": "Only the last axis of query is summed over; all leading axes stay.",
        "integers": "Keep integers as they are, without cutting anything off.",
    },
    remarks={"nested lists": LISTS},
)


@similarity.mistake(
    "These are cosines: the lengths of query and keys were divided out. Leave them in."
)
def cosine(query, keys):
    query, keys = right.as_floating(query), right.as_floating(keys)
    unit = keys / np.linalg.norm(keys, axis=-1, keepdims=True)
    return query / np.linalg.norm(query, axis=-1, keepdims=True) @ unit.T


@similarity.mistake(
    "The keys were brought to length 1 first; a dot product leaves them as they are."
)
def unit_keys(query, keys):
    keys = right.as_floating(keys)
    return np.asarray(query) @ (keys / np.linalg.norm(keys, axis=-1, keepdims=True)).T


@similarity.mistake("The scores are divided by the square root of d: that comes in chapter 3.")
def scaled(query, keys):
    return right.similarity(query, keys) / np.sqrt(np.shape(keys)[-1])


@similarity.mistake(
    "The scores are divided by the square root of the number of keys: leave them as they are."
)
def divided_by_root_of_number(query, keys):
    return right.similarity(query, keys) / np.sqrt(len(keys))


@similarity.mistake("The scores are divided by d, a mean in place of a sum.")
def mean_of_products(query, keys):
    return right.similarity(query, keys) / np.shape(keys)[-1]


@similarity.mistake("These are negative squared distances; wanted are dot products.")
def negative_squared_distance(query, keys):
    return -((np.asarray(query)[..., None, :] - np.asarray(keys)) ** 2).sum(-1)


@similarity.mistake("These are distances; wanted are dot products, which grow as vectors agree.")
def distance(query, keys):
    return np.linalg.norm(right.as_floating(query)[..., None, :] - np.asarray(keys), axis=-1)


@similarity.mistake("The sign is lost: a key that points the other way must score below zero.")
def absolute_value(query, keys):
    return np.abs(right.similarity(query, keys))


@similarity.mistake("The result is transposed: rows belong to queries, columns to keys.")
def transposed(query, keys):
    scores = right.similarity(query, keys)
    return np.swapaxes(scores, -1, -2) if scores.ndim > 1 else scores


@similarity.mistake(
    "`keys @ query` fits one query only; for several, the product pairs the wrong axes."
)
def keys_times_query(query, keys):
    return np.asarray(keys) @ np.asarray(query)


@similarity.mistake("`query @ keys` pairs the query with the columns of keys: transpose keys.")
def keys_not_transposed(query, keys):
    return np.asarray(query) @ np.asarray(keys)


@similarity.mistake("The products are not added up: sum over the last axis.")
def products_not_summed(query, keys):
    return np.asarray(query)[..., None, :] * np.asarray(keys)


@similarity.mistake("The sum runs over the keys; it should run over the d entries of a key.")
def summed_over_keys(query, keys):
    return (np.asarray(query)[..., None, :] * np.asarray(keys)).sum(-2)


@similarity.mistake(
    "Only the first query is compared: leading axes of query must stay in the result."
)
def first_query_only(query, keys):
    query = np.asarray(query)
    return query.reshape(-1, query.shape[-1])[0] @ np.asarray(keys).T


@similarity.mistake("Softmax has been applied already; wanted are the raw dot products.")
def already_softmaxed(query, keys):
    return right.softmax(right.similarity(query, keys))


# ---- softmax -----------------------------------------------------------------------------


def _softmax_cases(rng):
    yield call("values", _signed(rng, 5))
    yield call("values", _signed(rng, 3, 7))
    yield call("values", _signed(rng, 4, 4))
    yield call("values", _exact(rng, 2, 5) - 6.0)
    yield call("axis", _signed(rng, 3, 5), axis=0)
    yield call("axis", _signed(rng, 2, 3, 4), axis=1)
    yield call("axis", _signed(rng, 2, 3, 4), axis=-3)
    yield call("batch", _signed(rng, 2, 3, 5))
    yield call("batch", _signed(rng, 2, 1, 3, 4))
    yield call("large numbers", np.stack([_exact(rng, 4) + 1000, _exact(rng, 4) - 1000]))
    yield call("large numbers", np.array([-1e4, -1e4 - 0.5, -1e4 + 1]))
    yield call("large numbers", np.array([1e4, 1e4 - 0.5, -1e4, 1e4 + 1]))
    yield call("large numbers", np.array([0.0, 40.0, -40.0, 39.0]) - 20.0)
    yield call("large numbers", np.array([[95.0, 96.5, 94.0]], dtype="f4"))
    yield call("-inf weighs 0", np.array([0.5, -np.inf, -0.25, 1.0]))
    yield call("-inf weighs 0", np.array([[-np.inf, 700.0], [-800.0, -np.inf]]))
    empty = np.full(3, -np.inf)
    yield call("all -inf gives zeros", np.stack([_exact(rng, 3), empty]))
    yield call("all -inf gives zeros", empty)
    yield call("integers", rng.integers(-3, 4, (2, 5)) + np.arange(5) % 2)
    yield call("float32", _signed(rng, 3, 4).astype("f4"))
    yield call("nested lists", _signed(rng, 2, 3).tolist())


def _sums_to_one(case, weights):
    x = np.asarray(case.args[0])
    axis = case.kwargs.get("axis", -1)
    full = ~np.isneginf(x).all(axis=axis)
    return bool(np.allclose(np.sum(weights, axis=axis)[full], 1, atol=1e-4))


softmax = Exercise(
    "softmax",
    CHAPTER,
    right.softmax,
    _softmax_cases,
    laws=(
        Law("negative", "Some weights are negative; exp gives none.", lambda c, w: (w >= 0).all()),
        Law(
            "minus_inf_weighs_something",
            "A score of -inf must weigh exactly 0, not a little.",
            lambda c, w: not np.any(np.asarray(w)[np.isneginf(np.asarray(c.args[0]))]),
            to_the_last_bit=True,
        ),
        Law("sum_is_not_1", "The weights do not sum to 1 along `axis`.", _sums_to_one),
    ),
    hints={
        "values": "Take exp of every score, then divide by the sum of these exponentials.",
        "axis": "Pass `axis` on to both the maximum and the sum, with keepdims=True.",
        "batch": "Every row along the last axis is a softmax of its own.",
        "large numbers": "Subtract each row's own maximum before exp.",
        "-inf weighs 0": "exp(-inf) is 0 already: make sure that nothing turns it into NaN.",
        "all -inf gives zeros": "Here the maximum is -inf and the sum is 0: neither may reach the "
        "subtraction or the division as it is.",
        "integers": "Do not write results into an array of integers.",
    },
    remarks={"nested lists": LISTS},
)


@softmax.mistake(
    "Your weights sum to 1 over the whole array, and not along `axis`: give the sum the axis."
)
def over_everything(x, axis=-1):
    return right.softmax(np.ravel(x)).reshape(np.shape(x))


@softmax.mistake(
    "Your weights are what softmax along axis 0 gives: column sums are 1, row sums are not. "
    "Look at `axis`."
)
def always_first_axis(x, axis=-1):
    return right.softmax(x, axis=0)


@softmax.mistake("`axis` is not used: the softmax always runs along the last one.")
def always_last_axis(x, axis=-1):
    return right.softmax(x)


@softmax.mistake("The softmax runs along axis 1, which is the last one only when there are two.")
def always_second_axis(x, axis=-1):
    return right.softmax(x, axis=min(1, np.ndim(x) - 1))


@softmax.mistake("For three axes and more the softmax runs along the last but one, as in columns.")
def last_but_one_axis(x, axis=-1):
    return right.softmax(x, axis=-2 if np.ndim(x) > 1 and axis == -1 else axis)


@softmax.mistake(
    "exp of a large score overflows to inf, and inf / inf is NaN. Subtract the maximum first: "
    "adding one constant to all scores changes nothing."
)
def no_maximum(x, axis=-1):
    e = np.exp(right.as_floating(x))
    total = e.sum(axis=axis, keepdims=True)
    empty = np.isneginf(np.asarray(x)).all(axis=axis, keepdims=True)
    return np.where(empty, 0, e / np.where(empty, 1, total))


@softmax.mistake(
    "You subtract the maximum of the whole array, so a row of low scores underflows to 0 / 0. "
    "Subtract each row's own maximum."
)
def one_maximum_for_all(x, axis=-1):
    x = right.as_floating(x)
    top = x.max()
    e = np.exp(x - (0 if np.isneginf(top) else top))
    empty = np.isneginf(x).all(axis=axis, keepdims=True)
    return np.where(empty, 0, e / np.where(empty, 1, e.sum(axis=axis, keepdims=True)))


@softmax.mistake("The maximum is taken along axis 0, and not along the axis of the sum.")
def maximum_along_first_axis(x, axis=-1):
    x = right.as_floating(x)
    top = x.max(axis=0)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    return e / e.sum(axis=axis, keepdims=True)


@softmax.mistake("Small weights are raised to a floor: a score of -inf must weigh exactly 0.")
def floor_under_weights(x, axis=-1):
    return np.clip(right.softmax(x, axis), 1e-7, 1)


@softmax.mistake(
    "The maximum is never taken below 0, so a row of very negative scores underflows to 0 / 0."
)
def maximum_not_below_zero(x, axis=-1):
    x = right.as_floating(x)
    e = np.exp(x - np.maximum(x.max(axis=axis, keepdims=True), 0))
    empty = np.isneginf(x).all(axis=axis, keepdims=True)
    return np.where(empty, 0, e / np.where(empty, 1, e.sum(axis=axis, keepdims=True)))


@softmax.mistake(
    "The scores are clipped before exp, which moves large ones together. Subtract the maximum."
)
def clips_scores(x, axis=-1):
    x = right.as_floating(x)
    return right.softmax(np.where(np.isneginf(x), x, np.clip(x, -30, 30)), axis)


@softmax.mistake(
    "The maximum and the sum lose their axis, so they do not line up with the rows: keepdims=True keeps it."
)
def no_keepdims(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis))
    return e / e.sum(axis=axis)


@softmax.mistake(
    "The sum loses its axis, so it does not line up with the rows: keepdims=True keeps it."
)
def no_keepdims_in_the_sum(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis)


@softmax.mistake(
    "If one row is all -inf, you give zeros for every row: treat each row by itself (np.where)."
)
def zeros_for_every_row(x, axis=-1):
    if np.isneginf(np.max(x, axis=axis)).any():
        return np.zeros(np.shape(x))
    return right.softmax(x, axis)


@softmax.mistake(
    "Low weights are cut off: after the maximum is subtracted, leave the scores as they are."
)
def clips_shifted_scores(x, axis=-1):
    x = right.as_floating(x)
    top = x.max(axis=axis, keepdims=True)
    shifted = x - np.where(np.isneginf(top), 0, top)
    return right.softmax(np.where(np.isneginf(x), x, np.maximum(shifted, -1)), axis)


@softmax.mistake("The exponentials are not divided by their sum.")
def not_normalised(x, axis=-1):
    return np.exp(right.as_floating(x))


@softmax.mistake(
    "After the maximum is subtracted, the exponentials still must be divided by their sum."
)
def shifted_not_normalised(x, axis=-1):
    x = right.as_floating(x)
    top = x.max(axis=axis, keepdims=True)
    return np.exp(x - np.where(np.isneginf(top), 0, top))


@softmax.mistake("The scores themselves are divided by their sum: take exp of them first.")
def no_exponential(x, axis=-1):
    x = right.as_floating(x)
    return x / x.sum(axis=axis, keepdims=True)


@softmax.mistake("The shifted scores are divided by their sum: exp is missing.")
def shifted_no_exponential(x, axis=-1):
    x = right.as_floating(x)
    x = x - x.max(axis=axis, keepdims=True)
    return x / x.sum(axis=axis, keepdims=True)


@softmax.mistake("Softmax is applied twice: the second one flattens the weights.")
def applied_twice(x, axis=-1):
    return right.softmax(right.softmax(x, axis), axis)


@softmax.mistake("1 is added to the sum, so the weights sum to less than 1.")
def one_added_to_the_sum(x, axis=-1):
    x = right.as_floating(x)
    top = x.max(axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    return e / (1 + e.sum(axis=axis, keepdims=True))


@softmax.mistake("These are powers of 2: softmax takes powers of e, np.exp.")
def base_two(x, axis=-1):
    return right.softmax(right.as_floating(x) * np.log(2), axis)


@softmax.mistake(
    "A row that is all -inf gives NaN: it should give zeros, since no key may be read."
)
def nan_for_all_minus_inf(x, axis=-1):
    x = right.as_floating(x)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@softmax.mistake(
    "A row that is all -inf gives equal weights: it should give zeros, since no key may be read."
)
def uniform_for_all_minus_inf(x, axis=-1):
    x = right.as_floating(x)
    empty = np.isneginf(x).all(axis=axis, keepdims=True)
    return np.where(empty, 1 / x.shape[axis], right.softmax(x, axis))


@softmax.mistake("-inf is treated as 0 or as another number; a score of -inf must weigh exactly 0.")
def minus_inf_is_zero(x, axis=-1):
    return right.softmax(np.nan_to_num(right.as_floating(x), neginf=0.0), axis)


@softmax.mistake("These are the logarithms of the weights: the exponential is still to be taken.")
def log_of_weights(x, axis=-1):
    return np.log(right.softmax(x, axis))


@softmax.mistake("The sign is turned: the largest score should get the largest weight.")
def sign_turned(x, axis=-1):
    return right.softmax(-right.as_floating(x), axis)


@softmax.mistake(
    "This is a hard choice, 1 for the largest score and 0 for the others; softmax is graded."
)
def one_hot(x, axis=-1):
    x = right.as_floating(x)
    top = x.max(axis=axis, keepdims=True)
    best = np.cumsum((x == top) & ~np.isneginf(top), axis=axis)
    return np.where((best == 1) & (x == top), 1.0, 0.0)


@softmax.mistake(
    "Each score is squashed by itself (a sigmoid): the weights must share a budget of 1."
)
def sigmoid(x, axis=-1):
    return 1 / (1 + np.exp(-right.as_floating(x)))


@softmax.mistake(
    "The result is written into an array of the input's dtype, which cuts integers to 0 and 1."
)
def cut_to_integers(x, axis=-1):
    return right.softmax(x, axis).astype(np.asarray(x).dtype)


@softmax.mistake("The weights are divided by their number once more.")
def divided_by_count(x, axis=-1):
    return right.softmax(x, axis) / np.shape(x)[axis]


@softmax.mistake("The size of each score is used without its sign.")
def absolute_scores(x, axis=-1):
    x = right.as_floating(x)
    return right.softmax(np.where(np.isneginf(x), x, np.abs(x)), axis)


# ---- soft_lookup ---------------------------------------------------------------------------


def _soft_lookup_cases(rng):
    for shape in ((3,), (7,)):
        d = shape[-1]
        yield call("one query", _signed(rng, d), _signed(rng, 5, d), _signed(rng, 5, 2))
    yield call("one query", _signed(rng, 4), _signed(rng, 6, 4), _signed(rng, 6, 4))
    yield call("several queries", _signed(rng, 4, 3), _signed(rng, 5, 3), _signed(rng, 5, 2))
    yield call("several queries", _signed(rng, 5, 5), _signed(rng, 5, 5), _signed(rng, 5, 5))
    yield call("batch", _signed(rng, 2, 4, 3), _signed(rng, 5, 3), _signed(rng, 5, 7))
    for temperature in (0.5, 2.0, 3.5):
        keys, values = _signed(rng, 6, 3), _signed(rng, 6, 2)
        yield call("temperature", _signed(rng, 2, 3), keys, values, temperature=temperature)
    keys = np.stack([_exact(rng, 2) + 0.125 * i for i in range(4)])
    yield call("large numbers", np.array([1000.0, -500.0]), keys * 8, _signed(rng, 4, 3))
    yield call("large numbers", np.array([1.0, 0.5]), keys, _signed(rng, 4, 3), temperature=2.0**-9)
    ints = rng.integers(-2, 3, (2, 3)), rng.integers(-2, 3, (4, 3)), rng.integers(-9, 10, (4, 2))
    yield call("integers", *ints)
    single = [_signed(rng, *s).astype("f4") for s in ((2, 3), (5, 3), (5, 4))]
    yield call("float32", *single)
    query, keys, values = _signed(rng, 3), _signed(rng, 5, 3), _signed(rng, 5, 2)
    yield call("impossible temperature", query, keys, values, temperature=0.0)
    yield call("impossible temperature", query, keys, values, temperature=-1.0)
    yield call("nested lists", query.tolist(), keys.tolist(), values.tolist())


def _inside_hull(case, answer):
    out, values = answer[0], np.asarray(case.args[2])
    low, high = values.min(axis=0), values.max(axis=0)
    return bool(((out >= low - 1e-6) & (out <= high + 1e-6)).all())


soft_lookup = Exercise(
    "soft_lookup",
    CHAPTER,
    right.soft_lookup,
    _soft_lookup_cases,
    builds_on=("similarity", "softmax"),
    results=("out", "weights"),
    laws=(
        Law(
            "weights_not_1",
            "The weights of a query do not sum to 1 over the keys.",
            lambda case, answer: bool(np.allclose(answer[1].sum(-1), 1, atol=1e-4)),
        ),
        Law(
            "outside_the_hull",
            "The output lies outside the values: an average never does.",
            _inside_hull,
        ),
    ),
    hints={
        "one query": "Scores, then softmax over them, then weights @ values; return (out, weights).",
        "several queries": "The softmax runs over the keys, the last axis of the scores.",
        "batch": "Use only the last axes, so that any number of leading axes passes through.",
        "temperature": "Divide the scores by the temperature before the softmax.",
        "large numbers": "Use your softmax, which subtracts the maximum.",
        "impossible temperature": "Raise ValueError unless temperature > 0, before anything else.",
    },
    remarks={"nested lists": LISTS},
)


def _lookup_with(weights_of, values_of=lambda w, v: w @ v):
    """A soft look-up with another rule for the weights or the output; refuses what is refused."""

    def lookup(query, keys, values, temperature=1.0):
        if not temperature > 0:
            raise ValueError("temperature")
        query, keys = right.as_floating(query), right.as_floating(keys)
        weights = weights_of(query, keys, temperature)
        return values_of(weights, np.asarray(values)), weights

    return lookup


def _usual(query, keys, temperature):
    return right.softmax(query @ keys.T / temperature)


@soft_lookup.mistake("The temperature is not used: divide the scores by it before the softmax.")
def ignores_temperature(query, keys, values, temperature=1.0):
    return _lookup_with(lambda q, k, t: _usual(q, k, 1.0))(query, keys, values, temperature)


@soft_lookup.mistake(
    "The scores are multiplied by the temperature; a high one must even the weights out: divide."
)
def multiplies_by_temperature(query, keys, values, temperature=1.0):
    return _lookup_with(lambda q, k, t: _usual(q, k, 1 / t))(query, keys, values, temperature)


@soft_lookup.mistake(
    "The temperature divides the weights; it belongs before the softmax, under the scores."
)
def temperature_after_softmax(query, keys, values, temperature=1.0):
    return _lookup_with(lambda q, k, t: _usual(q, k, 1.0) / t)(query, keys, values, temperature)


@soft_lookup.mistake(
    "The scores are divided by the square root of d as well: that comes in chapter 3."
)
def scaled_by_width(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: _usual(q, k, t * np.sqrt(k.shape[-1])))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake("The weights average the keys; they should average the values.")
def averages_keys(query, keys, values, temperature=1.0):
    _, weights = right.soft_lookup(query, keys, values, temperature)
    return weights @ np.asarray(keys), weights


@soft_lookup.mistake(
    "The softmax runs over the queries: each column sums to 1 and not each row. Look at the axis."
)
def softmax_over_queries(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: right.softmax(q @ k.T / t, axis=-2 if q.ndim > 1 else -1))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake("The softmax runs along axis 0, which is the batch: use the last axis.")
def softmax_over_batch(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: right.softmax(q @ k.T / t, axis=0))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake("The best key takes all: this is still the hard look-up. Use softmax weights.")
def takes_the_best(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: one_hot(q @ k.T))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake(
    "The output is the value of the best key, the hard look-up: average the values by the weights."
)
def value_of_the_best(query, keys, values, temperature=1.0):
    _, weights = right.soft_lookup(query, keys, values, temperature)
    return np.asarray(values)[weights.argmax(-1)], weights


@soft_lookup.mistake(
    "The weighted values are averaged once more: their weights sum to 1 already, so add them up."
)
def mean_for_sum(query, keys, values, temperature=1.0):
    out, weights = right.soft_lookup(query, keys, values, temperature)
    return out / len(values), weights


@soft_lookup.mistake("The weights are the exponentials, not divided by their sum.")
def weights_not_normalised(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: np.exp(q @ k.T / t))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake("The raw scores weigh the values: put a softmax between them.")
def no_softmax(query, keys, values, temperature=1.0):
    return _lookup_with(lambda q, k, t: q @ k.T / t)(query, keys, values, temperature)


@soft_lookup.mistake("The two results are swapped: return out first, then weights.")
def swapped_results(query, keys, values, temperature=1.0):
    return right.soft_lookup(query, keys, values, temperature)[::-1]


@soft_lookup.mistake("Only the output comes back: return the pair (out, weights).")
def returns_out_only(query, keys, values, temperature=1.0):
    return right.soft_lookup(query, keys, values, temperature)[0]


@soft_lookup.mistake("Only the weights come back: return the pair (out, weights).")
def returns_weights_only(query, keys, values, temperature=1.0):
    return right.soft_lookup(query, keys, values, temperature)[1]


@soft_lookup.mistake("Every value gets the same weight: the query does not matter.")
def plain_mean(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: np.full(q.shape[:-1] + k.shape[:1], 1 / len(k)))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake("The scores are cosines: the lengths of query and keys were divided out.")
def cosine_scores(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: right.softmax(cosine(q, k) / t))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake(
    "The weights are applied twice, or the softmax is: the weights come out too even."
)
def softmax_twice(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: right.softmax(_usual(q, k, t)))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake(
    "exp overflows where the scores are large, and the weights become NaN: "
    "use a softmax that subtracts the maximum."
)
def overflows(query, keys, values, temperature=1.0):
    rule = _lookup_with(lambda q, k, t: no_maximum(q @ k.T / t))
    return rule(query, keys, values, temperature)


@soft_lookup.mistake(
    "A temperature of 0 or below should raise ValueError, before anything is computed."
)
def takes_any_temperature(query, keys, values, temperature=1.0):
    weights = right.softmax(right.similarity(query, keys) / np.float64(temperature))
    return weights @ np.asarray(values), weights


@soft_lookup.mistake(
    "A temperature of 0 is refused, but a negative one is not: refuse all but positive ones."
)
def takes_negative_temperature(query, keys, values, temperature=1.0):
    if temperature == 0:
        raise ValueError("temperature")
    return takes_any_temperature(query, keys, values, temperature)


@soft_lookup.mistake(
    "A negative temperature is refused, but 0 is not: refuse all but positive ones."
)
def takes_temperature_zero(query, keys, values, temperature=1.0):
    if temperature < 0:
        raise ValueError("temperature")
    return takes_any_temperature(query, keys, values, temperature)


# ---- temperature_for -----------------------------------------------------------------------


def _temperature_for_cases(rng):
    def problem(n, d, spread=1.0):
        return _signed(rng, d) * spread, _signed(rng, n, d)

    def between(share, query, keys):
        scores = keys @ query
        best = np.count_nonzero(scores == scores.max())
        return float(1 / len(keys) + share * (1 / best - 1 / len(keys)))

    for n, d, share in ((5, 3, 0.5), (4, 6, 0.8), (6, 2, 0.2)):
        query, keys = problem(n, d)
        yield call("one best key", query, keys, between(share, query, keys))
    query, keys = problem(5, 3, 50.0)
    yield call("wide and narrow scores", query, keys, between(0.6, query, keys))
    query, keys = problem(5, 3, 0.02)
    yield call("wide and narrow scores", query, keys, between(0.4, query, keys))
    query, keys = np.array([1.0, 0.5]), np.array([[2.0, 0], [0, 4.0], [-1, 1], [1, -1], [0, 0.5]])
    yield call("tied keys", query, keys, between(0.7, query, keys))
    yield call("out of reach", query, keys, 0.6)
    yield call("out of reach", query, keys, 0.5)
    query, keys = problem(4, 3)
    for weight in (0.2, 0.25, 1.0, 1.2, 0.0):
        yield call("out of reach", query, keys, weight)


def _largest_weight_is_wanted(case, temperature, wanted):
    query, keys, weight = case.args
    temperature = float(conform(temperature, wanted))
    if not (np.isfinite(temperature) and temperature > 0):
        return Fault("not_positive", "the temperature should be positive and finite")
    scores = right.similarity(query, keys)
    got = right.softmax(scores / temperature).max()
    if abs(got - weight) <= 1e-6:
        return None
    if abs(got - weight) < 1e-4:
        words = "nearly, but the largest weight must be right to 1e-6: search longer"
        return Fault("too_coarse", words)
    low, high = 1 / len(scores), 1 / np.count_nonzero(scores == scores.max())
    if min(abs(got - low), abs(got - high)) < 1e-3:
        words = "the search ended at the end of its interval: did it go the wrong way, or is the interval too narrow?"
        return Fault("ran_to_the_end", words)
    words = f"at your temperature the largest weight is {got:.6f}; wanted is {weight:.6f}"
    return Fault(None, words)


temperature_for = Exercise(
    "temperature_for",
    CHAPTER,
    right.temperature_for,
    _temperature_for_cases,
    builds_on=("similarity", "softmax"),
    accept=_largest_weight_is_wanted,
    hints={
        "one best key": "The largest weight falls as the temperature rises: halve an interval around it.",
        "wide and narrow scores": "Let the interval grow until it holds the answer, instead of fixing it.",
        "tied keys": "m keys tied for the best score share it: each can reach 1/m at most.",
        "out of reach": "Only weights strictly between 1/n and 1/m can be had; else raise ValueError.",
    },
)


@temperature_for.mistake("What you return is 1 / temperature.")
def inverse_temperature(query, keys, weight):
    return 1 / right.temperature_for(query, keys, weight)


@temperature_for.mistake(
    "What you return is the weight that was asked for; wanted is the temperature that leads to it."
)
def returns_the_weight(query, keys, weight):
    right.temperature_for(query, keys, weight)
    return weight


@temperature_for.mistake("What you return is the logarithm of the temperature.")
def log_temperature(query, keys, weight):
    return float(np.log(right.temperature_for(query, keys, weight)))


@temperature_for.mistake("The search stops too early: the largest weight must be right to 1e-6.")
def stops_early(query, keys, weight):
    right.temperature_for(query, keys, weight)
    low, high = 1e-3, 1e3
    for _ in range(12):
        middle = (low + high) / 2
        too_sharp = right.softmax(right.similarity(query, keys) / middle).max() > weight
        low, high = (middle, high) if too_sharp else (low, middle)
    return (low + high) / 2


@temperature_for.mistake("Only the two best keys are weighed: the others take their share too.")
def two_keys_only(query, keys, weight):
    right.temperature_for(query, keys, weight)
    second, first = np.sort(right.similarity(query, keys))[-2:]
    with np.errstate(all="ignore"):
        return float((first - second) / np.log(weight / (1 - weight)))


@temperature_for.mistake(
    "The first key's weight is brought to the target; wanted is the largest weight."
)
def weight_of_first_key(query, keys, weight):
    right.temperature_for(query, keys, weight)
    scores = right.similarity(query, keys)
    grid = np.geomspace(1e-3, 1e3, 301)
    return float(grid[np.argmin([abs(right.softmax(scores / t)[0] - weight) for t in grid])])


@temperature_for.mistake(
    "The search goes the wrong way: a higher temperature lowers the largest weight."
)
def wrong_direction(query, keys, weight):
    right.temperature_for(query, keys, weight)
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = (low + high) / 2
        too_sharp = right.softmax(right.similarity(query, keys) / middle).max() > weight
        low, high = (low, middle) if too_sharp else (middle, high)
    return (low + high) / 2


@temperature_for.mistake(
    "A weight out of reach gets a temperature all the same: raise ValueError unless "
    "1/n < weight < 1/m, with m keys tied for the best."
)
def never_refuses(query, keys, weight):
    try:
        return right.temperature_for(query, keys, weight)
    except ValueError:
        return 1.0


@temperature_for.mistake(
    "Keys tied for the best are forgotten: m of them cap the largest weight at 1/m."
)
def forgets_ties(query, keys, weight):
    try:
        return right.temperature_for(query, keys, weight)
    except ValueError:
        if not 1 / len(keys) < weight < 1:
            raise
        return 1.0


@temperature_for.mistake("A weight of 1/n or less is out of reach too: raise ValueError there.")
def forgets_the_floor(query, keys, weight):
    try:
        return right.temperature_for(query, keys, weight)
    except ValueError:
        if weight > 1 / len(keys):
            raise
        return 1e6


@temperature_for.mistake(
    "The interval of the search is fixed, and narrow or wide scores lie outside it."
)
def fixed_interval(query, keys, weight):
    found = right.temperature_for(query, keys, weight)
    return float(np.clip(found, 0.1, 10.0))


# ---- softmax_jacobian ----------------------------------------------------------------------


def _jacobian_cases(rng):
    for n in (3, 5, 2):
        yield call("values", right.softmax(_signed(rng, n)))
    yield call("unequal weights", np.array([0.9, 0.06, 0.04]))
    yield call("certain", np.array([0.0, 1.0, 0.0, 0.0]))
    yield call("float32", right.softmax(_signed(rng, 4)).astype("f4"))
    yield call("nested lists", [0.5, 0.2, 0.3])


softmax_jacobian = Exercise(
    "softmax_jacobian",
    CHAPTER,
    right.softmax_jacobian,
    _jacobian_cases,
    laws=(
        Law(
            "not_symmetric",
            "The matrix is not symmetric: raising score j moves weight i as raising i moves j.",
            lambda case, jac: bool(np.allclose(jac, jac.T, atol=1e-5)),
        ),
        Law(
            "budget_not_kept",
            "Its rows do not sum to 0: the weights are a budget, what one gains the others lose.",
            lambda case, jac: bool(np.allclose(jac.sum(-1), 0, atol=1e-5)),
        ),
    ),
    hints={
        "values": "On the diagonal stands p_i (1 - p_i), elsewhere -p_i p_j.",
        "unequal weights": "Entry (i, j) needs both p_i and p_j.",
        "certain": "Where one weight is 1, nothing moves: the matrix is all zeros.",
    },
    remarks={"nested lists": LISTS},
)


@softmax_jacobian.mistake(
    "The off-diagonal entries are missing: weight i also moves when score j does, by -p_i p_j."
)
def diagonal_only(p):
    p = np.asarray(p)
    return np.diag(p * (1 - p))


@softmax_jacobian.mistake("The outer product is missing: this is diag(p) alone.")
def just_diag(p):
    return np.diag(np.asarray(p))


@softmax_jacobian.mistake("The diagonal of p is missing: this is -p pᵀ alone.")
def just_outer(p):
    return -np.outer(p, p)


@softmax_jacobian.mistake(
    "The outer product is added; it must be subtracted, since weights compete."
)
def plus_outer(p):
    return np.diag(np.asarray(p)) + np.outer(p, p)


@softmax_jacobian.mistake(
    "For a vector, `p @ p` (or `p @ p.T`) is a single number: np.outer(p, p) is the matrix."
)
def inner_for_outer(p):
    p = np.asarray(p)
    return np.diag(p) - p @ p


@softmax_jacobian.mistake("p is spread over every row: np.diag(p) puts it on the diagonal alone.")
def p_in_every_row(p):
    return np.asarray(p) - np.outer(p, p)


@softmax_jacobian.mistake("All signs are turned: a higher score raises its own weight.")
def signs_turned(p):
    return np.outer(p, p) - np.diag(np.asarray(p))


@softmax_jacobian.mistake("p was put through softmax once more; `p` already is softmax's output.")
def softmax_of_p(p):
    return right.softmax_jacobian(right.softmax(p))


@softmax_jacobian.mistake(
    "This is the derivative of each weight in its own score only, as a vector: wanted is (n, n)."
)
def vector_only(p):
    p = np.asarray(p)
    return p * (1 - p)


@softmax_jacobian.mistake(
    "Entry (i, j) is p_i (1 - p_j) everywhere; off the diagonal it is -p_i p_j."
)
def one_minus_everywhere(p):
    return np.outer(p, 1 - np.asarray(p))


@softmax_jacobian.mistake("Off the diagonal the sign is lost: it is -p_i p_j there.")
def positive_off_diagonal(p):
    p = np.asarray(p)
    jac = np.outer(p, p)
    np.fill_diagonal(jac, p * (1 - p))
    return jac


@softmax_jacobian.mistake("np.eye(n) stands where diag(p) should.")
def identity_for_diag(p):
    return np.eye(len(p)) - np.outer(p, p)


@softmax_jacobian.mistake("p is multiplied with p, not with its outer product: use np.outer(p, p).")
def squares_in_place_of_outer(p):
    p = np.asarray(p)
    return np.diag(p) - p * p


# ---- query_gradient ------------------------------------------------------------------------


def _gradient_cases(rng):
    for n, d, d_v in ((5, 3, 2), (4, 6, 7)):
        yield call(
            "values", _signed(rng, d), _signed(rng, n, d), _signed(rng, n, d_v), _signed(rng, d_v)
        )
    yield call("square", _signed(rng, 4), _signed(rng, 4, 4), _signed(rng, 4, 4), _signed(rng, 4))
    wide = 4 * _signed(rng, 5, 2)
    yield call(
        "large gradients", 0.3 * _signed(rng, 3), _signed(rng, 5, 3), wide, -3 * wide.sum(axis=0)
    )
    yield call("one key", _signed(rng, 3), _signed(rng, 1, 3), _signed(rng, 1, 2), _signed(rng, 2))
    keys, values = _exact(rng, 4, 2) * 8, _signed(rng, 4, 3)
    yield call("large numbers", np.array([1000.0, -500.0]), keys, values, _signed(rng, 3))
    single = [_signed(rng, *s).astype("f4") for s in ((3,), (5, 3), (5, 2), (2,))]
    yield call("float32", *single)
    ints = [rng.integers(-2, 3, s) for s in ((3,), (5, 3), (5, 2), (2,))]
    yield call("integers", *ints)


query_gradient = Exercise(
    "query_gradient",
    CHAPTER,
    right.query_gradient,
    _gradient_cases,
    builds_on=("soft_lookup", "softmax_jacobian"),
    within=Within(rtol=1e-5),  # differences of differences: float32 loses a digit
    hints={
        "values": "Back from the loss: residual, then values, then the Jacobian, then keys.",
        "square": "Every matrix is square here, so a transpose too many goes unseen: check each step's meaning.",
        "one key": "With a single key the weight is always 1 and nothing can be learned: the gradient is 0.",
        "large numbers": "Use your stable soft_lookup.",
    },
)


def _chain(query, keys, values, target):
    out, weights = right.soft_lookup(query, keys, values)
    return out - np.asarray(target), weights, np.asarray(keys), np.asarray(values)


@query_gradient.mistake(
    "The sign is turned: this is the direction downhill, the gradient points uphill. The residual is out - target."
)
def points_downhill(query, keys, values, target):
    return -right.query_gradient(query, keys, values, target)


@query_gradient.mistake(
    "The gradient is twice too large: the loss has a factor 0.5 that cancels the 2."
)
def twice_too_large(query, keys, values, target):
    return 2 * right.query_gradient(query, keys, values, target)


@query_gradient.mistake("The gradient is divided by d_v: the loss is a sum of squares, not a mean.")
def mean_squared(query, keys, values, target):
    return right.query_gradient(query, keys, values, target) / np.shape(values)[-1]


@query_gradient.mistake(
    "The softmax is skipped on the way back: multiply by its Jacobian between weights and scores."
)
def skips_jacobian(query, keys, values, target):
    residual, _, keys, values = _chain(query, keys, values, target)
    return values @ residual @ keys


@query_gradient.mistake(
    "Only the diagonal of the Jacobian is used: raising one score lowers the other weights."
)
def jacobian_diagonal_only(query, keys, values, target):
    residual, weights, keys, values = _chain(query, keys, values, target)
    return (weights * (1 - weights) * (values @ residual)) @ keys


@query_gradient.mistake(
    "The Jacobian lacks its outer product: subtract the weighted mean before weighing."
)
def jacobian_without_outer(query, keys, values, target):
    residual, weights, keys, values = _chain(query, keys, values, target)
    return (weights * (values @ residual)) @ keys


@query_gradient.mistake("The Jacobian is multiplied entry by entry; it is a matrix product, @.")
def jacobian_entry_by_entry(query, keys, values, target):
    residual, weights, keys, values = _chain(query, keys, values, target)
    return (right.softmax_jacobian(weights) * (values @ residual)) @ keys


@query_gradient.mistake("The target is forgotten: the residual is out - target.")
def target_forgotten(query, keys, values, target):
    return right.query_gradient(query, keys, values, np.zeros_like(np.asarray(target)))


@query_gradient.mistake(
    "The weights are put through softmax once more: softmax_jacobian takes the weights as they are."
)
def jacobian_of_softmaxed(query, keys, values, target):
    residual, weights, keys, values = _chain(query, keys, values, target)
    return right.softmax_jacobian(right.softmax(weights)) @ (values @ residual) @ keys


@query_gradient.mistake(
    "The look-up has a temperature of sqrt(2) here; this gradient is at temperature 1."
)
def at_another_temperature(query, keys, values, target):
    out, weights = right.soft_lookup(query, keys, values, 2**0.5)
    d_weights = np.asarray(values) @ (out - np.asarray(target))
    return right.softmax_jacobian(weights) @ d_weights @ np.asarray(keys)


@query_gradient.mistake("The residual is missing: multiply by out - target.")
def no_residual(query, keys, values, target):
    _, weights, keys, values = _chain(query, keys, values, target)
    return right.softmax_jacobian(weights) @ values.sum(-1) @ keys


@query_gradient.mistake(
    "The gradient is taken at out = 0: subtract the target from the output, not from 0."
)
def residual_is_target(query, keys, values, target):
    _, weights, keys, values = _chain(query, keys, values, target)
    return right.softmax_jacobian(weights) @ (values @ -np.asarray(target)) @ keys


@query_gradient.mistake(
    "What comes back is the gradient in the scores; one step is missing: multiply by keys."
)
def stops_at_scores(query, keys, values, target):
    residual, weights, _, values = _chain(query, keys, values, target)
    return right.softmax_jacobian(weights) @ (values @ residual)


@query_gradient.mistake(
    "What comes back is out - target; the chain rule goes on from there to the query."
)
def stops_at_residual(query, keys, values, target):
    return _chain(query, keys, values, target)[0]


@query_gradient.mistake("The gradient is cut off at 1: return it as it is.")
def clipped(query, keys, values, target):
    return np.clip(right.query_gradient(query, keys, values, target), -1, 1)


@query_gradient.mistake(
    "The gradient is half too small: the square's derivative brings a 2 that cancels the 0.5."
)
def half_too_small(query, keys, values, target):
    return 0.5 * right.query_gradient(query, keys, values, target)


@query_gradient.mistake("The gradient is of length 1: its size is lost. Return it as it is.")
def unit_length(query, keys, values, target):
    gradient = right.query_gradient(query, keys, values, target)
    return gradient / max(np.linalg.norm(gradient), 1e-300)


# ---- learn_query ---------------------------------------------------------------------------

ENOUGH = 0.05


def _learn_query_cases(rng):
    yield call("reaches the target", *_learnable(rng, 5, 3, 2))
    kwargs = {"steps": 60, "lr": 0.5}  # longer steps reach few such targets: drawing takes long
    yield call("reaches the target", *_learnable(rng, 4, 6, 7, **kwargs), **kwargs)
    problem = _telling(rng, 4, 3, 2)
    yield call("starts from zeros", *problem, steps=0)
    yield call("steps and lr", *problem, steps=1, lr=0.01)
    yield call("steps and lr", *problem, steps=10, lr=0.002)
    yield call("steps and lr", *problem, steps=2, lr=1e-5)
    kwargs = {"steps": 60, "lr": 4.0}
    yield call("other steps and lr", *_learnable(rng, 4, 3, 2, **kwargs), **kwargs)
    kwargs = {"steps": 60, "lr": 0.8}
    yield call("integers", *_learnable(rng, 4, 3, 2, integers=True, **kwargs), **kwargs)


def _problem(rng, n, d, d_v, integers=False):
    """Keys, values, a target that is some way off, and the loss of the query of zeros."""
    while True:
        keys, values = _signed(rng, n, d), _signed(rng, n, d_v)
        if integers:
            keys, values = rng.integers(-2, 3, (n, d)), rng.integers(-3, 4, (n, d_v))
        target = right.soft_lookup(2 * _signed(rng, d), keys, values)[0]
        start = _loss(np.zeros(d), keys, values, target)
        if start >= 0.05:
            return keys, values, target, start


def _telling(rng, n, d, d_v):
    """A problem in which a few steps show by which gradient they were taken."""
    while True:
        *problem, _ = _problem(rng, n, d, d_v)
        if _tells_gradients_apart(*problem):
            return problem


def _learnable(rng, n, d, d_v, steps=200, lr=1.0, integers=False):
    """A problem whose target the reference comes close to, and mistakes do not."""
    while True:
        *problem, start = _problem(rng, n, d, d_v, integers)
        stale = -steps * lr * right.query_gradient(np.zeros(d), *problem)
        if _loss(stale, *problem) < 2 * ENOUGH * start:
            continue
        if _loss(_descend(*problem, steps, lr), *problem) < 0.1 * ENOUGH * start:
            return problem


def _slope(query, keys, values, target):
    """The reference's gradient in a quarter of its time: a class takes millions of steps."""
    scores = keys @ query
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    slope = values @ (weights @ values - target)
    return (weights * (slope - weights @ slope)) @ keys


def _descend(keys, values, target, steps, lr, start=0.0, slope=_slope):
    """Where the reference gets to, or another start or slope would."""
    query = np.full(keys.shape[1], start)
    for _ in range(steps):
        query = query - lr * slope(query, keys, values, target)
    return query


def _tells_gradients_apart(keys, values, target):
    """At zeros: is the gradient short, and does it point elsewhere than the wrong ones?"""
    zeros = np.zeros(np.shape(keys)[1])
    slope = right.query_gradient(zeros, keys, values, target)
    size = np.linalg.norm(slope)
    wrong = [f(zeros, keys, values, target) for f in (jacobian_without_outer, skips_jacobian)]
    along = [slope @ w / (size * np.linalg.norm(w) + 1e-12) for w in wrong]
    return 1e-3 < size < 0.35 and max(along) < 0.95


def _loss(query, keys, values, target):
    return 0.5 * np.sum((right.soft_lookup(query, keys, values)[0] - target) ** 2)


def _learns(case, query, wanted):
    """Zeros after no step; near them, downhill, after a few short ones; else the loss has fallen."""
    keys, values, target = case.args
    query = conform(query, wanted).astype(np.float64)
    steps, lr = case.kwargs.get("steps", 200), case.kwargs.get("lr", 1.0)
    start = _loss(np.zeros(len(query)), keys, values, target)
    end = _loss(query, keys, values, target)
    if steps == 0:
        return _still_at_zeros(query)
    if steps * lr < 0.1:
        return _went_a_little(query, wanted)
    if end <= ENOUGH * start:
        return None
    words = f"the loss went from {start:.3g} to {end:.3g}; it should fall by at least 95 %"
    return Fault(None, words)


def _still_at_zeros(query):
    if np.abs(query).max() < 1e-9:
        return None
    return Fault("starts_elsewhere", "after steps=0 the query should still be zeros: start there")


def _went_a_little(query, wanted):
    """After a few short steps: is it about where plain gradient descent is?"""
    distance, right_distance = np.linalg.norm(query), np.linalg.norm(wanted)
    if distance == 0:
        words = "the query has not moved: is a step missing, or is it cut to integers?"
        return Fault("no_step", words)
    along = query @ wanted / (distance * right_distance)
    if along < -0.99:
        return Fault("uphill", "the query goes uphill: subtract the gradient")
    if along < 0.99:
        return Fault(
            "other_direction", "the first steps go in another direction than the gradient's"
        )
    if not 0.4 < distance / right_distance < 2.5:
        words = "so few, so short steps lead to another place: use `steps` and `lr`, and the gradient as it is"
        return Fault("other_length", words)
    return None


learn_query = Exercise(
    "learn_query",
    CHAPTER,
    right.learn_query,
    _learn_query_cases,
    builds_on=("query_gradient",),
    accept=_learns,
    hints={
        "reaches the target": "Start from np.zeros(d) and subtract lr times the gradient, `steps` times.",
        "starts from zeros": "With steps=0 the zeros themselves come back.",
        "steps and lr": "Take as many steps as `steps` says, each `lr` times the gradient long.",
        "other steps and lr": "Take as many steps as `steps` says, each `lr` times the gradient long.",
        "integers": "Let the query be an array of floats, whatever the keys are.",
    },
)


@learn_query.mistake("The loss rises: subtract the gradient, which points uphill.")
def climbs(keys, values, target, steps=200, lr=1.0):
    return _descend(keys, values, target, steps, -lr)


@learn_query.mistake(
    "The query that comes back is still the zeros it began with: assign the step to it, and let it hold floats."
)
def never_moves(keys, values, target, steps=200, lr=1.0):
    return np.zeros(np.shape(keys)[1])


@learn_query.mistake(
    "As if one step were taken: does `return` stand inside the loop, or does the query start over in it?"
)
def one_step(keys, values, target, steps=200, lr=1.0):
    return _descend(keys, values, target, min(steps, 1), lr)


@learn_query.mistake("The gradient is taken at zeros every time: take it where the query is now.")
def stale_gradient(keys, values, target, steps=200, lr=1.0):
    gradient = right.query_gradient(np.zeros(np.shape(keys)[1]), keys, values, target)
    return -steps * lr * gradient


@learn_query.mistake("What comes back is the output that was reached; wanted is the query.")
def returns_output(keys, values, target, steps=200, lr=1.0):
    query = _descend(keys, values, target, steps, lr)
    return right.soft_lookup(query, keys, values)[0]


@learn_query.mistake("What comes back is the loss; wanted is the query.")
def returns_loss(keys, values, target, steps=200, lr=1.0):
    query = _descend(keys, values, target, steps, lr)
    return float(_loss(query, keys, values, target))


@learn_query.mistake("What comes back is the last gradient; wanted is the query.")
def returns_gradient(keys, values, target, steps=200, lr=1.0):
    query = _descend(keys, values, target, steps, lr)
    return right.query_gradient(query, keys, values, target)


@learn_query.mistake("`lr` is not used: each step is `lr` times the gradient long.")
def ignores_lr(keys, values, target, steps=200, lr=1.0):
    return _descend(keys, values, target, steps, 1.0)


@learn_query.mistake("`steps` is not used: the loop takes 200 steps whatever is asked for.")
def ignores_steps(keys, values, target, steps=200, lr=1.0):
    return _descend(keys, values, target, 200, lr)


@learn_query.mistake("The loop takes one step too few: range(steps) runs `steps` times.")
def one_step_short(keys, values, target, steps=200, lr=1.0):
    return _descend(keys, values, target, max(steps - 1, 0), lr)


@learn_query.mistake("The descent starts from ones: start from zeros.")
def starts_from_ones(keys, values, target, steps=200, lr=1.0):
    return _descend(keys, values, target, steps, lr, start=1.0)


@learn_query.mistake(
    "Each step is shorter than the one before: take all of them with the same `lr`."
)
def shrinking_steps(keys, values, target, steps=200, lr=1.0):
    query = np.zeros(np.shape(keys)[1])
    for step in range(steps):
        query = query - lr / (step + 1) * _slope(query, keys, values, target)
    return query


@learn_query.mistake(
    "Every step has length `lr`: use the gradient as it is, not divided by its length."
)
def steps_of_equal_length(keys, values, target, steps=200, lr=1.0):
    def unit(*state):
        slope = _slope(*state)
        return slope / max(np.linalg.norm(slope), 1e-300)

    return _descend(keys, values, target, steps, lr, slope=unit)


@learn_query.mistake("The gradient lacks the softmax's Jacobian: use your query_gradient.")
def descends_without_jacobian(keys, values, target, steps=200, lr=1.0):
    return _descend(keys, values, target, steps, lr, slope=jacobian_without_outer)


@learn_query.mistake("All visited queries come back; wanted is the last one.")
def returns_path(keys, values, target, steps=200, lr=1.0):
    path = [np.zeros(np.shape(keys)[1])]
    for _ in range(steps):
        path.append(path[-1] - lr * _slope(path[-1], keys, values, target))
    return np.array(path)


# ---- the worked example by hand ------------------------------------------------------------


def _typed(exercise_id, reference, hint):
    return Exercise(
        exercise_id,
        CHAPTER,
        np.asarray(reference),
        lambda rng: [value("three numbers")],
        within=Within(atol=0.005),
        hints={"three numbers": hint},
    )


SCORES = right.CAT_SAT_KEYS @ right.CAT_SAT_QUERY  # 0, 2, 1

cat_sat_weights = _typed(
    "cat_sat_weights",
    right.cat_sat_weights,
    "Divide each exponential by the sum of the three, 7.14, and give two decimals.",
)
cat_sat_output = _typed(
    "cat_sat_output",
    right.cat_sat_output,
    "Weigh the three one-hot values by the weights and add them up.",
)
for _exercise in (cat_sat_weights, cat_sat_output):
    for _name, _wrong, _advice in (
        ("not_divided", right.softmax(SCORES), "The scores were not divided by the temperature, sqrt(2)."),
        ("divided_by_two", right.softmax(SCORES / 2), "The scores were divided by 2; the temperature is sqrt(2) = 1.41."),
        ("multiplied", right.softmax(SCORES * 2**0.5), "The scores were multiplied by sqrt(2): divide by it."),
        ("no_exponential_taken", SCORES / 3, "The scores were divided by their sum: take exponentials first."),
        ("exponentials", np.exp(SCORES / 2**0.5), "These are the exponentials: divide each by their sum, 7.14."),
        ("scaled_scores", SCORES / 2**0.5, "These are the scaled scores: exponentials and their shares come next."),
        ("raw_scores", SCORES, "These are the raw scores: scale, exponentials and shares come next."),
        ("rounded_too_early", np.array([0.14, 0.57, 0.29]), "Nearly: you rounded too early. Keep three decimals (1.414 and 0.707) until the last step."),
        ("even", np.full(3, 1 / 3), "All three weigh the same: the scores differ, so the weights do."),
        ("best_takes_all", np.array([0.0, 1.0, 0.0]), "The best word takes all: that is the hard look-up."),
    ):  # fmt: skip
        _exercise.wrong_value(_name, _wrong, _advice)

cat_sat_output.wrong_value(
    "averages_the_keys",
    right.cat_sat_weights @ right.CAT_SAT_KEYS,
    "The weights average the keys here: average the one-hot values.",
)


EXERCISES = (
    hard_lookup,
    similarity,
    softmax,
    cat_sat_weights,
    soft_lookup,
    cat_sat_output,
    temperature_for,
    softmax_jacobian,
    query_gradient,
    learn_query,
)
