# %% [markdown]
r"""
# Chapter 4. Who may read whom

**The question.** So far every token reads every other. Often it must not. A model that writes must not read what it has yet to write. Sentences of different lengths are put into one array, and the padding behind the short ones means nothing. Two documents share one row, and should not hear each other. How do we say *who may read whom*, and where in the formula do we say it?

The answer is a table of True and False, the **mask**, one cell for each pair of query and key. Making masks is easy. Most of what goes wrong in practice goes wrong around them: a mask turned round, one cell too many, a mask that comes too late, a row in which nothing is left. And such mistakes are quiet: shapes fit, losses fall. So this chapter also teaches you to write the tests that find them.
"""

# %% [markdown]
r"""
**What you need.** [Chapter 2](../02_qkv/02_qkv.ipynb) for queries, keys and values, and from chapter 3 one formula: scaled dot-product attention divides the scores by $\sqrt{d_k}$ before the softmax. NumPy's broadcasting: a `(T, 1)` array compared with an `(S,)` array gives `(T, S)`.

**What you will write.** Exercises marked ★ are the core; the others lie beside the path and are worth no points. (Cells that need one of those take the course's own, through `yours_or_ours`, as long as yours does not pass.)

| | exercise | what it does |
|---|---|---|
| ★ | `causal_mask` | nobody reads the future |
| ★ | `padding_mask` | nobody reads padding |
| ★ | `sliding_window_mask` | nobody reads what is long past |
| | `segment_mask` | nobody reads another document |
| ★ | `combine_masks` | all of these at once |
| | `additive_mask` | the same mask, ready to be added |
| | `wasted_mass` | what a mask after the softmax loses |
| ★ | `masked_softmax` | the mask in its place |
| ★ | `masked_attention` | attention under a mask |
| ★ | `causal_attention_loops` | the same in plain Python, every index visible |
| ★ | `leaks_future` | a test you write: does it read ahead? |
| ★ | `padding_is_ignored` | a test you write: does padding matter? |
| | `next_token_losses` | all positions predicted in one pass |
| ★ | a written question | why one pass is enough |

Set aside about three and a half hours, in two sittings: sections 1 to 8, and what follows (planned; nobody has been timed yet).
"""

# %%
import math

import numpy as np

import utils
from utils import plots
from utils.check import check, yours_or_ours
from utils.reference.dictionary_lookup import softmax

utils.ready("04_masking")

# %% [markdown]
r"""
## 1. One convention, and its opposite

A mask is an array of booleans that broadcasts against the scores `(..., T, S)`. Rows are queries, columns are keys, and throughout this course

> **True means: this query may read this key.**

That is what PyTorch's `scaled_dot_product_attention` and Equinox mean by a boolean mask. Beware: `torch.nn.MultiheadAttention`, older and still everywhere, means the opposite. In its `attn_mask` and its `key_padding_mask`, True stands for "may *not* be read". Both are boolean arrays of the same shape, so nothing complains when one is taken for the other; the model then reads exactly what it must not. To go from one to the other, write `~mask`, and write beside it which one you have.

**Predict.** Below stands a mask of ours for three tokens, and the same thing as `nn.MultiheadAttention` wants it. Which row of the second would be all False?
"""

# %%
allowed = np.array([[True, False, False], [True, True, False], [True, True, True]])
print("True = may read:\n", allowed)
print("True = may not (nn.MultiheadAttention):\n", ~allowed)

# %% [markdown]
r"""
**Explain.** The last: the last token may read everybody, so nothing is blocked for it.

## 2. The past only: causal

A model that predicts the next word must not see it. So query $i$ may read key $j$ only where $j \le i$: itself, and what came before. Itself, too: token $i$ is known, and it is token $i + 1$ that will be predicted.

When a model writes on, the new queries are few and the keys are many: queries for the last 2 tokens, say, keys for all 5. Which row is which? The queries are the *last* ones. So the mask is **aligned to the end**: the last query stands at the last key, and query $i$ stands at position $i + S - T$.

**Predict.** Two queries, five keys: how many keys does the first query read?

### Exercise: `causal_mask` ★

`T, S=None -> (T, S) bool`

`S=None` means `S = T`. With `T < S` the last query sees every key. With `S < T` the first `T - S` queries stand before all keys, and their rows are empty (all False).
"""


# %% solution="causal_mask"
def causal_mask(T, S=None):
    """Each query reads itself and the past, aligned to the end: (T, S) bool."""
    ### BEGIN SOLUTION
    S = T if S is None else S
    position = np.arange(T)[:, None] + S - T  # (T, 1)
    return np.arange(S) <= position  # (T, S)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Compare where each key stands with where each query stands. A comparison gives booleans by itself.</details>
<details><summary>Hint 2: the shape</summary>Positions of the keys: <code>np.arange(S)</code>, a row. Positions of the queries: a column, <code>(T, 1)</code>, whose last entry is S - 1. Compared, they give <code>(T, S)</code>.</details>
<details><summary>Hint 3: almost the line</summary>The column is <code>np.arange(T)[:, None] + S - T</code>. Put the two of hint 2 together with <code>&lt;=</code> between them: which on which side? (<code>np.tri</code> can do it as well, with <code>k=S - T, dtype=bool</code>.)</details>
"""

# %% test="causal_mask" points=1
check("causal_mask", causal_mask)
assert np.array_equal(causal_mask(2), [[True, False], [True, True]])

# %%
print(np.asarray(causal_mask(2, 5)).astype(int))

# %% [markdown]
r"""
**Explain.** Four: the first query is the last token but one, and reads all but the last key. Aligned to the start it would read one key only, and the newest token two: a bug that square tests never see.

## 3. Real tokens only: padding

A batch of sentences of 2, 4 and 3 tokens is stored in an array of 3 × 4 slots. What stands behind the end of a short sentence is filler. It has keys like everything else, and unless a mask hides them, they are read: then the same sentence comes out differently beside a longer one.

### Exercise: `padding_mask` ★

`lengths (B,), S -> (B, 1, S) bool`

Key `j` of sequence `b` may be read where `j < lengths[b]`. The axis of size 1 stands for the queries: all queries of a sequence read the same keys. A length may be 0.

Padded *queries* are left alone. Their rows give something, nobody uses it, and no loss counts it.
"""


# %% solution="padding_mask"
def padding_mask(lengths, S):
    """Keys within each sequence's length: lengths (B,) -> (B, 1, S) bool."""
    ### BEGIN SOLUTION
    lengths = np.asarray(lengths)
    return np.arange(S) < lengths[:, None, None]  # (B, 1, S)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>The keys are numbered 0 to S - 1; compare their numbers with each length.</details>
<details><summary>Hint 2: the shape</summary>The lengths need the shape <code>(B, 1, 1)</code>; with <code>np.arange(S)</code>, which is <code>(S,)</code>, they give <code>(B, 1, S)</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>np.asarray(lengths)[:, None, None]</code> has that shape. Smaller, or smaller or equal?</details>
"""

# %% test="padding_mask" points=1
check("padding_mask", padding_mask)
assert np.shape(padding_mask(np.array([2, 4, 3]), 4)) == (3, 1, 4)

# %% [markdown]
r"""
A warning for chapter 5: scores with heads have the shape `(B, H, T, S)`, and NumPy lines axes up from the right. A mask of shape `(B, 1, S)` meets the axes `H, T, S` there. When `B` happens to equal `H`, nothing complains: in every sequence, *head* number 3 hides what is padding in *sequence* number 3. With a single head nothing complains either, and the result silently grows to `(B, B, T, S)`. With heads the mask must be `(B, 1, 1, S)`. The functions of this chapter insert no axes; whoever has heads inserts one.

## 4. The near past only: a sliding window

Reading everything that came before grows with the length of the text. Some models let a token read only the last `window` tokens, itself among them, and rely on the layers to pass on what is further back.

### Exercise: `sliding_window_mask` ★

`T, window, S=None -> (T, S) bool`

Causal, aligned to the end as before, and no more than `window` keys a row, counting the token itself. A window of 1 is the diagonal.
"""


# %% solution="sliding_window_mask"
def sliding_window_mask(T, window, S=None):
    """Causal, and at most `window` keys back, the token itself among them: (T, S) bool."""
    ### BEGIN SOLUTION
    S = T if S is None else S
    ago = np.arange(T)[:, None] + S - T - np.arange(S)  # (T, S): how long ago is key j?
    return (ago >= 0) & (ago < window)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>For every pair ask: how long ago, seen from the query, did the key stand? 0 is the token itself, negative is the future.</details>
<details><summary>Hint 2: the shape</summary><code>ago</code> is the query's position, a column, minus the key's position, a row: <code>(T, S)</code>. It must lie between two bounds.</details>
<details><summary>Hint 3: almost the line</summary>Two comparisons joined by <code>&amp;</code>, each in brackets, since <code>&amp;</code> binds tighter than <code>&lt;</code>. (Neither <code>and</code> nor <code>0 &lt;= ago &lt; window</code> works on arrays.) A window of 1 must leave <code>ago == 0</code>.</details>
"""

# %% test="sliding_window_mask" points=1
check("sliding_window_mask", sliding_window_mask)
assert np.array_equal(sliding_window_mask(3, 2), [[1, 0, 0], [1, 1, 0], [0, 1, 1]])

# %% [markdown]
r"""
## 5. One's own document only: segments

Training texts are often packed: several documents behind each other in one row, so that little padding is needed. Each token carries the number of its document, and 0 for padding.

### Exercise: `segment_mask`

`q_segments (..., T), k_segments (..., S) -> (..., T, S) bool`

A query reads keys of the same number. Padding, number 0, reads nothing and is read by nobody. (Careful: 0 equals 0.)
"""


# %% solution="segment_mask"
def segment_mask(q_segments, k_segments):
    """Same segment, and not padding (0): (..., T), (..., S) -> (..., T, S) bool."""
    ### BEGIN SOLUTION
    q = np.asarray(q_segments)[..., :, None]  # (..., T, 1)
    k = np.asarray(k_segments)[..., None, :]  # (..., 1, S)
    return (q == k) & (q != 0)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Two conditions: the numbers are equal, and they are not 0.</details>
<details><summary>Hint 2: the shape</summary>Give the queries a new last axis, <code>q[..., :, None]</code>, and the keys one before the last, <code>k[..., None, :]</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>(q == k) &amp; (...)</code>. If the numbers are equal, it is enough to ask one side whether it is 0.</details>
"""

# %% test="segment_mask" points=0
check("segment_mask", segment_mask)

# %% [markdown]
r"""
## 6. Several at once

The four masks answer different questions: *is it later? is it filler? is it long ago? is it somebody else's?* Each may say no, and one no is enough. So masks are combined with **and**. And since True means "may", `&` is all that is needed. (In the opposite convention it would be `|`, which is one more way to mix the two up.) The shapes differ, `(T, S)` here and `(B, 1, S)` there; broadcasting sees to that.

### Exercise: `combine_masks` ★

`*masks -> mask or None`

A pair is open where every mask allows it. None means "no constraint" and is left out; with no mask at all, or nothing but None, the result is None.
"""


# %% solution="combine_masks"
def combine_masks(*masks):
    """What every mask allows; None is no constraint, and none at all gives None."""
    ### BEGIN SOLUTION
    combined = None
    for mask in masks:
        if mask is not None:
            mask = np.asarray(mask, dtype=bool)
            combined = mask if combined is None else combined & mask
    return combined
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Begin with nothing, that is None, and join each mask with what there is so far.</details>
<details><summary>Hint 2: the shape</summary><code>&amp;</code> broadcasts: <code>(T, S) &amp; (B, 1, S)</code> is <code>(B, T, S)</code>. Nothing needs to be repeated by hand.</details>
<details><summary>Hint 3: almost the line</summary>In a loop over the masks, skip None; <code>mask = np.asarray(mask, dtype=bool)</code>, then <code>combined = mask if combined is None else ...</code>.</details>
"""

# %% test="combine_masks" points=1
check("combine_masks", combine_masks)
assert combine_masks() is None and combine_masks(None, None) is None

# %% [markdown]
r"""
**Predict.** A causal mask for 4 tokens and padding with lengths 2 and 4. What will row 3 of the first sequence look like: the row of a query that is itself padding?
"""

# %%
masks = causal_mask(4), padding_mask(np.array([2, 4]), 4)
both = np.asarray(combine_masks(*map(np.asarray, masks)))
print(both.shape)
print(both[0].astype(int))

# %% [markdown]
r"""
**Explain.** It reads tokens 0 and 1, which are real. The padding mask hides padded keys, not padded queries, so no row is empty here. With a segment mask in place of it the rows 2 and 3 would be.

Some libraries do not take a boolean mask but a table to be *added* to the scores: 0 leaves a score alone, $-\infty$ makes its exponential 0.

### Exercise: `additive_mask`

`mask, dtype=float -> 0 and -inf, of the same shape and of that dtype`
"""


# %% solution="additive_mask"
def additive_mask(mask, dtype=float):
    """What to add to the scores: 0 where allowed, -inf where not."""
    ### BEGIN SOLUTION
    return np.where(np.asarray(mask, dtype=bool), 0.0, -np.inf).astype(dtype)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Choose between two numbers, cell by cell.</details>
<details><summary>Hint 2: the shape</summary>The shape is the mask's. Do not multiply: <code>0 * -np.inf</code> is NaN.</details>
<details><summary>Hint 3: almost the line</summary><code>np.where(mask, ..., ...)</code>, and <code>.astype(dtype)</code> at the end.</details>
"""

# %% test="additive_mask" points=0
check("additive_mask", additive_mask)

# %% [markdown]
r"""
## 7. Before the softmax, not after

Where does the mask go? The tempting place is at the end: compute the weights as always, then set the forbidden ones to 0.

**Predict.** Five tokens whose scores are all equal, a causal mask applied after the softmax. What does row 0 sum to?
"""

# %%
late = softmax(np.zeros((5, 5))) * np.asarray(causal_mask(5))
print("row sums:", late.sum(axis=1))

# %% [markdown]
r"""
**Explain.** To 0.2. Four fifths of its budget went to tokens that it may not read, and were thrown away. Early tokens end up with hardly any output, late ones with nearly all of it. Worse: the future still has a say, since its scores stand in the sum that every weight was divided by. A forbidden token changes what the allowed ones get.

### Exercise: `wasted_mass`

How much is lost, for each query?

`scores (..., T, S), mask -> (..., T)`: the probability that the softmax of all scores puts on forbidden keys.
"""


# %% solution="wasted_mass"
def wasted_mass(scores, mask):
    """Probability lost by masking after the softmax: (..., T, S), mask -> (..., T)."""
    ### BEGIN SOLUTION
    weights = softmax(scores)  # (..., T, S)
    return np.where(np.asarray(mask, dtype=bool), 0, weights).sum(axis=-1)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Take the softmax of all scores, keep what is forbidden, add it up.</details>
<details><summary>Hint 2: the shape</summary>Sum over the last axis, the keys: one number is left for each query.</details>
<details><summary>Hint 3: almost the line</summary><code>np.where(mask, ..., softmax(scores))</code>, summed: which of the two places gets the 0?</details>
"""

# %% test="wasted_mass" points=0
check("wasted_mass", wasted_mass)

# %% [markdown]
r"""
One could divide each row by what is left of it. On paper that is right: the sum over the future cancels. On a machine it fails just when it matters. If a forbidden score is far above the allowed ones, their weights have already become 0, and 0/0 is NaN. If a forbidden slot holds NaN, the row is lost before the mask comes.

So the mask goes in **before** the softmax: a forbidden score becomes $-\infty$, its exponential is exactly 0, the rest share the whole budget, and what stood in the slot is never looked at. Why $-\infty$, and not some large negative number, $-10^4$ say? Because a finite number is a score like any other. Against it an honest score of $-20\,000$ loses, and the *masked* key wins. (And $-10^9$, which is safer, is too large for a float16.) And in a row where everything is forbidden, equal finite numbers tie: every key gets a share of the weight, and the mask has turned into a plain average of all it was to hide.

**The empty row.** With $-\infty$ everywhere such a row has no softmax: 0/0. Mathematics does not say what it should be. Somebody has to, and this course says it once:

> **A query that may read nothing reads nothing: its weights are 0, its output is 0, never NaN.**

Such rows occur (`S < T`, a sequence of length 0, a padded query under a segment mask), and one NaN among the outputs reaches every number of the next layer, and through the gradients every weight. We will carry this policy through all later chapters.

### Exercise: `masked_softmax` ★

`scores (..., T, S), mask=None -> weights`, of the shape to which the two broadcast

- What stands in a forbidden slot, NaN and inf included, never matters.
- A row with no allowed key gets zeros.
- An *allowed* score of -inf weighs 0; a row whose allowed scores are all -inf gets zeros, too.
- `mask=None`: nothing is forbidden.

`softmax` of chapter 1 may be used: it gives zeros for a row that is all -inf.
"""


# %% solution="masked_softmax"
def masked_softmax(scores, mask=None):
    """Weights over the allowed keys; a row with none gets zeros."""
    ### BEGIN SOLUTION
    scores = np.asarray(scores)
    if mask is not None:
        scores = np.where(np.asarray(mask, dtype=bool), scores, -np.inf)
    return softmax(scores)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Put -inf where the mask says no, then take the softmax as always. <em>Put</em>, not add: NaN plus -inf is NaN.</details>
<details><summary>Hint 2: the shape</summary><code>np.where</code> broadcasts its three arguments against each other. The softmax runs over the last axis.</details>
<details><summary>Hint 3: almost the line</summary>Where there is a mask, <code>scores = np.where(mask, scores, -np.inf)</code>; the rest is chapter 1. If you write the softmax yourself: subtract 0 where the maximum is -inf, and divide by 1 where the sum is 0.</details>
"""

# %% test="masked_softmax" points=3
check("masked_softmax", masked_softmax)
seen, allowed = np.array([[5.0, np.nan]]), np.array([[True, False]])
assert np.allclose(masked_softmax(seen, allowed), [[1, 0]])

# %% [markdown]
r"""
**Break it.** `j < i` in place of `j <= i` is a slip of one character. **Predict** row 0 under it, once with our policy and once with a plain softmax.
"""

# %%
slip = np.arange(4) < np.arange(4)[:, None]
print("our policy:\n", np.round(masked_softmax(np.zeros((4, 4)), slip), 2))
with np.errstate(invalid="ignore"):
    e = np.exp(np.where(slip, 0.0, -np.inf))
    print("a plain softmax, row 0:", (e / e.sum(axis=1, keepdims=True))[0])

# %% [markdown]
r"""
**Explain.** Token 0 has nobody before it, so its row is empty. A plain softmax gives NaN, which at least is loud. With our policy the first token comes out as zero, and every other token is blind to itself: a quiet mistake. The policy keeps a network alive; it does not make a wrong mask right.

**See it.** Six words in two segments and two places of padding. Switch constraints on and off, walk through the map with the arrow keys, and find out:

- The cell of "well" and the first "pad" is forbidden by three constraints at once. Which, and which switches must be off before it may be read?
- Which rows are empty, and by which constraint? Can two constraints that leave something each leave nothing together? (Try padding and a window of 2.)
- Choose "mask after softmax". Which *word* loses most, and why that one?
"""

# %% tags=["figure"]
from utils.widgets import mask_composer

mask_composer()

# %% [markdown] static="mask_composer"
r"""
<details><summary>The same figure, standing still</summary>

Causal, padding and segment masks together, before the softmax: the weights, which cells are forbidden, the sum of each row, and the rows that are empty.

FIGURE

</details>
"""

# %% [markdown]
r"""
**Explain.** It comes later, it is padding, and it is in no segment; all three must be off (and the window, which is causal too, has to stay off). The two pads are empty, because of the segments: padding is in none. No other constraint empties a row by itself; but padding and a window of 2 together leave the last pad nothing, since all that it could reach is padding. Masked after the softmax, "Rain" loses 0.86 and "Cats" 0.85: each stands first in its text and may read only itself, while all others had been given their share.

## 8. Attention under a mask

### Exercise: `masked_attention` ★

`q (..., T, d_k), k (..., S, d_k), v (..., S, d_v), mask=None, scale=None -> out (..., T, d_v), weights (..., T, S)`

Scores, times `scale` (None means $1/\sqrt{d_k}$; 0.0 is a scale), masked softmax, weighted values. One trap is left. At keys that no query may read, `k` and `v` may hold anything, NaN included: memory that was never filled, say. The masked softmax takes care of the keys. But the output is a sum over *all* values, and a weight of 0 does not help there: `0 * NaN` is NaN. Put zeros in place of values that nobody may read.
"""


# %% solution="masked_attention"
def masked_attention(q, k, v, mask=None, scale=None):
    """Scaled dot-product attention under a mask: -> out (..., T, d_v), weights (..., T, S)."""
    ### BEGIN SOLUTION
    q, k, v = np.asarray(q), np.asarray(k), np.asarray(v)
    if scale is None:
        scale = 1 / np.sqrt(q.shape[-1])
    scores = q @ np.swapaxes(k, -1, -2) * scale  # (..., T, S)
    weights = masked_softmax(scores, mask)  # (..., T, S)
    if mask is not None:
        read = np.atleast_2d(np.asarray(mask, dtype=bool)).any(axis=-2)  # (..., S): by anybody?
        v = np.where(read[..., None], v, 0)
    return weights @ v, weights
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Chapter 3's attention with <code>masked_softmax</code> in place of the softmax, and one line that cleans the values.</details>
<details><summary>Hint 2: the shape</summary><code>.any(axis=-2)</code> goes over the queries: is this key read by anybody? It is <code>(..., S)</code>; with <code>[..., None]</code> it fits v. A mask of shape <code>(S,)</code> is a row: <code>np.atleast_2d</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>v = np.where(read[..., None], v, 0)</code>, where there is a mask; <code>read</code> is what hint 2 describes. And <code>if scale is None</code>, not <code>if not scale</code>.</details>
"""

# %% test="masked_attention" points=3
check("masked_attention", masked_attention)
two, first_only = np.array([[3.0], [5.0]]), np.array([[True, False]])
assert np.allclose(masked_attention(two[:1], two, two, first_only)[0], [[3]])

# %% [markdown]
r"""
## 9. Every index visible

The matrix form is short, and hides what happens. Once, write it out: no arrays, no broadcasting, nothing but lists, loops and `math`. In this form causality is no mask at all. It is the end of a loop.

### Exercise: `causal_attention_loops` ★

`q (T, d_k), k (T, d_k), v (T, d_v) -> out (T, d_v), weights (T, T)`, all of them lists of lists

One head, `T = S`, scores divided by $\sqrt{d_k}$. Import nothing but `math`; the numbers are Python's own, the results lists and no arrays. A row of weights has `T` entries, with 0.0 for the tokens that are not read.
"""


# %% solution="causal_attention_loops"
def causal_attention_loops(q, k, v):
    """Causal attention of one head with lists and loops: -> (out, weights), as lists."""
    ### BEGIN SOLUTION
    T, d_k, d_v = len(q), len(q[0]), len(v[0])
    out, weights = [], []
    for i in range(T):  # who reads
        scores = []
        for j in range(i + 1):  # who is read: itself and the past
            dot = 0.0
            for c in range(d_k):
                dot += q[i][c] * k[j][c]
            scores.append(dot / math.sqrt(d_k))
        top = max(scores)
        exponentials = [math.exp(score - top) for score in scores]
        total = sum(exponentials)
        row = [e / total for e in exponentials] + [0.0] * (T - 1 - i)
        mixed = [0.0] * d_v
        for j in range(i + 1):
            for c in range(d_v):
                mixed[c] += row[j] * v[j][c]
        weights.append(row)
        out.append(mixed)
    return out, weights
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>For each token i: scores with j = 0 ... i; exponentials of the scores minus their maximum; divide by the sum; then add up the values, weighted.</details>
<details><summary>Hint 2: the shape</summary>Row i has i + 1 scores. Fill its weights up to T entries: <code>+ [0.0] * (T - 1 - i)</code>. The output has len(v[0]) entries.</details>
<details><summary>Hint 3: almost the line</summary>The scores of token i: <code>for j in range(i + 1): scores.append(sum(q[i][c] * k[j][c] for c in range(d_k)) / math.sqrt(d_k))</code>. The output has the same two loops, over j and c, with weights and values in them.</details>
"""

# %% test="causal_attention_loops" points=2
check("causal_attention_loops", causal_attention_loops)

# %%
q3 = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # three tokens, q = k
v3 = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
out3, weights3 = causal_attention_loops(q3.tolist(), q3.tolist(), v3.tolist())
print("weights\n", np.round(weights3, 3))
print("out\n", np.round(out3, 3))
same = masked_attention(q3, q3, v3, causal_mask(3))[0]
print("matrix and loops agree:", np.allclose(out3, same))

# %% [markdown]
r"""
Row 0 can read only itself, so its output is its own value. Row 1 chooses between two, row 2 between all three.

**The glassbox.** Loops much like these stand in a file of their own, `utils/glassbox.py`, which needs no NumPy and nothing else that would have to be installed. In a terminal, in the course's folder,

```
python -m utils.glassbox
```

prints the example above step by step: for every token its scores, the scaled scores, the exponentials, their sum, the weights, and the output as a sum of weighted values. It computes the scores of later keys, too, and shows where the mask strikes them out; your loop never gets there, and the numbers are the same. Read the two side by side. `--help` says how to give it vectors of your own.

## 10. Does it leak?

You have an attention function that somebody else wrote. It says that it is causal. Is it? Reading the code helps less than you would think: real leaks hide in a normalisation over time, in a fast path for long inputs, in a sum that was taken before the mask. But there is a test that needs no code at all. *Causal* means that the future has no influence. So change the future, and see whether the past moves.

### Exercise: `leaks_future` ★

`attention, T, d, rng -> bool`: True if some row depends on a token after its own.

`attention(q, k, v)` takes three `(T, d)` arrays and returns one. Row `i` may depend on tokens 0 to `i`: on their queries, keys and values. You choose the inputs; draw them with `rng`.

Your test is tried on 32 functions and counts only if it judges all of them rightly. Some leak at one position only, or through the queries alone, or by a few thousandths, or only where a later score is large (numbers a hundred times as large will do). Some are sound and look odd: they use the number of tokens, or differ in the last digits. So keep `T` tokens throughout, compare every number (a mean may stay while numbers move), allow for rounding, and use finite numbers: plain causal attention multiplies later values by 0, and a NaN would come through that without any mistake in the mask.
"""


# %% solution="leaks_future"
def leaks_future(attention, T, d, rng):
    """Does some row of attention(q, k, v) depend on tokens after its own?"""
    ### BEGIN SOLUTION
    q, k, v = (rng.normal(size=(T, d)) for _ in range(3))
    before = attention(q, k, v)
    for t in range(1, T):  # change everything from t on; rows before t must stay
        for size in (1, 100):
            changed = [x.copy() for x in (q, k, v)]
            for x in changed:
                x[t:] = size * rng.normal(size=(T - t, d))
            if not np.allclose(attention(*changed)[:t], before[:t], atol=1e-6):
                return True
    return False
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Compute the output once. Then, for every position t, replace all tokens from t on by others and compute it again. Which rows must not have changed?</details>
<details><summary>Hint 2: the shape</summary>With <code>q2[t:]</code>, <code>k2[t:]</code> and <code>v2[t:]</code> replaced, compare <code>out[:t]</code>, t from 1 to T - 1.</details>
<details><summary>Hint 3: almost the line</summary>For each t, once with ordinary numbers and once with a hundred times as much: <code>q2 = q.copy()</code>, <code>q2[t:] = ...</code>, the same for k and v, and <code>return True</code> if <code>np.allclose</code> says that the earlier rows are not the same. Where does <code>return False</code> belong?</details>
"""

# %% test="leaks_future" points=2
check("leaks_future", leaks_future)
assert not leaks_future(lambda q, k, v: v, 5, 3, np.random.default_rng(0))

# %% [markdown]
r"""
Why so much trouble for one cell of a mask? Because a leak does not look like a mistake. It looks like success.

Here is a language about which nothing can be learned: eight words, drawn at random. The best that any honest model can do is to guess, at a loss of $\ln 8 \approx 2.08$. Our model attends by distance alone: it learns one score for each distance (one ahead, itself, one back, and so on up to five and more back), mixes the words it reads by those weights, and takes the mixture as the scores of a softmax over the eight words. One more number, `exp` of a parameter so that it stays positive, multiplies these scores: how sure to be, an inverse temperature. It is trained by gradient descent, with slopes by finite differences and no step longer than 0.3. **Predict** where the loss ends, once with the causal mask and once with a mask in which a single diagonal too many is open.
"""

# %%
draw = np.random.default_rng(6)
words = draw.integers(8, size=61)
seen = np.eye(8)[words[:-1]]  # (60, 8): what is read, one-hot
following = words[1:]
distance = np.clip(np.arange(60)[:, None] - np.arange(60), -1, 5) + 1  # 0: one ahead


def toy_loss(parameters, mask):
    mixed = masked_softmax(parameters[:7][distance], mask) @ seen
    p = softmax(np.exp(parameters[7]) * mixed)  # (60, 8)
    # The last row counts for neither: no word stands ahead of it to be peeked at.
    return -np.log(p[np.arange(60), following])[:-1].mean()


def train(mask, steps=150, lr=8.0, h=1e-5):
    parameters, losses = np.zeros(8), []
    for _ in range(steps):
        losses.append(toy_loss(parameters, mask))
        slopes = [toy_loss(parameters + h * e, mask) - losses[-1] for e in np.eye(8)]
        parameters = parameters - np.clip(lr * np.array(slopes) / h, -0.3, 0.3)
    return parameters, losses


honest = np.asarray(causal_mask(60))
leaky = np.tri(60, k=1, dtype=bool)  # one diagonal too many
_, honest_losses = train(honest)
learned, leaky_losses = train(leaky)
print(f"guessing      {np.log(8):.2f}")
print(f"causal        {honest_losses[-1]:.2f}")
print(f"leaky         {leaky_losses[-1]:.4f}")
print(f"leaky, asked honestly {toy_loss(learned, honest):.1f}")
plots.lines(
    range(150),
    {"causal": honest_losses, "one diagonal too many": leaky_losses},
    "A leak looks like success",
    "step",
    "loss",
)

# %% [markdown]
r"""
**Explain.** The honest model ends at 2.06, a hair below guessing: it has learned a little of these sixty words by heart, and there is nothing else to learn. The leaky one ends at 0.0000, on words drawn at random! It reads the next word and copies it. Asked honestly, under the causal mask that holds in use, where the next word does not exist yet, its loss is 3.7: far worse than guessing, since it is sure of what it can no longer see.

Your two lines of defence are the test above, and suspicion: a loss that is too good is a finding about the mask, not about the model.

Not every model needs a causal mask. An *encoder* such as BERT reads a text that is there from the beginning to the end, and lets every token read every other; all that it masks is padding. The original Transformer had both: no causal mask in the encoder, one in the decoder, and padding hidden in either.

## 11. Does padding matter?

The same idea, for padding: change what should not matter, and see whether anything moves.

### Exercise: `padding_is_ignored` ★

`attention, T, d, rng -> bool`: True if no key and no value beyond a length has any influence on the rows within it.

`attention(q, k, v, lengths)` takes arrays `(B, T, d)` and lengths `(B,)`, and returns one array. You choose `B`, the lengths and the inputs. Influence means any: a number that changes, or a NaN that comes through. What stands in the rows *beyond* a length does not matter, NaN neither. `T`, the number of slots, is no key and no value: keep it.

34 functions, and again all must be judged rightly. Some mix up the lengths of a batch, or go by the longest; some read one padded slot, the first or the last; some hide padding only in sequences of two tokens or more; some are moved by NaN alone, others by large numbers alone, some by a few thousandths. So: several sequences in one batch, of different lengths, 1, `T` and some between among them; every padded slot replaced; numbers, large numbers and NaN. (Compare with `np.allclose`: `NaN > x` is False, so a comparison by `>` never sees a NaN.)
"""


# %% solution="padding_is_ignored"
def padding_is_ignored(attention, T, d, rng):
    """Are keys and values beyond each length without influence on the rows within it?"""
    ### BEGIN SOLUTION
    lengths = np.array([T // 2, T, 1, 0, T - 1])
    q, k, v = (rng.normal(size=(len(lengths), T, d)) for _ in range(3))
    within = np.arange(T) < lengths[:, None]  # (B, T)
    before = attention(q, k, v, lengths)[within]
    for size in (1, 100, np.nan):
        k2, v2 = (np.where(within[..., None], x, size * rng.normal(size=x.shape)) for x in (k, v))
        if not np.allclose(attention(q, k2, v2, lengths)[within], before, atol=1e-6):
            return False
    return True
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Compute the output once. Replace every key and value beyond its sequence's length, and compute it again. Which rows must not have changed?</details>
<details><summary>Hint 2: the shape</summary><code>within = np.arange(T) &lt; lengths[:, None]</code> is <code>(B, T)</code>. <code>np.where(within[..., None], k, other)</code> replaces padding only, and <code>out[within]</code> are the rows to compare.</details>
<details><summary>Hint 3: almost the line</summary>For each of the sizes <code>1, 100, np.nan</code> the junk is <code>size * rng.normal(size=k.shape)</code>, for keys and for values. <code>np.allclose</code> compares the rows within with those from before, and one that moved is enough for <code>False</code>. Where does <code>return True</code> belong?</details>
"""

# %% test="padding_is_ignored" points=2
check("padding_is_ignored", padding_is_ignored)


# %%
def honest_attention(q, k, v, lengths):
    return masked_attention(q, k, v, padding_mask(lengths, k.shape[1]))[0]


def careless_attention(q, k, v, lengths):
    weights = masked_attention(q, k, v, padding_mask(lengths, k.shape[1]))[1]
    return weights @ v


for function in (honest_attention, careless_attention):
    print(function.__name__, padding_is_ignored(function, 7, 4, np.random.default_rng(7)))

# %% [markdown]
r"""
Your own attention should pass. The second one has the same weights, and does not clean the values: its padding has weight 0, and a NaN comes through all the same.

## 12. One pass, all positions

Now the reward. A model is to learn to predict the next word at every position of a text of $T$ words. The obvious way takes $T - 1$ passes: read word 0, predict word 1; read words 0 and 1, predict word 2; and so on. Under a causal mask one pass is enough. Row $t$ has read words 0 to $t$ and nothing else, so it *is* the pass over the first $t + 1$ words. At every position the model is given the true words so far, whatever it would have said itself; this is called **teacher forcing**.

**Predict.** We run a small causal model once over eight words, and once over each beginning of the text. To how many digits will the rows agree? And without the mask?
"""

# %%
draw = np.random.default_rng(8)
E, W_q, W_k, W_v, W_out = (draw.normal(size=s) for s in ((9, 6), (6, 4), (6, 4), (6, 5), (5, 9)))
text = draw.integers(9, size=8)


def model(tokens, causal=True):
    """Scores (T, 9) of the nine words for the place after each token."""
    x = E[tokens]
    mask = causal_mask(len(tokens)) if causal else None
    return masked_attention(x @ W_q, x @ W_k, x @ W_v, mask)[0] @ W_out


for causal in (True, False):
    rows = np.stack([model(text[: t + 1], causal)[-1] for t in range(8)])
    gap = np.abs(rows - np.asarray(model(text, causal))).max()
    print(f"causal={causal}: largest difference {gap:.2g}")

# %% [markdown]
r"""
**Explain.** With the mask: to rounding. Without it the rows of the one pass have read the whole text, and are something else altogether.

The same fact has a second use. Since later tokens never change earlier rows, keys and values of earlier tokens can be kept while a text is written, and need not be computed again. That is chapter 7.

### Exercise: `next_token_losses`

`logits (T, n), tokens (T,) -> (T - 1,)`

**Logits** are scores of words before the softmax: one row for each position, one entry for each of the $n$ words. Row $t$ predicts token $t + 1$. The loss, called **cross-entropy**, is $-\ln p$ of the token that came, with $p$ from the softmax of the row: 0 if the model was certain and right, large if it was certain and wrong, and finite even then. (Subtract first and take the logarithm of a sum; the logarithm of a $p$ that has become 0 is too late.) The last row has nothing to predict.
"""


# %% solution="next_token_losses"
def next_token_losses(logits, tokens):
    """Cross-entropy of every next token: logits (T, n), tokens (T,) -> (T - 1,)."""
    ### BEGIN SOLUTION
    logits, tokens = np.asarray(logits, dtype=float)[:-1], np.asarray(tokens)[1:]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.log(np.exp(shifted).sum(axis=-1))  # (T - 1,)
    return total - shifted[np.arange(len(tokens)), tokens]
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Shift first: predictions without the last, tokens without the first. Then one loss a row.</details>
<details><summary>Hint 2: the shape</summary><code>logits[:-1]</code> is <code>(T - 1, n)</code>, <code>tokens[1:]</code> is <code>(T - 1,)</code>; <code>logits[np.arange(T - 1), tokens[1:]]</code> picks one entry a row.</details>
<details><summary>Hint 3: almost the line</summary><code>shifted</code> is each row minus its maximum. The loss is <code>np.log(np.exp(shifted).sum(axis=-1))</code> minus the shifted entry of the token that came.</details>
"""

# %% test="next_token_losses" points=0
check("next_token_losses", next_token_losses)
assert np.shape(next_token_losses(np.zeros((4, 3)), np.array([0, 1, 2, 0]))) == (3,)

# %%
losses = yours_or_ours("next_token_losses", next_token_losses)
one_pass = np.asarray(losses(model(text), text))
passes = [losses(model(text[: t + 2]), text[: t + 2])[-1] for t in range(7)]
print("one pass:    ", one_pass.round(2))
print("seven passes:", np.round(passes, 2))

# %% [markdown]
r"""
## 13. In your own words

How does the causal mask let us train on all positions of a text at once? Say what row $t$ of one pass is equal to and why; what is given as input at each position, and what is compared with what; and what would go wrong with a mask that is open one cell too far. Why can text nevertheless not be *written* in one pass?
"""

# %% [markdown] answer="why_one_pass" points=2
r"""
**Model answer.** Under the causal mask row t depends on tokens 0 to t only: all later keys have score -inf, weight exactly 0, and their values are not added. So row t of one pass over the whole text is the same vector that a pass over the first t + 1 tokens alone would give as its last row, to rounding; and this goes on through any number of layers, since each row of a layer is made of rows up to t of the layer below. One pass therefore holds T - 1 training examples: row t predicts token t + 1, logits[:-1] is compared with tokens[1:]. As input every position gets the true tokens so far, not the model's own guesses (teacher forcing); they are all known in training, so nothing has to wait for anything. If row t could read token t + 1, it would copy the answer: the loss falls towards 0, nothing is learned, and in use, where token t + 1 does not exist yet, the model fails. Writing takes a pass for each token because the next input is the token just chosen, which is not known before (though earlier keys and values need not be computed again).

**Marking notes.** 2 points: half a point for "row t depends on tokens 0 to t only, so it equals the pass over that beginning"; half a point for the shift (row t predicts token t + 1) with the true tokens as input; half a point for the leak (copies the answer, loss deceptively low); half a point for why writing is sequential. An answer that says the mask hides the *current* token loses the first half point.
"""

# %% [markdown]
r"""
## 14. Four questions in one picture

Two documents of four and three tokens in one row, one slot of padding, a window of three. Read each table by rows: which keys (columns) may this query read?
"""

# %%
segments = np.array([1, 1, 1, 1, 2, 2, 2, 0])
parts = {
    "causal": causal_mask(8),
    "window of 3": sliding_window_mask(8, 3),
    "segments": yours_or_ours("segment_mask", segment_mask)(segments, segments),
    "padding, length 7": np.repeat(np.asarray(padding_mask(np.array([7]), 8))[0], 8, axis=0),
}
parts["all of them"] = combine_masks(*map(np.asarray, parts.values()))
plots.masks(parts)
print("keys that each query reads:", np.asarray(parts["all of them"]).sum(axis=1))

# %% [markdown]
r"""
A cell with a dot may be read. The causal table is a lower triangle, the window a band below the diagonal, the segments two squares, padding everything but the last column. Together they leave two small bands, one in each document; query 4 begins anew, and query 7, which is padding, reads nothing: an empty row, whose output is 0.

**What you know now**

- A mask is boolean, broadcasts against the scores, and True means "may read". Elsewhere it may mean the opposite.
- Causal, padding, window and segment masks answer different questions. One no is enough: combine with `&`.
- Causal masks are aligned to the end: the last query stands at the last key.
- The mask goes in before the softmax, as $-\infty$: afterwards mass is lost, and the forbidden has had its say.
- An empty row gives zeros, by decision. And 0 times NaN is NaN.
- Change what must not matter, and see whether anything moves: that finds leaks which reading does not.
- One causal pass is all $T - 1$ predictions; a leak of one position looks like a very good model.

**Sources.** A. Vaswani et al., *Attention Is All You Need*, 2017, section 3.2.3, for masking with $-\infty$ in the decoder. J. Devlin et al., *BERT*, 2019, for an encoder without a causal mask. I. Beltagy et al., *Longformer*, 2020, and A. Jiang et al., *Mistral 7B*, 2023, for sliding windows. R. Williams and D. Zipser, *A Learning Algorithm for Continually Running Fully Recurrent Neural Networks*, 1989, for teacher forcing. M. Krell et al., *Efficient Sequence Packing without Cross-contamination*, 2021, for segments. PyTorch's documentation of `scaled_dot_product_attention` and of `nn.MultiheadAttention`, for the two conventions.

**Back** to [chapter 3](../03_scaling/03_scaling.ipynb). **Onward:** one attention has one set of weights a token, and must choose whom to read. Chapter 5 gives it several.
"""
