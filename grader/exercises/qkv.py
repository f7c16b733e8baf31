"""Chapter 2: cases, laws and named mistakes of queries, keys and values."""

import numpy as np

from grader.compare import conform
from grader.exercise import INTEGERS, LISTS, Exercise, Fault, Law, call, signed, specimen, value
from grader.specimens import equivariance
from utils.cases import Case
from utils.reference import qkv as right
from utils.reference.dictionary_lookup import softmax
from utils.wire import Rng

CHAPTER = "qkv"


def _weights(rng, d_model, d_k, d_v):
    """Three projections, different and not symmetric, scaled so that scores stay moderate."""
    shrink = d_model**-0.5
    return [signed(rng, d_model, d) * shrink for d in (d_k, d_k, d_v)]


def _with_floats(dtype, arrays):
    return [array.astype(dtype) for array in arrays]


# ---- project ---------------------------------------------------------------------------------


def _project_cases(rng):
    yield call("one sequence", signed(rng, 7, 5), *_weights(rng, 5, 3, 4))
    yield call("one sequence", signed(rng, 2, 6), *_weights(rng, 6, 8, 3))
    yield call("square", signed(rng, 4, 4), *_weights(rng, 4, 4, 4))
    yield call("batch", signed(rng, 2, 7, 5), *_weights(rng, 5, 3, 4))
    yield call("batch", signed(rng, 2, 3, 4, 5), *_weights(rng, 5, 6, 2))
    yield call("one token", signed(rng, 1, 5), *_weights(rng, 5, 3, 4))
    yield call("float32", *_with_floats("f4", [signed(rng, 3, 5), *_weights(rng, 5, 4, 2)]))
    ints = [rng.integers(-5, 6, shape) for shape in ((4, 3), (3, 2), (3, 2), (3, 5))]
    yield call("integers", *ints)
    lists = [a.tolist() for a in [signed(rng, 3, 2), *_weights(rng, 2, 3, 4)]]
    yield call("nested lists", *lists)


project = Exercise(
    "project",
    CHAPTER,
    right.project,
    _project_cases,
    hints={
        "one sequence": "Three matrix products of x, one with each weight matrix; return q, k, v.",
        "square": "Sizes agree here, so a transpose too many goes unseen by shape: it is x @ W.",
        "batch": "x @ W already works on the last axis, with any number of axes in front.",
    },
    remarks={"nested lists": LISTS},
    results=("q", "k", "v"),
)


@project.mistake("The values are made with W_k; they have a projection of their own, W_v.")
def values_from_keys(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_k


@project.mistake("The keys are made with W_q; they have a projection of their own, W_k.")
def keys_from_queries(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_q, x @ W_v


@project.mistake("All three are made with W_q.")
def one_projection_for_all(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_q, x @ W_q


@project.mistake("Queries and keys are swapped: W_q makes the queries, and they come first.")
def queries_and_keys_swapped(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_q, x @ W_v


@project.mistake("The order is q, k, v: here values come before keys.")
def values_before_keys(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_v, x @ W_k


@project.mistake("The order is q, k, v: here it is the other way round.")
def reversed_order(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_k, x @ W_q


@project.mistake(
    "The weights are transposed: this chapter writes x @ W, not x @ W.T as torch's Linear does."
)
def transposed_weights(x, W_q, W_k, W_v):
    return x @ W_q.T, x @ W_k.T, x @ W_v.T


@project.mistake("The product is turned round, W @ x: tokens are rows, so it is x @ W.")
def weights_first(x, W_q, W_k, W_v):
    return W_q @ x, W_k @ x, W_v @ x


@project.mistake("The results are transposed, (d, T): one row a token, please.")
def tokens_in_columns(x, W_q, W_k, W_v):
    return tuple(np.swapaxes(np.atleast_2d(r), -1, -2) for r in right.project(x, W_q, W_k, W_v))


@project.mistake("The keys are the tokens themselves: project them with W_k.")
def keys_not_projected(x, W_q, W_k, W_v):
    return x @ W_q, x, x @ W_v


@project.mistake("The values are the tokens themselves: project them with W_v.")
def values_not_projected(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x


@project.mistake(
    "`.T` turns round all axes, also those of a batch: x @ W needs no transpose at all."
)
def batch_turned_round(x, W_q, W_k, W_v):
    return tuple((W.T @ np.asarray(x).T).T for W in (W_q, W_k, W_v))


@project.mistake("A nonlinearity is applied: a projection is the matrix product alone.")
def with_relu(x, W_q, W_k, W_v):
    return tuple(np.maximum(r, 0) for r in right.project(x, W_q, W_k, W_v))


@project.mistake("The three are glued into one array: return them as three.")
def glued_together(x, W_q, W_k, W_v):
    return np.concatenate(right.project(x, W_q, W_k, W_v), axis=-1)


# ---- scores ------------------------------------------------------------------------------------


def _scores_cases(rng):
    yield call("one sequence", signed(rng, 7, 3), signed(rng, 5, 3))
    yield call("one sequence", signed(rng, 2, 6), signed(rng, 4, 6))
    yield call("square", signed(rng, 4, 4), signed(rng, 4, 4))
    yield call("batch", signed(rng, 2, 7, 3), signed(rng, 2, 5, 3))
    yield call("batch", signed(rng, 2, 3, 4, 6), signed(rng, 2, 3, 5, 6))
    yield call("batch", signed(rng, 3, 3, 3), signed(rng, 3, 3, 3))
    yield call("one query", signed(rng, 1, 3), signed(rng, 5, 3))
    yield call("float32", *_with_floats("f4", [signed(rng, 3, 5), signed(rng, 4, 5)]))
    yield call("integers", rng.integers(-5, 6, (4, 3)), rng.integers(-5, 6, (5, 3)))
    yield call("nested lists", signed(rng, 3, 2).tolist(), signed(rng, 4, 2).tolist())


scores = Exercise(
    "scores",
    CHAPTER,
    right.scores,
    _scores_cases,
    hints={
        "one sequence": "Entry (i, j) is the dot product of query i with key j: q times k transposed.",
        "square": "T, S and d_k agree here: make sure that rows are queries and columns keys.",
        "batch": "`.T` turns all axes round; for a batch swap only the last two: np.swapaxes(k, -1, -2).",
    },
    remarks={"nested lists": LISTS},
)


@scores.mistake("The result is transposed: rows belong to queries, columns to keys.")
def rows_are_keys(q, k):
    return np.swapaxes(right.scores(q, k), -1, -2)


@scores.mistake("The keys are not transposed: `q @ k` pairs a query with the columns of k.")
def keys_not_transposed(q, k):
    return q @ k


@scores.mistake(
    "`.T` turns round all axes of a batch: swap only the last two, np.swapaxes(k, -1, -2)."
)
def all_axes_transposed(q, k):
    return q @ k.T


@scores.mistake("The scores are divided by the square root of d_k: that comes in chapter 3.")
def already_scaled(q, k):
    return right.scores(q, k) / np.sqrt(np.shape(q)[-1])


@scores.mistake("The scores are divided by d_k, a mean in place of a sum.")
def mean_of_products(q, k):
    return right.scores(q, k) / np.shape(q)[-1]


@scores.mistake("Softmax has been applied already; wanted are the raw scores.")
def already_softmaxed(q, k):
    return softmax(right.scores(q, k))


@scores.mistake("These are cosines: the lengths of queries and keys were divided out.")
def cosines(q, k):
    q, k = np.asarray(q, dtype=float), np.asarray(k, dtype=float)
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return right.scores(q, k / np.linalg.norm(k, axis=-1, keepdims=True))


@scores.mistake("Only the queries are used: compare them with the keys, not with themselves.")
def queries_with_queries(q, k):
    return right.scores(q, q)


@scores.mistake("Only the keys are used: compare queries with them.")
def keys_with_keys(q, k):
    return right.scores(k, k)


@scores.mistake("Query i meets key i only: every query must meet every key.")
def matched_pairs_only(q, k):
    n = min(np.shape(q)[-2], np.shape(k)[-2])
    return (np.asarray(q)[..., :n, :] * np.asarray(k)[..., :n, :]).sum(-1)


@scores.mistake("The products are not added up: sum over the last axis.")
def products_not_summed(q, k):
    return np.asarray(q)[..., :, None, :] * np.asarray(k)[..., None, :, :]


@scores.mistake("These are negative squared distances; wanted are dot products.")
def negative_squared_distances(q, k):
    return -((np.asarray(q)[..., :, None, :] - np.asarray(k)[..., None, :, :]) ** 2).sum(-1)


@scores.mistake("Every batch entry's queries meet all entries' keys: keep the batch apart.")
def batches_mixed(q, k):
    return np.tensordot(q, k, axes=(-1, -1))


# ---- attend ------------------------------------------------------------------------------------


def _attend_cases(rng):
    yield call("one sequence", 2 * signed(rng, 7, 5), signed(rng, 5, 3) + 1)
    yield call("one sequence", 2 * signed(rng, 2, 4), signed(rng, 4, 6) + 1)
    yield call("square", 2 * signed(rng, 4, 4), signed(rng, 4, 4) + 1)
    yield call("batch", 2 * signed(rng, 2, 7, 5), signed(rng, 2, 5, 3) + 1)
    yield call("batch", 2 * signed(rng, 2, 3, 4, 5), signed(rng, 2, 3, 5, 6) + 1)
    yield call("batch", 2 * signed(rng, 3, 3, 3), signed(rng, 3, 3, 3) + 1)
    high = np.stack([[1000.0, 1001.0, 999.5], [-1000.0, -1000.5, -999.0]])
    yield call("large numbers", high, signed(rng, 3, 2) + 1)
    yield call("integers", rng.integers(-2, 3, (2, 4)), rng.integers(1, 6, (4, 3)))
    yield call("float32", *_with_floats("f4", [signed(rng, 3, 5), signed(rng, 5, 2) + 1]))
    yield call("nested lists", signed(rng, 2, 3).tolist(), signed(rng, 3, 2).tolist())


def _rows_sum_to_one(case, answer):
    return bool(np.allclose(answer[1].sum(-1), 1, atol=1e-4))


attend = Exercise(
    "attend",
    CHAPTER,
    right.attend,
    _attend_cases,
    laws=(Law("rows_not_1", "A row of weights does not sum to 1.", _rows_sum_to_one),),
    hints={
        "one sequence": "weights = softmax(scores), out = weights @ v; return (out, weights).",
        "square": "T and S agree here: the softmax runs over the keys, the last axis.",
        "batch": "Softmax over the last axis and a matrix product over the last two: no loop needed.",
        "large numbers": "Use the softmax of chapter 1, which subtracts the maximum.",
    },
    remarks={"nested lists": LISTS, "integers": INTEGERS},
    results=("out", "weights"),
)


@attend.mistake(
    "The softmax runs over the queries: column sums are 1, row sums are not. Look at the axis."
)
def softmax_over_queries(scores, v):
    weights = softmax(scores, axis=-2)
    return weights @ np.asarray(v), weights


@attend.mistake(
    "The softmax runs along axis 0, which is the batch when there is one: use the last axis."
)
def softmax_over_first_axis(scores, v):
    weights = softmax(scores, axis=0)
    return weights @ np.asarray(v), weights


@attend.mistake(
    "The softmax runs along axis 1, which is the last one only without a batch: use axis=-1."
)
def softmax_over_second_axis(scores, v):
    weights = softmax(scores, axis=1)
    return weights @ np.asarray(v), weights


@attend.mistake("The output is right, but the scores come back beside it: return the weights.")
def returns_scores(scores, v):
    return right.attend(scores, v)[0], np.asarray(scores)


@attend.mistake(
    "One maximum is subtracted from all rows, so a row of low scores becomes 0 / 0: take each row's own."
)
def one_maximum_for_all(scores, v):
    e = np.exp(scores - np.max(scores))
    weights = e / e.sum(-1, keepdims=True)
    return weights @ np.asarray(v), weights


@attend.mistake(
    "The scores are divided by the square root of the values' width: nothing is scaled yet."
)
def scaled_by_value_width(scores, v):
    return right.attend(np.asarray(scores) / np.sqrt(np.shape(v)[-1]), v)


@attend.mistake("The scores are divided by their sum, without exponentials: use softmax.")
def no_exponentials(scores, v):
    weights = np.asarray(scores) / np.sum(scores, axis=-1, keepdims=True)
    return weights @ np.asarray(v), weights


@attend.mistake("The softmax runs over the whole array: each row must sum to 1 by itself.")
def softmax_over_everything(scores, v):
    weights = softmax(np.ravel(scores)).reshape(np.shape(scores))
    return weights @ np.asarray(v), weights


@attend.mistake("The raw scores weigh the values: put a softmax between them.")
def no_softmax(scores, v):
    return np.asarray(scores) @ np.asarray(v), np.asarray(scores)


@attend.mistake("Softmax is applied twice: the weights come out too even.")
def softmax_twice(scores, v):
    weights = softmax(softmax(scores))
    return weights @ np.asarray(v), weights


@attend.mistake("The weights are the exponentials, not divided by their row's sum.")
def not_normalised(scores, v):
    weights = np.exp(np.asarray(scores, dtype=float))
    return weights @ np.asarray(v), weights


@attend.mistake("exp overflows where the scores are large: use the softmax of chapter 1.")
def overflows(scores, v):
    weights = np.exp(np.asarray(scores))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ np.asarray(v), weights


@attend.mistake("The scores are divided by the square root of their number: nothing is scaled yet.")
def scaled_by_length(scores, v):
    return right.attend(np.asarray(scores) / np.sqrt(np.shape(scores)[-1]), v)


@attend.mistake("The two results are swapped: return out first, then weights.")
def swapped_results(scores, v):
    return right.attend(scores, v)[::-1]


@attend.mistake("Only the output comes back: return the pair (out, weights).")
def returns_out_only(scores, v):
    return right.attend(scores, v)[0]


@attend.mistake("Only the weights come back: return the pair (out, weights).")
def returns_weights_only(scores, v):
    return right.attend(scores, v)[1]


@attend.mistake("The weights are transposed before they meet the values: rows belong to queries.")
def weights_transposed(scores, v):
    weights = softmax(scores)
    return np.swapaxes(weights, -1, -2) @ np.asarray(v), weights


@attend.mistake("Every value gets the same weight: the scores do not matter.")
def plain_mean(scores, v):
    weights = np.full(np.shape(scores), 1 / np.shape(scores)[-1])
    return weights @ np.asarray(v), weights


@attend.mistake("The best key takes all: use softmax weights, not the maximum.")
def takes_the_best(scores, v):
    scores = np.asarray(scores)
    weights = np.eye(scores.shape[-1])[scores.argmax(-1)]
    return weights @ np.asarray(v), weights


# ---- one_row -----------------------------------------------------------------------------------


def _one_row_cases(rng):
    for i in (3, 0, 6):
        yield call("any token", i, signed(rng, 7, 5), *_weights(rng, 5, 3, 4))
    yield call("other sizes", 1, signed(rng, 2, 6), *_weights(rng, 6, 8, 3))
    yield call("other sizes", 2, signed(rng, 4, 4), *_weights(rng, 4, 4, 4))
    yield call("other sizes", 0, signed(rng, 1, 3), *_weights(rng, 3, 2, 4))
    x, W_q, W_k, W_v = signed(rng, 4, 3), *_weights(rng, 3, 2, 4)
    yield call(
        "large numbers",
        2,
        60 * np.round(8 * x) / 8,
        *(np.round(8 * W) / 2 for W in (W_q, W_k)),
        W_v,
    )
    yield call("float32", 1, *_with_floats("f4", [signed(rng, 3, 5), *_weights(rng, 5, 4, 2)]))
    yield call("integers", 1, *(rng.integers(-1, 2, s) for s in ((4, 3), (3, 2), (3, 2), (3, 5))))


one_row = Exercise(
    "one_row",
    CHAPTER,
    right.one_row,
    _one_row_cases,
    remarks={"integers": INTEGERS},
    hints={
        "any token": "One query, x[i] @ W_q; in a loop over j its score with x[j] @ W_k; softmax; then the values.",
        "other sizes": "The output is as long as a value: W_v.shape[1].",
        "large numbers": "Subtract the largest score before exp.",
    },
)


def _row(i, x, W_q, W_k, W_v, weights_of):
    q, k, v = right.project(np.asarray(x, dtype=float), W_q, W_k, W_v)
    return weights_of(q, k, i) @ v


@one_row.mistake("All rows come back: wanted is that of token i alone.")
def returns_all_rows(i, x, W_q, W_k, W_v):
    return right.self_attention(x, W_q, W_k, W_v)[0]


@one_row.mistake("Token i always gets row 0: use x[i] for the query.")
def always_the_first(i, x, W_q, W_k, W_v):
    return right.one_row(0, x, W_q, W_k, W_v)


@one_row.mistake(
    "Query and key change roles here: token i asks (W_q), the others are found by their keys (W_k)."
)
def asks_with_its_key(i, x, W_q, W_k, W_v):
    return right.one_row(i, x, W_k, W_q, W_v)


@one_row.mistake("The keys are averaged; the output is made of values, x[j] @ W_v.")
def averages_keys(i, x, W_q, W_k, W_v):
    return right.one_row(i, x, W_q, W_k, W_k)


@one_row.mistake("The tokens themselves are averaged: project them with W_v first.")
def averages_tokens(i, x, W_q, W_k, W_v):
    return right.one_row(i, x, W_q, W_k, np.eye(np.shape(x)[1]))


@one_row.mistake("The raw scores weigh the values: put a softmax between them.")
def raw_scores_weigh(i, x, W_q, W_k, W_v):
    return _row(i, x, W_q, W_k, W_v, lambda q, k, i: k @ q[i])


@one_row.mistake("The exponentials are not divided by their sum.")
def sum_not_divided(i, x, W_q, W_k, W_v):
    return _row(i, x, W_q, W_k, W_v, lambda q, k, i: np.exp(k @ q[i]))


@one_row.mistake("Token i does not read itself: j runs over all tokens, i among them.")
def leaves_itself_out(i, x, W_q, W_k, W_v):
    def weights(q, k, i):
        return softmax(np.where(np.arange(len(k)) == i, -np.inf, k @ q[i]))

    return _row(i, x, W_q, W_k, W_v, weights)


@one_row.mistake("Only tokens up to i are read: nothing is masked yet, j runs over all tokens.")
def reads_the_past_only(i, x, W_q, W_k, W_v):
    def weights(q, k, i):
        return softmax(np.where(np.arange(len(k)) > i, -np.inf, k @ q[i]))

    return _row(i, x, W_q, W_k, W_v, weights)


@one_row.mistake("Only tokens before i are read, not even i itself: j runs over all tokens.")
def reads_strictly_before(i, x, W_q, W_k, W_v):
    def weights(q, k, i):
        return softmax(np.where(np.arange(len(k)) >= i, -np.inf, k @ q[i]))

    return _row(i, x, W_q, W_k, W_v, weights)


@one_row.mistake("Only the first token's value is added: does `return` stand inside the loop?")
def returns_in_the_loop(i, x, W_q, W_k, W_v):
    _, weights = right.self_attention(x, W_q, W_k, W_v)
    return weights[i][0] * (np.asarray(x)[0] @ W_v)


@one_row.mistake(
    "Every weight meets the value of token i: weight j belongs to the value of token j, x[j] @ W_v."
)
def value_of_itself(i, x, W_q, W_k, W_v):
    return np.asarray(x)[i] @ np.asarray(W_v)


@one_row.mistake("The query is that of the token before: it is x[i] @ W_q.")
def asks_for_the_one_before(i, x, W_q, W_k, W_v):
    return _row(i, x, W_q, W_k, W_v, lambda q, k, i: softmax(k @ q[i - 1]))


@one_row.mistake("The weights come back as well: wanted is the output alone.")
def returns_weights_too(i, x, W_q, W_k, W_v):
    out, weights = right.self_attention(x, W_q, W_k, W_v)
    return out[i], weights[i]


@one_row.mistake("The last token is never read: the loop ends one too early.")
def stops_one_early(i, x, W_q, W_k, W_v):
    def weights(q, k, i):
        return softmax(np.where(np.arange(len(k)) == max(len(k) - 1, 1), -np.inf, k @ q[i]))

    return _row(i, x, W_q, W_k, W_v, weights)


@one_row.mistake("The scores are divided by the square root of d_k: that comes in chapter 3.")
def scaled_row(i, x, W_q, W_k, W_v):
    return _row(i, x, W_q, W_k, W_v, lambda q, k, i: softmax(k @ q[i] / np.sqrt(k.shape[1])))


@one_row.mistake("exp overflows where the scores are large: subtract the largest score first.")
def row_overflows(i, x, W_q, W_k, W_v):
    def weights(q, k, i):
        e = np.exp(k @ q[i])
        return e / e.sum()

    return _row(i, x, W_q, W_k, W_v, weights)


# ---- self_attention ----------------------------------------------------------------------------


def _self_attention_cases(rng):
    yield call("one sequence", signed(rng, 7, 5), *_weights(rng, 5, 3, 4))
    yield call("one sequence", signed(rng, 2, 6), *_weights(rng, 6, 8, 3))
    yield call("square", signed(rng, 4, 4), *_weights(rng, 4, 4, 4))
    yield call("batch", signed(rng, 2, 7, 5), *_weights(rng, 5, 3, 4))
    yield call("batch", signed(rng, 2, 3, 4, 5), *_weights(rng, 5, 6, 2))
    yield call("batch", signed(rng, 3, 3, 3), *_weights(rng, 3, 3, 3))
    x, W_q, W_k, W_v = signed(rng, 4, 3), *_weights(rng, 3, 2, 4)
    yield call(
        "large numbers", 60 * np.round(8 * x) / 8, *(np.round(8 * W) / 2 for W in (W_q, W_k)), W_v
    )
    yield call("float32", *_with_floats("f4", [signed(rng, 3, 5), *_weights(rng, 5, 4, 2)]))
    yield call("integers", *(rng.integers(-1, 2, s) for s in ((4, 3), (3, 2), (3, 2), (3, 5))))


self_attention = Exercise(
    "self_attention",
    CHAPTER,
    right.self_attention,
    _self_attention_cases,
    builds_on=("project", "scores", "attend"),
    laws=(Law("rows_not_1", "A row of weights does not sum to 1.", _rows_sum_to_one),),
    results=("out", "weights"),
    remarks={"integers": INTEGERS},
    hints={
        "one sequence": "project, then scores, then attend: three lines.",
        "square": "Every size agrees here, so a wrong transpose goes unseen by shape.",
        "batch": "If project, scores and attend work on the last two axes, so does this.",
        "large numbers": "Use the softmax of chapter 1, which subtracts the maximum.",
    },
)


def _head(x, W_q, W_k, W_v, weights_of=None, values=None):
    """Self-attention with another rule for the weights or the values."""
    q, k, v = right.project(x, W_q, W_k, W_v)
    weights = softmax(right.scores(q, k)) if weights_of is None else weights_of(q, k)
    return weights @ (v if values is None else values(x, q, k)), weights


@self_attention.mistake("The tokens themselves are averaged: the values are x @ W_v.")
def head_averages_tokens(x, W_q, W_k, W_v):
    return _head(x, W_q, W_k, W_v, values=lambda x, q, k: np.asarray(x))


@self_attention.mistake("The keys are averaged: the output is made of values, x @ W_v.")
def head_averages_keys(x, W_q, W_k, W_v):
    return _head(x, W_q, W_k, W_v, values=lambda x, q, k: k)


@self_attention.mistake("The values are made with W_q: they have W_v.")
def head_averages_queries(x, W_q, W_k, W_v):
    return _head(x, W_q, W_k, W_v, values=lambda x, q, k: q)


@self_attention.mistake("Queries are compared with queries: compare them with keys, x @ W_k.")
def queries_only(x, W_q, W_k, W_v):
    return _head(x, W_q, W_q, W_v)


@self_attention.mistake("Keys are compared with keys: compare queries, x @ W_q, with them.")
def keys_only(x, W_q, W_k, W_v):
    return _head(x, W_k, W_k, W_v)


@self_attention.mistake("Queries and keys have changed roles: rows belong to queries, x @ W_q.")
def roles_swapped(x, W_q, W_k, W_v):
    return _head(x, W_k, W_q, W_v)


@self_attention.mistake(
    "Tokens are compared as they are, X X^T: project them with W_q and W_k first."
)
def tokens_compared(x, W_q, W_k, W_v):
    return _head(x, W_q, W_k, W_v, lambda q, k: softmax(right.scores(x, x)))


@self_attention.mistake("The softmax runs over the queries: column sums are 1, row sums are not.")
def head_softmax_over_queries(x, W_q, W_k, W_v):
    return _head(x, W_q, W_k, W_v, lambda q, k: softmax(right.scores(q, k), axis=-2))


@self_attention.mistake(
    "The scores are divided by the square root of d_k: that comes in chapter 3."
)
def head_scaled(x, W_q, W_k, W_v):
    return _head(x, W_q, W_k, W_v, lambda q, k: softmax(right.scores(q, k) / np.sqrt(k.shape[-1])))


@self_attention.mistake("The raw scores weigh the values: put a softmax between them.")
def head_without_softmax(x, W_q, W_k, W_v):
    return _head(x, W_q, W_k, W_v, right.scores)


@self_attention.mistake(
    "x is added to the output: that is step 5, which belongs to the layer and is not wanted yet."
)
def residual_added(x, W_q, W_k, W_v):
    out, weights = right.self_attention(x, W_q, W_k, W_v)
    return np.asarray(x) + out, weights


@self_attention.mistake("The scores come back beside the output: return the weights.")
def head_returns_scores(x, W_q, W_k, W_v):
    q, k, v = right.project(x, W_q, W_k, W_v)
    return right.attend(right.scores(q, k), v)[0], right.scores(q, k)


@self_attention.mistake("Later tokens are hidden: nothing is masked before chapter 4.")
def head_causal(x, W_q, W_k, W_v):
    def weights(q, k):
        T = q.shape[-2]
        return softmax(np.where(np.tri(T, dtype=bool), right.scores(q, k), -np.inf))

    return _head(x, W_q, W_k, W_v, weights)


@self_attention.mistake("Only the output comes back: return the pair (out, weights).")
def head_returns_out_only(x, W_q, W_k, W_v):
    return right.self_attention(x, W_q, W_k, W_v)[0]


@self_attention.mistake("The two results are swapped: return out first, then weights.")
def head_swaps_results(x, W_q, W_k, W_v):
    return right.self_attention(x, W_q, W_k, W_v)[::-1]


@self_attention.mistake(
    "The keys' axes are all turned round (`.T`), which mixes the batch: swap only the last two."
)
def head_turns_all_axes(x, W_q, W_k, W_v):
    return _head(x, W_q, W_k, W_v, lambda q, k: softmax(q @ k.T))


@self_attention.mistake("exp overflows where the scores are large: use the softmax of chapter 1.")
def head_overflows(x, W_q, W_k, W_v):
    def weights(q, k):
        e = np.exp(right.scores(q, k))
        return e / e.sum(-1, keepdims=True)

    return _head(x, W_q, W_k, W_v, weights)


# ---- cross_attention ----------------------------------------------------------------------------


def _cross_weights(rng, d_model, d_memory, d_k, d_v):
    W_q, _, _ = _weights(rng, d_model, d_k, d_v)
    _, W_k, W_v = _weights(rng, d_memory, d_k, d_v)
    return W_q, W_k, W_v


def _cross_cases(rng):
    yield call("T and S differ", signed(rng, 7, 5), signed(rng, 4, 5), *_weights(rng, 5, 3, 6))
    yield call("T and S differ", signed(rng, 2, 6), signed(rng, 5, 6), *_weights(rng, 6, 8, 3))
    yield call("T equals S", signed(rng, 4, 4), signed(rng, 4, 4), *_weights(rng, 4, 4, 4))
    widths = signed(rng, 3, 5), signed(rng, 4, 7), *_cross_weights(rng, 5, 7, 2, 6)
    yield call("memory of another width", *widths)
    yield call("batch", signed(rng, 2, 7, 5), signed(rng, 2, 4, 5), *_weights(rng, 5, 3, 6))
    yield call("batch", signed(rng, 2, 3, 4, 5), signed(rng, 2, 3, 6, 5), *_weights(rng, 5, 2, 7))
    yield call(
        "float32",
        *_with_floats("f4", [signed(rng, 3, 5), signed(rng, 4, 5), *_weights(rng, 5, 4, 2)]),
    )
    yield call(
        "integers", *(rng.integers(-1, 2, s) for s in ((4, 3), (5, 3), (3, 2), (3, 2), (3, 6)))
    )


cross_attention = Exercise(
    "cross_attention",
    CHAPTER,
    right.cross_attention,
    _cross_cases,
    builds_on=("scores", "attend"),
    laws=(Law("rows_not_1", "A row of weights does not sum to 1.", _rows_sum_to_one),),
    results=("out", "weights"),
    remarks={"integers": INTEGERS},
    hints={
        "T and S differ": "Queries from x; keys and values from memory. Weights are (T, S).",
        "T equals S": "Shapes agree here whatever is projected from what: check the names.",
        "memory of another width": "W_q fits x, W_k and W_v fit memory: never project one with the other's.",
        "batch": "Use only the last two axes.",
    },
)


def _cross(query_from, key_from, value_from):
    """Cross-attention in which each role is read from "x" or from "memory"."""

    def attention(x, memory, W_q, W_k, W_v):
        source = {"x": np.asarray(x), "memory": np.asarray(memory)}
        q, k, v = source[query_from] @ W_q, source[key_from] @ W_k, source[value_from] @ W_v
        return right.attend(right.scores(q, k), v)

    return attention


@cross_attention.mistake(
    "x attends to itself, and memory is never read: keys and values come from memory."
)
def ignores_memory(x, memory, W_q, W_k, W_v):
    return _cross("x", "x", "x")(x, memory, W_q, W_k, W_v)


@cross_attention.mistake("The roles are turned round: x asks, memory is read.")
def memory_asks(x, memory, W_q, W_k, W_v):
    return _cross("memory", "x", "x")(x, memory, W_q, W_k, W_v)


@cross_attention.mistake("The keys come from x: keys and values both come from memory.")
def keys_from_x(x, memory, W_q, W_k, W_v):
    return _cross("x", "x", "memory")(x, memory, W_q, W_k, W_v)


@cross_attention.mistake("The values come from x: keys and values both come from memory.")
def values_from_x(x, memory, W_q, W_k, W_v):
    return _cross("x", "memory", "x")(x, memory, W_q, W_k, W_v)


@cross_attention.mistake("memory attends to itself: the queries come from x.")
def queries_from_memory(x, memory, W_q, W_k, W_v):
    return _cross("memory", "memory", "memory")(x, memory, W_q, W_k, W_v)


@cross_attention.mistake("memory itself is averaged: its values are memory @ W_v.")
def memory_not_projected(x, memory, W_q, W_k, W_v):
    _, weights = right.cross_attention(x, memory, W_q, W_k, W_v)
    return weights @ np.asarray(memory), weights


@cross_attention.mistake("The keys are averaged: values are memory @ W_v.")
def cross_averages_keys(x, memory, W_q, W_k, W_v):
    _, weights = right.cross_attention(x, memory, W_q, W_k, W_v)
    return weights @ (np.asarray(memory) @ W_k), weights


@cross_attention.mistake(
    "The softmax runs over the queries: each query spreads its budget over memory."
)
def cross_softmax_over_queries(x, memory, W_q, W_k, W_v):
    q, k = np.asarray(x) @ W_q, np.asarray(memory) @ W_k
    weights = softmax(right.scores(q, k), axis=-2)
    return weights @ (np.asarray(memory) @ W_v), weights


@cross_attention.mistake(
    "The scores are divided by the square root of d_k: that comes in chapter 3."
)
def cross_scaled(x, memory, W_q, W_k, W_v):
    q, k = np.asarray(x) @ W_q, np.asarray(memory) @ W_k
    return right.attend(right.scores(q, k) / np.sqrt(k.shape[-1]), np.asarray(memory) @ W_v)


@cross_attention.mistake("Only the output comes back: return the pair (out, weights).")
def cross_returns_out_only(x, memory, W_q, W_k, W_v):
    return right.cross_attention(x, memory, W_q, W_k, W_v)[0]


@cross_attention.mistake("The two results are swapped: return out first, then weights.")
def cross_swaps_results(x, memory, W_q, W_k, W_v):
    return right.cross_attention(x, memory, W_q, W_k, W_v)[::-1]


@cross_attention.mistake(
    "The keys' axes are all turned round (`.T`), which mixes the batch: swap only the last two."
)
def cross_turns_all_axes(x, memory, W_q, W_k, W_v):
    weights = softmax(np.asarray(x) @ W_q @ (np.asarray(memory) @ W_k).T)
    return weights @ (np.asarray(memory) @ W_v), weights


@cross_attention.mistake("x and memory are joined and read together: x reads memory alone.")
def reads_both(x, memory, W_q, W_k, W_v):
    both = np.concatenate([x, memory], axis=-2)
    return right.cross_attention(x, both, W_q, W_k, W_v)


# ---- is_permutation_equivariant -----------------------------------------------------------------

SOUND, UNSOUND = "accepts sound layers", "rejects the others"
LABELS = {specimen(f).source: (True, f.__doc__) for f in equivariance.SOUND}
LABELS |= {specimen(f).source: (False, f.__doc__) for f in equivariance.UNSOUND}


def _equivariance_cases(rng):
    """Every specimen once, shuffled, each with tokens on which it shows what it is."""
    sources = [*equivariance.SOUND, *equivariance.UNSOUND]
    for index in rng.permutation(len(sources)):
        layer = specimen(sources[index])
        x = signed(rng, int(rng.integers(13, 16)), 2)
        x[rng.permutation(len(x))[:5], 0] = 0.7  # ties, for those who sort
        group = SOUND if LABELS[layer.source][0] else UNSOUND
        yield Case(group, (layer, x, Rng(_seed_that_fools(sources[index], x, rng))))


def _seed_that_fools(layer, x, rng):
    """A seed whose first permutation a layer that looks at two tokens' order withstands.

    So a test of one permutation is never right by luck alone.
    """
    while True:
        seed = int(rng.integers(2**31))
        perm = np.random.default_rng(seed).permutation(len(x))
        if layer not in equivariance.BY_ORDER or np.allclose(layer(x[perm]), layer(x)[perm]):
            return seed


def _judges_the_layer(case, value, wanted):
    answer = bool(conform(value, np.asarray(wanted)))
    sound, what = LABELS[case.args[0].source]
    if answer == sound:
        return None
    if sound:
        words = f"too strict: your test rejects a layer that {what}"
        return Fault("too_strict", words, alone=True)
    return Fault("too_weak", f"too weak: your test accepts a layer that {what}", alone=True)


is_permutation_equivariant = Exercise(
    "is_permutation_equivariant",
    CHAPTER,
    right.is_permutation_equivariant,
    _equivariance_cases,
    accept=_judges_the_layer,
    order=(SOUND, UNSOUND),
    all_or_nothing=True,
    hints={
        SOUND: "Compare layer(x[perm]) with layer(x)[perm], and allow for rounding.",
        UNSOUND: "One permutation may leave alone just what the layer depends on: try several, of all of x.",
    },
)


@is_permutation_equivariant.mistake("Your test accepts every layer: it must compare something.")
def accepts_everything(layer, x, rng):
    return True


@is_permutation_equivariant.mistake("Your test rejects every layer.")
def rejects_everything(layer, x, rng):
    return False


@is_permutation_equivariant.mistake(
    "Your test asks for equality to the last bit, and rejects a layer that differs by rounding "
    "alone: compare with np.allclose."
)
def allows_no_rounding(layer, x, rng):
    return all(
        np.array_equal(layer(x[perm]), layer(x)[perm])
        for perm in [np.arange(len(x))[::-1], *(rng.permutation(len(x)) for _ in range(20))]
    )


def _compares(layer, x, perms, of=lambda out, perm: out[perm]):
    return all(np.allclose(layer(x[perm]), of(layer(x), perm)) for perm in perms)


@is_permutation_equivariant.mistake(
    "Your test asks that shuffling changes nothing (invariance): the outputs must be shuffled as the "
    "tokens are."
)
def tests_invariance(layer, x, rng):
    perms = [rng.permutation(len(x)) for _ in range(20)]
    return _compares(layer, x, perms, of=lambda out, perm: out)


@is_permutation_equivariant.mistake(
    "Your test tries the reversal only, and lets pass what reversal does not disturb."
)
def tries_reversal_only(layer, x, rng):
    return _compares(layer, x, [np.arange(len(x))[::-1]])


@is_permutation_equivariant.mistake(
    "Your test swaps the first two tokens only: permute all of them, several times."
)
def swaps_two_only(layer, x, rng):
    perm = np.arange(len(x))
    perm[:2] = 1, 0
    return _compares(layer, x, [perm])


@is_permutation_equivariant.mistake(
    "Your test shifts the tokens round by one only: draw permutations at random."
)
def tries_one_shift(layer, x, rng):
    return _compares(layer, x, [np.roll(np.arange(len(x)), 1)])


@is_permutation_equivariant.mistake(
    "Your test tries one permutation only, and lets pass what that one happens to leave alone: try twenty."
)
def tries_one_permutation(layer, x, rng):
    return _compares(layer, x, [rng.permutation(len(x))])


@is_permutation_equivariant.mistake(
    "Your test permutes the features (columns): tokens are the rows of x."
)
def permutes_features(layer, x, rng):
    return np.allclose(layer(x[:, ::-1]), layer(x)[:, ::-1])


@is_permutation_equivariant.mistake(
    "Your test shuffles the outputs only: give the layer the shuffled tokens as well."
)
def shuffles_outputs_only(layer, x, rng):
    perm = rng.permutation(len(x))
    return np.allclose(layer(x), layer(x)[perm])


@is_permutation_equivariant.mistake(
    "Your test compares sums over the tokens, which hide where each output stands: compare row by row."
)
def compares_sums(layer, x, rng):
    perms = [rng.permutation(len(x)) for _ in range(20)]
    return all(np.allclose(layer(x[p]).sum(0), layer(x).sum(0)) for p in perms)


@is_permutation_equivariant.mistake("Your test looks at part of the tokens only: use all of x.")
def uses_a_few_tokens(layer, x, rng):
    x = x[:6]
    return _compares(layer, x, [np.arange(6)[::-1], *(rng.permutation(6) for _ in range(20))])


@is_permutation_equivariant.mistake(
    "Your tolerance is so wide that a small dependence on the position passes."
)
def too_tolerant(layer, x, rng):
    perms = [np.arange(len(x))[::-1], *(rng.permutation(len(x)) for _ in range(20))]
    return all(np.allclose(layer(x[p]), layer(x)[p], atol=0.05) for p in perms)


@is_permutation_equivariant.mistake("True and False are turned round: True means equivariant.")
def turned_round(layer, x, rng):
    return not right.is_permutation_equivariant(layer, x, rng)


# ---- previous_token ----------------------------------------------------------------------------


def _previous_token_cases(rng):
    for T in (5, 2, int(rng.integers(8, 12))):
        yield call("default strength", T)
    yield call("other strengths", 6, strength=3.0)
    yield call("other strengths", 4, float(rng.uniform(40, 80)))
    yield call("one token", 1)


def _scores_the_token_before(case, value, wanted):
    q, k = value if _is_pair(value) else conform(value, wanted)
    T = case.args[0]
    strength = case.kwargs.get("strength", case.args[1] if len(case.args) > 1 else 20.0)
    if q.ndim != 2 or k.ndim != 2 or len(q) != T or len(k) != T or q.shape != k.shape:
        words = f"q {q.shape} and k {k.shape} should have {T} rows each, and rows of one length"
        return Fault("wrong_shape", words)
    table = q.astype(float) @ k.T.astype(float)
    if T > 2 and all(table[i].argmax() == i + 1 for i in range(1, T - 1)):
        return Fault(
            "finds_the_next", "each token finds the next one: it should find the one before"
        )
    for i in range(1, T):
        lead = table[i, i - 1] - np.delete(table[i], i - 1).max()
        if not lead >= strength * (1 - 1e-6):
            words = (
                f"row {i}: the score of token {i - 1} leads by {lead:.4g}; wanted is {strength:.4g}"
            )
            return Fault(None, words)
    return None


def _is_pair(value):
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(isinstance(part, np.ndarray) and part.ndim == 2 for part in value)
    )


previous_token = Exercise(
    "previous_token",
    CHAPTER,
    right.previous_token,
    _previous_token_cases,
    accept=_scores_the_token_before,
    hints={
        "default strength": "Give each token a key along an axis of its own, and each query the axis of the token before.",
        "other strengths": "The lead grows with the length of the query: use `strength`.",
        "one token": "With one token there is nothing before it: any q and k with one row will do.",
    },
)


def _pointing(T, shift, strength):
    return strength * np.eye(T, k=shift), np.eye(T)


@previous_token.mistake("Each token finds the next one: it should find the one before.")
def finds_the_next(T, strength=20.0):
    return _pointing(T, 1, strength)


@previous_token.mistake("Each token finds itself: it should find the one before.")
def finds_itself(T, strength=20.0):
    return _pointing(T, 0, strength)


@previous_token.mistake("`strength` is not used: the lead is 20 whatever is asked for.")
def strength_is_fixed(T, strength=20.0):
    return _pointing(T, -1, 20.0)


@previous_token.mistake("The lead is 1: the query must be `strength` long.")
def lead_of_one(T, strength=20.0):
    return _pointing(T, -1, 1.0)


@previous_token.mistake("Each token finds the first one: the one before it is another for each.")
def finds_the_first(T, strength=20.0):
    return strength * np.eye(T)[np.zeros(T, int)], np.eye(T)


@previous_token.mistake("q and k come back in the wrong order: queries first.")
def keys_come_first(T, strength=20.0):
    return _pointing(T, -1, strength)[::-1]


@previous_token.mistake(
    "All keys are alike, so no token can be told from another: give each an axis of its own."
)
def all_keys_alike(T, strength=20.0):
    return strength * np.ones((T, T)), np.ones((T, T))


@previous_token.mistake("Each token finds the one two before.")
def finds_two_before(T, strength=20.0):
    return _pointing(T, -2, strength)


@previous_token.mistake(
    "The lead is the square root of `strength`: its root belongs into q and into k, or all of it into one."
)
def root_of_strength(T, strength=20.0):
    return _pointing(T, -1, np.sqrt(strength))


# ---- shape_ledger ------------------------------------------------------------------------------

MEANING = {
    "Q": "one row a token, d_k columns",
    "K": "one row a token, d_k columns",
    "V": "one row a token, d_v columns",
    "scores": "a row for each query, a column for each key",
    "out": "one row a query, d_v columns",
    "cross_scores": "a row for each of the T queries, a column for each of the S keys",
    "cross_out": "one row a query, d_v columns",
}


def _ledger_agrees(case, value, wanted):
    if not isinstance(value, dict):
        conform(value, wanted)
    for key, shape in wanted.items():
        if key not in value:
            return Fault("missing_key", f"“{key}” is missing")
        yours = value[key]
        yours = (
            tuple(yours.tolist() if isinstance(yours, np.ndarray) else yours)
            if np.ndim(yours)
            else yours
        )
        if yours is None:
            return Fault("not_written", f"“{key}” is not filled in yet")
        if yours != shape:
            return Fault("wrong_shape", f"“{key}” is not {yours!r}: think of {MEANING[key]}")
    return None


shape_ledger = Exercise(
    "shape_ledger",
    CHAPTER,
    right.shape_ledger,
    lambda rng: [value("seven shapes")],
    accept=_ledger_agrees,
    hints={
        "seven shapes": "Rows belong to whoever asks; columns to what is left after the product."
    },
)
for _name, _changes, _advice in (
    ("scores_have_d", {"scores": (10, 64)}, "“scores” has no axis of features left: they are summed away, (T, T) remains."),
    ("scores_one_number", {"scores": (10,)}, "“scores” has one number for each pair of tokens, not for each token."),
    ("not_projected", {"Q": (10, 512), "K": (10, 512), "V": (10, 512)}, "Q, K and V are projected: their width is d_k or d_v, not d."),
    ("out_has_d", {"out": (10, 512)}, "“out” is an average of values, so it is as wide as they are, not d wide."),
    ("out_is_square", {"out": (10, 10)}, "“out” is (T, d_v): the weights are (T, T), the output is not."),
    ("cross_transposed", {"cross_scores": (11, 7)}, "“cross_scores” has a row for each query (T = 7) and a column for each key (S = 11)."),
    ("cross_scores_square", {"cross_scores": (7, 7)}, "“cross_scores” compares 7 queries with 11 keys: it is not square."),
    ("cross_out_per_key", {"cross_out": (11, 64)}, "“cross_out” has one row a query, of which there are 7."),
    ("tokens_in_columns", {"Q": (64, 10), "K": (64, 10), "V": (64, 10)}, "Tokens are rows throughout the course: (T, d_k)."),
    ("shapes_of_weights", {"Q": (512, 64), "K": (512, 64), "V": (512, 64)}, "These are the shapes of W_q, W_k and W_v; Q, K and V have one row a token."),
):  # fmt: skip
    shape_ledger.wrong_value(_name, right.shape_ledger | _changes, _advice)


# ---- self_share --------------------------------------------------------------------------------


def _self_share_cases(rng):
    for T, d in ((7, 3), (9, 2), (4, 4)):
        yield call("random tokens", signed(rng, T, d) * rng.uniform(0.3, 2.0, (T, 1)))
    long = rng.normal(size=(6, 2)) * np.array([[0.2], [3.0], [0.3], [0.4], [0.2], [0.5]])
    yield call("one long token", long)
    tied = np.repeat(signed(rng, 3, 4), [2, 1, 2], axis=0)[rng.permutation(5)]
    yield call("ties", tied)
    yield call("ties", np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.25]]))
    yield call("integers", rng.integers(-3, 4, (6, 3)))
    yield call("nested lists", signed(rng, 4, 2).tolist())


self_share = Exercise(
    "self_share",
    CHAPTER,
    right.self_share,
    _self_share_cases,
    hints={
        "random tokens": "Compare each row's diagonal entry with the row's maximum; the share is a mean.",
        "one long token": "A long token can win in the rows of others: look at each row by itself.",
        "ties": "Where the diagonal equals the row's maximum it counts, even if another entry does too.",
    },
    remarks={"nested lists": LISTS},
)


def _share(x, hit):
    x = np.asarray(x)
    return float(np.mean(hit(x @ x.T)))


@self_share.mistake(
    "argmax names the first of several equal entries, so ties are lost: compare with the maximum."
)
def ties_lost(x):
    return _share(x, lambda s: s.argmax(1) == np.arange(len(s)))


@self_share.mistake("A tie with another entry should count: use >=, not >.")
def ties_refused(x):
    def hit(s):
        others = np.where(np.eye(len(s), dtype=bool), -np.inf, s).max(1)
        return np.diag(s) > others

    return _share(x, hit)


@self_share.mistake("This is how many rows; wanted is the share of them, between 0 and 1.")
def a_count(x):
    return len(x) * right.self_share(x)


@self_share.mistake("This is a percentage; wanted is a share between 0 and 1.")
def a_percentage(x):
    return 100 * right.self_share(x)


@self_share.mistake(
    "This is the diagonal's part of a sum; wanted is the share of rows in which it is the largest."
)
def trace_over_sum(x):
    table = np.asarray(x) @ np.asarray(x).T
    return float(np.trace(table) / table.sum())


@self_share.mistake(
    "This is the mean of the diagonal; wanted is the share of rows in which it is the largest."
)
def mean_of_the_diagonal(x):
    table = np.asarray(x) @ np.asarray(x).T
    return float(np.trace(table) / len(table))


@self_share.mistake("This is the share of rows in which another token wins.")
def the_others(x):
    return 1 - right.self_share(x)


@self_share.mistake("These are cosines, of which the diagonal is always 1: leave the lengths in.")
def cosines_always_win(x):
    x = np.asarray(x, dtype=float)
    return right.self_share(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300))


@self_share.mistake("X^T X compares features; X X^T compares tokens.")
def compares_features(x):
    return right.self_share(np.asarray(x).T)


@self_share.mistake("The smallest entry is looked for: it should be the largest.")
def smallest_entry(x):
    return _share(x, lambda s: np.diag(s) <= s.min(1))


@self_share.mistake("The sign is lost: an entry far below zero is not large.")
def size_without_sign(x):
    return _share(x, lambda s: np.diag(s) >= np.abs(s).max(1))


@self_share.mistake(
    "Every diagonal entry is compared with the largest of the whole table: take each row's own."
)
def largest_of_all(x):
    return _share(x, lambda s: np.diag(s) >= s.max())


EXERCISES = (
    self_share,
    project,
    one_row,
    scores,
    attend,
    self_attention,
    cross_attention,
    shape_ledger,
    is_permutation_equivariant,
    previous_token,
)
