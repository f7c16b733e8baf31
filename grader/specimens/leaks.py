"""Attention functions of arrays `(T, d)`; the docstring goes on from "an attention that ...".

In SOUND ones no row depends on tokens after its own; in LEAKY ones some row
does. Each stands alone: a copy of its source runs in the student's process.
A docstring's second paragraph says what a test lacks that judges it wrongly.
The first that is judged wrongly is the one named, so plain ones come first.
"""

import numpy as np

# ---- sound -----------------------------------------------------------------------------------


def reads_the_past(q, k, v):
    """is plain causal attention"""
    s = np.where(np.tri(len(q), dtype=bool), q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def rounds_by_all(q, k, v):
    """adds a number made of all values and takes it away again: only rounding is left

    Allow for rounding: np.allclose instead of equality.
    """
    shift = 1000.0 * np.sin(v).sum()
    return np.cumsum(v, axis=0) + shift - shift


def has_a_window(q, k, v):
    """reads the last three tokens only"""
    i, j = np.indices((len(q), len(q)))
    s = np.where((j <= i) & (j > i - 3), q @ k.T, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def has_a_sink(q, k, v):
    """may put weight on nobody: 1 is added to each row's sum"""
    w = np.exp(np.clip(q @ k.T, -20.0, 20.0)) * np.tri(len(q))
    return w @ v / (1.0 + w.sum(axis=1, keepdims=True))


def keeps_the_first(q, k, v):
    """reads token 0 and the two tokens before and at its own"""
    i, j = np.indices((len(q), len(q)))
    s = np.where((j <= i) & ((j > i - 2) | (j == 0)), q @ k.T, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def prefers_the_near(q, k, v):
    """adds a bias that falls with distance into the past"""
    i, j = np.indices((len(q), len(q)))
    s = np.where(j <= i, q @ k.T - 0.5 * (i - j), -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def leaves_itself_out(q, k, v):
    """reads only tokens before its own, and gives row 0 zeros

    Do its zeros look like a leak? Compare two outputs of one attention, and nothing else.
    """
    out = np.zeros_like(v)
    for i in range(1, len(q)):
        s = k[:i] @ q[i]
        w = np.exp(s - s.max())
        out[i] = w / w.sum() @ v[:i]
    return out


def takes_the_mean_of_the_past(q, k, v):
    """weighs all of the past alike"""
    return np.cumsum(v, axis=0) / np.arange(1, len(v) + 1)[:, None]


def sharpens_with_time(q, k, v):
    """scales the scores by the row's number"""
    s = q @ k.T * np.arange(1, len(q) + 1)[:, None] / 4
    s = np.where(np.tri(len(q), dtype=bool), s, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def counts_the_tokens(q, k, v):
    """divides by the number of tokens, which is no token's content

    Keep T tokens, and change what stands in them.
    """
    return np.cumsum(v, axis=0) / len(v)


def hears_no_question(q, k, v):
    """does not use its queries"""
    w = np.exp(np.tanh(k.sum(axis=1)))[:, None]
    return np.cumsum(w * v, axis=0) / np.cumsum(w, axis=0)


def reads_itself(q, k, v):
    """reads its own token alone"""
    return v * np.tanh((q * k).sum(axis=1, keepdims=True))


def takes_the_best(q, k, v):
    """puts all weight on the past's best key"""
    s = np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)
    return v[s.argmax(axis=1)]


def forgets_slowly(q, k, v):
    """carries a state from token to token, half of it forgotten each time"""
    out = v.copy()
    for i in range(1, len(v)):
        out[i] = 0.5 * out[i - 1] + np.tanh(q[i] @ k[i]) * v[i]
    return out


def lags_behind(q, k, v):
    """makes each row of the tokens before its own, and of nothing else

    Compare the rows before the change only, and change copies: in `q2 = q` both are one array.
    """
    return np.cumsum(np.vstack([np.zeros_like(v[:1]), np.tanh(q * k)[:-1] + v[:-1]]), axis=0)


def says_nothing(q, k, v):
    """returns zeros

    Rows that do not move are no leak: compare two outputs of one attention, and nothing else.
    """
    return np.zeros_like(v)


# ---- leaky -----------------------------------------------------------------------------------


def peeks_one_ahead(q, k, v):
    """reads one token too many, the next one"""
    s = np.where(np.tri(len(q), k=1, dtype=bool), q @ k.T, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def reads_everything(q, k, v):
    """has no mask at all"""
    s = q @ k.T / np.sqrt(q.shape[1])
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def opens_a_late_row(q, k, v):
    """leaks in the last row but one only

    Change tokens at every position, the last one among them, and compare every row before it.
    """
    m = np.tri(len(q), dtype=bool)
    m[-2, -1] = True
    s = np.where(m, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def opens_the_first_row(q, k, v):
    """leaks in row 0 only, which reads everything

    Compare row 0 as well.
    """
    m = np.tri(len(q), dtype=bool)
    m[0] = True
    s = np.where(m, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def opens_the_first_pair(q, k, v):
    """leaks from token 1 into row 0 only

    Change the tokens from every position on, 1 to T - 1, and compare all rows before it.
    """
    m = np.tri(len(q), dtype=bool)
    m[0, 1] = True
    s = np.where(m, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def opens_one_pair(q, k, v):
    """leaks from one token to one other only, from token 3 into row 2

    Go through all positions, with all later tokens changed and all earlier rows compared.
    """
    m = np.tri(len(q), dtype=bool)
    m[2, 3] = True
    s = np.where(m, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def reads_across_eight(q, k, v):
    """leaks only in inputs of more than 8 tokens

    Use the T that is handed in, so many tokens and no fewer.
    """
    m = np.tri(len(q), k=int(len(q) > 8), dtype=bool)
    s = np.where(m, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def centres_its_keys(q, k, v):
    """leaks through the keys alone: it divides them by their spread over all tokens

    Change later keys as well.
    """
    s = np.where(np.tri(len(q), dtype=bool), q @ (k / (1.0 + k.std(axis=0))).T, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def centres_its_values(q, k, v):
    """leaks through the values alone: it subtracts their mean over all tokens

    Change later values as well.
    """
    s = np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ (v - v.mean(axis=0))


def centres_its_queries(q, k, v):
    """leaks through the queries alone: it subtracts their mean over all tokens

    Change later queries as well.
    """
    s = np.where(np.tri(len(q), dtype=bool), (q - q.mean(axis=0)) @ k.T, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def shares_each_key(q, k, v):
    """takes the softmax over the queries, so that later ones have a say in every weight"""
    s = np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)
    w = np.exp(s - s.max(axis=0, keepdims=True))
    return w / w.sum(axis=0, keepdims=True) @ v


def obeys_loud_keys(q, k, v):
    """leaks only where a later score is large, above 12

    Try large numbers as well: a hundred times as large will do.
    """
    s = q @ k.T
    s = np.where(np.tri(len(q), dtype=bool) | (s > 12.0), s, -np.inf)
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


def divides_by_all(q, k, v):
    """masks after the softmax, whose sum has counted the future"""
    s = q @ k.T / np.sqrt(q.shape[1])
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) * np.tri(len(q)) @ v


def hears_a_whisper(q, k, v):
    """moves by a few thousandths with the token after its own, however large its numbers are

    Is every row before the change compared, with a tolerance far below a thousandth?
    """
    out = 2.0 + np.tanh(np.cumsum(v, axis=0))
    out[:-1] += 0.003 * np.sin(q + k + v)[1:]
    return out


def gives_and_takes(q, k, v):
    """moves one column by as much as another the other way, so that their mean stays

    Compare every number, not a mean or a sum of them.
    """
    out = np.cumsum(v, axis=0)
    moved = np.tanh(q + k + v)[1:, 0]
    out[:-1, 0] += moved
    out[:-1, 1] -= moved
    return out


def multiplies_its_scores(q, k, v):
    """multiplies the scores by the mask, so that later tokens score 0 instead of nothing"""
    s = q @ k.T / np.sqrt(q.shape[1]) * np.tri(len(q))
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True) @ v


SOUND = (
    reads_the_past,
    rounds_by_all,
    has_a_window,
    has_a_sink,
    keeps_the_first,
    prefers_the_near,
    leaves_itself_out,
    takes_the_mean_of_the_past,
    sharpens_with_time,
    counts_the_tokens,
    hears_no_question,
    reads_itself,
    takes_the_best,
    forgets_slowly,
    lags_behind,
    says_nothing,
)
LEAKY = (
    hears_a_whisper,
    peeks_one_ahead,
    reads_everything,
    opens_a_late_row,
    opens_the_first_row,
    opens_the_first_pair,
    opens_one_pair,
    reads_across_eight,
    centres_its_keys,
    centres_its_values,
    centres_its_queries,
    shares_each_key,
    obeys_loud_keys,
    divides_by_all,
    gives_and_takes,
    multiplies_its_scores,
)
