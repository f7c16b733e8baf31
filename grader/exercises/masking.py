"""Chapter 4: cases, laws and named mistakes of masks, and of the two tests that a student writes."""

import numpy as np

from grader.compare import conform
from grader.exercise import INTEGERS, LISTS, Exercise, Fault, Law, call, signed, specimen
from grader.specimens import leaks, padding
from utils.cases import Case
from utils.reference import masking as right
from utils.reference.dictionary_lookup import as_floating, softmax
from utils.wire import Rng

CHAPTER = "masking"
NUMBERS = "With a mask of 0 and 1 in place of False and True it did something else: begin with np.asarray(mask, dtype=bool) to be safe."


def _mask(rng, *shape):
    """A mask of no pattern in which every row allows something and forbids something."""
    mask = rng.random(shape) < 0.6
    here = rng.integers(shape[-1], size=(*shape[:-1], 1))
    np.put_along_axis(mask, here, True, axis=-1)
    np.put_along_axis(mask, (here + 1) % shape[-1], False, axis=-1)
    return mask


def _is_boolean(case, answer):
    """Empty lists have no dtype of their own, so nothing is asked of them."""
    return answer is None or np.size(answer) == 0 or np.asarray(answer).dtype.kind == "b"


BOOLEAN = Law(
    "not_boolean",
    "Yours holds numbers, and a mask is boolean here: True and False.",
    _is_boolean,
    to_the_last_bit=True,
)


def _mistakes(exercise, make, *rows):
    """Declare a mistake for every row (name, advice, piece); its code is `make(piece)`."""
    for name, advice, piece in rows:
        exercise.mistake(advice, name)(make(piece))


def _common_mask_mistakes(exercise, reference):
    """What can go wrong with any mask, whatever it forbids."""
    _mistakes(
        exercise,
        lambda spoil: lambda *args, **kwargs: spoil(reference(*args, **kwargs)),
        ("turned_round", "Yours has True and False turned round: True means that a query may read a key.", np.logical_not),
        ("numbers_for_booleans", "Yours holds the numbers 0 and 1, and a mask is boolean here. Leave a comparison as it is, and give dtype=bool to whatever makes an array.", lambda mask: mask.astype(int)),
        ("already_additive", "Yours is what is added to scores, 0 and -inf; wanted is the mask itself, True and False.", right.additive_mask),
    )  # fmt: skip


# ---- causal_mask -------------------------------------------------------------------------------


def _causal_cases(rng):
    yield call("as many keys as queries", int(rng.integers(4, 7)))
    yield call("as many keys as queries", int(rng.integers(7, 12)))
    yield call("more keys than queries", 3, int(rng.integers(7, 12)))
    yield call("more keys than queries", 5, S=8)
    yield call("fewer keys than queries", int(rng.integers(7, 12)), 4)
    yield call("one query", 1)
    yield call("one query", 1, 6)
    yield call("no keys", 4, 0)


NO_KEYS = "With S=0 it did something else, since 0 is false to Python: ask `S is None` to be safe."

causal_mask = Exercise(
    "causal_mask",
    CHAPTER,
    right.causal_mask,
    _causal_cases,
    laws=(BOOLEAN,),
    hints={
        "as many keys as queries": "Each query should read itself and all that came before it, and nothing later.",
        "more keys than queries": "The last query stands at the last key. Where does the first one stand?",
        "fewer keys than queries": "The first T - S queries stand before all keys, so their rows are all False.",
        "one query": "A single query is the last one: it reads every key.",
    },
    remarks={"no keys": NO_KEYS},
)
_common_mask_mistakes(causal_mask, right.causal_mask)


def _shape(T, S=None):
    return T, T if S is None else S


def _ago(T, S):
    T, S = _shape(T, S)
    return np.arange(T)[:, None] + S - T - np.arange(S)


_mistakes(
    causal_mask,
    lambda opens: lambda T, S=None: opens(_ago(T, S), _shape(T, S)[1] - T),
    ("leaves_itself_out", "Yours lets no token read itself, and row 0 nothing at all: a query reads up to its own token and that one, too.", lambda ago, shift: ago > 0),
    ("upper_triangle", "Yours is the other triangle, which shows the future and hides the past.", lambda ago, shift: ago <= 0),
    ("aligned_to_the_start", "Yours is aligned to the start, the first query at the first key: here the last query stands at the last key.", lambda ago, shift: ago >= shift),
    ("peeks_ahead", "Yours opens one key too many: a query reads the token after its own.", lambda ago, shift: ago >= -1),
    ("shifted_the_wrong_way", "Yours shifts the wrong way: with more keys than queries each query stands further right, not further left.", lambda ago, shift: ago >= 2 * shift),
    ("shifted_right_only", "Yours shifts only where there are more keys than queries: with fewer the last query stands at the last key, too.", lambda ago, shift: ago >= min(shift, 0)),
    ("shifted_right_always", "Yours shifts to the right where there are fewer keys than queries: the last query stands at the last key there, too.", lambda ago, shift: ago >= shift - abs(shift)),
    ("all_open", "Yours forbids nothing: a query may not read later tokens.", lambda ago, shift: ago == ago),
    ("only_itself", "Yours opens the diagonal only: a query reads what came before, too.", lambda ago, shift: ago == 0),
)  # fmt: skip
_mistakes(
    causal_mask,
    lambda candidate: candidate,
    ("square_always", "Yours does not use S: the mask has a column for every key.", lambda T, S=None: right.causal_mask(T)),
    ("rows_are_keys", "Yours has the keys in its rows: it is (T, S), a row for each query.", lambda T, S=None: np.ascontiguousarray(right.causal_mask(T, S).T)),
)  # fmt: skip


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
        "different lengths": "Each sequence has a row of its own, (B, 1, S), that all its queries share: its first keys are real, the rest is padding.",
        "as many sequences as keys": "B and S agree here: make sure that sequences come first and keys last.",
        "empty and full": "A length of 0 leaves nothing, a length of S leaves everything.",
        "one sequence": "A batch of one is a batch: (1, 1, S).",
    },
    remarks={"nested lists": LISTS},
)
_common_mask_mistakes(padding_mask, right.padding_mask)
_mistakes(
    padding_mask,
    lambda spoil: lambda lengths, S: spoil(right.padding_mask(lengths, S)),
    ("no_query_axis", "Yours has no axis for the queries: (B, 1, S), so that all queries of a sequence share it.", lambda mask: mask[:, 0]),
    ("hides_queries", "Yours has the axes (B, S, 1), which hides padded queries: keys come last, (B, 1, S).", lambda mask: np.swapaxes(mask, 1, 2)),
    ("batch_in_the_middle", "Yours has the batch in the middle, (1, B, S): it comes first, (B, 1, S).", lambda mask: np.swapaxes(mask, 0, 1)),
    ("repeated_for_queries", "Yours is repeated for every query, (B, S, S): one row a sequence is enough, (B, 1, S).", lambda mask: np.repeat(mask, mask.shape[-1], axis=1)),
    ("with_a_head_axis", "Yours has an axis for heads, (B, 1, 1, S): this chapter inserts none, (B, 1, S).", lambda mask: mask[:, None]),
    ("padding_in_front", "Yours takes the padding to stand in front: here it stands behind.", lambda mask: mask[..., ::-1].copy()),
)  # fmt: skip
_mistakes(
    padding_mask,
    lambda lengthen: lambda lengths, S: right.padding_mask(lengthen(np.asarray(lengths)), S),
    ("one_key_more", "Yours opens one key too many: with length n the real keys are 0 to n - 1.", lambda n: n + 1),
    ("one_key_less", "Yours opens one key too few: with length n the real keys are 0 to n - 1.", lambda n: n - 1),
    ("longest_for_all", "Yours gives every sequence the longest length: each has its own.", lambda n: np.full(len(n), n.max())),
    ("first_for_all", "Yours gives every sequence the first one's length: each has its own.", lambda n: np.full(len(n), n[0])),
)  # fmt: skip


@padding_mask.mistake(
    "Yours does not use S: the mask has a column for every key, padded ones among them."
)
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
    yield call("no keys", 4, 2, 0)


sliding_window_mask = Exercise(
    "sliding_window_mask",
    CHAPTER,
    right.sliding_window_mask,
    _window_cases,
    laws=(BOOLEAN,),
    hints={
        "window within the text": "Ask of every pair how long ago the key stood, seen from the query: the future is shut, and so is what is too long ago.",
        "window of one": "With a window of one every token reads itself alone.",
        "window as wide as the text": "A window that never bites leaves the causal mask.",
        "more keys than queries": "The last query stands at the last key, as in causal_mask.",
        "fewer keys than queries": "The first T - S queries stand before all keys.",
    },
    remarks={"no keys": NO_KEYS},
)
_common_mask_mistakes(sliding_window_mask, right.sliding_window_mask)
_mistakes(
    sliding_window_mask,
    lambda opens: lambda T, window, S=None: opens(_ago(T, S), window),
    ("counts_itself_extra", "Yours opens one key too many a row: `window` counts the token itself.", lambda ago, w: (ago >= 0) & (ago <= w)),
    ("window_less_one", "Yours opens one key too few a row: `window` keys, the token itself among them.", lambda ago, w: (ago >= 0) & (ago < w - 1)),
    ("window_not_causal", "Yours leaves the future open: the window is causal.", lambda ago, w: ago < w),
    ("window_ahead", "Yours looks ahead: the window holds the token and what came before it.", lambda ago, w: (ago <= 0) & (ago > -w)),
    ("window_both_ways", "Yours looks both ways: this window holds past and present only.", lambda ago, w: np.abs(ago) < w),
    ("window_centred", "Yours is centred on the token: this window ends with it.", lambda ago, w: np.abs(ago) <= w // 2),
    ("window_ignored", "Yours is the causal mask: `window` has no effect.", lambda ago, w: ago >= 0),
    ("far_past_only", "Yours hides the near past and shows the far one: it is the other way round.", lambda ago, w: ago >= w),
    ("window_before_itself", "Yours leaves the token itself out: the window's last key is its own.", lambda ago, w: (ago > 0) & (ago <= w)),
    ("either_condition", "Yours asks for one of the two conditions only: not in the future *and* not too long ago.", lambda ago, w: (ago >= 0) | (ago < w)),
)  # fmt: skip
_mistakes(
    sliding_window_mask,
    lambda candidate: candidate,
    ("window_square_always", "Yours does not use S: the mask has a column for every key.", lambda T, window, S=None: right.sliding_window_mask(T, window)),
)  # fmt: skip


@sliding_window_mask.mistake(
    "Yours is aligned to the start, the first query at the first key: here the last query stands at the last key."
)
def window_at_the_start(T, window, S=None):
    T, S = _shape(T, S)
    ago = np.arange(T)[:, None] - np.arange(S)
    return (ago >= 0) & (ago < window)


@sliding_window_mask.mistake(
    "Yours opens a slice that begins below 0, which Python counts from the end: begin it at 0 at least."
)
def window_from_the_end(T, window, S=None):
    T, S = _shape(T, S)
    mask = np.zeros((T, S), dtype=bool)
    for i in range(T):
        mask[i, i + S - T - window + 1 : i + S - T + 1] = True
    return mask


@sliding_window_mask.mistake(
    "Yours cuts the text into blocks: the window moves on with every token."
)
def window_in_blocks(T, window, S=None):
    T, S = _shape(T, S)
    i, j = np.arange(T)[:, None] + S - T, np.arange(S)
    return (j <= i) & (j // window == i // window)


# ---- segment_mask ------------------------------------------------------------------------------


def _segment_cases(rng):
    yield call("two segments", np.sort(rng.integers(1, 3, 5)), np.array([1, 1, 2, 2, 2, 1, 2]))
    yield call("two segments", np.array([2, 1, 3]), rng.permutation([1, 2, 3, 3, 2, 1]))
    yield call("padding", np.array([1, 1, 2, 0, 0]), rng.permutation([1, 2, 2, 0, 0, 1, 0]))
    yield call("square", *[np.array([1, 1, 2, 2, 0, 0])] * 2)
    yield call("square", rng.permutation([1, 2, 0, 4]), rng.permutation([1, 2, 4, 0]))
    yield call("batch", rng.integers(0, 3, (2, 4)), rng.integers(0, 3, (2, 6)))
    yield call("batch", rng.integers(0, 3, (2, 3, 4)), rng.integers(0, 3, (2, 3, 5)))
    yield call("batch", rng.integers(0, 3, (3, 3)), rng.integers(0, 3, (3, 5)))
    yield call("nested lists", [1, 0, 2], rng.permutation([1, 2, 0, 2]).tolist())


segment_mask = Exercise(
    "segment_mask",
    CHAPTER,
    right.segment_mask,
    _segment_cases,
    laws=(BOOLEAN,),
    hints={
        "two segments": "Compare every query's number with every key's: a column with a row.",
        "padding": "0 equals 0, but padding reads nothing and is read by nobody.",
        "square": "T and S agree here: rows are queries, columns keys.",
        "batch": "The new axes belong at the end, whatever stands in front.",
    },
    remarks={"nested lists": LISTS},
)
_common_mask_mistakes(segment_mask, right.segment_mask)


def _pairwise(opens):
    def mask(q_segments, k_segments):
        return opens(np.asarray(q_segments)[..., :, None], np.asarray(k_segments)[..., None, :])

    return mask


_mistakes(
    segment_mask,
    _pairwise,
    ("padding_meets_padding", "Yours lets padding read padding, since 0 == 0: ask that the number is not 0 as well.", lambda q, k: q == k),
    ("hides_padding_only", "Yours hides padding only: tokens of different segments may not read each other either.", lambda q, k: (q != 0) & (k != 0)),
    ("padding_is_open", "Yours lets everybody read padded keys: nobody reads them.", lambda q, k: (q == k) | (k == 0)),
    ("padding_reads_all", "Yours lets padded queries read everything: they read nothing.", lambda q, k: (q == k) | (q == 0)),
    ("segments_transposed", "Yours has the keys in its rows: the mask is (T, S), a row for each query.", lambda q, k: np.swapaxes((q == k) & (q != 0), -1, -2).copy()),
    ("earlier_segments_open", "Yours lets later segments read earlier ones: the numbers must be equal.", lambda q, k: (q >= k) & (k != 0)),
    ("other_segments_only", "Yours opens other segments and shuts the own: equal numbers may read each other.", lambda q, k: (q != k) & (q != 0) & (k != 0)),
    ("first_segment_only", "Yours opens segment 1 alone: any number but 0 is a segment.", lambda q, k: (q == 1) & (k == 1)),
    ("neighbours_open", "Yours lets neighbouring segments read each other: the numbers must be equal.", lambda q, k: (np.abs(q - k) <= 1) & (q != 0) & (k != 0)),
)  # fmt: skip


_mistakes(
    segment_mask,
    lambda equal: lambda q_segments, k_segments: equal(np.asarray(q_segments), np.asarray(k_segments)),
    ("axes_from_the_front", "Yours puts a new axis in a fixed place, which fits without a batch only: count from the end, with `...` in front.", lambda q, k: (q[:, None] == k) & (q[:, None] != 0)),
    ("key_axis_in_front", "Yours puts the new axis of the keys in front of a batch: it comes before their last one.", lambda q, k: (q[..., None] == k[None]) & (q[..., None] != 0)),
)  # fmt: skip


@segment_mask.mistake(
    "Yours compares all sequences of a batch with each other: keep the batch apart."
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
        "two masks": "A pair is open only where every mask allows it: one no is enough.",
        "broadcasting": "Masks of different shapes broadcast by themselves: none needs to be repeated.",
        "three and more": "Go through all masks, and join each with what there is so far.",
        "None among them": "None is no constraint: leave it out.",
        "one mask": "A single mask is what comes back.",
        "no mask": "Where no mask is given, give None back.",
    },
    remarks={
        "zeros and ones": "Of a mask of 0 and 1 it makes numbers again: np.asarray(mask, dtype=bool) would make it True and False first.",
        "nested lists": LISTS,
    },
)


def _given(masks):
    return [np.asarray(mask) for mask in masks if mask is not None]


def _reduced(join):
    def combine(*masks):
        given = _given(masks)
        combined = given[0] if given else None
        for mask in given[1:]:
            combined = join(combined, mask)
        return combined

    return combine


def _finished(finish):
    def combine(*masks):
        combined = right.combine_masks(*masks)
        return None if combined is None else finish(combined)

    return combine


_mistakes(
    combine_masks,
    _reduced,
    ("joined_with_or", "Yours joins the masks with `or`: a pair is open only where every mask allows it.", np.logical_or),
    ("first_mask_only", "Yours heeds the first mask only: all must allow a pair.", lambda a, b: np.broadcast_arrays(a, b)[0]),
    ("last_mask_only", "Yours heeds the last mask only: all must allow a pair.", lambda a, b: np.broadcast_arrays(a, b)[1]),
    ("joined_with_xor", "Yours opens a pair where the masks differ: that is exclusive or, and `and` is wanted.", np.logical_xor),
    ("joined_where_equal", "Yours opens a pair where the masks agree, also where both forbid it: `and` is wanted.", np.equal),
)  # fmt: skip
_mistakes(
    combine_masks,
    _finished,
    ("joined_as_numbers", "Yours gives numbers, and a mask is boolean here: join with & or np.logical_and.", lambda mask: mask.astype(int)),
    ("combined_turned_round", "Yours is turned round: True means that a query may read a key.", np.logical_not),
)  # fmt: skip


@combine_masks.mistake(
    "Yours adds the masks up, which gives numbers, and not 0 where a single one allows: join with `and`."
)
def added_up(*masks):
    return sum(mask.astype(int) for mask in _given(masks))


@combine_masks.mistake("Yours heeds the first two masks only: there may be more.")
def first_two_only(*masks):
    return right.combine_masks(*_given(masks)[:2])


@combine_masks.mistake("Yours takes None for a mask: it means no constraint, so leave it out.")
def none_breaks_it(*masks):
    combined = masks[0] if masks else None
    for mask in masks[1:]:
        combined = combined & mask
    return combined


@combine_masks.mistake("Yours gives True where no mask is given: it should be None, no constraint.")
def true_for_nothing(*masks):
    return True if not _given(masks) else right.combine_masks(*masks)


@combine_masks.mistake("Yours takes None to forbid everything: it means no constraint.")
def none_forbids(*masks):
    combined = right.combine_masks(*masks)
    return combined if len(_given(masks)) in (0, len(masks)) else combined & False


@combine_masks.mistake("Yours stacks the masks and does not join them: one mask comes back.")
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
            "Yours has another dtype than was asked for.",
            _has_the_dtype,
            to_the_last_bit=True,
        ),
    ),
    hints={
        "a mask": "Choose cell by cell: what leaves a score alone where it is allowed, what makes its exponential 0 where not.",
        "more axes": "The shape is the mask's, whatever axes it has.",
        "empty rows": "A row may be forbidden altogether: -inf in every cell.",
        "other dtypes": "End with .astype(dtype), or hand dtype to the function that makes the array.",
    },
    remarks={"zeros and ones": NUMBERS, "nested lists": LISTS},
)


def _adds(numbers):
    allowed, forbidden = numbers

    def additive(mask, dtype=float):
        mask = np.asarray(mask, dtype=bool)
        return np.where(mask, np.float64(allowed), np.float64(forbidden)).astype(dtype)

    return additive


_mistakes(
    additive_mask,
    _adds,
    ("additive_turned_round", "Yours is turned round: what may be read gets 0, what may not gets -inf.", (-np.inf, 0)),
    ("plus_infinity", "Yours lacks a minus: +inf would give a forbidden key everything.", (0, np.inf)),
    ("minus_a_billion", "Yours has -1e9, a number like others: added to two scores it leaves them different, and float16 has no such number. Use -inf.", (0, -1e9)),
    ("minus_ten_thousand", "Yours has -10000, a score that an allowed key may have too: use -inf.", (0, -1e4)),
    ("one_where_allowed", "Yours has 1 where a key is allowed: adding must leave such scores as they are, so 0.", (1, -np.inf)),
    ("ones_and_zeros", "Yours holds ones and zeros; to be added to scores they must be 0 and -inf.", (1, 0)),
)  # fmt: skip


@additive_mask.mistake("Yours has the least number that there is, which is still finite: use -inf.")
def least_finite_number(mask, dtype=float):
    mask = np.asarray(mask, dtype=bool)
    return np.where(mask, 0, np.finfo(dtype).min).astype(dtype)


@additive_mask.mistake(
    "Yours multiplies, and 0 times -inf is NaN: choose with np.where instead of multiplying."
)
def multiplies_infinity(mask, dtype=float):
    return ((1 - np.asarray(mask).astype(float)) * -np.inf).astype(dtype)


@additive_mask.mistake(
    "Yours does not use dtype: the result should have the one that is asked for."
)
def dtype_ignored(mask, dtype=float):
    return right.additive_mask(mask)


# ---- masked_softmax ----------------------------------------------------------------------------


def _spoil(scores, mask, rng, junk=(np.nan, np.inf, 1e5, -np.inf)):
    """The scores with junk in every forbidden slot."""
    return np.where(mask, scores, rng.choice(junk, np.broadcast_shapes(scores.shape, mask.shape)))


def _masked_softmax_cases(rng):
    yield call("causal", 2 * signed(rng, 5, 5), right.causal_mask(5))
    yield call("causal", 2 * signed(rng, 3, 7), right.causal_mask(3, 7))
    yield call("any mask", 2 * signed(rng, 4, 6), _mask(rng, 4, 6))
    yield call("any mask", 2 * signed(rng, 6, 6), _mask(rng, 6, 6))
    yield call("no mask", 2 * signed(rng, 3, 5))
    yield call("no mask", 2 * signed(rng, 2, 3, 4), None)
    lengths = rng.permutation([1, 3, 5])
    yield call("batch and heads", 2 * signed(rng, 3, 4, 5), right.padding_mask(lengths, 5))
    yield call(
        "batch and heads", 2 * signed(rng, 3, 2, 4, 5), right.padding_mask(lengths, 5)[:, None]
    )
    yield call(
        "batch and heads", 2 * signed(rng, 3, 3, 4, 5), right.padding_mask(lengths, 5)[:, None]
    )
    yield call("batch and heads", 2 * signed(rng, 3, 3, 5, 5), _mask(rng, 5, 5))
    yield call("a mask with more axes", 2 * signed(rng, 4, 5), right.padding_mask(lengths, 5))
    yield call("empty rows", 2 * signed(rng, 5, 3), right.causal_mask(5, 3))
    yield call(
        "empty rows", 2 * signed(rng, 2, 3, 4), right.padding_mask(rng.permutation([0, 3]), 4)
    )
    low = np.array([[-20000.0, 5.0, -20001.0], [-2e12, 3.0, 1.0], [0.0, 1.0, 2.0]])
    low_mask = np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0]], dtype=bool)
    yield call("low scores beside forbidden ones", low + rng.uniform(0, 0.5, (3, 1)), low_mask)
    small = -(signed(rng, 3, 4) ** 2) - 5.0
    yield call("low scores beside forbidden ones", small, _mask(rng, 3, 4))
    for shape in ((4, 6), (2, 5, 4)):
        mask = _mask(rng, *shape)
        yield call("anything in forbidden slots", _spoil(2 * signed(rng, *shape), mask, rng), mask)
    hole = signed(rng, 3, 5)
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
    yield call("float32", (2 * signed(rng, 3, 5)).astype("f4"), _mask(rng, 3, 5))
    yield call("integers", rng.integers(-3, 4, (3, 4)), _mask(rng, 3, 4))
    yield call("zeros and ones", signed(rng, 3, 4), _mask(rng, 3, 4).astype(int))
    yield call("nested lists", signed(rng, 2, 3).tolist(), _mask(rng, 2, 3).tolist())


def _rows_sum_to_one_or_nothing(case, weights):
    total = np.asarray(weights).sum(-1)
    return bool(np.all(np.isclose(total, 1, atol=1e-4) | (total == 0)))


masked_softmax = Exercise(
    "masked_softmax",
    CHAPTER,
    right.masked_softmax,
    _masked_softmax_cases,
    laws=(
        Law(
            "rows_not_1",
            "A row of your weights does not sum to 1.",
            _rows_sum_to_one_or_nothing,
        ),
    ),
    hints={
        "causal": "The mask has to be in the scores before the softmax sees them; the softmax itself runs over the keys.",
        "any mask": "T and S may agree: rows are queries, and the softmax runs along them.",
        "no mask": "With mask=None nothing is forbidden.",
        "batch and heads": "Scores and mask broadcast by themselves: insert no axes.",
        "a mask with more axes": "The result has the shape to which scores and mask broadcast, which may be more than the scores have.",
        "empty rows": "A row with no allowed key has weights 0, never NaN and never a share for everybody.",
        "low scores beside forbidden ones": "No finite number is low enough for a forbidden slot.",
        "anything in forbidden slots": "What stands in a forbidden slot must be replaced, not added to or multiplied: NaN survives both.",
        "allowed -inf": "A row may be all -inf although some of it is allowed: it gets zeros, and -inf - -inf is NaN.",
        "large numbers": "exp of a thousand is inf: what may be subtracted from a row without changing its softmax?",
    },
    remarks={"zeros and ones": NUMBERS, "nested lists": LISTS, "integers": INTEGERS},
)


def _weigher(weigh):
    """A masked softmax from `weigh(scores, mask)`, two arrays of which the mask is full size."""

    def candidate(scores, mask=None):
        scores = as_floating(scores)
        mask = np.asarray(True if mask is None else mask, dtype=bool)
        return weigh(scores, np.broadcast_to(mask, np.broadcast_shapes(mask.shape, scores.shape)))

    return candidate


def _filling(fill):
    return lambda s, m: softmax(np.where(m, s, fill))


def _kept(s, m):
    """The weights that a mask after the softmax leaves."""
    return np.where(m, softmax(s), 0)


def _renormalised(s, m):
    total = _kept(s, m).sum(-1, keepdims=True)
    return _kept(s, m) / np.where(total == 0, 1, total)


def _plain_softmax(s, m):
    """Without a thought for rows in which nothing is left."""
    e = np.exp(np.where(m, s, -np.inf) - np.where(m, s, -np.inf).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _no_maximum(s, m):
    e = np.exp(np.where(m, s, -np.inf))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def _sum_at_least_one(s, m):
    e = np.exp(np.where(m, s, -np.inf))
    return e / np.maximum(e.sum(-1, keepdims=True), 1)


def _even_where(is_empty):
    def weigh(s, m):
        weights = _filling(-np.inf)(s, m)
        return np.where(is_empty(m, weights), 1 / weights.shape[-1], weights)

    return weigh


# A mistake that is wrong where an answer is right does not explain that answer. So each of these is
# right wherever one of its kind can be.
BOTH = (
    ("mask_after_softmax", "Your mask comes after the softmax: the rows no longer sum to 1, and the forbidden scores have had their say. Put it into the scores instead.", _kept),
    ("renormalised_after", "Your mask comes too late, after the softmax or after its maximum and exponentials, and what is left is divided by its sum: where a forbidden score is large or NaN, nothing is left by then. Put the mask into the scores first.", _renormalised),
    ("renormalised_to_nan", "Your mask comes too late, after the softmax or after its maximum and exponentials, and what is left is divided by its sum: where nothing is left, that is 0 / 0. Put the mask into the scores first.", lambda s, m: _kept(s, m) / _kept(s, m).sum(-1, keepdims=True)),
    ("even_where_empty", "Yours gives equal weights where no key is allowed: such a row should get zeros.", _even_where(lambda m, weights: ~m.any(-1, keepdims=True))),
    ("scores_times_mask", "Yours multiplies the scores by the mask: a forbidden key scores 0 then, and exp(0) is 1.", lambda s, m: softmax(s * m)),
    ("scores_times_infinity", "Yours multiplies forbidden scores by -inf, and a negative one becomes +inf: put -inf in their place.", lambda s, m: softmax(s * np.where(m, 1, -np.inf))),
    ("adds_true_and_false", "Yours adds the mask to the scores as 0 and 1: what is added must be 0 and -inf.", lambda s, m: softmax(s + m)),
    ("fills_with_zero", "Yours sets forbidden scores to 0, which is a score like others: set them to -inf.", _filling(0.0)),
    ("fills_with_a_billion", "Yours sets forbidden scores to a finite number such as -1e9: where nothing is allowed, all scores tie and every key gets a share. Use -inf, and give such rows zeros.", _filling(-1e9)),
    ("adds_a_billion", "Yours adds a finite number such as -1e9 to forbidden scores: where nothing is allowed they share the weight as ever, and NaN stays NaN. Put -inf in their place, and give such rows zeros.", lambda s, m: softmax(s + np.where(m, 0, -1e9))),
    ("nan_where_empty", "Yours gives NaN, 0 / 0, in a row with no allowed key: such a row should get zeros.", _plain_softmax),
    ("mask_ignored", "Yours does not use the mask: what it forbids must weigh 0.", lambda s, m: softmax(s)),
    ("masked_over_queries", "Your softmax runs over the queries: it runs over the keys, the last axis.", lambda s, m: softmax(np.where(m, s, -np.inf), axis=-2)),
    ("adds_minus_infinity", "Yours adds -inf to the scores, and NaN plus -inf is NaN: put -inf in their place instead.", lambda s, m: softmax(s + np.where(m, 0, -np.inf))),
)  # fmt: skip
_mistakes(
    masked_softmax,
    _weigher,
    *BOTH,
    ("even_where_zero", "Yours gives equal weights where nothing is left to read: such a row should get zeros.", _even_where(lambda m, weights: weights.sum(-1, keepdims=True) == 0)),
    ("fills_with_ten_thousand", "Yours sets forbidden scores to a finite number such as -10000: an allowed score of -20000 loses to it. Use -inf.", _filling(-1e4)),
    ("fills_with_the_least", "Yours sets forbidden scores to the least finite number: where nothing is allowed, every key gets a share. Use -inf, and give such rows zeros.", _filling(np.finfo("f4").min)),
    ("fills_with_plus_infinity", "Yours sets forbidden scores to +inf: a minus is missing.", _filling(np.inf)),
    ("sums_without_axis", "Yours lacks keepdims=True: the sums of the rows lose their axis, and no longer fit the rows.", lambda s, m: np.exp(np.where(m, s, -np.inf)) / np.where(m, np.exp(s), 0).sum(-1)),
    ("sum_at_least_one", "Yours never divides by less than 1: rows of low scores no longer sum to 1.", _sum_at_least_one),
    ("no_maximum", "Yours subtracts nothing before exp, which overflows or vanishes: subtract the row's maximum.", _no_maximum),
)  # fmt: skip
_mistakes(
    masked_softmax,
    lambda candidate: candidate,
    ("softmax_turned_round", "Yours has True and False turned round: True means that a query may read a key.", lambda scores, mask=None: right.masked_softmax(scores, None if mask is None else ~np.asarray(mask, bool))),
    ("none_is_no_mask", "Yours does not foresee mask=None, which means that nothing is forbidden.", lambda scores, mask=None: np.zeros(np.shape(scores)) if mask is None else right.masked_softmax(scores, mask)),
)  # fmt: skip


# ---- masked_attention --------------------------------------------------------------------------


def _qkv(rng, *lead, T=5, S=7, d_k=3, d_v=4):
    return (
        signed(rng, *lead, T, d_k) * 1.5,
        signed(rng, *lead, S, d_k) * 1.5,
        signed(rng, *lead, S, d_v) + 1,
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
    mask = right.padding_mask(rng.permutation([1, 2, 4]), 5)
    loud = np.where(np.swapaxes(mask, 1, 2), k, 2000.0)
    yield call("large scores where nobody reads", np.abs(q), loud, v, mask)
    low = np.where(np.swapaxes(mask, 1, 2), -1e13 * np.abs(k), k)
    yield call("low scores beside forbidden ones", np.abs(q), low, v, mask)
    mask = right.padding_mask(rng.permutation([0, 2, 4]), 5)
    for spoiled in ("k", "v", "kv"):
        for junk in (np.nan, np.inf):
            q, k, v = _qkv(rng, 3, T=4, S=5)
            unread = ~np.swapaxes(mask, 1, 2)
            k = np.where(unread, junk, k) if "k" in spoiled else k
            v = np.where(unread, junk, v) if "v" in spoiled else v
            yield call("NaN and inf where nobody reads", q, k, v, mask)
    q, k, v = _qkv(rng, T=4, S=5)
    v[1, 2] = np.nan  # a key that every query reads
    yield call("NaN where all read", q, k, v, np.tri(4, 5, 1, dtype=bool))
    q, k, v = _qkv(rng)
    mask = _mask(rng, 7)
    yield call("one row of a mask for all queries", q, k, np.where(mask[:, None], v, np.nan), mask)
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
        "causal": "Scores of queries with keys, scaled; masked weights; the values mixed by them. Print each and compare it with what it should be.",
        "more keys than queries": "T and S differ here: the scores are (T, S).",
        "any mask": "Rows of the mask are queries, columns keys.",
        "no mask": "With mask=None this is plain scaled attention.",
        "batch and heads": "Swap the last two axes of k only, and insert no axes into the mask.",
        "scale": "A scale that is given takes the place of 1/sqrt(d_k).",
        "a scale of 0": "0.0 is a scale, and false to Python.",
        "empty rows": "Weights 0 and output 0, never NaN.",
        "large scores where nobody reads": "The mask has to be there before the softmax: a large forbidden score leaves nothing for the others.",
        "low scores beside forbidden ones": "No finite number is low enough for a forbidden score.",
        "NaN and inf where nobody reads": "0 times NaN is NaN: which values does no query read, and what may stand in their place?",
    },
    remarks={
        "NaN where all read": "A NaN that is read came out as a number: hide only what no query may read, and a fault elsewhere stays in sight.",
        "one row of a mask for all queries": "A mask of shape (S,) broadcasts against the scores, too: np.atleast_2d gives it an axis for the queries.",
        "zeros and ones": NUMBERS,
        "nested lists": LISTS,
        "integers": INTEGERS,
    },
    results=("out", "weights"),
)


def _scores(q, k, scale=None):
    q, k = as_floating(q), np.asarray(k)
    return q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)


def _attending(weigh):
    """Attention with these weights, and with the values cleaned as the reference does."""

    def attention(q, k, v, mask=None, scale=None):
        weights = _weigher(weigh)(_scores(q, k, scale), mask)
        read = True if mask is None else np.atleast_2d(np.asarray(mask, bool)).any(axis=-2)
        return weights @ np.where(np.expand_dims(read, -1), v, 0), weights

    return attention


def _scaled(rescale):
    def attention(q, k, v, mask=None, scale=None):
        return right.masked_attention(
            q, k, v, mask, rescale(scale, np.shape(q)[-1], np.shape(v)[-1])
        )

    return attention


def _spoiled(spoil):
    """Attention whose mixing of values goes wrong: `spoil(out, weights, v, mask)`."""

    def attention(q, k, v, mask=None, scale=None):
        out, weights = right.masked_attention(q, k, v, mask, scale)
        return spoil(out, weights, np.asarray(v), mask)

    return attention


def _values_where(read):
    """Attention whose values are kept where `read(mask)` says so."""
    return lambda out, w, v, m: (
        out if m is None else w @ np.where(read(np.asarray(m, bool)), v, 0),
        w,
    )


_mistakes(masked_attention, _attending, *((f"attention_{n}", a, w) for n, a, w in BOTH))
_mistakes(
    masked_attention,
    _scaled,
    ("scale_forgotten", "Yours forgets to scale: without a scale given it is 1/sqrt(d_k).", lambda scale, d_k, d_v: 1.0 if scale is None else scale),
    ("scale_ignored", "Yours does not use `scale`: it replaces 1/sqrt(d_k) where it is given.", lambda scale, d_k, d_v: None),
    ("zero_is_no_scale", "Yours takes a scale of 0.0 for none: ask `scale is None`.", lambda scale, d_k, d_v: scale or None),
    ("divides_by_scale", "Yours divides the scores by `scale`: it multiplies them.", lambda scale, d_k, d_v: None if scale is None else np.divide(1.0, scale)),
    ("scaled_twice", "Yours applies `scale` on top of 1/sqrt(d_k): it replaces it.", lambda scale, d_k, d_v: d_k**-0.5 * (1 if scale is None else scale)),
    ("scaled_by_value_width", "Yours divides the scores by the square root of d_v: it is d_k, the width of q and k.", lambda scale, d_k, d_v: d_v**-0.5 if scale is None else scale),
    ("scaled_by_width", "Yours divides the scores by d_k: it is its square root.", lambda scale, d_k, d_v: 1 / d_k if scale is None else scale),
    ("scaled_up", "Yours multiplies the scores by the square root of d_k: it divides them.", lambda scale, d_k, d_v: d_k**0.5 if scale is None else scale),
)  # fmt: skip
_mistakes(
    masked_attention,
    _spoiled,
    ("zero_times_nan", "Your weights are right, but they multiply all values, and 0 times NaN is NaN: put zeros for values that no query may read.", lambda out, w, v, m: (w @ v, w)),
    ("nan_replaced_at_the_end", "Yours replaces NaN in the output, when it is too late: a row that met it in a forbidden key only is lost.", lambda out, w, v, m: (np.nan_to_num(w @ v, posinf=0, neginf=0), w)),
    ("mean_where_empty", "Yours gives an empty row the mean of all values: its output should be 0.", lambda out, w, v, m: (np.where(w.sum(-1, keepdims=True) == 0, v.mean(axis=-2, keepdims=True), out), w)),
    ("swapped_results", "Yours returns the two results swapped: out first, then weights.", lambda out, w, v, m: (w, out)),
    ("returns_out_only", "Yours returns the output only: return the pair (out, weights).", lambda out, w, v, m: out),
    ("clears_what_some_read", "Yours clears values that some query reads: clear only those that no query may read.", _values_where(lambda m: np.atleast_2d(m).all(axis=-2)[..., None])),
    ("infinity_is_left", "Yours replaces NaN among the values, and inf is left, which 0 does not silence either: put zeros for all values that no query may read.", lambda out, w, v, m: (w @ np.where(np.isnan(v), 0, v), w)),
    ("asks_the_batch", "Yours asks along axis 0, which is the queries only without a batch: it is axis=-2.", _values_where(lambda m: np.atleast_2d(m).any(axis=0)[..., None])),
    ("asks_the_queries", "Yours asks which queries read something, along the keys: asked for is which keys are read, axis=-2.", _values_where(lambda m: m.any(axis=-1)[..., None])),
)  # fmt: skip


@masked_attention.mistake("Yours turns the mask: its rows are queries, its columns keys.")
def attention_mask_transposed(q, k, v, mask=None, scale=None):
    mask = None if mask is None else np.swapaxes(np.atleast_2d(mask), -1, -2)
    return right.masked_attention(q, k, v, mask, scale)


@masked_attention.mistake(
    "Yours has True and False turned round: True means that a query may read a key."
)
def attention_turned_round(q, k, v, mask=None, scale=None):
    turned = None if mask is None else ~np.asarray(mask, dtype=bool)
    weights = right.masked_softmax(_scores(q, k, scale), turned)
    return _attending(lambda s, m: weights)(q, k, v, mask, scale)


@masked_attention.mistake("Yours returns scores beside the output, which is right: return weights.")
def returns_scores(q, k, v, mask=None, scale=None):
    scores = _weigher(lambda s, m: np.where(m, s, -np.inf))(_scores(q, k, scale), mask)
    return right.masked_attention(q, k, v, mask, scale)[0], scores


@masked_attention.mistake("Yours is always causal: use the mask that is given.")
def always_causal(q, k, v, mask=None, scale=None):
    return right.masked_attention(
        q, k, v, right.causal_mask(np.shape(q)[-2], np.shape(k)[-2]), scale
    )


# ---- causal_attention_loops ----------------------------------------------------------------------


def _loop_cases(rng):
    def lists(T, d_k, d_v, size=1.5):
        q, k, v = signed(rng, T, d_k), signed(rng, T, d_k), signed(rng, T, d_v) + 1
        return (size * q).tolist(), (size * k).tolist(), v.tolist()

    yield call("a short text", *lists(4, 2, 3))
    yield call("a short text", *lists(6, 3, 2))
    yield call("one token", *lists(1, 3, 2))
    yield call("square", *lists(4, 4, 4))
    yield call("large numbers", *lists(4, 3, 2, size=60.0))
    q, k, v = (rng.integers(-2, 3, shape).tolist() for shape in ((4, 2), (4, 2), (4, 3)))
    yield call("integers", q, k, v)
    yield call("arrays", *map(np.array, lists(4, 2, 3)))


def _plain_lists(case, value):
    """Lists of lists of Python's own numbers, where no array was handed in."""
    rows = [row for part in value for row in part]
    if case.group == "arrays" or not rows:
        return None
    if any(isinstance(x, np.ndarray) for x in [*value, *rows]):
        words = "The numbers are right, but yours returns arrays: wanted are lists of lists, made with nothing but loops and math."
        return Fault("returns_arrays", words, alone=True, hint="")
    if any(isinstance(x, np.ndarray | np.generic) for row in rows for x in row):
        words = "The numbers are right, but NumPy made them: math.exp and math.sqrt give plain ones, and nothing else is to be imported."
        return Fault("numpy_numbers", words, alone=True, hint="")
    return None


causal_attention_loops = Exercise(
    "causal_attention_loops",
    CHAPTER,
    right.causal_attention_loops,
    _loop_cases,
    form=_plain_lists,
    hints={
        "a short text": "For each token: its scores with those it may read, their exponentials, the sum, the weights, then the values. A row of weights has T entries, 0 for what is not read.",
        "one token": "The only token reads itself: its weight is 1, its output its value.",
        "square": "Sizes agree here: keep apart what counts tokens and what counts features.",
        "large numbers": "math.exp of a large number overflows: what may be subtracted from a row's scores?",
    },
    remarks={"arrays": "It would take arrays, too, if it asked them nothing but len and indices."},
    results=("out", "weights"),
)


def _by_mask(pieces):
    """The loops in matrices, from (mask of T, scale of d_k, d_v and T, weigh)."""
    mask_of, scale_of, weigh = pieces

    def attention(q, k, v):
        q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
        scores = q @ k.T * scale_of(q.shape[1], v.shape[1], len(q))
        weights = weigh(scores, mask_of(len(q)))
        return (weights @ v).tolist(), weights.tolist()

    return attention


def _usual(d_k, d_v, T):
    return d_k**-0.5


_mistakes(
    causal_attention_loops,
    _by_mask,
    ("loop_stops_before_itself", "Yours stops before the token itself, and row 0 reads nothing: token i reads token i, too.", (lambda T: np.tri(T, k=-1, dtype=bool), _usual, right.masked_softmax)),
    ("loop_reads_all", "Yours reads every token, later ones, too: the inner loop should end at token i.", (lambda T: None, _usual, right.masked_softmax)),
    ("loop_reads_the_future", "Yours reads from token i on, over the future: it should read from the first token up to token i.", (lambda T: np.tri(T, dtype=bool).T, _usual, right.masked_softmax)),
    ("loop_peeks_ahead", "Yours reads one token too many, the next one: token i reads up to and with itself.", (lambda T: np.tri(T, k=1, dtype=bool), _usual, right.masked_softmax)),
    ("loop_not_scaled", "Yours does not divide the scores by the square root of d_k.", (right.causal_mask, lambda d_k, d_v, T: 1.0, right.masked_softmax)),
    ("loop_scaled_by_width", "Yours divides the scores by d_k: it is its square root.", (right.causal_mask, lambda d_k, d_v, T: 1 / d_k, right.masked_softmax)),
    ("loop_scaled_by_value_width", "Yours divides the scores by the square root of d_v: it is d_k, the length of a query.", (right.causal_mask, lambda d_k, d_v, T: d_v**-0.5, right.masked_softmax)),
    ("loop_scaled_by_length", "Yours divides the scores by the square root of the number of tokens: it is d_k, the length of a query.", (right.causal_mask, lambda d_k, d_v, T: T**-0.5, right.masked_softmax)),
    ("loop_scaled_up", "Yours multiplies the scores by the square root of d_k: it divides them.", (right.causal_mask, lambda d_k, d_v, T: d_k**0.5, right.masked_softmax)),
    ("loop_divides_by_all", "Yours divides by a sum over all tokens, the future's exponentials among them.", (right.causal_mask, _usual, _kept)),
    ("loop_plain_mean", "Yours gives every earlier token the same weight: the scores have no say.", (right.causal_mask, lambda d_k, d_v, T: 0.0, right.masked_softmax)),
    ("loop_not_normalised", "Your weights are the exponentials: divide each by its row's sum.", (right.causal_mask, _usual, lambda s, m: np.exp(s) * m)),
    ("loop_not_normalised_shifted", "Your weights are the exponentials, the largest of them 1: divide each by its row's sum.", (right.causal_mask, _usual, lambda s, m: np.where(m, np.exp(s - np.where(m, s, -np.inf).max(-1, keepdims=True)), 0))),
)  # fmt: skip
_mistakes(
    causal_attention_loops,
    lambda candidate: candidate,
    ("loop_averages_keys", "Yours averages the keys: the output is made of values.", lambda q, k, v: right.causal_attention_loops(q, k, k)),
    ("loop_asks_with_keys", "Yours has queries and keys changed round: row i asks with q[i].", lambda q, k, v: right.causal_attention_loops(k, q, v)),
    ("loop_swaps_results", "Yours returns the two results swapped: out first, then weights.", lambda q, k, v: right.causal_attention_loops(q, k, v)[::-1]),
    ("loop_returns_out_only", "Yours returns the output only: return the pair (out, weights).", lambda q, k, v: right.causal_attention_loops(q, k, v)[0]),
)  # fmt: skip
_mistakes(
    causal_attention_loops,
    lambda spoil: lambda q, k, v: spoil(*right.causal_attention_loops(q, k, v)),
    ("loop_rows_too_short", "Your rows of weights end with the token itself: each has T entries, 0.0 for tokens that are not read.", lambda out, w: (out, [row[: i + 1] for i, row in enumerate(w)])),
    ("loop_shares_weights", "Your rows of weights are one and the same list: `[[0.0] * T] * T` repeats it, so make each row anew.", lambda out, w: (out, [w[-1]] * len(w))),
    ("loop_shares_rows", "Your rows of the output are one and the same list: make each row anew.", lambda out, w: ([out[-1]] * len(w), w)),
    ("loop_shares_both", "Your rows are one and the same list, of the output and of the weights: make each row anew.", lambda out, w: ([out[-1]] * len(w), [w[-1]] * len(w))),
)  # fmt: skip


@causal_attention_loops.mistake(
    "Yours takes exp of large numbers, which overflows: subtract the row's largest score, and take no exponential of a later "
    "token's score, which may be larger still."
)
def loop_overflows(q, k, v):
    scores = np.multiply(q @ np.transpose(k), np.shape(q)[1] ** -0.5)
    if np.tril(scores).max() > 709:
        raise OverflowError("math range error")
    return right.causal_attention_loops(q, k, v)


# ---- wasted_mass ---------------------------------------------------------------------------------


def _wasted_cases(rng):
    yield call("causal", 2 * signed(rng, 6, 6), right.causal_mask(6))
    yield call("causal", 2 * signed(rng, 3, 7), right.causal_mask(3, 7))
    yield call("any mask", 2 * signed(rng, 5, 5), _mask(rng, 5, 5))
    lengths = rng.permutation([1, 3, 5])
    yield call("batch", 2 * signed(rng, 3, 4, 5), right.padding_mask(lengths, 5))
    yield call("batch", 2 * signed(rng, 3, 2, 4, 5), right.padding_mask(lengths, 5)[:, None])
    yield call("all or nothing", 2 * signed(rng, 5, 3), right.causal_mask(5, 3))
    yield call(
        "large numbers",
        np.array([[1000.0, 1001.0, 999.0], [-1000.0, -1001.0, -999.5]]),
        _mask(rng, 2, 3),
    )
    yield call("integers", rng.integers(-2, 3, (3, 4)), _mask(rng, 3, 4))
    yield call("zeros and ones", signed(rng, 3, 4), _mask(rng, 3, 4).astype(int))
    yield call("nested lists", signed(rng, 2, 3).tolist(), _mask(rng, 2, 3).tolist())


wasted_mass = Exercise(
    "wasted_mass",
    CHAPTER,
    right.wasted_mass,
    _wasted_cases,
    hints={
        "causal": "Take the softmax of all scores, and add up what falls on forbidden keys.",
        "any mask": "One number a row: T and S may agree, and the keys are the last axis.",
        "batch": "Whatever stands in front, one number a query is left.",
        "all or nothing": "A row with no allowed key loses everything, 1; one with none forbidden loses nothing.",
        "large numbers": "Use the softmax of chapter 1.",
    },
    remarks={"zeros and ones": NUMBERS, "nested lists": LISTS, "integers": INTEGERS},
)


def _losing(lose):
    """From `lose(lost, mask, scores)`, the lost weights one by one and arrays of full size."""

    def candidate(scores, mask):
        weights = softmax(scores)
        scores, mask = np.broadcast_arrays(as_floating(scores), np.asarray(mask, dtype=bool))
        return lose(np.where(mask, 0, weights), mask, scores)

    return candidate


_mistakes(
    wasted_mass,
    _losing,
    ("kept_mass", "Yours is the mass that is kept; wanted is what is lost.", lambda lost, m, s: 1 - lost.sum(-1)),
    ("masked_before", "Your mask comes before the softmax, and nothing is lost: take the softmax of all scores.", lambda lost, m, s: 0 * lost.sum(-1)),
    ("lost_by_key", "Yours sums over the queries: add up each row, the last axis.", lambda lost, m, s: lost.sum(-2)),
    ("lost_in_all", "Yours is one number for all rows: each row loses its own.", lambda lost, m, s: lost.sum()),
    ("lost_with_axis", "Yours keeps the summed axis: the shape is (..., T).", lambda lost, m, s: lost.sum(-1, keepdims=True)),
    ("mean_lost", "Yours is the mean of the lost weights: wanted is their sum.", lambda lost, m, s: lost.mean(-1)),
    ("share_of_keys", "Yours is the share of forbidden keys, however they score: add up their weights.", lambda lost, m, s: (~m).mean(-1)),
    ("lost_one_by_one", "Yours holds the lost weights one by one: add up each row.", lambda lost, m, s: lost),
    ("lost_exponentials", "Yours adds up exponentials, not weights: divide by the sum over the whole row first.", lambda lost, m, s: np.where(m, 0, np.exp(s - s.max(-1, keepdims=True))).sum(-1)),
    ("lost_over_queries", "Your softmax runs over the queries: it runs over the keys, the last axis.", lambda lost, m, s: np.where(m, 0, softmax(s, axis=-2)).sum(-1)),
    ("lost_against_kept", "Yours divides the lost mass by the kept one: wanted is the lost mass itself.", lambda lost, m, s: lost.sum(-1) / (1 - lost.sum(-1))),
)  # fmt: skip


# ---- the two tests that the student writes -------------------------------------------------------

SOUND, UNSOUND = "accepts sound attention", "finds the leaks"


def _labels():
    """{source: (sound, what it does, what a test lacks that misjudges it, its place)}"""
    for module in (leaks, padding):
        for place, function in enumerate([*module.SOUND, *module.LEAKY]):
            what, _, lacks = function.__doc__.strip().partition("\n\n")
            sound = function in module.SOUND
            yield specimen(function).source, (sound, what, " ".join(lacks.split()), place)


LABELS = dict(_labels())


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
        sound, what, lacks, _ = LABELS[case.args[0].source]
        if (answer == says_sound) == sound:
            return None
        name, found = ("too_strict", "turns down") if sound else ("too_weak", "finds no leak in")
        words = f"{name.replace('_', ' ')}: your test {found} an attention that {what}"
        return Fault(name, words, alone=True, hint=lacks or None)

    return accept


def _a_test(reference, module, says_sound, hints):
    return Exercise(
        reference.__name__,
        CHAPTER,
        reference,
        _specimen_cases(module),
        accept=_judges(says_sound),
        rank=lambda case: LABELS[case.args[0].source][-1],
        order=(SOUND, UNSOUND),
        all_or_nothing=True,
        hints=hints,
    )


def _far(after, before, atol):
    return not np.allclose(after, before, rtol=0, atol=atol)


leaks_future = _a_test(
    right.leaks_future,
    leaks,
    says_sound=False,
    hints={
        SOUND: "Change later tokens only, in a copy, and compare rows before them only.",
        UNSOUND: "Change everything from a position on, and compare every row before it.",
    },
)


def _changing(
    positions=lambda T: range(1, T),
    sizes=(1.0, 100.0),
    which=(0, 1, 2),
    rows=lambda t: slice(t),
    replaced=lambda t: slice(t, None),
    atol=1e-7,
    moved=_far,
    copies=True,
    tokens=lambda T: T,
):
    """A test that replaces tokens at `positions`, and asks whether rows move.

    It is a strong one unless told otherwise.
    """

    def test(attention, T, d, rng):
        T = tokens(T)
        base = rng.normal(size=(3, T, d))
        before = np.asarray(attention(*base.copy()))
        for t in positions(T):
            for size in sizes:
                other = base.copy() if copies else base
                for part in which:
                    new = size * rng.normal(size=(T, d))
                    other[part, replaced(t)] = new[replaced(t)]
                after = np.asarray(attention(*other.copy()))
                if moved(after[rows(t)], before[rows(t)], atol):
                    return True
        return False

    return test


_mistakes(
    leaks_future,
    lambda options: _changing(**options),
    ("leak_no_rounding", "Your test asks for equality to the last bit, and turns down an attention that differs by rounding alone.", {"atol": 0.0}),
    ("changes_the_last_only", "Your test changes the last token only: a leak may be anywhere, so try every position.", {"positions": lambda T: [T - 1]}),
    ("one_position_only", "Your test changes the future of one position in the middle only: try every position.", {"positions": lambda T: [T // 2]}),
    ("first_row_only", "Your test looks at row 0 only, or returns after the first position: go through them all, compare all rows before each, and return False at the end only.", {"positions": lambda T: [1]}),
    ("changes_values_only", "Your test changes only values: keys and queries of later tokens can leak, too.", {"which": [2]}),
    ("changes_keys_only", "Your test changes only keys: values and queries of later tokens can leak, too.", {"which": [1]}),
    ("leaves_queries_alone", "Your test leaves the queries of later tokens alone: those can leak, too.", {"which": [1, 2]}),
    ("small_numbers_only", "Your test tries small numbers only: a leak may show only where a later score is large.", {"sizes": [1.0]}),
    ("leak_too_tolerant", "Your tolerance is so wide that a leak of a few thousandths passes: rounding is far smaller.", {"atol": 0.02}),
    ("leak_compares_means", "Your test compares means or sums, and one number up and another down leave those as they are: compare every number.", {"moved": lambda after, before, atol: abs((after - before).mean()) > atol}),
    ("shorter_than_T", "Your test uses fewer than T tokens: some leak only in longer inputs.", {"tokens": lambda T: 6}),
    ("skips_the_neighbour", "Your test never compares the row just before a changed token, and a leak by one token passes: replace from position t on, and compare all rows before t.", {"rows": lambda t: slice(t - 1)}),
    ("not_forgotten", "Your test says True where rows stay the same: is a `not` missing in front of np.allclose?", {"moved": lambda after, before, atol: not _far(after, before, atol)}),
    ("own_token_counts", "Your test compares the row at the changed position as well: it may depend on its own token.", {"rows": lambda t: slice(t + 1)}),
    ("changes_stay", "Your test turns down plain causal attention: either it compares rows at or after the change, where only those before it must stay, or it leaves its changes in, since `q2 = q` is no copy (write q.copy()).", {"copies": False}),
    ("changes_the_past", "Your test changes earlier tokens and compares later rows, and so turns down plain causal attention: change later tokens, and compare the rows before them.", {"rows": lambda t: slice(t, None), "replaced": lambda t: slice(t)}),
    ("nan_in_the_future", "Your test puts NaN into the future, and so turns down plain causal attention, where 0 times NaN is NaN: use finite numbers.", {"sizes": [np.nan]}),
)  # fmt: skip


@leaks_future.mistake(
    "Your test finds no leak anywhere: it must change later tokens in a copy (`q2 = q` is none), and compare "
    "the rows before them with those of the unchanged input."
)
def never_leaks(attention, T, d, rng):
    return False


@leaks_future.mistake(
    "Your test finds a leak everywhere, even in an attention that returns zeros: compare two outputs of the "
    "attention that is handed in, row by row."
)
def always_leaks(attention, T, d, rng):
    return True


@leaks_future.mistake(
    "Your test has True and False turned round: True means that the future leaks."
)
def leak_turned_round(attention, T, d, rng):
    return not right.leaks_future(attention, T, d, rng)


@leaks_future.mistake(
    "Your test compares with one attention of its own, and so turns down every other: compare an attention "
    "with itself, before and after later tokens change."
)
def compares_with_its_own(attention, T, d, rng):
    q, k, v = rng.normal(size=(3, T, d))
    return not np.allclose(
        attention(q, k, v), right.masked_attention(q, k, v, right.causal_mask(T))[0]
    )


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


padding_is_ignored = _a_test(
    right.padding_is_ignored,
    padding,
    says_sound=True,
    hints={
        SOUND: "Change keys and values beyond each length, and compare only rows within it, up to rounding.",
        UNSOUND: "Replace every padded slot of every sequence, keys and values, and compare every row within its length.",
    },
)


def _replacing(
    lengths=lambda T: [T // 2, T, 1, 0, T - 4, 3],
    junk=(1.0, 100.0, np.nan),
    which="kv",
    slots=slice(None),
    all_rows=False,
    atol=1e-7,
    moved=_far,
):
    """A test that replaces `slots` of the padding with each of `junk`, and asks whether rows stay.

    It is a strong one unless told otherwise.
    """

    def test(attention, T, d, rng):
        n = np.array(lengths(T))
        q, k, v = rng.normal(size=(3, len(n), T, d))
        seen = (np.arange(T) < n[:, None]) | all_rows
        before = np.asarray(attention(q.copy(), k.copy(), v.copy(), n.copy()))[seen]
        for size in junk:
            new = {"k": k.copy(), "v": v.copy()}
            for part in which:
                for b in range(len(n)):
                    beyond = np.arange(n[b], T)[slots]
                    new[part][b, beyond] = size * rng.normal(size=(len(beyond), d))
            after = np.asarray(attention(q.copy(), new["k"], new["v"], n.copy()))[seen]
            if moved(after, before, atol):
                return False
        return True

    return test


_mistakes(
    padding_is_ignored,
    lambda options: _replacing(**options),
    ("padding_no_rounding", "Your test asks for equality to the last bit, and turns down an attention that differs by rounding alone.", {"atol": 0.0}),
    ("no_nan_tried", "Your test never puts NaN into the padding: 0 times NaN is NaN, and a leak.", {"junk": [1.0, 100.0]}),
    ("blind_to_nan", "Your test puts NaN into the padding, but its comparison is blind to NaN, since NaN > x is False: np.allclose sees it.", {"moved": lambda after, before, atol: bool((np.abs(after - before) > atol).any())}),
    ("no_large_padding", "Your test tries no large numbers: a leak may show only where a padded number is large, and NaN is not.", {"junk": [1.0, np.nan]}),
    ("ordinary_numbers_only", "Your test tries ordinary numbers only, or returns after the first of them: try large numbers and NaN as well, and return True at the end only.", {"junk": [1.0]}),
    ("looks_for_nan_only", "Your test notices nothing but NaN: compare the numbers that come back as well, before and after, with a small tolerance.", {"junk": [np.nan], "moved": lambda after, before, atol: np.isnan(after).any()}),
    ("padded_values_only", "Your test changes padded values only: padded keys can leak, too.", {"which": "v"}),
    ("padded_keys_only", "Your test changes padded keys only: padded values can leak, too.", {"which": "k"}),
    ("one_length_for_all", "Your test gives all sequences one length: some leaks show only where lengths differ.", {"lengths": lambda T: [T // 2] * 4}),
    ("one_sequence_only", "Your test uses a single sequence: a batch can mix up lengths.", {"lengths": lambda T: [T // 2]}),
    ("no_padding_behind", "Your test compares no row with padding behind it: a length of T leaves none, and a length of 0 no row. Use a length between them as well.", {"lengths": lambda T: [T, 0]}),
    ("first_slot_only", "Your test changes the first padded slot only: change them all.", {"slots": slice(0, 1)}),
    ("skips_the_first_slot", "Your test leaves the first padded slot as it is: with a length of n the padding begins at n.", {"slots": slice(1, None)}),
    ("no_length_between", "Your test uses no length between 1 and T: a leak may hide there.", {"lengths": lambda T: [0, 1, T]}),
    ("last_slot_only", "Your test changes the last slot only: change all that is padded.", {"slots": slice(-1, None)}),
    ("compares_padded_rows", "Your test compares padded rows as well: what stands in them does not matter.", {"all_rows": True}),
    ("no_short_sequence", "Your test uses no sequence of one token: a leak may hide there.", {"lengths": lambda T: [T // 2, T, 0, T - 2, 3]}),
    ("padding_too_tolerant", "Your tolerance is so wide that a leak of a few thousandths passes: rounding is far smaller.", {"atol": 0.02}),
    ("padding_compares_means", "Your test compares means or sums, and one number up and another down leave those as they are: compare every number.", {"moved": lambda after, before, atol: not abs((after - before).mean()) <= atol}),
)  # fmt: skip


@padding_is_ignored.mistake(
    "Your test finds padding ignored everywhere: it must replace keys and values beyond lengths shorter "
    "than T, in a copy, and compare the rows within those lengths."
)
def always_ignored(attention, T, d, rng):
    return True


@padding_is_ignored.mistake(
    "Your test never finds padding ignored, even by an attention that returns zeros: compare two outputs of "
    "the attention that is handed in."
)
def never_ignored(attention, T, d, rng):
    return False


@padding_is_ignored.mistake(
    "Your test has True and False turned round: True means that padding has no influence."
)
def ignored_turned_round(attention, T, d, rng):
    return not right.padding_is_ignored(attention, T, d, rng)


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

    yield call("a short text", 2 * signed(rng, 5, 7), tokens(5, 7))
    yield call("a short text", 2 * signed(rng, 6, 9), tokens(6, 9))
    yield call("as many words as tokens", 2 * signed(rng, 6, 6), tokens(6, 6))
    yield call("two tokens", 2 * signed(rng, 2, 4), rng.integers(4, size=2))
    yield call("one token", 2 * signed(rng, 1, 4), rng.integers(4, size=1))
    high = np.array([[1000.0, 1001.0, 999.5], [-1000.0, -1000.5, -999.0], [0.5, -1.0, 2.0]])
    yield call("large numbers", high, np.array([0, 1, int(rng.integers(3))]))
    rare = np.array([[1000.0, 0.0], [-30.0, 30.0], [0.0, 1.0]]) + rng.uniform(0, 1, (3, 1))
    yield call("a word that nobody expected", rare, np.array([0, 1, 0]))
    yield call("float32", (2 * signed(rng, 5, 6)).astype("f4"), tokens(5, 6))
    yield call("integers", rng.integers(-3, 4, (4, 5)), tokens(4, 5))
    yield call("nested lists", signed(rng, 3, 4).tolist(), tokens(3, 4).tolist())


next_token_losses = Exercise(
    "next_token_losses",
    CHAPTER,
    right.next_token_losses,
    _loss_cases,
    hints={
        "a short text": "Which token does each row predict, and which row has nothing to predict?",
        "as many words as tokens": "T and n agree here: the softmax runs over the words, the last axis.",
        "two tokens": "Two tokens leave one prediction, and one loss.",
        "one token": "One token has nothing to predict: the result is empty.",
        "large numbers": "exp of a thousand is inf: what may be subtracted from a row without changing its softmax?",
        "a word that nobody expected": "A probability may be too small for a number, and its logarithm is not: work with logarithms from the start.",
    },
    remarks={"nested lists": LISTS, "integers": INTEGERS},
)


def _surprise(logits, tokens):
    """-log p of one token a row."""
    logits, tokens = as_floating(logits), np.asarray(tokens)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(len(tokens)), tokens]


def _pairing(pair):
    return lambda logits, tokens: _surprise(*pair(np.asarray(logits), np.asarray(tokens)))


def _from_losses(finish):
    return lambda logits, tokens: finish(right.next_token_losses(logits, tokens))


SMALL = (
    "Yours keeps the probability away from 0, by a small number added or a clip, so that no loss exceeds a "
    "bound: subtract the token's logit from the logarithm of the sum instead."
)


def _from_softmax(finish):
    """From `finish(p)`, p of the tokens that came."""

    def losses(logits, tokens):
        return finish(np.exp(-right.next_token_losses(logits, tokens)))

    return losses


_mistakes(
    next_token_losses,
    _pairing,
    ("not_shifted", "Yours compares row t with token t, which it has read: it predicts token t + 1.", lambda z, y: (z[:-1], y[:-1])),
    ("not_shifted_at_all", "Yours compares row t with token t, the last row among them: it predicts token t + 1, and the last row nothing.", lambda z, y: (z, y)),
    ("shifted_backwards", "Yours shifts the wrong way: row t predicts token t + 1, not t - 1.", lambda z, y: (z[1:], y[:-1])),
    ("first_row_left_out", "Yours leaves the first row out, which predicts token 1: the last one has nothing to predict.", lambda z, y: (z[1:], y[1:])),
    ("last_row_kept", "Yours rolls the tokens round, so that the last row predicts the first token: leave it out.", lambda z, y: (z, np.roll(y, -1))),
)  # fmt: skip
_mistakes(
    next_token_losses,
    _from_losses,
    ("mean_loss", "Yours is the mean: wanted is the loss of every position, (T - 1,).", np.mean),
    ("total_loss", "Yours is the sum: wanted is the loss of every position, (T - 1,).", np.sum),
    ("base_two", "Yours is in bits: use the natural logarithm.", lambda losses: losses / np.log(2)),
    ("base_ten", "Yours has base 10: use the natural logarithm.", lambda losses: losses / np.log(10)),
    ("one_minus_p", "Yours is 1 minus the probability: the loss is minus its logarithm.", lambda losses: -np.expm1(-losses)),
    ("no_minus", "Yours lacks the sign: a loss is minus the logarithm of a probability.", np.negative),
    ("probabilities", "Yours holds probabilities: the loss is minus their logarithm.", lambda losses: np.exp(-losses)),
    ("perplexities", "Yours holds perplexities, the exponential of the loss: leave it out.", np.exp),
)  # fmt: skip
_mistakes(
    next_token_losses,
    _from_softmax,
    ("log_of_nothing", "Yours is inf where a probability has become 0: do not go through it, but subtract the token's logit from the logarithm of the sum.", lambda p: -np.log(p)),
    *((f"small_number_added_1e_{power}", SMALL, lambda p, small=10.0**-power: -np.log(p + small)) for power in (*range(3, 17), 20, 30, 100, 300)),
    ("epsilon_added", SMALL, lambda p: -np.log(p + np.finfo(float).eps)),
    ("smallest_added", SMALL, lambda p: -np.log(p + np.finfo(float).tiny)),
)  # fmt: skip


@next_token_losses.mistake(
    "Yours is minus the logits alone: the logarithm of the sum of all exponentials is missing."
)
def logits_alone(logits, tokens):
    tokens = np.asarray(tokens)[1:]
    return -np.asarray(logits)[:-1][np.arange(len(tokens)), tokens]


@next_token_losses.mistake(
    "Yours takes the maximum away inside the exponentials alone: take it from the token's logit as well, or "
    "add it to the logarithm of the sum."
)
def maximum_not_added_back(logits, tokens):
    logits, tokens = np.asarray(logits)[:-1], np.asarray(tokens)[1:]
    total = np.log(np.exp(logits - logits.max(axis=-1, keepdims=True)).sum(-1))
    return total - logits[np.arange(len(tokens)), tokens]


@next_token_losses.mistake(
    "Yours picks every token's entry in every row: wanted is one entry a row, which takes the row's number as "
    "well, np.arange(T - 1)."
)
def every_row_for_every_token(logits, tokens):
    logits, tokens = as_floating(logits)[:-1], np.asarray(tokens)[1:]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return (np.log(np.exp(shifted).sum(-1, keepdims=True)) - shifted)[:, tokens]


@next_token_losses.mistake(
    "Your softmax runs over the positions: it runs over the words, the last axis."
)
def softmax_over_positions(logits, tokens):
    logits, tokens = np.asarray(logits)[:-1], np.asarray(tokens)[1:]
    p = softmax(logits, axis=0) if len(tokens) else logits
    return -np.log(p[np.arange(len(tokens)), tokens])


@next_token_losses.mistake(
    "Yours averages over the words: the loss is that of the word that came, and nothing is divided."
)
def mean_over_words(logits, tokens):
    return right.next_token_losses(logits, tokens) / np.shape(logits)[1]


@next_token_losses.mistake(
    "Your sum of exponentials overflows or vanishes where logits are large: subtract each row's maximum first."
)
def log_sum_overflows(logits, tokens):
    logits, tokens = np.asarray(logits, dtype=float)[:-1], np.asarray(tokens)[1:]
    return np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(tokens)), tokens]


@next_token_losses.mistake(
    "Your exp overflows or vanishes where logits are large: subtract each row's maximum first."
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
