"""Chapter 4: cases, laws and named mistakes of masks, and of the two tests that a student writes."""

import numpy as np

from grader.compare import conform
from grader.exercise import Complaint, Exercise, Law, call, specimen
from grader.specimens import leaks, padding
from utils.cases import Case
from utils.reference import masking as right
from utils.reference.dictionary_lookup import softmax
from utils.wire import Rng

CHAPTER = "masking"
LISTS = "It would also take nested lists if it began with np.asarray."
NUMBERS = "A mask of 0 and 1 came in once and was read otherwise: np.asarray(mask, dtype=bool) makes it one."
INTEGERS = "Integers came in once and it failed on them: convert them to floats to be safe."


def _signed(rng, *shape):
    """Signed, unsaturated numbers, none of them near 0, no two slices alike."""
    return rng.uniform(0.3, 1.2, shape) * rng.choice([-1.0, 1.0], shape)


def _mask(rng, *shape):
    """A mask of no pattern in which every row allows something and forbids something."""
    mask = rng.random(shape) < 0.6
    here = rng.integers(shape[-1], size=(*shape[:-1], 1))
    np.put_along_axis(mask, here, True, axis=-1)
    np.put_along_axis(mask, (here + 1) % shape[-1], False, axis=-1)
    return mask


def _is_boolean(case, answer):
    return answer is None or np.asarray(answer).dtype.kind == "b"


BOOLEAN = Law(
    "not_boolean",
    "A mask is boolean here: True and False, not numbers.",
    _is_boolean,
    to_the_last_bit=True,
)


def _common_mask_mistakes(exercise, reference):
    """What can go wrong with any mask, whatever it forbids."""

    @exercise.mistake("True and False are turned round: True means that a query may read a key.")
    def turned_round(*args, **kwargs):
        return ~reference(*args, **kwargs)

    @exercise.mistake(
        "A mask is boolean here: these are the numbers 0 and 1. Leave the comparison as it is."
    )
    def numbers_for_booleans(*args, **kwargs):
        return reference(*args, **kwargs).astype(int)

    @exercise.mistake(
        "This is what is added to scores, 0 and -inf; wanted is the mask itself, True and False."
    )
    def already_additive(*args, **kwargs):
        return right.additive_mask(reference(*args, **kwargs))


# ---- causal_mask -------------------------------------------------------------------------------


def _causal_cases(rng):
    yield call("as many keys as queries", int(rng.integers(4, 7)))
    yield call("as many keys as queries", int(rng.integers(7, 12)))
    yield call("more keys than queries", 3, int(rng.integers(7, 12)))
    yield call("more keys than queries", 5, S=8)
    yield call("fewer keys than queries", int(rng.integers(7, 12)), 4)
    yield call("one query", 1)
    yield call("one query", 1, 6)


causal_mask = Exercise(
    "causal_mask",
    CHAPTER,
    right.causal_mask,
    _causal_cases,
    laws=(BOOLEAN,),
    hints={
        "as many keys as queries": "Query i reads key j where j <= i: compare a column of i with a row of j.",
        "more keys than queries": "The last query stands at the last key: query i stands at i + S - T.",
        "fewer keys than queries": "The first T - S queries stand before all keys, so their rows are all False.",
    },
)
_common_mask_mistakes(causal_mask, right.causal_mask)


def _shape(T, S=None):
    return T, T if S is None else S


@causal_mask.mistake(
    "A token does not read itself: it is j <= i, not j < i, or row 0 has nothing to read."
)
def leaves_itself_out(T, S=None):
    T, S = _shape(T, S)
    return np.arange(S) < np.arange(T)[:, None] + S - T


@causal_mask.mistake("This is the other triangle: it shows the future and hides the past.")
def upper_triangle(T, S=None):
    T, S = _shape(T, S)
    return np.arange(S) >= np.arange(T)[:, None] + S - T


@causal_mask.mistake(
    "The mask is aligned to the start: the last query stands at the last key, so query i reads up to i + S - T."
)
def aligned_to_the_start(T, S=None):
    T, S = _shape(T, S)
    return np.tri(T, S, dtype=bool)


@causal_mask.mistake("S is not used: the mask has a column for every key.")
def square_always(T, S=None):
    return np.tri(T, dtype=bool)


@causal_mask.mistake("The mask has the keys in its rows: it is (T, S), a row for each query.")
def rows_are_keys(T, S=None):
    return np.ascontiguousarray(right.causal_mask(T, S).T)


@causal_mask.mistake("One key too many is open: a query reads the token after its own.")
def peeks_ahead(T, S=None):
    T, S = _shape(T, S)
    return np.arange(S) <= np.arange(T)[:, None] + S - T + 1


@causal_mask.mistake(
    "The shift has the wrong sign: query i stands at i + (S - T), further right when there are more keys."
)
def shifted_the_wrong_way(T, S=None):
    T, S = _shape(T, S)
    return np.arange(S) <= np.arange(T)[:, None] - (S - T)


@causal_mask.mistake("Nothing is forbidden: a query may not read later tokens.")
def all_open(T, S=None):
    return np.ones(_shape(T, S), dtype=bool)


@causal_mask.mistake("Only the diagonal is open: a query reads what came before, too.")
def only_itself(T, S=None):
    T, S = _shape(T, S)
    return np.eye(T, S, S - T, dtype=bool)


# ---- padding_mask ------------------------------------------------------------------------------


def _padding_cases(rng):
    yield call("different lengths", rng.permutation([3, 5, 1]), 6)
    yield call("different lengths", rng.permutation([2, 4, 7, 1]), 8)
    yield call("as many sequences as keys", rng.permutation([1, 2, 4, 3]), 4)
    yield call("empty and full", rng.permutation([0, 5, 2]), 5)
    yield call("one sequence", rng.integers(1, 4, 1), 5)
    yield call("nested lists", rng.permutation([3, 1]).tolist(), 4)


padding_mask = Exercise(
    "padding_mask",
    CHAPTER,
    right.padding_mask,
    _padding_cases,
    laws=(BOOLEAN,),
    hints={
        "different lengths": "Key j is real where j < length; the shape is (B, 1, S), so that all queries share it.",
        "as many sequences as keys": "B and S agree here: make sure that sequences come first and keys last.",
        "empty and full": "A length of 0 leaves nothing, a length of S leaves everything.",
    },
    remarks={"nested lists": LISTS},
)
_common_mask_mistakes(padding_mask, right.padding_mask)


@padding_mask.mistake(
    "The axis of the queries is missing: (B, 1, S), so that all queries of a sequence share it."
)
def no_query_axis(lengths, S):
    return right.padding_mask(lengths, S)[:, 0]


@padding_mask.mistake(
    "The axes are (B, S, 1), which hides padded queries: keys come last, (B, 1, S)."
)
def hides_queries(lengths, S):
    return np.swapaxes(right.padding_mask(lengths, S), 1, 2)


@padding_mask.mistake("The batch stands in the middle, (1, B, S): it comes first, (B, 1, S).")
def batch_in_the_middle(lengths, S):
    return right.padding_mask(lengths, S)[None, :, 0]


@padding_mask.mistake(
    "The mask is repeated for every query, (B, S, S): one row a sequence is enough, (B, 1, S)."
)
def repeated_for_queries(lengths, S):
    return np.repeat(right.padding_mask(lengths, S), S, axis=1)


@padding_mask.mistake(
    "There is an axis for heads, (B, 1, 1, S): this chapter inserts none, (B, 1, S)."
)
def with_a_head_axis(lengths, S):
    return right.padding_mask(lengths, S)[:, None]


@padding_mask.mistake("One key too many is open: with length n the keys are 0 to n - 1, so j < n.")
def one_key_more(lengths, S):
    return right.padding_mask(np.asarray(lengths) + 1, S)


@padding_mask.mistake("One key is missing: with length n the keys are 0 to n - 1, so j < n.")
def one_key_less(lengths, S):
    return right.padding_mask(np.asarray(lengths) - 1, S)


@padding_mask.mistake("The padding is taken to stand in front: here it stands behind.")
def padding_in_front(lengths, S):
    return right.padding_mask(lengths, S)[..., ::-1].copy()


@padding_mask.mistake("Every sequence gets the longest length: each has its own.")
def longest_for_all(lengths, S):
    return right.padding_mask(np.full(len(lengths), np.max(lengths)), S)


@padding_mask.mistake("Every sequence gets the first one's length: each has its own.")
def first_for_all(lengths, S):
    return right.padding_mask(np.full(len(lengths), lengths[0]), S)


@padding_mask.mistake("S is not used: the mask has a column for every key, padded ones among them.")
def longest_is_S(lengths, S):
    return right.padding_mask(lengths, int(np.max(lengths)))


# ---- sliding_window_mask -----------------------------------------------------------------------


def _window_cases(rng):
    yield call("window within the text", int(rng.integers(7, 10)), 3)
    yield call("window within the text", int(rng.integers(8, 12)), 4)
    yield call("window of one", int(rng.integers(4, 8)), 1)
    yield call("window as wide as the text", 5, int(rng.integers(6, 9)))
    yield call("window as wide as the text", 4, 4)
    yield call("more keys than queries", 3, 4, int(rng.integers(8, 11)))
    yield call("more keys than queries", 4, 2, S=7)
    yield call("fewer keys than queries", int(rng.integers(7, 10)), 3, 4)


sliding_window_mask = Exercise(
    "sliding_window_mask",
    CHAPTER,
    right.sliding_window_mask,
    _window_cases,
    laws=(BOOLEAN,),
    hints={
        "window within the text": "How long ago is key j? It is open where that is at least 0 and less than `window`.",
        "window of one": "A window of one is the token itself, the diagonal.",
        "window as wide as the text": "A window that never bites leaves the causal mask.",
        "more keys than queries": "Query i stands at i + S - T, as in causal_mask.",
        "fewer keys than queries": "The first T - S queries stand before all keys.",
    },
)
_common_mask_mistakes(sliding_window_mask, right.sliding_window_mask)


def _ago(T, S):
    T, S = _shape(T, S)
    return np.arange(T)[:, None] + S - T - np.arange(S)


@sliding_window_mask.mistake(
    "One key too many: `window` keys, the token itself among them, so ago < window."
)
def counts_itself_extra(T, window, S=None):
    return right.sliding_window_mask(T, window + 1, S)


@sliding_window_mask.mistake(
    "One key too few: `window` keys, the token itself among them, so ago < window."
)
def window_less_one(T, window, S=None):
    return right.sliding_window_mask(T, window - 1, S)


@sliding_window_mask.mistake(
    "The future is open: the window is causal, so `ago` must be at least 0, too."
)
def window_not_causal(T, window, S=None):
    return _ago(T, S) < window


@sliding_window_mask.mistake(
    "The window looks both ways: this one is causal, past and present only."
)
def window_both_ways(T, window, S=None):
    return np.abs(_ago(T, S)) < window


@sliding_window_mask.mistake("The window is centred on the token: this one ends with it.")
def window_centred(T, window, S=None):
    return np.abs(_ago(T, S)) <= window // 2


@sliding_window_mask.mistake("`window` has no effect: this is the causal mask.")
def window_ignored(T, window, S=None):
    return right.causal_mask(T, S)


@sliding_window_mask.mistake(
    "The window hides the near past and shows the far one: it is the other way round."
)
def far_past_only(T, window, S=None):
    return _ago(T, S) >= window


@sliding_window_mask.mistake("The token itself is left out: the window's last key is its own.")
def window_before_itself(T, window, S=None):
    ago = _ago(T, S)
    return (ago > 0) & (ago <= window)


@sliding_window_mask.mistake(
    "The window is aligned to the start: the last query stands at the last key."
)
def window_at_the_start(T, window, S=None):
    T, S = _shape(T, S)
    ago = np.arange(T)[:, None] - np.arange(S)
    return (ago >= 0) & (ago < window)


@sliding_window_mask.mistake("The text is cut into blocks: the window moves with every token.")
def window_in_blocks(T, window, S=None):
    T, S = _shape(T, S)
    i, j = np.arange(T)[:, None] + S - T, np.arange(S)
    return (j <= i) & (j // window == i // window)


@sliding_window_mask.mistake("S is not used: the mask has a column for every key.")
def window_square_always(T, window, S=None):
    return right.sliding_window_mask(T, window)


# ---- segment_mask ------------------------------------------------------------------------------


def _segment_cases(rng):
    yield call("two segments", np.sort(rng.integers(1, 3, 5)), np.array([1, 1, 2, 2, 2, 1, 2]))
    yield call("two segments", np.array([2, 1, 3]), rng.permutation([1, 2, 3, 3, 2, 1]))
    yield call("padding", np.array([1, 1, 2, 0, 0]), rng.permutation([1, 2, 2, 0, 0, 1, 0]))
    yield call("square", *[np.array([1, 1, 2, 2, 0, 0])] * 2)
    yield call("square", rng.permutation([1, 2, 0, 4]), rng.permutation([1, 2, 4, 0]))
    yield call("batch", rng.integers(0, 3, (2, 4)), rng.integers(0, 3, (2, 6)))
    yield call("batch", rng.integers(0, 3, (2, 3, 4)), rng.integers(0, 3, (2, 3, 5)))
    yield call("nested lists", [1, 0, 2], rng.permutation([1, 2, 0, 2]).tolist())


segment_mask = Exercise(
    "segment_mask",
    CHAPTER,
    right.segment_mask,
    _segment_cases,
    laws=(BOOLEAN,),
    hints={
        "two segments": "Compare every query's number with every key's: (T, 1) == (S,).",
        "padding": "0 == 0 is true, but padding reads nothing: ask for q != 0 as well.",
        "square": "T and S agree here: rows are queries, columns keys.",
        "batch": "Put the new axes at the end: q[..., :, None] and k[..., None, :].",
    },
    remarks={"nested lists": LISTS},
)
_common_mask_mistakes(segment_mask, right.segment_mask)


def _pairs(q_segments, k_segments):
    return np.asarray(q_segments)[..., :, None], np.asarray(k_segments)[..., None, :]


@segment_mask.mistake("Padding reads padding, since 0 == 0: ask that the number is not 0.")
def padding_meets_padding(q_segments, k_segments):
    q, k = _pairs(q_segments, k_segments)
    return q == k


@segment_mask.mistake(
    "Only padding is hidden: tokens of different segments may not read each other either."
)
def hides_padding_only(q_segments, k_segments):
    q, k = _pairs(q_segments, k_segments)
    return (q != 0) & (k != 0)


@segment_mask.mistake("Padded keys are read by everybody: nobody reads them.")
def padding_is_open(q_segments, k_segments):
    q, k = _pairs(q_segments, k_segments)
    return (q == k) | (k == 0)


@segment_mask.mistake("Padded queries read everything: they read nothing.")
def padding_reads_all(q_segments, k_segments):
    q, k = _pairs(q_segments, k_segments)
    return (q == k) | (q == 0)


@segment_mask.mistake("The rows are keys: the mask is (T, S), a row for each query.")
def segments_transposed(q_segments, k_segments):
    return np.swapaxes(right.segment_mask(q_segments, k_segments), -1, -2).copy()


@segment_mask.mistake("Later segments read earlier ones: the numbers must be equal.")
def earlier_segments_open(q_segments, k_segments):
    q, k = _pairs(q_segments, k_segments)
    return (q >= k) & (k != 0)


@segment_mask.mistake(
    "Other segments are open and the own is shut: equal numbers may read each other."
)
def other_segments_only(q_segments, k_segments):
    q, k = _pairs(q_segments, k_segments)
    return (q != k) & (q != 0) & (k != 0)


@segment_mask.mistake("Segment 1 alone is open: any number but 0 is a segment.")
def first_segment_only(q_segments, k_segments):
    q, k = _pairs(q_segments, k_segments)
    return (q == 1) & (k == 1)


@segment_mask.mistake("Neighbouring segments read each other: the numbers must be equal.")
def neighbours_open(q_segments, k_segments):
    q, k = _pairs(q_segments, k_segments)
    return (np.abs(q - k) <= 1) & (q != 0) & (k != 0)


@segment_mask.mistake(
    "All sequences of a batch are compared with each other: keep the batch apart."
)
def segments_across_batch(q_segments, k_segments):
    q, k = np.asarray(q_segments), np.asarray(k_segments)
    return np.equal.outer(q, k) & (q != 0).reshape(*q.shape, *[1] * k.ndim)


# ---- combine_masks -----------------------------------------------------------------------------


def _combine_cases(rng):
    yield call("two masks", _mask(rng, 4, 6), _mask(rng, 4, 6))
    yield call("two masks", right.causal_mask(5), _mask(rng, 5, 5))
    yield call(
        "broadcasting", right.causal_mask(5), right.padding_mask(rng.permutation([2, 5, 3]), 5)
    )
    yield call("broadcasting", _mask(rng, 2, 1, 1, 5), _mask(rng, 3, 4, 5))
    yield call("three and more", _mask(rng, 3, 8), _mask(rng, 3, 8), _mask(rng, 2, 1, 8))
    yield call("three and more", *[rng.random((3, 7)) < 0.8 for _ in range(5)])
    yield call("None among them", None, _mask(rng, 4, 6), None, _mask(rng, 1, 6))
    yield call("one mask", _mask(rng, 3, 4))
    yield call("one mask", _mask(rng, 2, 4), None)
    yield call("no mask")
    yield call("no mask", None, None)
    yield call("zeros and ones", _mask(rng, 3, 4).astype(int), _mask(rng, 3, 4))
    yield call("nested lists", _mask(rng, 3, 4).tolist(), _mask(rng, 3, 4).tolist())


combine_masks = Exercise(
    "combine_masks",
    CHAPTER,
    right.combine_masks,
    _combine_cases,
    laws=(BOOLEAN,),
    hints={
        "two masks": "A pair is open where every mask allows it: &.",
        "broadcasting": "& broadcasts by itself: no mask needs to be repeated.",
        "three and more": "Go through all masks, and join each with what there is so far.",
        "None among them": "None is no constraint: leave it out.",
        "no mask": "Where no mask is given, give None back.",
    },
    remarks={"zeros and ones": NUMBERS, "nested lists": LISTS},
)


def _given(masks):
    return [np.asarray(mask) for mask in masks if mask is not None]


def _reduced(masks, join):
    given = _given(masks)
    combined = given[0] if given else None
    for mask in given[1:]:
        combined = join(combined, mask)
    return combined


@combine_masks.mistake(
    "The masks are joined with `or`: a pair is open only where every mask allows it."
)
def joined_with_or(*masks):
    return _reduced(masks, np.logical_or)


@combine_masks.mistake("Only the first mask counts: all must allow a pair.")
def first_mask_only(*masks):
    return _reduced(masks, lambda a, b: np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)))


@combine_masks.mistake("Only the last mask counts: all must allow a pair.")
def last_mask_only(*masks):
    return _reduced(masks, lambda a, b: np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)))


@combine_masks.mistake(
    "A pair is open where the masks differ: that is exclusive or, and `and` is wanted."
)
def joined_with_xor(*masks):
    return _reduced(masks, np.logical_xor)


@combine_masks.mistake(
    "A pair is open where the masks agree, also where both forbid it: `and` is wanted."
)
def joined_where_equal(*masks):
    return _reduced(masks, np.equal)


@combine_masks.mistake("Only the first two masks count: there may be more.")
def first_two_only(*masks):
    return right.combine_masks(*_given(masks)[:2])


@combine_masks.mistake("None is taken for a mask: it means no constraint, so leave it out.")
def none_breaks_it(*masks):
    combined = masks[0] if masks else None
    for mask in masks[1:]:
        combined = combined & mask
    return combined


@combine_masks.mistake("With no mask at all True comes back: it should be None, no constraint.")
def true_for_nothing(*masks):
    return True if not _given(masks) else right.combine_masks(*masks)


@combine_masks.mistake("None is taken to forbid everything: it means no constraint.")
def none_forbids(*masks):
    combined = right.combine_masks(*masks)
    return combined if combined is None or None not in list(map(_none, masks)) else combined & False


def _none(mask):
    return None if mask is None else True


@combine_masks.mistake("A mask is boolean here: these are numbers. Join with & or np.logical_and.")
def joined_as_numbers(*masks):
    combined = right.combine_masks(*masks)
    return None if combined is None else combined.astype(int)


@combine_masks.mistake("The result is turned round: True means that a query may read a key.")
def combined_turned_round(*masks):
    combined = right.combine_masks(*masks)
    return None if combined is None else ~combined


@combine_masks.mistake("The masks are stacked, not joined: one mask comes back.")
def stacked(*masks):
    given = _given(masks)
    return np.stack(np.broadcast_arrays(*given)) if given else None


# ---- additive_mask -----------------------------------------------------------------------------


def _additive_cases(rng):
    yield call("a mask", _mask(rng, 4, 6))
    yield call("a mask", right.causal_mask(int(rng.integers(3, 6))))
    yield call("more axes", _mask(rng, 3, 1, 5))
    yield call("more axes", _mask(rng, 2, 1, 3, 4))
    yield call("empty rows", right.causal_mask(5, 3))
    yield call("other dtypes", _mask(rng, 3, 4), "float32")
    yield call("other dtypes", _mask(rng, 3, 5), dtype="float16")
    yield call("zeros and ones", _mask(rng, 4, 3).astype(int))
    yield call("nested lists", _mask(rng, 3, 2).tolist())


def _has_the_dtype(case, answer):
    asked = case.kwargs.get("dtype", case.args[1] if len(case.args) > 1 else None)
    return answer.dtype == np.dtype(asked) if asked else answer.dtype.kind == "f"


additive_mask = Exercise(
    "additive_mask",
    CHAPTER,
    right.additive_mask,
    _additive_cases,
    laws=(
        Law(
            "another_dtype",
            "The result has another dtype than was asked for.",
            _has_the_dtype,
            to_the_last_bit=True,
        ),
    ),
    hints={
        "a mask": "np.where(mask, 0.0, -np.inf).",
        "other dtypes": "End with .astype(dtype), or hand dtype to the function that makes the array.",
    },
    remarks={"zeros and ones": NUMBERS, "nested lists": LISTS},
)


def _adds(allowed, forbidden):
    def additive(mask, dtype=float):
        mask = np.asarray(mask, dtype=bool)
        return np.where(mask, np.float64(allowed), np.float64(forbidden)).astype(dtype)

    return additive


@additive_mask.mistake("It is turned round: what may be read gets 0, what may not gets -inf.")
def additive_turned_round(mask, dtype=float):
    return _adds(-np.inf, 0)(mask, dtype)


@additive_mask.mistake("The sign is wrong: +inf would give a forbidden key everything.")
def plus_infinity(mask, dtype=float):
    return _adds(0, np.inf)(mask, dtype)


@additive_mask.mistake(
    "-1e9 is a number like others: two forbidden scores still differ, and float16 has no such number. Use -inf."
)
def minus_a_billion(mask, dtype=float):
    return _adds(0, -1e9)(mask, dtype)


@additive_mask.mistake("-10000 is a score that an allowed key may have too: use -inf.")
def minus_ten_thousand(mask, dtype=float):
    return _adds(0, -1e4)(mask, dtype)


@additive_mask.mistake("The most negative number is still finite: use -inf.")
def least_finite_number(mask, dtype=float):
    mask = np.asarray(mask, dtype=bool)
    return np.where(mask, 0, np.finfo(dtype).min).astype(dtype)


@additive_mask.mistake("0 times -inf is NaN: choose with np.where instead of multiplying.")
def multiplies_infinity(mask, dtype=float):
    return ((1 - np.asarray(mask).astype(float)) * -np.inf).astype(dtype)


@additive_mask.mistake("Allowed keys get 1 here: adding must leave them as they are, so 0.")
def one_where_allowed(mask, dtype=float):
    return _adds(1, -np.inf)(mask, dtype)


@additive_mask.mistake("These are ones and zeros; to add to scores they must be 0 and -inf.")
def ones_and_zeros(mask, dtype=float):
    return _adds(1, 0)(mask, dtype)


@additive_mask.mistake("The dtype is not used: the result should have the one that is asked for.")
def dtype_ignored(mask, dtype=float):
    return _adds(0, -np.inf)(mask)


# ---- masked_softmax ----------------------------------------------------------------------------


def _spoil(scores, mask, rng, junk=(np.nan, np.inf, 1e5, -np.inf)):
    """The scores with junk in every forbidden slot."""
    return np.where(mask, scores, rng.choice(junk, np.broadcast_shapes(scores.shape, mask.shape)))


def _masked_softmax_cases(rng):
    yield call("causal", 2 * _signed(rng, 5, 5), right.causal_mask(5))
    yield call("causal", 2 * _signed(rng, 3, 7), right.causal_mask(3, 7))
    yield call("any mask", 2 * _signed(rng, 4, 6), _mask(rng, 4, 6))
    yield call("any mask", 2 * _signed(rng, 6, 6), _mask(rng, 6, 6))
    yield call("no mask", 2 * _signed(rng, 3, 5))
    yield call("no mask", 2 * _signed(rng, 2, 3, 4), None)
    lengths = rng.permutation([1, 3, 5])
    yield call("batch and heads", 2 * _signed(rng, 3, 4, 5), right.padding_mask(lengths, 5))
    yield call(
        "batch and heads", 2 * _signed(rng, 3, 2, 4, 5), right.padding_mask(lengths, 5)[:, None]
    )
    yield call(
        "batch and heads", 2 * _signed(rng, 3, 3, 4, 5), right.padding_mask(lengths, 5)[:, None]
    )
    yield call("batch and heads", 2 * _signed(rng, 3, 3, 5, 5), _mask(rng, 5, 5))
    yield call("a mask with more axes", 2 * _signed(rng, 4, 5), right.padding_mask(lengths, 5))
    yield call("empty rows", 2 * _signed(rng, 5, 3), right.causal_mask(5, 3))
    yield call(
        "empty rows", 2 * _signed(rng, 2, 3, 4), right.padding_mask(rng.permutation([0, 3]), 4)
    )
    low = np.array([[-20000.0, 5.0, -20001.0], [-2e12, 3.0, 1.0], [0.0, 1.0, 2.0]])
    low_mask = np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0]], dtype=bool)
    yield call("low scores beside forbidden ones", low + rng.uniform(0, 0.5, (3, 1)), low_mask)
    small = -(_signed(rng, 3, 4) ** 2) - 5.0
    yield call("low scores beside forbidden ones", small, _mask(rng, 3, 4))
    for shape in ((4, 6), (2, 5, 4)):
        mask = _mask(rng, *shape)
        yield call("anything in forbidden slots", _spoil(2 * _signed(rng, *shape), mask, rng), mask)
    hole = _signed(rng, 3, 5)
    hole[[0, 1, 1], [1, 0, 2]] = -np.inf
    yield call(
        "allowed -inf", hole, np.array([[1, 1, 1, 0, 0], [1, 1, 1, 0, 1], [0, 1, 1, 1, 1]], bool)
    )
    yield call(
        "allowed -inf",
        np.array([[-np.inf, rng.uniform()], [-np.inf, -np.inf]]),
        np.array([[True, False], [True, True]]),
    )
    yield call(
        "large numbers",
        np.array([[1000.0, 1001.0, 5.0], [-1000.0, -1001.5, 5.0]]),
        np.array([[True, True, False]]),
    )
    yield call("float32", (2 * _signed(rng, 3, 5)).astype("f4"), _mask(rng, 3, 5))
    yield call("integers", rng.integers(-3, 4, (3, 4)), _mask(rng, 3, 4))
    yield call("zeros and ones", _signed(rng, 3, 4), _mask(rng, 3, 4).astype(int))
    yield call("nested lists", _signed(rng, 2, 3).tolist(), _mask(rng, 2, 3).tolist())


def _rows_sum_to_one_or_nothing(case, weights):
    total = np.asarray(weights).sum(-1)
    return bool(np.all(np.isclose(total, 1, atol=1e-4) | (total == 0)))


masked_softmax = Exercise(
    "masked_softmax",
    CHAPTER,
    right.masked_softmax,
    _masked_softmax_cases,
    laws=(Law("rows_not_1", "A row of weights does not sum to 1.", _rows_sum_to_one_or_nothing),),
    hints={
        "causal": "Put -inf where the mask is False, then take the softmax over the keys.",
        "any mask": "T and S may agree: the softmax runs over the last axis.",
        "no mask": "With mask=None nothing is forbidden.",
        "batch and heads": "np.where broadcasts by itself: insert no axes.",
        "a mask with more axes": "The result has the shape to which scores and mask broadcast: make the scores with np.where.",
        "empty rows": "A row with no allowed key has weights 0: divide by 1 where the sum is 0.",
        "low scores beside forbidden ones": "No finite number is low enough for a forbidden slot: use -inf.",
        "anything in forbidden slots": "Choose with np.where(mask, scores, -np.inf): NaN + -inf is still NaN.",
        "allowed -inf": "A row may be all -inf although some of it is allowed: subtract 0 then, not -inf.",
        "large numbers": "Subtract the row's maximum before exp.",
    },
    remarks={"zeros and ones": NUMBERS, "nested lists": LISTS, "integers": INTEGERS},
)


def _filled(scores, mask, fill):
    scores = np.asarray(scores, dtype=np.result_type(np.asarray(scores).dtype, np.float32))
    return scores if mask is None else np.where(np.asarray(mask, bool), scores, fill)


def _open(mask, like):
    mask = True if mask is None else np.asarray(mask, bool)
    return np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), np.shape(like)))


def _plain_softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@masked_softmax.mistake(
    "The mask comes after the softmax: rows no longer sum to 1. Mask the scores instead."
)
def mask_after_softmax(scores, mask=None):
    return _plain_softmax(_filled(scores, None, 0)) * _open(mask, scores)


@masked_softmax.mistake(
    "The mask comes after the softmax, and the rest is divided by its sum: NaN or a large number in a "
    "forbidden slot has done its harm by then. Mask the scores instead."
)
def renormalised_after(scores, mask=None):
    w = _plain_softmax(_filled(scores, None, 0)) * _open(mask, scores)
    total = w.sum(-1, keepdims=True)
    return w / np.where(total == 0, 1, total)


@masked_softmax.mistake("True and False are turned round: True means that a query may read a key.")
def softmax_turned_round(scores, mask=None):
    return right.masked_softmax(scores, None if mask is None else ~np.asarray(mask, bool))


@masked_softmax.mistake(
    "The scores are multiplied by the mask: a forbidden key scores 0 then, and exp(0) is 1."
)
def scores_times_mask(scores, mask=None):
    return _plain_softmax(np.asarray(scores, float) * _open(mask, scores))


@masked_softmax.mistake(
    "The mask is added to the scores as 0 and 1: add 0 and -inf, or choose with np.where."
)
def adds_true_and_false(scores, mask=None):
    return _plain_softmax(
        np.asarray(scores, float) + (0 if mask is None else np.asarray(mask, float))
    )


@masked_softmax.mistake(
    "Forbidden scores are set to 0, which is a score like others: set them to -inf."
)
def fills_with_zero(scores, mask=None):
    return _plain_softmax(_filled(scores, mask, 0.0))


@masked_softmax.mistake(
    "Forbidden scores are set to -10000 or so: an allowed score of -20000 loses to it. Use -inf."
)
def fills_with_ten_thousand(scores, mask=None):
    return _plain_softmax(_filled(scores, mask, -1e4))


@masked_softmax.mistake(
    "Forbidden scores are set to -1e9 or so: where nothing is allowed, all scores tie and every key gets "
    "a share. Use -inf, and give such rows zeros."
)
def fills_with_a_billion(scores, mask=None):
    return _plain_softmax(_filled(scores, mask, -1e9))


@masked_softmax.mistake(
    "Forbidden scores are set to the least finite number: where nothing is allowed, every key gets a "
    "share. Give such rows zeros."
)
def fills_with_the_least(scores, mask=None):
    return _plain_softmax(_filled(scores, mask, np.finfo("f4").min))


@masked_softmax.mistake("A row with no allowed key gives NaN, 0 / 0: it should give zeros.")
def nan_where_empty(scores, mask=None):
    return _plain_softmax(_filled(scores, mask, -np.inf))


@masked_softmax.mistake("A row with no allowed key gets equal weights: it should get zeros.")
def even_where_empty(scores, mask=None):
    weights = right.masked_softmax(scores, mask)
    return np.where(_open(mask, scores).any(-1, keepdims=True), weights, 1 / weights.shape[-1])


@masked_softmax.mistake("The mask is not used: what it forbids must weigh 0.")
def mask_ignored(scores, mask=None):
    return softmax(scores)


@masked_softmax.mistake("Forbidden scores are set to +inf: a minus is missing.")
def fills_with_plus_infinity(scores, mask=None):
    return _plain_softmax(_filled(scores, mask, np.inf))


@masked_softmax.mistake("The softmax runs over the queries: it runs over the keys, the last axis.")
def masked_over_queries(scores, mask=None):
    return softmax(_filled(scores, mask, -np.inf), axis=-2)


@masked_softmax.mistake(
    "-inf is added to the scores: NaN plus -inf is NaN. Choose with np.where instead."
)
def adds_minus_infinity(scores, mask=None):
    added = 0 if mask is None else np.where(np.asarray(mask, bool), 0, -np.inf)
    return softmax(np.asarray(scores) + added)


@masked_softmax.mistake("The sum is never taken below 1: rows of low scores no longer sum to 1.")
def sum_at_least_one(scores, mask=None):
    e = np.exp(_filled(scores, mask, -np.inf))
    return e / np.maximum(e.sum(-1, keepdims=True), 1)


@masked_softmax.mistake(
    "Nothing is subtracted before exp, which overflows or vanishes: subtract the row's maximum."
)
def no_maximum(scores, mask=None):
    e = np.exp(_filled(scores, mask, -np.inf))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


@masked_softmax.mistake("mask=None is not foreseen: it means that nothing is forbidden.")
def none_is_no_mask(scores, mask=None):
    if mask is None:
        return np.zeros(np.shape(scores))
    return right.masked_softmax(scores, mask)


# ---- masked_attention --------------------------------------------------------------------------


def _qkv(rng, *lead, T=5, S=7, d_k=3, d_v=4):
    return (
        _signed(rng, *lead, T, d_k) * 1.5,
        _signed(rng, *lead, S, d_k) * 1.5,
        _signed(rng, *lead, S, d_v) + 1,
    )


def _masked_attention_cases(rng):
    yield call("causal", *_qkv(rng, T=6, S=6), right.causal_mask(6))
    yield call("causal", *_qkv(rng, T=4, S=4, d_k=4, d_v=4), right.causal_mask(4))
    yield call("more keys than queries", *_qkv(rng, T=3, S=7), right.causal_mask(3, 7))
    yield call("any mask", *_qkv(rng, T=5, S=5), _mask(rng, 5, 5))
    yield call("any mask", *_qkv(rng), _mask(rng, 5, 7))
    yield call("no mask", *_qkv(rng))
    lengths = rng.permutation([2, 7, 4])
    yield call("batch and heads", *_qkv(rng, 3), right.padding_mask(lengths, 7))
    for heads in (2, 3):
        mask = right.padding_mask(lengths, 7)[:, None]
        yield call("batch and heads", *_qkv(rng, 3, heads, T=4), mask)
    yield call("batch and heads", *_qkv(rng, 2, 2), _mask(rng, 5, 7))
    yield call("scale", *_qkv(rng), _mask(rng, 5, 7), float(rng.uniform(0.2, 0.4)))
    yield call("scale", *_qkv(rng), scale=float(rng.uniform(1.2, 1.5)))
    yield call("a scale of 0", *_qkv(rng), _mask(rng, 5, 7), scale=0.0)
    yield call("empty rows", *_qkv(rng, T=5, S=3), right.causal_mask(5, 3))
    q, k, v = _qkv(rng, 3, T=4, S=5)
    yield call("empty rows", q, k, v, right.padding_mask(rng.permutation([0, 2, 5]), 5))
    mask = right.padding_mask(rng.permutation([0, 2, 4]), 5)
    for spoiled in ("k", "v", "kv"):
        for junk in (np.nan, np.inf):
            q, k, v = _qkv(rng, 3, T=4, S=5)
            unread = ~np.swapaxes(mask, 1, 2)
            k = np.where(unread, junk, k) if "k" in spoiled else k
            v = np.where(unread, junk, v) if "v" in spoiled else v
            yield call("NaN and inf where nobody reads", q, k, v, mask)
    yield call("float32", *(a.astype("f4") for a in _qkv(rng)), _mask(rng, 5, 7))
    q, k, v = (rng.integers(-2, 3, shape) for shape in ((3, 4), (5, 4), (5, 2)))
    yield call("integers", q, k, v, _mask(rng, 3, 5))
    yield call("zeros and ones", *_qkv(rng), _mask(rng, 5, 7).astype(int))
    yield call(
        "nested lists", *(a.tolist() for a in _qkv(rng, T=2, S=3)), _mask(rng, 2, 3).tolist()
    )


masked_attention = Exercise(
    "masked_attention",
    CHAPTER,
    right.masked_attention,
    _masked_attention_cases,
    builds_on=("masked_softmax",),
    hints={
        "causal": "scores = q kᵀ times scale, weights = masked_softmax(scores, mask), out = weights @ v.",
        "any mask": "Rows of the mask are queries, columns keys.",
        "no mask": "With mask=None this is plain scaled attention.",
        "batch and heads": "Swap the last two axes of k only, and insert no axes into the mask.",
        "scale": "scale multiplies the scores, in place of 1/sqrt(d_k).",
        "a scale of 0": "`if scale is None` and `if not scale` differ for 0.0, which is a scale.",
        "empty rows": "Weights 0 and output 0, never NaN.",
        "NaN and inf where nobody reads": "0 times NaN is NaN: put zeros for values that no query may read, mask.any(axis=-2).",
    },
    remarks={"zeros and ones": NUMBERS, "nested lists": LISTS, "integers": INTEGERS},
    results=("out", "weights"),
)


def _attention(weigh):
    """An attention from `weigh(scores, mask)`, with the values cleaned as the reference does."""

    def attention(q, k, v, mask=None, scale=None):
        scores = _scores(q, k, scale)
        weights = weigh(scores, mask)
        return weights @ _clean(v, mask), weights

    return attention


def _scores(q, k, scale=None):
    q, k = np.asarray(q, dtype=float), np.asarray(k)
    return q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)


def _clean(v, mask):
    read = True if mask is None else np.asarray(mask, bool).any(axis=-2)[..., None]
    return np.where(read, v, 0)


def _attention_mistake(name, advice, weigh):
    def candidate(q, k, v, mask=None, scale=None):
        return _attention(weigh)(q, k, v, mask, scale)

    candidate.__name__ = name
    masked_attention.mistake(advice)(candidate)


_attention_mistake(
    "attention_mask_after",
    "The mask comes after the softmax, so that rows no longer sum to 1: mask the scores.",
    mask_after_softmax,
)
_attention_mistake(
    "attention_turned_round",
    "True and False are turned round: True means that a query may read a key.",
    softmax_turned_round,
)
_attention_mistake(
    "attention_scores_times_mask",
    "The scores are multiplied by the mask: a forbidden key scores 0 then, which is a score like others.",
    scores_times_mask,
)
_attention_mistake(
    "attention_fills_finite",
    "Forbidden scores are set to a finite number: where nothing is allowed, every key gets a share.",
    fills_with_a_billion,
)
_attention_mistake(
    "attention_nan_where_empty",
    "A row with no allowed key gives NaN: its weights and its output should be 0.",
    nan_where_empty,
)
_attention_mistake(
    "attention_ignores_mask",
    "The mask is not used: hand it to masked_softmax.",
    mask_ignored,
)
_attention_mistake(
    "attention_over_queries",
    "The softmax runs over the queries: it runs over the keys, the last axis.",
    masked_over_queries,
)
_attention_mistake(
    "attention_adds_infinity",
    "-inf is added to the scores: NaN plus -inf is NaN. Choose with np.where instead.",
    adds_minus_infinity,
)
_attention_mistake(
    "attention_mask_transposed",
    "The mask is transposed: its rows are queries, its columns keys.",
    lambda s, m: right.masked_softmax(s, None if m is None else np.swapaxes(m, -1, -2)),
)


@masked_attention.mistake("The scale is forgotten: without one given it is 1/sqrt(d_k).")
def scale_forgotten(q, k, v, mask=None, scale=None):
    return right.masked_attention(q, k, v, mask, 1.0 if scale is None else scale)


@masked_attention.mistake("`scale` is not used: it replaces 1/sqrt(d_k) where it is given.")
def scale_ignored(q, k, v, mask=None, scale=None):
    return right.masked_attention(q, k, v, mask)


@masked_attention.mistake("A scale of 0.0 is taken for none: ask `scale is None`.")
def zero_is_no_scale(q, k, v, mask=None, scale=None):
    return right.masked_attention(q, k, v, mask, scale or None)


@masked_attention.mistake("The scores are divided by `scale`: it multiplies them.")
def divides_by_scale(q, k, v, mask=None, scale=None):
    return right.masked_attention(q, k, v, mask, None if scale is None else np.divide(1.0, scale))


@masked_attention.mistake("`scale` is applied on top of 1/sqrt(d_k): it replaces it.")
def scaled_twice(q, k, v, mask=None, scale=None):
    usual = np.shape(q)[-1] ** -0.5
    return right.masked_attention(q, k, v, mask, usual if scale is None else usual * scale)


@masked_attention.mistake(
    "The scores are divided by the square root of d_v: it is d_k, the width of q and k."
)
def scaled_by_value_width(q, k, v, mask=None, scale=None):
    return right.masked_attention(
        q, k, v, mask, np.shape(v)[-1] ** -0.5 if scale is None else scale
    )


@masked_attention.mistake("The scores are divided by d_k: it is its square root.")
def scaled_by_width(q, k, v, mask=None, scale=None):
    return right.masked_attention(q, k, v, mask, 1 / np.shape(q)[-1] if scale is None else scale)


@masked_attention.mistake(
    "The weights are right, but 0 times NaN is NaN: put zeros for values that no query may read."
)
def zero_times_nan(q, k, v, mask=None, scale=None):
    _, weights = right.masked_attention(q, k, v, mask, scale)
    return weights @ np.asarray(v), weights


@masked_attention.mistake(
    "NaN is replaced in the output, when it is too late: a row that only met it in a forbidden key is lost."
)
def nan_replaced_at_the_end(q, k, v, mask=None, scale=None):
    out, weights = zero_times_nan(q, k, v, mask, scale)
    return np.nan_to_num(out, posinf=0, neginf=0), weights


@masked_attention.mistake("An empty row gets the mean of all values: its output should be 0.")
def mean_where_empty(q, k, v, mask=None, scale=None):
    out, weights = right.masked_attention(q, k, v, mask, scale)
    empty = weights.sum(-1, keepdims=True) == 0
    return np.where(empty, np.mean(v, axis=-2, keepdims=True), out), weights


@masked_attention.mistake("The two results are swapped: return out first, then weights.")
def swapped_results(q, k, v, mask=None, scale=None):
    return right.masked_attention(q, k, v, mask, scale)[::-1]


@masked_attention.mistake("Only the output comes back: return the pair (out, weights).")
def returns_out_only(q, k, v, mask=None, scale=None):
    return right.masked_attention(q, k, v, mask, scale)[0]


@masked_attention.mistake(
    "The output is right, but scores come back beside it: return the weights."
)
def returns_scores(q, k, v, mask=None, scale=None):
    scores = _scores(q, k, scale)
    return right.masked_attention(q, k, v, mask, scale)[0], _filled(scores, mask, -np.inf)


@masked_attention.mistake("The mask is always causal: use the one that is given.")
def always_causal(q, k, v, mask=None, scale=None):
    return right.masked_attention(
        q, k, v, right.causal_mask(np.shape(q)[-2], np.shape(k)[-2]), scale
    )


# ---- causal_attention_loops ----------------------------------------------------------------------


def _loops(q, k, v):
    return tuple(np.array(part) for part in right.causal_attention_loops(q, k, v))


def _loop_cases(rng):
    def lists(T, d_k, d_v, size=1.5):
        q, k, v = _signed(rng, T, d_k), _signed(rng, T, d_k), _signed(rng, T, d_v) + 1
        return (size * q).tolist(), (size * k).tolist(), v.tolist()

    yield call("a short text", *lists(4, 2, 3))
    yield call("a short text", *lists(6, 3, 2))
    yield call("one token", *lists(1, 3, 2))
    yield call("square", *lists(4, 4, 4))
    yield call("large numbers", *lists(4, 3, 2, size=60.0))
    q, k, v = (rng.integers(-2, 3, shape).tolist() for shape in ((4, 2), (4, 2), (4, 3)))
    yield call("integers", q, k, v)
    yield call("arrays", *map(np.array, lists(4, 2, 3)))


causal_attention_loops = Exercise(
    "causal_attention_loops",
    CHAPTER,
    _loops,
    _loop_cases,
    hints={
        "a short text": "For each i: scores for j = 0 ... i, exponentials, sum, weights, then the values. A row of weights has T entries: zeros after i.",
        "one token": "The only token reads itself: its weight is 1, its output its value.",
        "square": "Sizes agree here: keep apart what counts tokens (i, j) and what counts features (c).",
        "large numbers": "Subtract the row's largest score before math.exp.",
    },
    remarks={"arrays": "It would take arrays, too, if it asked them nothing but len and indices."},
    results=("out", "weights"),
)


def _by_mask(mask_of, scale_of=lambda d_k, d_v: d_k**-0.5, weigh=right.masked_softmax):
    def attention(q, k, v):
        q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
        scores = q @ k.T * scale_of(q.shape[1], v.shape[1])
        weights = weigh(scores, mask_of(len(q)))
        return weights @ v, weights

    return attention


@causal_attention_loops.mistake(
    "Token i does not read itself: j runs up to and with i, so row 0 reads token 0."
)
def loop_stops_before_itself(q, k, v):
    return _by_mask(lambda T: np.tri(T, k=-1, dtype=bool))(q, k, v)


@causal_attention_loops.mistake("Every token is read, later ones, too: j runs from 0 to i only.")
def loop_reads_all(q, k, v):
    return _by_mask(lambda T: None)(q, k, v)


@causal_attention_loops.mistake("j runs from i on, over the future: it runs from 0 to i.")
def loop_reads_the_future(q, k, v):
    return _by_mask(lambda T: np.tri(T, dtype=bool).T)(q, k, v)


@causal_attention_loops.mistake("One token too many is read: j runs up to i, so range(i + 1).")
def loop_peeks_ahead(q, k, v):
    return _by_mask(lambda T: np.tri(T, k=1, dtype=bool))(q, k, v)


@causal_attention_loops.mistake("The scores are not divided by the square root of d_k.")
def loop_not_scaled(q, k, v):
    return _by_mask(right.causal_mask, lambda d_k, d_v: 1.0)(q, k, v)


@causal_attention_loops.mistake("The scores are divided by d_k: it is its square root.")
def loop_scaled_by_width(q, k, v):
    return _by_mask(right.causal_mask, lambda d_k, d_v: 1 / d_k)(q, k, v)


@causal_attention_loops.mistake(
    "The scores are divided by the square root of d_v: it is d_k, the length of a query."
)
def loop_scaled_by_value_width(q, k, v):
    return _by_mask(right.causal_mask, lambda d_k, d_v: d_v**-0.5)(q, k, v)


@causal_attention_loops.mistake(
    "The sum runs over all tokens, the future's exponentials among them."
)
def loop_divides_by_all(q, k, v):
    return _by_mask(right.causal_mask, weigh=mask_after_softmax)(q, k, v)


@causal_attention_loops.mistake(
    "Every earlier token gets the same weight: the scores do not matter."
)
def loop_plain_mean(q, k, v):
    return _by_mask(right.causal_mask, lambda d_k, d_v: 0.0)(q, k, v)


@causal_attention_loops.mistake("The weights are the exponentials: divide each by its row's sum.")
def loop_not_normalised(q, k, v):
    return _by_mask(right.causal_mask, weigh=lambda s, m: np.exp(s) * m)(q, k, v)


@causal_attention_loops.mistake(
    "The largest score is not subtracted, and exp overflows where scores are large."
)
def loop_overflows(q, k, v):
    def weigh(s, m):
        e = np.exp(np.where(m, s, -np.inf))
        return e / e.sum(-1, keepdims=True)

    out, weights = _by_mask(right.causal_mask, weigh=weigh)(q, k, v)
    if not np.isfinite(weights).all():
        raise OverflowError("math range error")
    return out, weights


@causal_attention_loops.mistake("The keys are averaged: the output is made of values.")
def loop_averages_keys(q, k, v):
    return _loops(q, k, k)


@causal_attention_loops.mistake("Queries and keys change places: row i asks with q[i].")
def loop_asks_with_keys(q, k, v):
    return _loops(k, q, v)


@causal_attention_loops.mistake("The two results are swapped: return out first, then weights.")
def loop_swaps_results(q, k, v):
    return _loops(q, k, v)[::-1]


@causal_attention_loops.mistake("Only the output comes back: return the pair (out, weights).")
def loop_returns_out_only(q, k, v):
    return _loops(q, k, v)[0]


# ---- wasted_mass ---------------------------------------------------------------------------------


def _wasted_cases(rng):
    yield call("causal", 2 * _signed(rng, 6, 6), right.causal_mask(6))
    yield call("causal", 2 * _signed(rng, 3, 7), right.causal_mask(3, 7))
    yield call("any mask", 2 * _signed(rng, 5, 5), _mask(rng, 5, 5))
    lengths = rng.permutation([1, 3, 5])
    yield call("batch", 2 * _signed(rng, 3, 4, 5), right.padding_mask(lengths, 5))
    yield call("batch", 2 * _signed(rng, 3, 2, 4, 5), right.padding_mask(lengths, 5)[:, None])
    yield call("all or nothing", 2 * _signed(rng, 5, 3), right.causal_mask(5, 3))
    yield call(
        "large numbers",
        np.array([[1000.0, 1001.0, 999.0], [-1000.0, -1001.0, -999.5]]),
        _mask(rng, 2, 3),
    )
    yield call("integers", rng.integers(-2, 3, (3, 4)), _mask(rng, 3, 4))
    yield call("zeros and ones", _signed(rng, 3, 4), _mask(rng, 3, 4).astype(int))
    yield call("nested lists", _signed(rng, 2, 3).tolist(), _mask(rng, 2, 3).tolist())


wasted_mass = Exercise(
    "wasted_mass",
    CHAPTER,
    right.wasted_mass,
    _wasted_cases,
    hints={
        "causal": "Take the softmax of all scores, and add up what falls on forbidden keys.",
        "any mask": "One number a row: sum over the last axis.",
        "all or nothing": "A row with no allowed key loses everything, 1; one with none forbidden loses nothing.",
        "large numbers": "Use the softmax of chapter 1.",
    },
    remarks={"zeros and ones": NUMBERS, "nested lists": LISTS, "integers": INTEGERS},
)


def _lost(scores, mask, axis=-1, keepdims=False):
    return np.where(np.asarray(mask, bool), 0, softmax(scores)).sum(axis=axis, keepdims=keepdims)


@wasted_mass.mistake("This is the mass that is kept; wanted is what is lost.")
def kept_mass(scores, mask):
    return 1 - right.wasted_mass(scores, mask)


@wasted_mass.mistake(
    "The mask comes before the softmax here, and nothing is lost: take the softmax of all scores."
)
def masked_before(scores, mask):
    return np.where(mask, 0, right.masked_softmax(scores, mask)).sum(-1)


@wasted_mass.mistake("The sum runs over the queries: add up each row, the last axis.")
def lost_by_key(scores, mask):
    return _lost(scores, mask, axis=-2)


@wasted_mass.mistake("This is one number for all rows: each row loses its own.")
def lost_in_all(scores, mask):
    return _lost(scores, mask, axis=None)


@wasted_mass.mistake("The summed axis is still there: the shape is (..., T).")
def lost_with_axis(scores, mask):
    return _lost(scores, mask, keepdims=True)


@wasted_mass.mistake("This is the mean of the lost weights: wanted is their sum.")
def mean_lost(scores, mask):
    return _lost(scores, mask) / np.shape(scores)[-1]


@wasted_mass.mistake(
    "This is the share of forbidden keys, however they score: add up their weights."
)
def share_of_keys(scores, mask):
    return np.broadcast_to(~np.asarray(mask, bool), np.shape(scores)).mean(-1)


@wasted_mass.mistake("These are the lost weights one by one: add up each row.")
def lost_one_by_one(scores, mask):
    return np.where(np.asarray(mask, bool), 0, softmax(scores))


@wasted_mass.mistake(
    "These are exponentials, not weights: divide by the sum over the whole row first."
)
def lost_exponentials(scores, mask):
    scores = np.asarray(scores, float)
    return np.where(np.asarray(mask, bool), 0, np.exp(scores - scores.max(-1, keepdims=True))).sum(
        -1
    )


@wasted_mass.mistake("The lost mass is divided by the kept one: wanted is the lost mass itself.")
def lost_against_kept(scores, mask):
    lost = right.wasted_mass(scores, mask)
    return lost / (1 - lost)


# ---- the two tests that the student writes -------------------------------------------------------

SOUND, UNSOUND = "accepts sound attention", "finds the leaks"
LABELS = {
    specimen(f).source: (sound, f.__doc__)
    for module in (leaks, padding)
    for sound, functions in ((True, module.SOUND), (False, module.LEAKY))
    for f in functions
}


def _specimen_cases(module):
    """Every specimen once, shuffled, with sizes on which a strong test tells what it is."""

    def make_cases(rng):
        sources = [*module.SOUND, *module.LEAKY]
        for index in rng.permutation(len(sources)):
            code = specimen(sources[index])
            T, d = int(rng.integers(9, 13)), int(rng.integers(3, 6))
            group = SOUND if LABELS[code.source][0] else UNSOUND
            yield Case(group, (code, T, d, Rng(int(rng.integers(2**31)))))

    return make_cases


def _judges(says_sound):
    """`accept` for a test that answers `says_sound` of sound attention."""

    def accept(case, value, wanted):
        answer = bool(conform(value, np.asarray(wanted)))
        sound, what = LABELS[case.args[0].source]
        if (answer == says_sound) == sound:
            return None
        if sound:
            return Complaint(
                "too_strict", f"too strict: your test turns down an attention that {what}"
            )
        return Complaint(
            "too_weak", f"too weak: your test finds no leak in an attention that {what}"
        )

    return accept


leaks_future = Exercise(
    "leaks_future",
    CHAPTER,
    right.leaks_future,
    _specimen_cases(leaks),
    accept=_judges(says_sound=False),
    order=(SOUND, UNSOUND),
    all_or_nothing=True,
    hints={
        SOUND: "Change only tokens after a position, compare only rows before it, and allow for rounding.",
        UNSOUND: "Try every position, change q, k and v, with small numbers and with large ones.",
    },
)


def _changed_rows(attention, T, d, rng, positions, size=(1.0, 100.0), which=(0, 1, 2), atol=1e-7):
    """Does any row before a position change when tokens from it on do?"""
    base = rng.normal(size=(3, T, d))
    before = np.asarray(attention(*base.copy()))
    for t in positions:
        for factor in size:
            other = base.copy()
            for part in which:
                other[part, t:] = factor * rng.normal(size=(T - t, d))
            if not np.allclose(attention(*other)[:t], before[:t], rtol=0, atol=atol):
                return True
    return False


@leaks_future.mistake(
    "Your test finds no leak anywhere: it must change the future and compare the rows before it."
)
def never_leaks(attention, T, d, rng):
    return False


@leaks_future.mistake("Your test finds a leak everywhere.")
def always_leaks(attention, T, d, rng):
    return True


@leaks_future.mistake("True and False are turned round: True means that the future leaks.")
def leak_turned_round(attention, T, d, rng):
    return not right.leaks_future(attention, T, d, rng)


@leaks_future.mistake(
    "Your test asks for equality to the last bit, and turns down an attention that differs by rounding alone."
)
def leak_no_rounding(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, range(1, T), atol=0.0)


@leaks_future.mistake(
    "Your test changes the last token only: a leak may be anywhere, so try every position."
)
def changes_the_last_only(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, [T - 1])


@leaks_future.mistake(
    "Your test changes the future of one position in the middle only: try every position."
)
def one_position_only(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, [T // 2])


@leaks_future.mistake("Your test looks at row 0 only: compare all rows before the change.")
def first_row_only(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, [1])


@leaks_future.mistake(
    "Your test changes only values: keys and queries of later tokens can leak, too."
)
def changes_values_only(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, range(1, T), which=(2,))


@leaks_future.mistake(
    "Your test changes only keys: values and queries of later tokens can leak, too."
)
def changes_keys_only(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, range(1, T), which=(1,))


@leaks_future.mistake("Your test leaves the queries of later tokens alone: those can leak, too.")
def leaves_queries_alone(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, range(1, T), which=(1, 2))


@leaks_future.mistake(
    "Your test tries small numbers only: a leak may show only where a later score is large."
)
def small_numbers_only(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, range(1, T), size=(1.0,))


@leaks_future.mistake("Your tolerance is so wide that a small leak passes.")
def leak_too_tolerant(attention, T, d, rng):
    return _changed_rows(attention, T, d, rng, range(1, T), size=(1.0, 10.0), atol=0.2)


@leaks_future.mistake("Your test uses fewer than T tokens: some leak only in longer inputs.")
def shorter_than_T(attention, T, d, rng):
    return _changed_rows(attention, 6, d, rng, range(1, 6))


@leaks_future.mistake(
    "Your test compares the row at the changed position as well: it may depend on its own token."
)
def own_token_counts(attention, T, d, rng):
    base = rng.normal(size=(3, T, d))
    before = attention(*base.copy())
    for t in range(1, T):
        other = base.copy()
        other[:, t:] = 10 * rng.normal(size=(3, T - t, d))
        if not np.allclose(attention(*other)[: t + 1], before[: t + 1]):
            return True
    return False


@leaks_future.mistake(
    "Your test cuts the text off, and so turns down an attention that uses the number of tokens: "
    "change later tokens, and keep their number."
)
def cuts_the_text(attention, T, d, rng):
    q, k, v = rng.normal(size=(3, T, d)) * 4
    whole = attention(q.copy(), k.copy(), v.copy())
    return not all(
        np.allclose(attention(q[:t].copy(), k[:t].copy(), v[:t].copy()), whole[:t])
        for t in range(1, T)
    )


@leaks_future.mistake(
    "Your test puts NaN into the future, and so turns down plain causal attention, where 0 times NaN is "
    "NaN: use finite numbers."
)
def nan_in_the_future(attention, T, d, rng):
    base = rng.normal(size=(3, T, d))
    before = attention(*base.copy())
    for t in range(1, T):
        other = base.copy()
        other[:, t:] = np.nan
        if not np.allclose(attention(*other)[:t], before[:t]):
            return True
    return False


padding_is_ignored = Exercise(
    "padding_is_ignored",
    CHAPTER,
    right.padding_is_ignored,
    _specimen_cases(padding),
    accept=_judges(says_sound=True),
    order=(SOUND, UNSOUND),
    all_or_nothing=True,
    hints={
        SOUND: "Change keys and values beyond each length, and compare only rows within it, up to rounding.",
        UNSOUND: "Use several sequences of different lengths, 0, 1 and T among them; try numbers, large numbers and NaN.",
    },
)
JUNK = (1.0, 100.0, np.nan)


def _survives(
    attention,
    T,
    d,
    rng,
    lengths=None,
    junk=JUNK,
    which="kv",
    slots=slice(None),
    rows="within",
    atol=1e-7,
):
    """Do rows stay as they are when padding is replaced, `slots` of it with each of `junk`?"""
    lengths = np.array([T // 2, T, 1, 0, T - 2, 3] if lengths is None else lengths)
    q, k, v = rng.normal(size=(3, len(lengths), T, d))
    within = np.arange(T) < lengths[:, None]
    seen = within if rows == "within" else np.ones_like(within)
    before = np.asarray(attention(q.copy(), k.copy(), v.copy(), lengths.copy()))[seen]
    for factor in junk:
        k2, v2 = k.copy(), v.copy()
        for part in [p for name, p in (("k", k2), ("v", v2)) if name in which]:
            for b, n in enumerate(lengths):
                beyond = np.arange(n, T)[slots]
                part[b, beyond] = factor * rng.normal(size=(len(beyond), d))
        after = np.asarray(attention(q.copy(), k2, v2, lengths.copy()))[seen]
        if not np.allclose(after, before, rtol=0, atol=atol):
            return False
    return True


@padding_is_ignored.mistake(
    "Your test finds padding ignored everywhere: it must change some and compare."
)
def always_ignored(attention, T, d, rng):
    return True


@padding_is_ignored.mistake("Your test never finds padding ignored.")
def never_ignored(attention, T, d, rng):
    return False


@padding_is_ignored.mistake(
    "True and False are turned round: True means that padding has no influence."
)
def ignored_turned_round(attention, T, d, rng):
    return not right.padding_is_ignored(attention, T, d, rng)


@padding_is_ignored.mistake(
    "Your test asks for equality to the last bit, and turns down an attention that differs by rounding alone."
)
def padding_no_rounding(attention, T, d, rng):
    return _survives(attention, T, d, rng, atol=0.0)


@padding_is_ignored.mistake(
    "Your test never puts NaN into the padding: 0 times NaN is NaN, and a leak."
)
def no_nan_tried(attention, T, d, rng):
    return _survives(attention, T, d, rng, junk=(1.0, 100.0))


@padding_is_ignored.mistake(
    "Your test uses nothing but NaN: a leak that drops NaN on the way shows only with numbers, large ones among them."
)
def nothing_but_nan(attention, T, d, rng):
    return _survives(attention, T, d, rng, junk=(np.nan,))


@padding_is_ignored.mistake("Your test changes padded values only: padded keys can leak, too.")
def padded_values_only(attention, T, d, rng):
    return _survives(attention, T, d, rng, which="v")


@padding_is_ignored.mistake("Your test changes padded keys only: padded values can leak, too.")
def padded_keys_only(attention, T, d, rng):
    return _survives(attention, T, d, rng, which="k")


@padding_is_ignored.mistake(
    "Your test gives all sequences one length: some leaks show only where lengths differ."
)
def one_length_for_all(attention, T, d, rng):
    return _survives(attention, T, d, rng, lengths=[T // 2] * 4)


@padding_is_ignored.mistake("Your test uses a single sequence: a batch can mix up lengths.")
def one_sequence_only(attention, T, d, rng):
    return _survives(attention, T, d, rng, lengths=[T // 2])


@padding_is_ignored.mistake("Your test changes the first padded slot only: change them all.")
def first_slot_only(attention, T, d, rng):
    return _survives(attention, T, d, rng, slots=slice(0, 1))


@padding_is_ignored.mistake("Your test changes the last slot only: change all that is padded.")
def last_slot_only(attention, T, d, rng):
    return _survives(attention, T, d, rng, lengths=[T // 2, T - 3, 1, 0, T], slots=slice(-1, None))


@padding_is_ignored.mistake(
    "Your test compares padded rows as well: what stands in them does not matter."
)
def compares_padded_rows(attention, T, d, rng):
    return _survives(attention, T, d, rng, rows="all")


@padding_is_ignored.mistake("Your test uses no sequence of one token: a leak may hide there.")
def no_short_sequence(attention, T, d, rng):
    return _survives(attention, T, d, rng, lengths=[T // 2, T, 0, T - 2, 3])


@padding_is_ignored.mistake("Your tolerance is so wide that a small leak passes.")
def padding_too_tolerant(attention, T, d, rng):
    return _survives(attention, T, d, rng, junk=(1.0, 15.0, np.nan), atol=0.5)


@padding_is_ignored.mistake(
    "Your test cuts the padding off, and so turns down an attention that uses the number of slots: "
    "change the padding, and keep its length."
)
def cuts_the_padding(attention, T, d, rng):
    lengths = np.array([T // 2, T, 1, T - 2, 3])
    q, k, v = rng.normal(size=(3, len(lengths), T, d))
    v = np.where((np.arange(T) < lengths[:, None])[..., None], v, np.nan)
    out = attention(q.copy(), k.copy(), v.copy(), lengths.copy())
    for b, n in enumerate(lengths):
        alone = attention(
            q[b : b + 1, :n].copy(), k[b : b + 1, :n].copy(), v[b : b + 1, :n].copy(), np.array([n])
        )
        if not np.allclose(alone[0], out[b, :n]):
            return False
    return True


# ---- next_token_losses -----------------------------------------------------------------------------


def _loss_cases(rng):
    def tokens(T, n):
        return np.append(rng.permutation(n)[: T - 1], rng.integers(n))

    yield call("a short text", 2 * _signed(rng, 5, 7), tokens(5, 7))
    yield call("a short text", 2 * _signed(rng, 6, 9), tokens(6, 9))
    yield call("as many words as tokens", 2 * _signed(rng, 6, 6), tokens(6, 6))
    yield call("two tokens", 2 * _signed(rng, 2, 4), rng.integers(4, size=2))
    yield call("one token", 2 * _signed(rng, 1, 4), rng.integers(4, size=1))
    high = np.array([[1000.0, 1001.0, 999.5], [-1000.0, -1000.5, -999.0], [0.5, -1.0, 2.0]])
    yield call("large numbers", high, np.array([0, 1, int(rng.integers(3))]))
    yield call("float32", (2 * _signed(rng, 5, 6)).astype("f4"), tokens(5, 6))
    yield call("integers", rng.integers(-3, 4, (4, 5)), tokens(4, 5))
    yield call("nested lists", _signed(rng, 3, 4).tolist(), tokens(3, 4).tolist())


next_token_losses = Exercise(
    "next_token_losses",
    CHAPTER,
    right.next_token_losses,
    _loss_cases,
    hints={
        "a short text": "Row t predicts token t + 1: logits[:-1] meets tokens[1:].",
        "as many words as tokens": "T and n agree here: the softmax runs over the words, the last axis.",
        "one token": "One token has nothing to predict: the result is empty.",
        "large numbers": "Subtract each row's maximum before exp, and take the logarithm of the sum, not of a probability.",
    },
    remarks={"nested lists": LISTS, "integers": INTEGERS},
)


def _surprise(logits, tokens):
    """-log p of one token a row."""
    logits, tokens = np.asarray(logits, dtype=float), np.asarray(tokens)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(len(tokens)), tokens]


@next_token_losses.mistake(
    "Row t is compared with token t, which it has read: it predicts token t + 1."
)
def not_shifted(logits, tokens):
    return _surprise(logits, tokens)[:-1]


@next_token_losses.mistake(
    "Row t is compared with token t, the last row among them: it predicts token t + 1, and the last row nothing."
)
def not_shifted_at_all(logits, tokens):
    return _surprise(logits, tokens)


@next_token_losses.mistake("The shift goes the wrong way: row t predicts token t + 1, not t - 1.")
def shifted_backwards(logits, tokens):
    return _surprise(np.asarray(logits)[1:], np.asarray(tokens)[:-1])


@next_token_losses.mistake(
    "The first row is left out: it predicts token 1. The last one has nothing to predict."
)
def first_row_left_out(logits, tokens):
    return _surprise(np.asarray(logits)[1:], np.asarray(tokens)[1:])


@next_token_losses.mistake(
    "The tokens are rolled round, so that the last row predicts the first token: leave it out."
)
def last_row_kept(logits, tokens):
    return _surprise(logits, np.roll(tokens, -1))


@next_token_losses.mistake("The mean comes back: wanted is the loss of every position, (T - 1,).")
def mean_loss(logits, tokens):
    return right.next_token_losses(logits, tokens).mean()


@next_token_losses.mistake("The sum comes back: wanted is the loss of every position, (T - 1,).")
def total_loss(logits, tokens):
    return right.next_token_losses(logits, tokens).sum()


@next_token_losses.mistake("These are bits: use the natural logarithm.")
def base_two(logits, tokens):
    return right.next_token_losses(logits, tokens) / np.log(2)


@next_token_losses.mistake("The sign is missing: a loss is minus the logarithm of a probability.")
def no_minus(logits, tokens):
    return -right.next_token_losses(logits, tokens)


@next_token_losses.mistake("These are probabilities: the loss is minus their logarithm.")
def probabilities(logits, tokens):
    return np.exp(-right.next_token_losses(logits, tokens))


@next_token_losses.mistake("These are perplexities, the exponential of the loss: leave it out.")
def perplexities(logits, tokens):
    return np.exp(right.next_token_losses(logits, tokens))


@next_token_losses.mistake(
    "These are minus the logits alone: subtract the logarithm of the sum of all exponentials."
)
def logits_alone(logits, tokens):
    tokens = np.asarray(tokens)[1:]
    return -np.asarray(logits)[:-1][np.arange(len(tokens)), tokens]


@next_token_losses.mistake(
    "The softmax runs over the positions: it runs over the words, the last axis."
)
def softmax_over_positions(logits, tokens):
    p, tokens = (
        softmax(np.asarray(logits)[:-1], axis=0) if len(tokens) > 1 else np.zeros((0, 1)),
        np.asarray(tokens)[1:],
    )
    return -np.log(p[np.arange(len(tokens)), tokens])


@next_token_losses.mistake(
    "exp overflows or vanishes where logits are large: subtract each row's maximum first."
)
def loss_overflows(logits, tokens):
    logits, tokens = np.asarray(logits, dtype=float)[:-1], np.asarray(tokens)[1:]
    e = np.exp(logits)
    return -np.log(e[np.arange(len(tokens)), tokens] / e.sum(-1))


EXERCISES = (
    causal_mask,
    padding_mask,
    sliding_window_mask,
    segment_mask,
    combine_masks,
    additive_mask,
    wasted_mass,
    masked_softmax,
    masked_attention,
    causal_attention_loops,
    leaks_future,
    padding_is_ignored,
    next_token_losses,
)
