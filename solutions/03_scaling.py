# %% [markdown]
r"""
# Chapter 3. Why the square root

**The question.** In chapter 2 the scores were simply $Q K^\top$, and everything worked. Every transformer divides them by $\sqrt{d_k}$ first. What for? And why by the square root, not by $d_k$, not by something learned?

The short answer is one line of algebra. We take the long way: measure how far scores spread, see what softmax makes of them, and follow the gradient back to find out who stops learning. On the way you write the formula that the rest of the course is built on, and its gradients by hand.
"""

# %% [markdown]
r"""
**What you need.** [Chapter 1](../01_dictionary_lookup/01_dictionary_lookup.ipynb), above all the Jacobian of softmax, and [chapter 2](../02_qkv/02_qkv.ipynb). And a few facts about random numbers: $\operatorname{Var}[X] = \operatorname{E}[X^2] - \operatorname{E}[X]^2$; a factor $c$ in front makes $\operatorname{Var}[cX] = c^2 \operatorname{Var}[X]$; and if $X$ and $Y$ are independent, $\operatorname{E}[XY] = \operatorname{E}[X]\operatorname{E}[Y]$ and $\operatorname{Var}[X + Y] = \operatorname{Var}[X] + \operatorname{Var}[Y]$, and $X^2$ and $Y^2$ are independent, too. No more statistics than that.

**What you will write.** Exercises marked ★ are the core; the others lie beside the path and are worth no points. (Cells that need one of those take the course's own, through `yours_or_ours`, as long as yours does not pass.)

| | exercise | what it does |
|---|---|---|
| ★ | `score_std` | measure how far scores spread |
| ★ | `row_entropy` | say in one number how undecided a row is |
| | `saturation_curve` | watch softmax saturate as vectors widen |
| | `scaled_scores` | divide by the square root |
| ★ | `scaled_dot_product_attention` | the formula, whole |
| ★ | `last_token_weights`, `last_token_output` | one row of it by hand |
| ★ | `softmax_vjp` | a gradient through softmax, without the Jacobian |
| | `attention_gradients` | gradients in q, k and v, by hand |
| | `qk_norm_scores`, `soft_cap` | two other ways to hold scores down |
| ★ | a written question | derive the variance |

Set aside about two and a half hours (planned; nobody has been timed yet).
"""

# %%
import numpy as np

import utils
from utils import plots
from utils.check import check, yours_or_ours
from utils.reference.dictionary_lookup import softmax, softmax_jacobian

utils.ready("03_scaling")

# %% [markdown]
r"""
`softmax` and `softmax_jacobian` are those of chapter 1. You may use both in every exercise.

## 1. How far do scores spread?

At the start of training nothing is known, and queries and keys are as good as random. Take their components independent, with mean 0 and variance 1. A score is a sum of $d_k$ products, $q \cdot k = \sum_i q_i k_i$.

**Predict.** Here are histograms of such scores for three widths. Sixteen times wider each time: how much broader will the histogram be?
"""

# %%
draw = np.random.default_rng(1)
samples = {}
for d_k in (4, 64, 1024):
    q, k = draw.normal(size=(2, 2000, d_k))
    dots = (q * k).sum(axis=1)
    samples[f"d_k = {d_k}, 90 % within ±{np.quantile(np.abs(dots), 0.9):.1f}"] = dots
plots.histograms(samples, np.arange(-100, 101, 2), "score q·k", "pairs out of 2000")

# %% [markdown]
r"""
**Explain.** All three are centred at 0: no pair has a reason to fit. But sixteen times the width makes them about *four* times as broad. (The counts are on a logarithmic axis, so that the wide one can be seen beside the narrow ones.) The number to measure is the standard deviation.

### Exercise: `score_std` ★

Draw `n` pairs of a query and a key, `d_k` wide, with independent components of mean 0 and variance 1, and return the standard deviation of their `n` dot products. Draw everything from `rng`, a `np.random.Generator`; every pair is new. Your result is judged as a measurement: it may be off as far as chance allows.

`d_k, n, rng -> float`
"""


# %% solution="score_std"
def score_std(d_k, n, rng):
    """Standard deviation of n dot products of random vectors of width d_k, measured."""
    ### BEGIN SOLUTION
    q = rng.standard_normal((n, d_k))
    k = rng.standard_normal((n, d_k))
    return float(np.std((q * k).sum(axis=-1)))
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Two arrays of random numbers; row i of the one meets row i of the other.</details>
<details><summary>Hint 2: the shape</summary><code>q</code> and <code>k</code> are <code>(n, d_k)</code>, the scores <code>(n,)</code>, the result one number.</details>
<details><summary>Hint 3: almost the line</summary><code>q = rng.standard_normal((n, d_k))</code>, and the same for <code>k</code>. <code>q * k</code> has all the products; sum the right axis away, then <code>np.std</code>.</details>
"""

# %% test="score_std" points=2
check("score_std", score_std)

# %% [markdown]
r"""
Now fit a power law. On two logarithmic axes a power is a straight line, and its slope is the exponent.
"""

# %%
widths = [4, 16, 64, 256, 1024]
draw = np.random.default_rng(30)
stds = [score_std(d_k, 2000, draw) for d_k in widths]
exponent, _ = np.polyfit(np.log(widths), np.log(stds), 1)
print("standard deviations:", np.round(stds, 1), "  exponent:", round(exponent, 2))
plots.lines(
    widths,
    {"measured": stds, "square root of d_k": np.sqrt(widths)},
    "",
    "d_k",
    "standard deviation",
    logx=2,
    logy=2,
)

# %% [markdown]
r"""
The two curves lie on each other: about 2, 4, 8, 16 and 32, an exponent of 0.5. **Explain.** It is no accident. For one product of independent numbers with mean 0 and variance 1,

$$ \operatorname{E}[q_i k_i] = \operatorname{E}[q_i]\operatorname{E}[k_i] = 0, \qquad \operatorname{Var}[q_i k_i] = \operatorname{E}[q_i^2]\,\operatorname{E}[k_i^2] - 0 = 1 \cdot 1 = 1 . $$

The products of different components are independent of each other, so their variances add: $\operatorname{Var}[q \cdot k] = d_k$. The standard deviation is $\sqrt{d_k}$; at $d_k = 128$ it is 11.3. The form of the distribution does not matter, only mean, variance and independence.

## 2. What softmax makes of it

Softmax looks at *differences* of scores. A difference of 1 is a factor of 2.72 between two weights; at $d_k = 128$ two scores of one query typically lie $\sqrt 2$ times 11.3 apart, that is 16 (the variance of their difference is the sum of theirs), and 16 is a factor of nine million. To see what this does to a row of weights, we need a number for how undecided a row is. The **entropy** $H = -\sum_j p_j \log p_j$ is one: 0 if one key takes all, $\log S$ if all $S$ keys weigh the same.

### Exercise: `row_entropy` ★

The entropy of each row, in nats (natural logarithm). A weight of 0 contributes 0.

`weights (..., T, S) -> (..., T)`
"""


# %% solution="row_entropy"
def row_entropy(weights):
    """Entropy of each row in nats, 0 log 0 = 0: (..., T, S) -> (..., T)."""
    ### BEGIN SOLUTION
    p = np.asarray(weights)
    logs = np.log(np.where(p > 0, p, 1))  # log 1 = 0 stands in where p is 0
    return -(p * logs).sum(axis=-1)  # (..., T)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Minus the sum of p log p along each row. What about log 0?</details>
<details><summary>Hint 2: the shape</summary>The last axis, the keys, is summed away.</details>
<details><summary>Hint 3: almost the line</summary>Take the log of <code>np.where(p &gt; 0, p, 1)</code>: where p is 0 it gives log 1 = 0.</details>
"""

# %% test="row_entropy" points=1
check("row_entropy", row_entropy)
assert np.allclose(row_entropy(np.array([[0.5, 0.5], [1.0, 0.0]])), [np.log(2), 0])

# %% [markdown]
r"""
A second number tells how much a row can still *move*. The derivative of weight $i$ in its own score is $p_i (1 - p_i)$, the diagonal of chapter 1's Jacobian. Their sum is

$$ \text{sensitivity} = \sum_i p_i (1 - p_i) = 1 - \sum_i p_i^2 . $$

If one key takes all it is 0: nothing moves, whatever the scores do.

**Predict.** 64 keys. How do entropy and sensitivity change as the vectors widen, with the division by $\sqrt{d_k}$ and without?

### Exercise: `saturation_curve`

For each width: `n` random rows of weights, each from a standard normal query and `n_keys` standard normal keys; new vectors for each width. With `scaled`, the scores are divided by the square root of that width. Return two arrays: the mean entropy and the mean sensitivity over the rows. (One set of keys for all rows of a width will do.)

`widths, scaled, rng, n_keys=64, n=256 -> entropy (len(widths),), sensitivity (len(widths),)`
"""


# %% solution="saturation_curve"
def saturation_curve(widths, scaled, rng, n_keys=64, n=256):
    """Mean entropy and mean sensitivity, 1 - sum p^2, of n random rows for each width."""
    ### BEGIN SOLUTION
    entropy, sensitivity = [], []
    for width in widths:
        q = rng.standard_normal((n, width))
        k = rng.standard_normal((n_keys, width))
        rows = q @ k.T  # (n, n_keys)
        p = softmax(rows / np.sqrt(width) if scaled else rows)
        entropy.append(np.mean(row_entropy(p)))
        sensitivity.append(np.mean(1 - (p**2).sum(axis=-1)))
    return np.array(entropy), np.array(sensitivity)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>A loop over widths; inside it, scores, softmax, two means.</details>
<details><summary>Hint 2: the shape</summary><code>q (n, width)</code>, <code>k (n_keys, width)</code>: the rows are <code>q @ k.T</code>, <code>(n, n_keys)</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>p = softmax(rows / np.sqrt(width) if scaled else rows)</code>; append the mean of <code>row_entropy(p)</code> and the mean of one minus the squares, summed along each row first.</details>
"""

# %% test="saturation_curve" points=0
check("saturation_curve", saturation_curve)

# %%
widths = [1, 4, 16, 64, 128, 256, 1024, 2048]
curve = yours_or_ours("saturation_curve", saturation_curve)
raw_entropy, raw_sensitivity = curve(widths, False, np.random.default_rng(32))
entropy, sensitivity = curve(widths, True, np.random.default_rng(33))
for name, row in (("raw   ", raw_sensitivity), ("scaled", sensitivity)):
    print("sensitivity,", name, *(f"{d}: {s:.2f} " for d, s in zip(widths, row)))
plots.lines(
    widths, {"raw": raw_entropy, "scaled": entropy}, "", "d_k", "mean entropy (nats)", logx=2
)
plots.lines(
    widths,
    {"raw": raw_sensitivity, "scaled": sensitivity},
    "",
    "d_k",
    "mean sensitivity",
    logx=2,
)

# %% [markdown]
r"""
**Explain.** Raw, both curves fall towards 0 as vectors widen: at $d_k = 128$ the sensitivity is near 0.2, and at 2048 hardly anything is left. Scaled, both stay where they are, the sensitivity near 0.96, at every width. That is the whole point of the division: *the width becomes a free choice*.

**Break it.** To see how the raw scores do at 16 times the width, somebody saves time and repeats the old vectors sixteen times instead of drawing new ones, then divides by the new square root.
"""

# %%
draw = np.random.default_rng(34)
q, k = draw.normal(size=(256, 8)), draw.normal(size=(64, 8))
new_q, new_k = draw.normal(size=(256, 128)), draw.normal(size=(64, 128))
tiled_q, tiled_k = np.tile(q, 16), np.tile(k, 16)
tables = {"width 8": q @ k.T, "new, 128": new_q @ new_k.T, "tiled, 128": tiled_q @ tiled_k.T}
for name, table in tables.items():
    width = 8 if name == "width 8" else 128
    raw, scaled = (1 - (softmax(t) ** 2).sum(-1).mean() for t in (table, table / width**0.5))
    print(f"{name:11s} std {table.std():5.1f}   sensitivity raw {raw:.2f}, scaled {scaled:.2f}")

# %% [markdown]
r"""
**Explain.** New vectors: sixteen times the width, about four times the spread, and the square root takes it back. Tiled vectors: *sixteen* times the spread, since the repeated components are not independent and pull the same way, and the division no longer suffices. The square root rests on independence. Learned vectors are not independent either: after training, scores can grow beyond this again, which section 7 comes back to.

## 3. The remedy

If the variance is $d_k$, divide the scores by $\sqrt{d_k}$ and it is 1: the factor $1/\sqrt{d_k}$ changes a variance by its square.

$$ \operatorname{scores} = \frac{Q K^\top}{\sqrt{d_k}} $$

### Exercise: `scaled_scores`

With `scale=None` the dot products are divided by $\sqrt{d_k}$. A scale that is given multiplies them instead; `0.0` is a scale like any other.

`q (..., T, d_k), k (..., S, d_k), scale=None -> (..., T, S)`
"""


# %% solution="scaled_scores"
def scaled_scores(q, k, scale=None):
    """Dot products times scale (None: 1 / sqrt(d_k)): -> (..., T, S)."""
    ### BEGIN SOLUTION
    q, k = np.asarray(q), np.asarray(k)
    if scale is None:
        scale = 1 / np.sqrt(q.shape[-1])
    return q @ np.swapaxes(k, -1, -2) * scale  # (..., T, S)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Chapter 2's scores, times one number.</details>
<details><summary>Hint 2: the shape</summary>d_k is the length of q's <em>last</em> axis, whatever stands in front of it.</details>
<details><summary>Hint 3: almost the line</summary><code>if scale is None: scale = 1 / np.sqrt(q.shape[-1])</code>. (<code>if not scale</code> would take 0.0 for None.)</details>
"""

# %% test="scaled_scores" points=0
check("scaled_scores", scaled_scores)
assert np.allclose(scaled_scores(np.ones((1, 4)), np.ones((1, 4))), 2)

# %% [markdown]
r"""
### Exercise: `scaled_dot_product_attention` ★

The formula that everything after this chapter is built on. Return `(out, weights)`.

`q (..., T, d_k), k (..., S, d_k), v (..., S, d_v), scale=None -> out (..., T, d_v), weights (..., T, S)`
"""


# %% solution="scaled_dot_product_attention"
def scaled_dot_product_attention(q, k, v, scale=None):
    """softmax(q k^T * scale) v -> out (..., T, d_v), weights (..., T, S)."""
    ### BEGIN SOLUTION
    weights = softmax(scaled_scores(q, k, scale))  # (..., T, S)
    return weights @ np.asarray(v), weights
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Scores, softmax, weighted average: three steps you have written before.</details>
<details><summary>Hint 2: the shape</summary>Softmax along the last axis; then <code>(..., T, S) @ (..., S, d_v)</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>weights = softmax(...)</code> of the scaled scores: <code>scaled_scores(q, k, scale)</code>, if you have written it. The average is a product with <code>v</code>. Mind the order of the two results.</details>
"""

# %% test="scaled_dot_product_attention" points=3
check("scaled_dot_product_attention", scaled_dot_product_attention)

# %% [markdown]
r"""
## 4. Once by hand

Three tokens, width 2:

$$ Q = K = \begin{pmatrix} 1 & 0 \\ 0 & 1 \\ 1 & 1 \end{pmatrix}, \qquad V = \begin{pmatrix} 1 & 0 \\ 0 & 2 \\ 3 & 1 \end{pmatrix} $$

Take paper, and work out the row of the **last** token: its raw scores with all three keys, the division, the exponentials, their shares.

### Exercise: `last_token_weights` ★

Type the three weights, to three decimals.
"""

# %% solution="last_token_weights"
last_token_weights = None
### BEGIN SOLUTION
last_token_weights = [0.248, 0.248, 0.503]
### END SOLUTION

# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>The query is [1, 1]. Its dot products with the keys are small whole numbers.</details>
<details><summary>Hint 2: the shape</summary>Three numbers that sum to 1; two of them are the same. Why?</details>
<details><summary>Hint 3: almost the line</summary>Divide the scores by 1.414, take exponentials, divide each by the sum of the three.</details>
"""

# %% test="last_token_weights" points=1
check("last_token_weights", last_token_weights)

# %% [markdown]
r"""
### Exercise: `last_token_output` ★

Now the output of the last token: two numbers, to three decimals. Round only at the very end.
"""

# %% solution="last_token_output"
last_token_output = None
### BEGIN SOLUTION
last_token_output = [1.759, 1.000]
### END SOLUTION

# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Weight times row of V, added up.</details>
<details><summary>Hint 2: the shape</summary>The output is as long as a value: two numbers.</details>
<details><summary>Hint 3: almost the line</summary>The first column of V is 1, 0, 3, the second 0, 2, 1: multiply each by the weights and add.</details>
"""

# %% test="last_token_output" points=1
check("last_token_output", last_token_output)

# %%
Q = K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
V = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
for name, scale in (("scaled", None), ("raw   ", 1.0)):
    out, weights = map(np.asarray, scaled_dot_product_attention(Q, K, V, scale))
    print(name, " weights", np.round(weights[2], 3), "  output", np.round(out[2], 3))

# %% [markdown]
r"""
**Explain.** At width 2 the division changes little: the last token reads itself with 0.503 instead of 0.576. (If you had 0.25, 0.25 and 0.5: that is close enough to pass, but so are the scores 1, 1 and 2 shared out without exponentials. The output tells the two apart, 1.759 from 1.75.) Its second output is the same either way. (Two equal weights $a$ and the rest $1 - 2a$ give $2a + 1 - 2a = 1$, whatever $a$ is.) One worked example can hide a mistake.

## 5. See it

Slide the width from 1 to 2048, with the division and without. Left: how scores spread; right: the 64 weights of one row. The entropy and the sensitivity below are means over 200 rows. Find out:

- At which width, without the scale, does one key first take more than half of the row that is shown?
- With the scale, which of the numbers change with the width?
- At width 1 the switch changes nothing. Why?
"""

# %% tags=["figure"]
from utils.widgets import scaling_figure

scaling_figure()

# %% [markdown] static="scaling"
r"""
<details><summary>The same figure, standing still</summary>

Width 128 without the scale, and the numbers for several widths with it and without.

FIGURE

</details>
"""

# %% [markdown]
r"""
**Explain.** At width 4 already: 0.74. But that is one row, and chance: at 8, 32 and 128 no key of the row shown has half, at 16 and 64 one has nearly all, and from 256 on one always has. The means below do not jump about; the sensitivity falls from 0.96 to less than 0.1. With the scale they stay near 3.7 and 0.96, and the deviation near 1; only the one row differs, because every width has vectors of its own. And $\sqrt 1 = 1$.

## 6. Who stops learning?

A saturated row hardly moves. To see what this does to learning, send a gradient back through the formula. First through softmax. Let $g_i = \partial L / \partial p_i$ be the gradient that arrives at the weights of one row (**upstream**). By the chain rule, with chapter 1's Jacobian $\partial p_i / \partial s_j = p_i (\delta_{ij} - p_j)$, where $\delta_{ij}$ is 1 if $i = j$ and else 0,

$$ \frac{\partial L}{\partial s_j} = \sum_i g_i\, p_i (\delta_{ij} - p_j) = p_j g_j - p_j \sum_i p_i g_i = p_j \Bigl( g_j - \sum_i p_i g_i \Bigr) . $$

In words: a score's gradient is its weight times what its key's $g$ has above the row's average. The Jacobian has $S \times S$ entries; the result needs none of them, only one sum a row. Such a product of an upstream vector with a Jacobian is called a vector-Jacobian product, **vjp**.

### Exercise: `softmax_vjp` ★

`weights (..., T, S), upstream (..., T, S) -> (..., T, S)`, each row by itself. Do not build the Jacobian.
"""


# %% solution="softmax_vjp"
def softmax_vjp(weights, upstream):
    """Gradient in the scores from the gradient in the weights, row by row; all (..., T, S)."""
    ### BEGIN SOLUTION
    p, g = np.asarray(weights), np.asarray(upstream)
    average = (p * g).sum(axis=-1, keepdims=True)  # (..., T, 1)
    return p * (g - average)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Subtract from each upstream entry the row's weighted average, then multiply by the weight.</details>
<details><summary>Hint 2: the shape</summary>The average is <code>(..., T, 1)</code>: <code>keepdims=True</code> keeps the axis that was summed.</details>
<details><summary>Hint 3: almost the line</summary><code>p * (g - average)</code>. The average weighs each <code>g</code> by its <code>p</code>, as you weighed values before, and keeps its axis.</details>
"""

# %% test="softmax_vjp" points=2
check("softmax_vjp", softmax_vjp)

# %%
p, g = softmax(np.array([2.0, 1.0, -1.0])), np.array([1.0, -2.0, 0.5])
print("with the Jacobian:", np.round(softmax_jacobian(p) @ g, 4))
row = np.asarray(softmax_vjp(p, g))  # yours may be a list or a tensor
print("without it:       ", np.round(row, 4))
print("sum of the row:   ", abs(round(float(row.sum()), 10)))

# %% [markdown]
r"""
The two agree, and the row sums to 0: to raise all scores together changes nothing.

Now the rest of the way, in three steps back from $\text{out}$. Write $P$ for the weights, $A = c\, Q K^\top$ for the scores, $c$ for the scale ($1/\sqrt{d_k}$, unless another is given), and $G$ for the gradient that arrives at out. $dV$ is short for $\partial L / \partial V$, and so on: an array of the shape of $V$. With a batch in front, $^\top$ turns round the last two axes only.

1. $\text{out}_{td} = \sum_s P_{ts} V_{sd}$. Value $s$ goes into every row $t$, with weight $P_{ts}$: $\; dV = P^\top G$. And $P_{ts}$ multiplies row $s$ of $V$: $\; dP = G V^\top$.
2. Through softmax, row by row: $\; dA = \texttt{softmax\_vjp}(P, dP)$.
3. $A_{ts} = c \sum_i Q_{ti} K_{si}$. Query $t$ meets every key, key $s$ meets every query: $\; dQ = c\, dA\, K$ and $dK = c\, dA^\top Q$.

The scale comes in twice, on the way forward and on the way back.

### Exercise: `attention_gradients`

The gradients of $\sum \text{out} \cdot d_{out}$ in q, k and v. Chapter 8 needs them again.

`q (..., T, d_k), k (..., S, d_k), v (..., S, d_v), d_out (..., T, d_v), scale=None -> dq, dk, dv`
"""


# %% solution="attention_gradients"
def attention_gradients(q, k, v, d_out, scale=None):
    """Gradients of sum(out * d_out): -> dq, dk, dv, shaped like q, k and v."""
    ### BEGIN SOLUTION
    q, k, v, d_out = (np.asarray(x) for x in (q, k, v, d_out))
    if scale is None:
        scale = 1 / np.sqrt(q.shape[-1])
    _, weights = scaled_dot_product_attention(q, k, v, scale)
    dv = np.swapaxes(weights, -1, -2) @ d_out  # (..., S, d_v)
    d_weights = d_out @ np.swapaxes(v, -1, -2)  # (..., T, S)
    d_scores = softmax_vjp(weights, d_weights)  # (..., T, S)
    return scale * d_scores @ k, scale * np.swapaxes(d_scores, -1, -2) @ q, dv
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Walk the three steps from the end to the beginning.</details>
<details><summary>Hint 2: the shape</summary>A gradient has the shape of what it belongs to: dk is <code>(..., S, d_k)</code>, so it must be <code>(S, T) @ (T, d_k)</code>.</details>
<details><summary>Hint 3: almost the line</summary>First <code>if scale is None: scale = 1 / np.sqrt(q.shape[-1])</code>. Then <code>d_scores = softmax_vjp(weights, d_out @ vT)</code> and <code>dv = weightsT @ d_out</code>, with T for <code>np.swapaxes(..., -1, -2)</code>; the two that are left are products with <code>k</code> and with <code>q</code>, times the scale.</details>
"""

# %% test="attention_gradients" points=0
check("attention_gradients", attention_gradients)

# %% [markdown]
r"""
Trust it after you have checked it. Nudge one entry of `q` a little both ways and see how $\sum \text{out} \cdot d_{out}$ changes: that is the gradient, by **finite differences**.
"""

# %%
gradients = yours_or_ours("attention_gradients", attention_gradients)
draw = np.random.default_rng(35)
q, k, v, d_out = (draw.normal(size=s) for s in ((3, 4), (5, 4), (5, 2), (3, 2)))
dq, dk, dv = map(np.asarray, gradients(q, k, v, d_out))  # yours may be lists or tensors
step = np.zeros_like(q)
step[1, 2] = 1e-5
up, down = (
    np.sum(np.asarray(scaled_dot_product_attention(q + s, k, v)[0]) * d_out) for s in (step, -step)
)
print(f"by nudging {(up - down) / 2e-5:.6f}   by formula {dq[1, 2]:.6f}")

# %% [markdown]
r"""
Both ways agree. **Predict.** Without the scale, do the gradients of the queries get smaller or larger as vectors widen? Here are 1000 queries on 64 keys, and the length of each query's gradient.
"""

# %%
for name, scale in (("raw", 1.0), ("scaled", None)):
    for d_k in (8, 128, 2048):
        draw = np.random.default_rng(33)
        q, k, v, d_out = (
            draw.normal(size=s) for s in ((1000, d_k), (64, d_k), (64, 16), (1000, 16))
        )
        lengths = np.sort(np.linalg.norm(gradients(q, k, v, d_out, scale)[0], axis=1))
        p = np.asarray(scaled_dot_product_attention(q, k, v, scale)[1])
        settled = np.mean(1 - (p**2).sum(axis=-1) < 0.1)  # rows whose sensitivity is below 0.1
        print(
            f"{name:6s} d_k = {d_k:4d}   mean length {lengths.mean():.2f}"
            f"   of which the top tenth has {lengths[-100:].sum() / lengths.sum():3.0%}"
            f"   settled rows {settled:5.1%}"
        )

# %% [markdown]
r"""
**Explain.** Without the scale the *mean* grows, from 2.45 to 5.88 to 7.71. Whoever looks at the mean alone concludes that raw scores learn better! But look who has it. At width 8 the tenth of the queries with the longest gradients has 23 % of the sum; at 128 it is 47 %, at 2048 it is 86 %. Those are rows that happen to be near a tie of two keys; their gradients are large, because the keys that they are multiplied with are long. More and more of the others have made up their mind, at random, before training has begun: rows whose sensitivity is below 0.1 are 0.5 %, 49 % and 86 % of all. With the scale there are no settled rows at any width, and the top tenth has no more than a fifth.

A sensitivity cannot exceed 1, so no few rows can carry its mean. That is why section 2 measured it, and not gradients. (The median of the lengths is no way out: at 128 half of the rows are still undecided, and it is larger without the scale than with it.)

## 7. Other ways to hold scores down

The division takes care of the *start* of training. Later q and k grow as they like. Two other remedies, used in large models:

**Query-key normalisation.** Divide queries and keys by their own lengths, so that scores are cosines, and multiply by one learned gain. No score can be larger than the gain.

### Exercise: `qk_norm_scores`

`gain` times the cosine of each query with each key. A vector of zeros scores 0.

`q (..., T, d_k), k (..., S, d_k), gain=1.0 -> (..., T, S)`
"""


# %% solution="qk_norm_scores"
def qk_norm_scores(q, k, gain=1.0):
    """gain times the cosine of every query with every key; a zero vector scores 0."""

    ### BEGIN SOLUTION
    def unit(x):
        x = np.asarray(x)
        length = np.linalg.norm(x, axis=-1, keepdims=True)  # (..., 1)
        return x / np.where(length == 0, 1, length)

    return gain * unit(q) @ np.swapaxes(unit(k), -1, -2)  # (..., T, S)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Make every vector unit long, then take dot products as before.</details>
<details><summary>Hint 2: the shape</summary><code>np.linalg.norm(x, axis=-1, keepdims=True)</code> is <code>(..., T, 1)</code> and divides each row by its own length.</details>
<details><summary>Hint 3: almost the line</summary>A vector of zeros must not be divided by 0: <code>np.where(length == 0, 1, length)</code> leaves it zero. What is left are dot products of unit vectors, and the gain.</details>
"""

# %% test="qk_norm_scores" points=0
check("qk_norm_scores", qk_norm_scores)
assert np.allclose(qk_norm_scores([[3.0, 4.0]], [[0.0, 2.0], [0.0, 0.0]]), [[0.8, 0]])

# %% [markdown]
r"""
**Soft-capping.** Squeeze the scores themselves: $\text{cap} \cdot \tanh(\text{score} / \text{cap})$. Far below the cap $\tanh x \approx x$ and nothing happens; no score gets beyond the cap, and unlike a clipped score it keeps a gradient.

### Exercise: `soft_cap`

`scores (any shape), cap -> the same shape`
"""


# %% solution="soft_cap"
def soft_cap(scores, cap):
    """cap * tanh(scores / cap): same shape, none beyond the cap."""
    ### BEGIN SOLUTION
    return cap * np.tanh(np.asarray(scores) / cap)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>tanh runs from -1 to 1. What must it be stretched by, and what must go in, so that small scores stay the same?</details>
<details><summary>Hint 2: the shape</summary>Entry by entry: the shape does not change.</details>
<details><summary>Hint 3: almost the line</summary><code>np.tanh</code> of what, times what? Both are the cap, once as a divisor and once as a factor.</details>
"""

# %% test="soft_cap" points=0
check("soft_cap", soft_cap)

# %%
capped = yours_or_ours("soft_cap", soft_cap)
print("capped at 50:", np.round(capped(np.array([1.0, 10.0, 50.0, 500.0]), 50.0), 2))
row = np.array([1.0, 2.0, -np.inf])  # the last key is forbidden: chapter 4
print("cap before the mask:", np.round(softmax(np.append(capped(row[:2], 5.0), -np.inf)), 3))
print("cap after the mask: ", np.round(softmax(capped(row, 5.0)), 3))

# %% [markdown]
r"""
**Explain.** 1 and 10 hardly change, 50 becomes 38.08, 500 stops at 50. The last two lines are a warning for the next chapter. A forbidden key will get the score $-\infty$; cap *after* that, and $-\infty$ becomes $-5$: the forbidden key is read again, if only a little. Cap before the mask, never after.

## 8. In your own words

Derive the variance of $q \cdot k$ once more, for a model that starts with other spreads: all components independent with mean 0, those of queries with variance $a$, those of keys with variance $b$. Name the place where each assumption is used. By what should the scores be divided now? Then, for $a = b = 1$: what would dividing by $d_k$ instead of $\sqrt{d_k}$ do to the weights, at the start of training, as the model gets wider?
"""

# %% [markdown] answer="why_square_root" points=2
r"""
**Model answer.** q·k is the sum of the d_k products q_i k_i. Independence of q_i and k_i gives E[q_i k_i] = E[q_i] E[k_i] = 0 and E[q_i² k_i²] = E[q_i²] E[k_i²]; mean 0 makes the factors the variances a and b, so one product has variance ab. Products of different components are independent (uncorrelated is enough), so the variances add: Var[q·k] = ab·d_k, a standard deviation of √(ab·d_k). Dividing by it makes the variance 1 at every width; for a = b = 1 it is √d_k. Dividing by d_k instead divides the variance, then d_k, by d_k², which leaves 1/d_k: the scores shrink towards 0 as the model gets wider, softmax of nearly equal scores is nearly uniform, and the layer can do little more than average all values. Queries and keys would have to grow by themselves before any token could be picked out. The gradient in the scores is healthy there (a uniform row is sensitive), but the factor 1/d_k makes the gradients of q and k small. (If q and k line up after training, their dot product grows like d_k, and then 1/d_k can be the right choice; the argument for the square root is one about independent vectors.)

**Marking notes.** 2 points. One for the derivation: half for the variance ab of one product with its assumptions, half for adding variances because the products are independent, which gives √(ab·d_k) as divisor. One for d_k: half for "the variance becomes 1/d_k, the scores go to 0", half for "weights nearly uniform". "The softmax saturates" for division by d_k is the wrong way round: no point for that part.
"""

# %% [markdown]
r"""
## 9. The chapter in one picture

The same 12 keys at width 256, sorted by weight: raw on the left, scaled on the right.
"""

# %%
draw = np.random.default_rng(36)
q, k = draw.normal(size=(1, 256)), draw.normal(size=(12, 256))
panels = {}
for name, scale in (("raw", 1.0), ("scaled by 1/16", None)):
    p = np.sort(np.asarray(scaled_dot_product_attention(q, k, k, scale)[1])[0])[::-1]
    panels[f"{name}: entropy {np.asarray(row_entropy(p[None]))[0]:.2f}"] = p
    print(f"{name:14s} three largest {np.round(p[:3], 2)}, smallest {p[-1]:.2f}")
plots.bars_side_by_side(panels, "key")

# %% [markdown]
r"""
On the left the first key takes 0.93 and the next two 0.04 and 0.03; nothing is left for the others. On the right the first has 0.20, the next two 0.16 each, and even the last has 0.02. The order of the keys is the same on both sides.

**What you know now**

- The dot product of random vectors has variance $d_k$; the standard deviation grows like its square root, and you have measured it.
- Softmax over widely spread scores is nearly one-hot, at random, before anything was learned. The wider the vectors, the more rows have settled, with a sensitivity below 0.1: half of them at $d_k = 128$, six of seven at 2048.
- Dividing by $\sqrt{d_k}$ makes scores spread by 1 at every width.
- A mean can be carried by a few rows. Ask who has it, or take a bounded quantity such as $1 - \sum p^2$.
- The gradient through softmax is $p\,(g - \sum p g)$: no Jacobian needed.
- The square root rests on independence. Query-key normalisation and soft caps hold scores down when it is gone.

**Sources.** A. Vaswani et al., *Attention Is All You Need*, 2017, section 3.2.1; the variance is derived in its footnote 4. A. Henry et al., *Query-Key Normalization for Transformers*, 2020. Gemma Team, *Gemma 2: Improving Open Language Models at a Practical Size*, 2024, section 2, on soft-capping. G. Yang et al., *Tensor Programs V*, 2022, on when to divide by $d_k$ instead.

**Back** to [chapter 2](../02_qkv/02_qkv.ipynb). **Onward:** so far every token may read every other. [Chapter 4](../04_masking/04_masking.ipynb) says who may read whom.
"""
