"""Chapter 3: cases, laws and named mistakes of the scale, the saturation and the gradients."""

import functools
import math

import numpy as np

from grader.compare import Within, conform
from grader.exercise import LISTS, Exercise, Fault, Law, Together, call, signed, value
from utils.reference import scaling as right
from utils.reference.dictionary_lookup import as_floating, softmax
from utils.wire import Rng, pack

CHAPTER = "scaling"
ONE_ROW = "It would also take a single row, of shape (S,), if it counted axes from the end."

IGNORES_RNG = Together(
    "draws from rng",
    "ignores_rng",
    "Two generators that give different numbers give the very same result here: draw from `rng`, "
    "and from nothing else.",
    lambda cases, values: len({pack(value) for value in values}) > 1,
)


def _swap(x):
    return np.swapaxes(np.asarray(x), -1, -2)


def _seed(rng):
    return Rng(int(rng.integers(2**31)))


# ---- score_std ---------------------------------------------------------------------------------


def _score_std_cases(rng):
    # n stays so small that the diagonal of all n by n products can be had as well.
    # Widths of 8 m + 5 and odd n: components of ±1 can never measure sqrt(d_k) to the last digit.
    for d_k, n in ((61, 3999), (int(rng.choice([13, 21, 29])), 3999), (253, 2999)):
        yield call("wide vectors", d_k, n, _seed(rng))
    for d_k in (1, 2, 3, 1, 2, 3, 1, 2):
        yield call("narrow vectors", d_k, 4000, _seed(rng))
    for _ in range(8):  # some may be alike if they were rounded
        yield call("draws from rng", 64, 2000, _seed(rng))


def _measures_the_spread(case, value, wanted):
    d_k, n, _ = case.args
    yours, theory = float(conform(value, np.asarray(wanted))), math.sqrt(d_k)
    if case.group == "wide vectors" and abs(yours / theory - 1) < 1e-9:
        words = "this is the square root of d_k itself: measure it, over n pairs drawn from `rng`"
        return Fault("not_measured", words)
    error = math.sqrt((2 + 6 / d_k) / n) / 2  # of the measured deviation, relative
    if not abs(yours / theory - 1) < 7 * error:
        return Fault(None, f"yours is {yours:.4g}; over so many pairs it is about {theory:.3g}")
    return None


score_std = Exercise(
    "score_std",
    CHAPTER,
    right.score_std,
    _score_std_cases,
    accept=_measures_the_spread,
    together=(IGNORES_RNG,),
    hints={
        "wide vectors": "Print the shapes on the way: n pairs, one dot product of each, one number in the end.",
        "narrow vectors": "Every pair needs a query and a key of its own.",
    },
)


def _pairs(d_k, n, rng):
    q, k = rng.standard_normal((2, n, d_k))
    return q, k, np.sum(q * k, axis=-1)


@score_std.mistake("This is the variance; wanted is its square root, the standard deviation.")
def returns_variance(d_k, n, rng):
    return float(np.var(_pairs(d_k, n, rng)[2]))


@score_std.mistake("This is the theory, sqrt(d_k): measure it, over n pairs drawn from `rng`.")
def theory_not_measured(d_k, n, rng):
    return math.sqrt(d_k)


@score_std.mistake(IGNORES_RNG.advice)
def ignores_rng(d_k, n, rng):
    return right.score_std(d_k, n, np.random.default_rng(0))


@score_std.mistake("One query serves for all pairs: draw a fresh query for each.")
def one_query_for_all(d_k, n, rng):
    return float(np.std(rng.standard_normal((n, d_k)) @ rng.standard_normal(d_k)))


@score_std.mistake(
    "Uniform numbers between 0 and 1 have neither mean 0 nor variance 1: use standard_normal."
)
def uniform_from_0_to_1(d_k, n, rng):
    q, k = rng.random((2, n, d_k))
    return float(np.std((q * k).sum(-1)))


@score_std.mistake(
    "Uniform numbers between -1 and 1 have variance 1/3, not 1: use standard_normal."
)
def uniform_from_minus_1_to_1(d_k, n, rng):
    q, k = rng.uniform(-1, 1, (2, n, d_k))
    return float(np.std((q * k).sum(-1)))


@score_std.mistake("The scores are divided by sqrt(d_k) already: measure the raw dot products.")
def already_scaled(d_k, n, rng):
    return float(np.std(_pairs(d_k, n, rng)[2]) / np.sqrt(d_k))


@score_std.mistake("The products are averaged over the width; a dot product is their sum.")
def mean_of_products(d_k, n, rng):
    q, k, _ = _pairs(d_k, n, rng)
    return float(np.std((q * k).mean(-1)))


@score_std.mistake("The products are not summed: sum over the last axis, then take the deviation.")
def products_not_summed(d_k, n, rng):
    q, k, _ = _pairs(d_k, n, rng)
    return float(np.std(q * k))


@score_std.mistake("The query is multiplied with itself: draw a key of its own for every pair.")
def query_with_itself(d_k, n, rng):
    q, _, _ = _pairs(d_k, n, rng)
    return float(np.std((q * q).sum(-1)))


@score_std.mistake(
    "This is the mean of the scores, which is near 0; wanted is how far they spread."
)
def mean_of_scores(d_k, n, rng):
    return float(np.mean(_pairs(d_k, n, rng)[2]))


@score_std.mistake("This is the mean size of the scores, which is smaller than their deviation.")
def mean_size(d_k, n, rng):
    return float(np.mean(np.abs(_pairs(d_k, n, rng)[2])))


@score_std.mistake(
    "One deviation a component comes back: sum over the width first, for one number."
)
def one_number_a_component(d_k, n, rng):
    q, k, _ = _pairs(d_k, n, rng)
    return np.std(q * k, axis=0)


@score_std.mistake("The scores come back themselves; wanted is their standard deviation.")
def returns_scores(d_k, n, rng):
    return _pairs(d_k, n, rng)[2]


# ---- row_entropy -------------------------------------------------------------------------------


def _row_entropy_cases(rng):
    yield call("one map", softmax(2 * signed(rng, 3, 5)))
    yield call("one map", softmax(2 * signed(rng, 7, 2)))
    yield call("square", softmax(2 * signed(rng, 4, 4)))
    yield call("batch", softmax(2 * signed(rng, 2, 3, 5)))
    yield call("batch", softmax(2 * signed(rng, 2, 3, 4, 6)))
    yield call("weights of zero", np.array([[1.0, 0, 0, 0], [0, 0.75, 0.25, 0], [0, 0, 0, 1]]))
    yield call("even rows", np.full((2, 50), 0.02))
    yield call("one key", np.ones((3, 1)))
    yield call("a single row", softmax(signed(rng, 6)))
    yield call("integers", np.eye(3, 4, dtype=int))
    yield call("float32", softmax(signed(rng, 3, 5)).astype("f4"))
    yield call("nested lists", softmax(signed(rng, 2, 3)).tolist())


row_entropy = Exercise(
    "row_entropy",
    CHAPTER,
    right.row_entropy,
    _row_entropy_cases,
    laws=(
        Law(
            "entropy_out_of_bounds",
            "An entropy in nats lies between 0 (one key takes all) and the log of the number of keys.",
            lambda case, h: bool(
                np.all((h > -1e-4) & (h < np.log(np.shape(case.args[0])[-1]) + 1e-4))
            ),
        ),
    ),
    hints={
        "one map": "Minus the sum of p log p along each row: one number a row.",
        "batch": "Sum over the last axis: it holds the keys, whatever stands in front.",
        "weights of zero": "log 0 is -inf and 0 times it is NaN; a weight of zero contributes 0.",
    },
    remarks={"a single row": ONE_ROW, "nested lists": LISTS},
)


def _plogp(weights, log=np.log):
    p = as_floating(weights)
    return p * log(np.where(p > 0, p, 1))


@row_entropy.mistake("The logarithm has base 2, which gives bits: np.log gives nats.")
def in_bits(weights):
    return -_plogp(weights, np.log2).sum(-1)


@row_entropy.mistake("The logarithm has base 10: np.log gives nats.")
def base_ten(weights):
    return -_plogp(weights, np.log10).sum(-1)


@row_entropy.mistake("The sign is missing: logs of weights are negative, an entropy is not.")
def sign_missing(weights):
    return _plogp(weights).sum(-1)


@row_entropy.mistake("0 times log 0 is NaN: give weights of zero a contribution of 0.")
def nan_at_zero(weights):
    p = np.asarray(weights)
    return -(p * np.log(p)).sum(-1)


for _power in range(3, 8):
    row_entropy.mistake(
        "A small number is added inside the log, and every entropy is a little off: use np.where instead.",
        f"small_number_added_1e_{_power}",
    )(lambda weights, small=10.0**-_power: -np.sum(weights * np.log(np.add(weights, small)), -1))


@row_entropy.mistake("The sum runs over the queries: it belongs along the last axis, the keys.")
def summed_over_queries(weights):
    return -_plogp(weights).sum(-2 if np.ndim(weights) > 1 else -1)


@row_entropy.mistake("The sum runs over axis 1, the last only without a batch: use axis=-1.")
def summed_over_axis_1(weights):
    return -_plogp(weights).sum(1)


@row_entropy.mistake("The terms are averaged over the keys: an entropy is their sum.")
def mean_over_keys(weights):
    return -_plogp(weights).mean(-1)


@row_entropy.mistake("Everything is summed to one number: wanted is one a row.")
def summed_over_everything(weights):
    return -_plogp(weights).sum()


@row_entropy.mistake("The mean of all rows comes back: wanted is one number a row.")
def mean_of_rows(weights):
    return (-_plogp(weights).sum(-1)).mean()


@row_entropy.mistake("The entropy is divided by its maximum, log S: leave it in nats.")
def share_of_the_maximum(weights):
    return -_plogp(weights).sum(-1) / np.log(np.shape(weights)[-1])


@row_entropy.mistake("exp of the entropy (perplexity) comes back: leave the exponential out.")
def perplexity(weights):
    return np.exp(right.row_entropy(weights))


@row_entropy.mistake("This is 1 minus the sum of squares, the sensitivity; wanted is the entropy.")
def one_minus_squares(weights):
    return 1 - np.sum(np.square(weights), axis=-1)


@row_entropy.mistake("The weights in front of the logs are missing: it is p log p.")
def log_without_weight(weights):
    p = as_floating(weights)
    return -np.log(np.where(p > 0, p, 1)).sum(-1)


@row_entropy.mistake("Softmax is applied to weights, which are past that already.")
def softmax_again(weights):
    return right.row_entropy(softmax(weights))


# ---- saturation_curve --------------------------------------------------------------------------


def _saturation_cases(rng):
    wide = [8, int(rng.integers(28, 40)), 128]
    yield call("raw scores", wide, False, _seed(rng))
    yield call("scaled scores", wide, True, _seed(rng))
    yield call("other numbers of keys", [64, 16], False, _seed(rng), 9, 500)
    yield call("other numbers of keys", [16, 32], True, _seed(rng), n_keys=20, n=400)
    for _ in range(8):  # some may be alike if they were rounded
        yield call("draws from rng", [64], False, _seed(rng))
    for _ in range(12):
        yield call("one row", [64], False, _seed(rng), 16, 1)


@functools.cache
def _saturation(width, scaled, n_keys):
    """Mean and deviation of a row's entropy and sensitivity: ((mean, sd), (mean, sd)).

    Given the query, its scores are normal with the query's length as deviation.
    """
    rng = np.random.default_rng(width)
    scores = rng.standard_normal((20000, n_keys)) * np.sqrt(rng.chisquare(width, (20000, 1)))
    weights = softmax(scores / np.sqrt(width) if scaled else scores)
    parts = right.row_entropy(weights), 1 - np.sum(weights**2, axis=-1)
    return tuple((part.mean(), part.std()) for part in parts)


def _keys_and_rows(case):
    n_keys, n = [*case.args[3:], None, None][:2]
    return case.kwargs.get("n_keys", n_keys or 64), case.kwargs.get("n", n or 256)


def _curve_is_as_expected(case, value, wanted):
    widths, scaled = case.args[:2]
    n_keys, n = _keys_and_rows(case)
    yours = conform(value, wanted)
    for number, (name, part) in enumerate(zip(("entropy", "sensitivity"), yours, strict=True)):
        for width, mean in zip(widths, part.astype(float), strict=True):
            expected, sd = _saturation(width, bool(scaled), n_keys)[number]
            # One set of keys for all rows of a width is right as well, and spreads more.
            if not abs(mean - expected) < 9 * sd / math.sqrt(n) + 0.003:
                where = f"{name}: at width {width} yours is {mean:.3g}"
                return Fault(None, f"{where}; over {n} rows it is about {expected:.3g}")
    return None


def _single_rows_spread(cases, values):
    """Are single rows as far from the mean as rows are, and not as means of many?"""
    (mean, sd), _ = _saturation(64, False, 16)
    gaps = [(float(np.ravel(value[0])[0]) - mean) / sd for value in values]
    return float(np.mean(np.square(gaps))) ** 0.5 > 0.25


saturation_curve = Exercise(
    "saturation_curve",
    CHAPTER,
    right.saturation_curve,
    _saturation_cases,
    builds_on=("row_entropy",),
    accept=_curve_is_as_expected,
    together=(
        IGNORES_RNG,
        Together(
            "one row",
            "n_not_used",
            "`n` is not used: with n=1 every point is a single row, and no mean of many.",
            _single_rows_spread,
        ),
    ),
    results=("entropy", "sensitivity"),
    hints={
        "raw scores": "Follow one width: are its vectors new, do rows of weights sum to 1, and are both numbers means over rows?",
        "scaled scores": "With `scaled`, divide the scores by the square root of that width.",
        "other numbers of keys": "A row has `n_keys` weights, and there are `n` rows to average.",
    },
)


def _curve(
    widths,
    scaled,
    rng,
    n_keys,
    n,
    draw=None,
    divisor=np.sqrt,
    entropy=right.row_entropy,
    sensitivity=lambda p: 1 - np.sum(p**2, axis=-1),
    mean=np.mean,
    axis=-1,
):
    """`saturation_curve` with one set of keys a width, and one part of it put wrong."""
    results = []
    for width in widths:
        q, k = rng.standard_normal((n, width)), rng.standard_normal((n_keys, width))
        if draw:
            q, k = draw(width, q, k)
        rows = q @ k.T
        p = softmax(rows / divisor(width) if scaled else rows, axis=axis)
        results.append((mean(entropy(p)), mean(sensitivity(p))))
    first, second = zip(*results, strict=True)
    return np.array(first), np.array(second)


def _curve_mistake(name, advice, **changes):
    @saturation_curve.mistake(advice, name)
    def candidate(widths, scaled, rng, n_keys=64, n=256):
        return _curve(widths, scaled, rng, n_keys, n, **changes)


@saturation_curve.mistake("`scaled` is not looked at: nothing is ever divided.")
def never_scaled(widths, scaled, rng, n_keys=64, n=256):
    return _curve(widths, False, rng, n_keys, n)


@saturation_curve.mistake("`scaled` is not looked at: the scores are always divided.")
def always_scaled(widths, scaled, rng, n_keys=64, n=256):
    return _curve(widths, True, rng, n_keys, n)


@saturation_curve.mistake("The switch is turned round: divide where `scaled` is True.")
def switch_turned_round(widths, scaled, rng, n_keys=64, n=256):
    return _curve(widths, not scaled, rng, n_keys, n)


@saturation_curve.mistake("The two results are swapped: the entropy comes first.")
def results_swapped(widths, scaled, rng, n_keys=64, n=256):
    return _curve(widths, scaled, rng, n_keys, n)[::-1]


@saturation_curve.mistake(
    "`n` is not used: with n=1 every point is a single row, and no mean of many.", "n_not_used"
)
def _always_256_rows(widths, scaled, rng, n_keys=64, n=256):
    return _curve(widths, scaled, rng, n_keys, 256)


@saturation_curve.mistake("`n_keys` is not used: there are 64 keys whatever is asked for.")
def always_64_keys(widths, scaled, rng, n_keys=64, n=256):
    return _curve(widths, scaled, rng, 64, n)


@saturation_curve.mistake(IGNORES_RNG.advice, "ignores_rng")
def _curve_of_its_own(widths, scaled, rng, n_keys=64, n=256):
    return _curve(widths, scaled, np.random.default_rng(0), n_keys, n)


@saturation_curve.mistake("Every point belongs to the first width: draw vectors of each width.")
def first_width_only(widths, scaled, rng, n_keys=64, n=256):
    return _curve([widths[0]] * len(widths), scaled, rng, n_keys, n)


@saturation_curve.mistake("Numbers for the last width only come back: collect one for each width.")
def last_width_only(widths, scaled, rng, n_keys=64, n=256):
    return tuple(part[-1] for part in _curve(widths, scaled, rng, n_keys, n))


def _tiled(width, q, k):
    times = -(-width // 4)
    return np.tile(q[:, :4], times)[:, :width], np.tile(k[:, :4], times)[:, :width]


def _positive(width, q, k):
    return np.abs(q), np.abs(k)


for _name, _advice, _changes in (
    ("tiled_vectors", "Narrow vectors are repeated to make wide ones: their components are not independent. Draw new ones.", {"draw": _tiled}),
    ("one_sided_vectors", "The components are never negative, so their mean is not 0: use standard_normal.", {"draw": _positive}),
    ("cosines_instead", "The vectors are made unit long, and the width no longer matters: leave their lengths alone.", {"draw": lambda w, q, k: tuple(x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, k))}),
    ("divided_by_the_width", "The scores are divided by the width: it should be its square root.", {"divisor": lambda w: w}),
    ("multiplied_by_the_root", "The scores are multiplied by the square root of the width: divide.", {"divisor": lambda w: w**-0.5}),
    ("entropy_in_bits", "The entropy is in bits: use the natural logarithm.", {"entropy": in_bits}),
    ("entropy_negative", "The entropy has the wrong sign.", {"entropy": sign_missing}),
    ("squares_averaged", "The squares are averaged over the keys: sum them over the keys first, then take the mean over the rows.", {"sensitivity": lambda p: 1 - np.mean(p**2)}),
    ("entropy_averaged", "The entropy is averaged over the keys: sum over the keys first, then take the mean over the rows.", {"entropy": mean_over_keys}),
    ("sensitivity_averaged", "The products p (1 - p) are averaged over the keys: sum them over the keys first, then take the mean over the rows.", {"sensitivity": lambda p: np.mean(p * (1 - p))}),
    ("entropy_of_the_mean", "This is the entropy of the mean row: take each row's entropy first, then the mean.", {"entropy": lambda p: right.row_entropy(p.mean(axis=0))}),
    ("concentration", "The second result is the sum of p^2; the sensitivity is 1 minus it.", {"sensitivity": lambda p: np.sum(p**2, axis=-1)}),
    ("room_above_the_largest", "The second result is 1 minus the largest weight; the sensitivity is 1 - sum p^2.", {"sensitivity": lambda p: 1 - p.max(-1)}),
    ("sums_over_rows", "The rows are added up: wanted are means over the rows.", {"mean": np.sum}),
    ("softmax_down_the_rows", "The softmax runs over the rows: each row's weights should sum to 1.", {"axis": 0}),
):  # fmt: skip
    _curve_mistake(_name, _advice, **_changes)


# ---- scaled_scores -----------------------------------------------------------------------------


def _q_and_k(rng, T, S, d_k, *front):
    return 1.5 * signed(rng, *front, T, d_k), 1.5 * signed(rng, *front, S, d_k)


def _scaled_scores_cases(rng):
    yield call("one sequence", *_q_and_k(rng, 7, 5, 3))
    yield call("one sequence", *_q_and_k(rng, 2, 9, 6))
    yield call("square", *_q_and_k(rng, 5, 5, 5))
    yield call("batch", *_q_and_k(rng, 7, 5, 3, 2))
    yield call("batch", *_q_and_k(rng, 4, 5, 6, 2, 3))
    yield call("another scale", *_q_and_k(rng, 4, 5, 3), scale=float(rng.uniform(0.2, 0.4)))
    yield call("another scale", *_q_and_k(rng, 4, 6, 5), float(rng.uniform(1.5, 2.5)))
    yield call("scale 0.0", *_q_and_k(rng, 4, 5, 3), scale=0.0)
    yield call("width 1", *_q_and_k(rng, 4, 3, 1))
    yield call("integers", rng.integers(-5, 6, (4, 3)), rng.integers(1, 6, (5, 3)))
    yield call("float32", *(a.astype("f4") for a in _q_and_k(rng, 3, 4, 5)))
    yield call("nested lists", *(a.tolist() for a in _q_and_k(rng, 3, 4, 2)))


SCALE_0 = "0.0 is a scale, and false to Python: ask `scale is None`."

scaled_scores = Exercise(
    "scaled_scores",
    CHAPTER,
    right.scaled_scores,
    _scaled_scores_cases,
    hints={
        "one sequence": "Dot products as in chapter 2, divided by the square root of the last axis' length.",
        "batch": "Swap only the last two axes of k; d_k is the length of the last axis of q.",
        "another scale": "A scale that is given multiplies the dot products, in place of 1/sqrt(d_k).",
        "scale 0.0": SCALE_0,
    },
    remarks={"nested lists": LISTS},
)


def _raw(q, k):
    return as_floating(q) @ _swap(as_floating(k))


def _default(q, k, factor, scale):
    return _raw(q, k) * (factor if scale is None else scale)


def _padded(d):
    return 1 << (d - 1).bit_length()


@scaled_scores.mistake("Nothing is divided when no scale is given: None means 1 / sqrt(d_k).")
def not_scaled(q, k, scale=None):
    return _default(q, k, 1, scale)


@scaled_scores.mistake("The scores are divided by d_k: it should be its square root.")
def divided_by_d_k(q, k, scale=None):
    return _default(q, k, 1 / np.shape(q)[-1], scale)


@scaled_scores.mistake("The scores are multiplied by sqrt(d_k): divide.")
def multiplied_by_root(q, k, scale=None):
    return _default(q, k, np.shape(q)[-1] ** 0.5, scale)


@scaled_scores.mistake("The scores are divided by the root of the number of queries, not of d_k.")
def root_of_queries(q, k, scale=None):
    return _default(q, k, np.shape(q)[-2] ** -0.5, scale)


@scaled_scores.mistake("The scores are divided by the root of the number of keys, not of d_k.")
def root_of_keys(q, k, scale=None):
    return _default(q, k, np.shape(k)[-2] ** -0.5, scale)


@scaled_scores.mistake("d_k is read from axis 1, the last only without a batch: use shape[-1].")
def width_from_axis_1(q, k, scale=None):
    return _default(q, k, np.shape(q)[1] ** -0.5, scale)


@scaled_scores.mistake("The width is taken to be 64: read it from q's last axis.")
def width_of_64(q, k, scale=None):
    return _default(q, k, 1 / 8, scale)


@scaled_scores.mistake("The width is rounded up to a power of two: use the true one.")
def padded_width(q, k, scale=None):
    return _default(q, k, _padded(np.shape(q)[-1]) ** -0.5, scale)


@scaled_scores.mistake("Queries and keys are both divided by sqrt(d_k): that is once too often.")
def scaled_twice(q, k, scale=None):
    factor = np.shape(q)[-1] ** -0.5 if scale is None else scale
    return _raw(q, k) * factor**2


@scaled_scores.mistake(SCALE_0)
def zero_taken_for_none(q, k, scale=None):
    return _raw(q, k) * (scale or np.shape(q)[-1] ** -0.5)


@scaled_scores.mistake("The scale that is given is not used.")
def given_scale_ignored(q, k, scale=None):
    return right.scaled_scores(q, k)


@scaled_scores.mistake("The scale that is given divides: it should multiply.")
def divided_by_scale(q, k, scale=None):
    return _raw(q, k) / (np.shape(q)[-1] ** 0.5 if scale is None else np.float64(scale))


@scaled_scores.mistake("A given scale comes on top of 1/sqrt(d_k): it should replace it.")
def scale_on_top(q, k, scale=None):
    return right.scaled_scores(q, k) * (1 if scale is None else scale)


@scaled_scores.mistake("The weights come back: no softmax yet, please.")
def already_softmaxed(q, k, scale=None):
    return softmax(right.scaled_scores(q, k, scale))


@scaled_scores.mistake("The result is transposed: rows belong to queries, columns to keys.")
def rows_are_keys(q, k, scale=None):
    return _swap(right.scaled_scores(q, k, scale))


@scaled_scores.mistake(
    "`.T` turns round all axes of a batch: swap only the last two, np.swapaxes(k, -1, -2)."
)
def all_axes_transposed(q, k, scale=None):
    q, k = np.asarray(q), np.asarray(k)
    return q @ k.T * (q.shape[-1] ** -0.5 if scale is None else scale)


@scaled_scores.mistake("These are cosines: divide by sqrt(d_k), not by the vectors' lengths.")
def cosine_scores(q, k, scale=None):
    return right.qk_norm_scores(q, k, 1.0 if scale is None else scale)


# ---- scaled_dot_product_attention --------------------------------------------------------------


def _qkv(rng, T, S, d_k, d_v, *front):
    return *_q_and_k(rng, T, S, d_k, *front), signed(rng, *front, S, d_v) + 1


def _attention_cases(rng):
    yield call("one sequence", *_qkv(rng, 7, 5, 3, 6))
    yield call("one sequence", *_qkv(rng, 2, 9, 6, 13))
    yield call("square", *_qkv(rng, 5, 5, 5, 5))
    yield call("batch", *_qkv(rng, 7, 5, 3, 6, 2))
    yield call("batch", *_qkv(rng, 4, 5, 6, 8, 2, 3))
    yield call("another scale", *_qkv(rng, 4, 5, 3, 2), scale=float(rng.uniform(0.2, 0.4)))
    yield call("another scale", *_qkv(rng, 4, 6, 5, 3), float(rng.uniform(1.5, 2.5)))
    yield call("scale 0.0", *_qkv(rng, 4, 5, 3, 2), scale=0.0)
    q, k, v = _qkv(rng, 2, 3, 4, 2)
    high = np.round(8 * np.stack([np.abs(q[0]), -np.abs(q[1])])) / 8
    yield call("large numbers", 500 * high, np.round(8 * np.abs(k)) / 8, v)
    yield call("ties", *_qkv(rng, 3, 1, 2, 4)[:1], np.ones((4, 2)), signed(rng, 4, 3) + 1)
    yield call("one key", *_qkv(rng, 3, 1, 2, 4))
    ints = [rng.integers(-1, 3, shape) for shape in ((4, 3), (5, 3))]
    yield call("integers", *ints, rng.integers(1, 9, (5, 2)))
    yield call("float32", *(a.astype("f4") for a in _qkv(rng, 3, 4, 5, 2)))
    yield call("nested lists", *(a.tolist() for a in _qkv(rng, 3, 4, 2, 3)))


scaled_dot_product_attention = Exercise(
    "scaled_dot_product_attention",
    CHAPTER,
    right.scaled_dot_product_attention,
    _attention_cases,
    builds_on=("scaled_scores",),
    laws=(
        Law(
            "rows_not_1",
            "A row of weights does not sum to 1.",
            lambda case, pair: bool(np.allclose(pair[1].sum(-1), 1, atol=1e-4)),
        ),
    ),
    results=("out", "weights"),
    hints={
        "one sequence": "scaled_scores, softmax along each row, weights @ v; return (out, weights).",
        "batch": "Everything happens on the last two axes: no loop is needed.",
        "large numbers": "Use the softmax of chapter 1, which subtracts the row's maximum.",
        "scale 0.0": SCALE_0,
    },
    remarks={"nested lists": LISTS},
)


def _attend(scores, v):
    weights = softmax(scores)
    return weights @ np.asarray(v), weights


# The ways to make wrong scores are those of scaled_scores, and are explained in the same words.
for _mistake in list(scaled_scores.mistakes):
    if _mistake.name in ("already_softmaxed", "rows_are_keys"):
        continue

    def _candidate(q, k, v, scale=None, make=_mistake.candidate):
        return _attend(make(q, k, scale), v)

    scaled_dot_product_attention.mistake(_mistake.advice, f"weights_{_mistake.name}")(_candidate)


@scaled_dot_product_attention.mistake("The scores are divided by the root of d_v, the width of the values: it is d_k, the width of queries and keys.")  # fmt: skip
def root_of_d_v(q, k, v, scale=None):
    return _attend(_default(q, k, np.shape(v)[-1] ** -0.5, scale), v)


@scaled_dot_product_attention.mistake("The division comes after the softmax, and rows no longer sum to 1: scale the scores.")  # fmt: skip
def scaled_after_softmax(q, k, v, scale=None):
    weights = softmax(_raw(q, k)) * (np.shape(q)[-1] ** -0.5 if scale is None else scale)
    return weights @ np.asarray(v), weights


@scaled_dot_product_attention.mistake("The softmax runs over the queries: column sums are 1, row sums are not. Look at the axis.")  # fmt: skip
def softmax_over_queries(q, k, v, scale=None):
    weights = softmax(right.scaled_scores(q, k, scale), axis=-2)
    return weights @ np.asarray(v), weights


@scaled_dot_product_attention.mistake("exp overflows or vanishes where scores are large: use the softmax of chapter 1.")  # fmt: skip
def softmax_without_maximum(q, k, v, scale=None):
    e = np.exp(right.scaled_scores(q, k, scale))
    weights = e / e.sum(-1, keepdims=True)
    return weights @ np.asarray(v), weights


@scaled_dot_product_attention.mistake("There is no softmax: the scaled scores weigh the values.")
def no_softmax(q, k, v, scale=None):
    weights = right.scaled_scores(q, k, scale)
    return weights @ np.asarray(v), weights


@scaled_dot_product_attention.mistake("The weights average the keys: they should average the values.")  # fmt: skip
def averages_the_keys(q, k, v, scale=None):
    return _attend(right.scaled_scores(q, k, scale), k)


@scaled_dot_product_attention.mistake("The two results are swapped: return out first, then weights.")  # fmt: skip
def swapped_results(q, k, v, scale=None):
    return right.scaled_dot_product_attention(q, k, v, scale)[::-1]


@scaled_dot_product_attention.mistake("Only the output comes back: return the pair (out, weights).")
def returns_out_only(q, k, v, scale=None):
    return right.scaled_dot_product_attention(q, k, v, scale)[0]


@scaled_dot_product_attention.mistake("The scores come back beside the output: return the weights.")
def returns_scores_too(q, k, v, scale=None):
    return right.scaled_dot_product_attention(q, k, v, scale)[0], right.scaled_scores(q, k, scale)


@scaled_dot_product_attention.mistake("Every value weighs the same: the scores do not matter here.")
def plain_mean(q, k, v, scale=None):
    return _attend(np.zeros_like(_raw(q, k)), v)


# ---- the worked example by hand ----------------------------------------------------------------


def _typed(exercise_id, reference, group, hint, builds_on=()):
    return Exercise(
        exercise_id,
        CHAPTER,
        np.asarray(reference),
        lambda rng: [value(group)],
        builds_on=builds_on,
        within=Within(atol=0.005),
        hints={group: hint},
    )


last_token_weights = _typed(
    "last_token_weights",
    right.last_token_weights,
    "three numbers",
    "Scores, divided by the root of the width 2; exponentials; each divided by their sum.",
)
last_token_output = _typed(
    "last_token_output",
    right.last_token_output,
    "two numbers",
    "Weigh the three rows of V by the weights, with three decimals, and add them up.",
    builds_on=("last_token_weights",),
)
RAW = right.LAST_TOKEN_K @ right.LAST_TOKEN_Q[-1]
for _name, _wrong, _advice in (
    ("not_divided", softmax(RAW), "The scores were not divided by the square root of the width."),
    ("divided_by_width", softmax(RAW / 2), "The scores were divided by the width; it is its square root."),
    ("divided_by_root_of_three", softmax(RAW / 3**0.5), "The scores were divided by the root of 3, the number of tokens; the width is 2."),
    ("multiplied", softmax(RAW * 2**0.5), "The scores were multiplied by the root of the width: divide by it."),
    ("exponentials", np.exp(RAW / 2**0.5), "These are the exponentials: divide each by the sum of the three."),
    ("scaled_only", RAW / 2**0.5, "These are the scaled scores: exponentials and their shares come next."),
    ("raw_only", RAW, "These are the raw scores: scale, exponentials and shares come next."),
    ("first_tokens_row", right.scaled_dot_product_attention(right.LAST_TOKEN_Q, right.LAST_TOKEN_K, right.LAST_TOKEN_V)[1][0], "This is the row of the first token; asked for is the last."),
    ("even", np.full(3, 1 / 3), "All three weigh the same: the scores differ, so the weights do."),
    ("best_takes_all", np.array([0.0, 0.0, 1.0]), "The best token takes all: that is the hard look-up."),
):  # fmt: skip
    last_token_weights.wrong_value(_name, _wrong, _advice)
    if _name == "scaled_only" or _name == "raw_only" or _name == "exponentials":
        _advice = (
            "The weights do not sum to 1 yet: divide each exponential by the sum of the three."
        )
    last_token_output.wrong_value(f"out_{_name}", _wrong @ right.LAST_TOKEN_V, _advice)
last_token_output.wrong_value(
    "rounded_too_early",
    np.array([1.75, 1.0]),
    "Nearly: you rounded too early, or shared the scores without exponentials. Keep all digits of the weights until the last step.",
)
last_token_output.wrong_value(
    "averages_the_keys",
    right.last_token_weights @ right.LAST_TOKEN_K,
    "The weights average the keys here: average the rows of V.",
)


# ---- softmax_vjp -------------------------------------------------------------------------------


def _vjp_cases(rng):
    yield call("one map", softmax(2 * signed(rng, 3, 5)), signed(rng, 3, 5))
    yield call("one map", softmax(2 * signed(rng, 7, 2)), signed(rng, 7, 2))
    yield call("square", softmax(2 * signed(rng, 4, 4)), signed(rng, 4, 4))
    yield call("batch", softmax(2 * signed(rng, 2, 3, 5)), signed(rng, 2, 3, 5))
    yield call("batch", softmax(2 * signed(rng, 2, 3, 4, 6)), signed(rng, 2, 3, 4, 6))
    yield call("certain rows", np.eye(3, 4), signed(rng, 3, 4))
    yield call("even upstream", softmax(signed(rng, 3, 4)), np.full((3, 4), 2.0))
    yield call("a single row", softmax(signed(rng, 5)), signed(rng, 5))
    yield call("one key", np.ones((3, 1)), signed(rng, 3, 1))
    yield call("integers", softmax(signed(rng, 3, 4)), rng.integers(-4, 5, (3, 4)))
    yield call("float32", softmax(signed(rng, 3, 5)).astype("f4"), signed(rng, 3, 5).astype("f4"))
    yield call("nested lists", softmax(signed(rng, 2, 3)).tolist(), signed(rng, 2, 3).tolist())


softmax_vjp = Exercise(
    "softmax_vjp",
    CHAPTER,
    right.softmax_vjp,
    _vjp_cases,
    laws=(
        Law(
            "budget_not_kept",
            "A row of the gradient does not sum to 0: adding one number to all scores changes nothing.",
            lambda case, g: bool(np.allclose(g.sum(-1), 0, atol=1e-4)),
        ),
    ),
    hints={
        "one map": "Raising one score takes weight from all others: is that in it, weighed by p, row by row?",
        "batch": "The inner sum runs over the last axis, with keepdims=True.",
        "certain rows": "Where one weight is 1, nothing moves: the gradient is 0.",
    },
    remarks={"a single row": ONE_ROW, "nested lists": LISTS},
)


def _vjp(weights, upstream, inner, p_first=True):
    p, g = as_floating(weights), as_floating(upstream)
    return (p if p_first else 1) * (g - inner(p, g))


for _name, _advice, _inner in (
    ("without_inner_sum", "The second term is missing: raising one score lowers all other weights.", lambda p, g: 0),
    ("summed_over_all_rows", "One inner sum is taken over all rows: each row has its own, axis=-1.", lambda p, g: (p * g).sum()),
    ("summed_over_queries", "The inner sum runs over the queries: it belongs along the last axis.", lambda p, g: (p * g).sum(-2 if p.ndim > 1 else -1, keepdims=True)),
    ("mean_in_place_of_sum", "The inner term is a mean over the keys: it should be a sum.", lambda p, g: (p * g).mean(-1, keepdims=True)),
    ("sum_without_weights", "The inner sum lacks the weights: it is the sum of p times upstream.", lambda p, g: g.sum(-1, keepdims=True)),
    ("plain_mean_removed", "The plain mean of upstream is subtracted: it should be weighted by p.", lambda p, g: g.mean(-1, keepdims=True)),
    ("diagonal_only", "Only the diagonal of the Jacobian is used: a score moves the other weights, too.", lambda p, g: p * g),
    ("inner_sum_added", "The inner sum is added: subtract it.", lambda p, g: -(p * g).sum(-1, keepdims=True)),
    ("sum_of_squares", "The inner sum is that of p squared times upstream: p goes in once.", lambda p, g: (p * p * g).sum(-1, keepdims=True)),
):  # fmt: skip
    softmax_vjp.mistake(_advice, _name)(
        lambda weights, upstream, inner=_inner: _vjp(weights, upstream, inner)
    )


@softmax_vjp.mistake("The factor p in front is missing.")
def factor_missing(weights, upstream):
    return _vjp(weights, upstream, lambda p, g: (p * g).sum(-1, keepdims=True), p_first=False)


@softmax_vjp.mistake("The sign is turned round: it is upstream minus the inner sum.")
def sign_turned_round(weights, upstream):
    return -right.softmax_vjp(weights, upstream)


@softmax_vjp.mistake("Softmax is applied to `weights`, which are past it already.")
def weights_taken_for_scores(weights, upstream):
    return right.softmax_vjp(softmax(weights), upstream)


@softmax_vjp.mistake("This is p (1 - p), the diagonal of the Jacobian: upstream is not used.")
def without_upstream(weights, upstream):
    p = as_floating(weights)
    return p * (1 - p)


@softmax_vjp.mistake(
    "keepdims=True is missing: the sums lose their axis and no longer fit the rows."
)
def axis_dropped(weights, upstream):
    return _vjp(weights, upstream, lambda p, g: (p * g).sum(-1))


# ---- attention_gradients -----------------------------------------------------------------------


def _problem(rng, T, S, d_k, d_v, *front):
    return *_qkv(rng, T, S, d_k, d_v, *front), signed(rng, *front, T, d_v)


def _gradient_cases(rng):
    yield call("one sequence", *_problem(rng, 7, 5, 3, 6))
    yield call("one sequence", *_problem(rng, 2, 9, 6, 4))
    yield call("square", *_problem(rng, 5, 5, 5, 5))
    yield call("batch", *_problem(rng, 7, 5, 3, 6, 2))
    yield call("batch", *_problem(rng, 3, 5, 6, 4, 2, 3))
    yield call("another scale", *_problem(rng, 4, 5, 3, 2), scale=float(rng.uniform(0.2, 0.4)))
    yield call("another scale", *_problem(rng, 4, 6, 5, 3), float(rng.uniform(1.5, 2.5)))
    yield call("scale 0.0", *_problem(rng, 4, 5, 3, 2), scale=0.0)
    q, k, v, d_out = _problem(rng, 2, 3, 4, 2)
    high = np.round(8 * np.stack([np.abs(q[0]), -np.abs(q[1])])) / 8
    yield call("large numbers", 500 * high, np.round(8 * np.abs(k)) / 8, v, d_out)
    yield call("one key", *_problem(rng, 3, 1, 2, 4))
    ints = [rng.integers(-1, 3, shape) for shape in ((4, 3), (5, 3), (5, 2), (4, 2))]
    yield call("integers", *ints)
    yield call("float32", *(a.astype("f4") for a in _problem(rng, 3, 4, 5, 2)))
    yield call("nested lists", *(a.tolist() for a in _problem(rng, 3, 4, 2, 3)))


attention_gradients = Exercise(
    "attention_gradients",
    CHAPTER,
    right.attention_gradients,
    _gradient_cases,
    builds_on=("scaled_dot_product_attention", "softmax_vjp"),
    results=("dq", "dk", "dv"),
    hints={
        "one sequence": "Walk back: out to weights and v, weights to scores (softmax_vjp), scores to q and k.",
        "batch": "Transpose the last two axes only.",
        "another scale": "The scale belongs into the forward pass and into dq and dk.",
        "scale 0.0": SCALE_0,
        "one key": "With one key the weights cannot move: dq and dk are 0.",
    },
    remarks={"nested lists": LISTS},
)


def _back(q, k, v, d_out, scale, forward=None, factor=None, vjp=right.softmax_vjp):
    """The reference's steps, with the scale of either way or the softmax's step put wrong."""
    q, k, v, d_out = map(as_floating, (q, k, v, d_out))
    usual = q.shape[-1] ** -0.5 if scale is None else scale
    _, p = right.scaled_dot_product_attention(q, k, v, usual if forward is None else forward)
    ds = vjp(p, d_out @ _swap(v)) * (usual if factor is None else factor)
    return ds @ k, _swap(ds) @ q, _swap(p) @ d_out


@attention_gradients.mistake(
    "dq and dk lack the scale: the scores were multiplied by it on the way."
)
def backward_without_scale(q, k, v, d_out, scale=None):
    return _back(q, k, v, d_out, scale, factor=1)


@attention_gradients.mistake("The weights are made without the scale.")
def forward_without_scale(q, k, v, d_out, scale=None):
    return _back(q, k, v, d_out, scale, forward=1)


@attention_gradients.mistake("No scale is used at all: None means 1/sqrt(d_k).")
def no_scale_at_all(q, k, v, d_out, scale=None):
    return right.attention_gradients(q, k, v, d_out, 1.0)


@attention_gradients.mistake("dq and dk hold the scale squared: it comes in once on the way back.")
def backward_scaled_twice(q, k, v, d_out, scale=None):
    usual = np.shape(q)[-1] ** -0.5 if scale is None else scale
    return _back(q, k, v, d_out, scale, factor=usual**2)


@attention_gradients.mistake("A given scale is used for the weights, and 1/sqrt(d_k) for the gradients.")  # fmt: skip
def backward_by_default_scale(q, k, v, d_out, scale=None):
    return _back(q, k, v, d_out, scale, factor=np.shape(q)[-1] ** -0.5)


@attention_gradients.mistake("The scale that is given is not used.")
def scale_not_used(q, k, v, d_out, scale=None):
    return right.attention_gradients(q, k, v, d_out)


@attention_gradients.mistake(SCALE_0)
def zero_scale_taken_for_none(q, k, v, d_out, scale=None):
    return right.attention_gradients(q, k, v, d_out, scale or None)


@attention_gradients.mistake("The scores are divided by d_k: it should be its square root.")
def gradients_divided_by_d_k(q, k, v, d_out, scale=None):
    return right.attention_gradients(
        q, k, v, d_out, 1 / np.shape(q)[-1] if scale is None else scale
    )


@attention_gradients.mistake("The step through the softmax is missing: use softmax_vjp.")
def softmax_left_out(q, k, v, d_out, scale=None):
    return _back(q, k, v, d_out, scale, vjp=lambda p, g: g)


@attention_gradients.mistake("The step through the softmax lacks its second term: use softmax_vjp.")
def softmax_without_inner_sum(q, k, v, d_out, scale=None):
    return _back(q, k, v, d_out, scale, vjp=lambda p, g: p * g)


@attention_gradients.mistake("dq and dk are swapped: the order is dq, dk, dv.")
def dq_and_dk_swapped(q, k, v, d_out, scale=None):
    dq, dk, dv = right.attention_gradients(q, k, v, d_out, scale)
    return dk, dq, dv


@attention_gradients.mistake("The order is dq, dk, dv: here it is the other way round.")
def order_reversed(q, k, v, d_out, scale=None):
    return right.attention_gradients(q, k, v, d_out, scale)[::-1]


@attention_gradients.mistake("The order is dq, dk, dv: here dv comes first.")
def dv_first(q, k, v, d_out, scale=None):
    dq, dk, dv = right.attention_gradients(q, k, v, d_out, scale)
    return dv, dq, dk


@attention_gradients.mistake("dk lacks a transpose: column j of d_scores, not row j, belongs to key j.")  # fmt: skip
def dk_not_transposed(q, k, v, d_out, scale=None):
    dq, _, dv = right.attention_gradients(q, k, v, d_out, scale)
    usual = np.shape(q)[-1] ** -0.5 if scale is None else scale
    _, p = right.scaled_dot_product_attention(q, k, v, scale)
    ds = right.softmax_vjp(p, as_floating(d_out) @ _swap(v)) * usual
    return dq, ds @ as_floating(q), dv


for _name, _advice, _dq_power, _dk_power in (
    ("dq_without_scale", "dq lacks the scale, which dk has.", 0, 1),
    ("dk_without_scale", "dk lacks the scale, which dq has.", 1, 0),
    ("dq_scaled_twice", "dq holds the scale squared: it comes in once on the way back.", 2, 1),
    ("dk_scaled_twice", "dk holds the scale squared: it comes in once on the way back.", 1, 2),
):

    @attention_gradients.mistake(_advice, _name)
    def _unevenly_scaled(q, k, v, d_out, scale=None, powers=(_dq_power, _dk_power)):
        usual = np.shape(q)[-1] ** -0.5 if scale is None else scale
        dq, dk, dv = _back(q, k, v, d_out, scale, factor=1)
        return dq * usual ** powers[0], dk * usual ** powers[1], dv


@attention_gradients.mistake("`.T` turns round all axes of a batch: swap only the last two, np.swapaxes(x, -1, -2).")  # fmt: skip
def gradients_with_all_axes_transposed(q, k, v, d_out, scale=None):
    q, k, v, d_out = map(as_floating, (q, k, v, d_out))
    usual = q.shape[-1] ** -0.5 if scale is None else scale
    weights = softmax(q @ k.T * usual)
    ds = right.softmax_vjp(weights, d_out @ v.T) * usual
    return ds @ k, ds.T @ q, weights.T @ d_out


@attention_gradients.mistake("dv is scaled: the scale belongs to the scores, and dv does not come through them.")  # fmt: skip
def dv_scaled(q, k, v, d_out, scale=None):
    dq, dk, dv = right.attention_gradients(q, k, v, d_out, scale)
    return dq, dk, dv * (np.shape(q)[-1] ** -0.5 if scale is None else scale)


@attention_gradients.mistake("The scale is made of d_v, the width of the values: it is d_k, the width of queries and keys.")  # fmt: skip
def gradients_by_root_of_d_v(q, k, v, d_out, scale=None):
    usual = np.shape(v)[-1] ** -0.5 if scale is None else scale
    return right.attention_gradients(q, k, v, d_out, usual)


@attention_gradients.mistake("dv lacks a transpose: column j of the weights, not row j, belongs to value j.")  # fmt: skip
def dv_not_transposed(q, k, v, d_out, scale=None):
    dq, dk, _ = right.attention_gradients(q, k, v, d_out, scale)
    _, p = right.scaled_dot_product_attention(q, k, v, scale)
    return dq, dk, p @ as_floating(d_out)


@attention_gradients.mistake(
    "dq is made with the queries and dk with the keys: each takes the other."
)
def own_vectors_used(q, k, v, d_out, scale=None):
    _, _, dv = right.attention_gradients(q, k, v, d_out, scale)
    usual = np.shape(q)[-1] ** -0.5 if scale is None else scale
    _, p = right.scaled_dot_product_attention(q, k, v, scale)
    ds = right.softmax_vjp(p, as_floating(d_out) @ _swap(v)) * usual
    return ds @ as_floating(q), _swap(ds) @ as_floating(k), dv


@attention_gradients.mistake("d_out is not used: these are the gradients of the plain sum of out.")
def d_out_not_used(q, k, v, d_out, scale=None):
    return right.attention_gradients(q, k, v, np.ones_like(as_floating(d_out)), scale)


@attention_gradients.mistake("The batch is added up: every entry has gradients of its own.")
def batch_summed(q, k, v, d_out, scale=None):
    parts = right.attention_gradients(q, k, v, d_out, scale)
    return tuple(part.reshape(-1, *part.shape[-2:]).sum(0) for part in parts)


@attention_gradients.mistake("All signs are turned round: this is the way down, not the gradient.")
def descent_direction(q, k, v, d_out, scale=None):
    return tuple(-part for part in right.attention_gradients(q, k, v, d_out, scale))


@attention_gradients.mistake("dv is d_out times the scores' gradient; it takes the weights themselves.")  # fmt: skip
def dv_from_score_gradients(q, k, v, d_out, scale=None):
    dq, dk, _ = right.attention_gradients(q, k, v, d_out, scale)
    _, p = right.scaled_dot_product_attention(q, k, v, scale)
    return dq, dk, _swap(right.softmax_vjp(p, as_floating(d_out) @ _swap(v))) @ as_floating(d_out)


# ---- qk_norm_scores ----------------------------------------------------------------------------


def _qk_norm_cases(rng):
    yield call("one sequence", *_q_and_k(rng, 7, 5, 3))
    yield call("one sequence", *_q_and_k(rng, 2, 9, 6))
    yield call("square", *_q_and_k(rng, 4, 4, 4))
    yield call("batch", *_q_and_k(rng, 7, 5, 3, 2))
    yield call("batch", *_q_and_k(rng, 4, 5, 6, 2, 3))
    yield call("another gain", *_q_and_k(rng, 4, 5, 3), gain=float(rng.uniform(3, 12)))
    yield call("another gain", *_q_and_k(rng, 3, 5, 4), 0.0)
    q, k = _q_and_k(rng, 4, 5, 3)
    q[1], k[2] = 0, 0
    yield call("vectors of zeros", q, k, gain=2.0)
    q, k = _q_and_k(rng, 4, 5, 3)
    yield call("tiny and huge vectors", 1e-4 * q, 1e6 * k)
    yield call("integers", rng.integers(1, 6, (4, 3)), rng.integers(-5, 0, (5, 3)))
    yield call("float32", *(a.astype("f4") for a in _q_and_k(rng, 3, 4, 5)))
    yield call("nested lists", *(a.tolist() for a in _q_and_k(rng, 3, 4, 2)))


qk_norm_scores = Exercise(
    "qk_norm_scores",
    CHAPTER,
    right.qk_norm_scores,
    _qk_norm_cases,
    laws=(
        Law(
            "beyond_the_gain",
            "A score lies beyond the gain: a cosine is never larger than 1.",
            lambda case, s: bool(np.all(np.abs(s) <= _gain(case) * (1 + 1e-4) + 1e-9)),
        ),
    ),
    hints={
        "one sequence": "Divide each vector by its length, then take dot products.",
        "batch": "The lengths run over the last axis, with keepdims=True.",
        "vectors of zeros": "0 / 0 is NaN: give a vector of zeros a length of 1, and it scores 0.",
        "tiny and huge vectors": "Lengths do not matter, however small: add nothing to them.",
    },
    remarks={"nested lists": LISTS},
)


def _gain(case):
    return case.kwargs.get("gain", case.args[2] if len(case.args) > 2 else 1.0)


def _unit(x, norm):
    x = as_floating(x)
    length = norm(x)
    return x / np.where(length == 0, 1, length)


def _length(x):
    return np.linalg.norm(x, axis=-1, keepdims=True)


def _normed(q, k, gain, norm):
    return gain * _unit(q, norm) @ _swap(_unit(k, norm))


for _name, _advice, _norm in (
    ("norm_of_the_whole", "One length is taken of the whole array: each vector has its own, axis=-1.", lambda x: np.linalg.norm(x)),
    ("norm_over_tokens", "The lengths run over the tokens: they belong along the last axis.", lambda x: np.linalg.norm(x, axis=-2, keepdims=True)),
    ("squared_lengths", "The vectors are divided by their squared lengths: take the root.", lambda x: _length(x) ** 2),
    ("sum_of_sizes", "The length is the root of the sum of squares, not the sum of sizes.", lambda x: np.abs(x).sum(-1, keepdims=True)),
    ("root_mean_square", "The vectors are divided by the root of their mean square, sqrt(d_k) times too little: use their length.", lambda x: _length(x) / np.sqrt(x.shape[-1])),
    ("largest_entry", "The vectors are divided by their largest entry: use their length.", lambda x: np.abs(x).max(-1, keepdims=True)),
    ("small_number_added", "A small number is added to the lengths, which short vectors feel: treat the length 0 by itself.", lambda x: _length(x) + 1e-6),
):  # fmt: skip
    qk_norm_scores.mistake(_advice, _name)(
        lambda q, k, gain=1.0, norm=_norm: _normed(q, k, gain, norm)
    )


@qk_norm_scores.mistake("Only the queries are made unit long: the keys need it as well.")
def keys_not_normed(q, k, gain=1.0):
    return gain * _unit(q, _length) @ _swap(as_floating(k))


@qk_norm_scores.mistake("Only the keys are made unit long: the queries need it as well.")
def queries_not_normed(q, k, gain=1.0):
    return gain * as_floating(q) @ _swap(_unit(k, _length))


@qk_norm_scores.mistake("Nothing is normalised: these are dot products times the gain.")
def not_normed(q, k, gain=1.0):
    return gain * _raw(q, k)


@qk_norm_scores.mistake("0 / 0 is NaN: give a vector of zeros a length of 1, and it scores 0.")
def nan_for_zeros(q, k, gain=1.0):
    q, k = as_floating(q), as_floating(k)
    return gain * (q / _length(q)) @ _swap(k / _length(k))


@qk_norm_scores.mistake("The gain is not used: it multiplies the cosines.")
def gain_not_used(q, k, gain=1.0):
    return right.qk_norm_scores(q, k)


@qk_norm_scores.mistake("The cosines are divided by the gain: multiply.")
def divided_by_gain(q, k, gain=1.0):
    return right.qk_norm_scores(q, k) / np.float64(gain)


@qk_norm_scores.mistake("The gain goes into the queries and into the keys: once is right.")
def gain_twice(q, k, gain=1.0):
    return right.qk_norm_scores(q, k, gain**2)


@qk_norm_scores.mistake("0.0 is a gain, and false to Python: do not write `gain or 1.0`.")
def zero_gain_taken_for_none(q, k, gain=1.0):
    return right.qk_norm_scores(q, k, gain or 1.0)


@qk_norm_scores.mistake("The cosines are divided by sqrt(d_k) as well: the gain takes its place.")
def cosines_scaled(q, k, gain=1.0):
    return right.qk_norm_scores(q, k, gain) / np.sqrt(np.shape(q)[-1])


@qk_norm_scores.mistake("The weights come back: no softmax here, please.")
def norm_softmaxed(q, k, gain=1.0):
    return softmax(right.qk_norm_scores(q, k, gain))


@qk_norm_scores.mistake("The result is transposed: rows belong to queries, columns to keys.")
def norm_transposed(q, k, gain=1.0):
    return _swap(right.qk_norm_scores(q, k, gain))


# ---- soft_cap ----------------------------------------------------------------------------------


def _soft_cap_cases(rng):
    yield call("scores around the cap", 6 * signed(rng, 3, 5), 5.0)
    yield call("scores around the cap", 40 * signed(rng, 4, 2), float(rng.uniform(20, 40)))
    yield call("batch", 6 * signed(rng, 2, 3, 4, 5), 4.0)
    yield call("small scores", 0.01 * signed(rng, 3, 4), 50.0)
    yield call("small cap", 2 * signed(rng, 3, 4), 0.5)
    yield call("large numbers", np.array([[1e4, -1e4, 0.0], [-2e8, 1.0, 2e8]]), 30.0)
    yield call("one number", float(rng.uniform(2, 6)), 3.0)
    yield call("integers", rng.integers(-9, 10, (3, 4)), 5)
    yield call("float32", (6 * signed(rng, 3, 5)).astype("f4"), 5.0)
    yield call("nested lists", (3 * signed(rng, 2, 3)).tolist(), 2.0)


soft_cap = Exercise(
    "soft_cap",
    CHAPTER,
    right.soft_cap,
    _soft_cap_cases,
    laws=(
        Law(
            "beyond_the_cap",
            "A score lies beyond the cap.",
            lambda case, s: bool(np.all(np.abs(s) <= case.args[1] * (1 + 1e-4))),
        ),
    ),
    hints={
        "scores around the cap": "A small score should stay as it is, a large one come near the cap: the cap is needed twice.",
        "small scores": "Far below the cap a score hardly changes: is it divided and multiplied by the same number?",
        "small cap": "A cap below 1 works in the same way.",
        "large numbers": "Is tanh made of exponentials? They overflow where np.tanh does not.",
    },
    remarks={"nested lists": LISTS},
)

for _name, _advice, _wrong in (
    ("clipped", "The scores are clipped: beyond the cap their gradient is 0. Use tanh.", lambda s, c: np.clip(s, -c, c)),
    ("cap_outside_missing", "The cap in front is missing: the result stays within 1, not within the cap.", lambda s, c: np.tanh(s / c)),
    ("cap_inside_missing", "The division by the cap is missing inside tanh.", lambda s, c: c * np.tanh(s)),
    ("multiplied_inside", "Inside tanh the score is multiplied by the cap: divide.", lambda s, c: c * np.tanh(s * c)),
    ("divided_outside", "tanh is divided by the cap: multiply.", lambda s, c: np.tanh(s / c) / c),
    ("tanh_alone", "The cap is not used at all.", lambda s, c: np.tanh(s)),
    ("cap_of_50", "The cap is taken to be 50: use the one that is given.", lambda s, c: right.soft_cap(s, 50.0)),
    ("sigmoid", "This is a sigmoid, which is never negative: use tanh.", lambda s, c: c / (1 + np.exp(-s / c))),
    ("softsign", "This is s / (1 + |s| / cap), which bends sooner than tanh.", lambda s, c: s / (1 + np.abs(s) / c)),
    ("arctangent", "This is an arctangent: use np.tanh.", lambda s, c: c * np.arctan(s / c) * 2 / np.pi),
    ("one_side_only", "Only scores above the cap are held down: those far below 0 need it, too.", lambda s, c: np.where(s > 0, right.soft_cap(s, c), s)),
    ("capped_twice", "The cap is applied twice: once is enough.", lambda s, c: right.soft_cap(right.soft_cap(s, c), c)),
    ("scores_rescaled", "The scores are shrunk until the largest fits: each should be capped by itself.", lambda s, c: s * np.minimum(1, c / np.abs(s).max())),
    ("sign_turned_round", "The sign is turned round: tanh keeps it.", lambda s, c: -right.soft_cap(s, c)),
):  # fmt: skip
    soft_cap.mistake(_advice, _name)(lambda scores, cap, wrong=_wrong: wrong(as_floating(scores), cap))  # fmt: skip


EXERCISES = (
    score_std,
    row_entropy,
    saturation_curve,
    scaled_scores,
    scaled_dot_product_attention,
    last_token_weights,
    last_token_output,
    softmax_vjp,
    attention_gradients,
    qk_norm_scores,
    soft_cap,
)
