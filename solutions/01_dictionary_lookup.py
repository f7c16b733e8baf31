# %% [markdown]
r"""
# Chapter 1. A dictionary that can learn

**The question.** A Python dict finds a value by its key. Could something that works like a dict *learn* what to look for?

A dict answers on an exact match or not at all. Ask for a key that differs in one letter and you get an error; there is no "nearly", no "a bit of both", and no way to say in which direction the question should have been different. Learning by gradient descent needs exactly that: a small change of the question must change the answer a little.

In this chapter you make the dict soft, step by step. What comes out is not *like* attention; it *is* attention, for one query. The chapters after this one add where queries, keys and values come from, and how to do it for many tokens at once.
"""

# %% [markdown]
r"""
**What you need.** Python functions, NumPy arrays and their shapes, dot products, partial derivatives. No machine learning.

**What you will write.** Exercises marked ★ are the core; the others lie beside the path and are worth no points.

| | exercise | what it does |
|---|---|---|
| | `hard_lookup` | what a dict does, with the loop in sight |
| ★ | `similarity` | compare a query with every key |
| ★ | `softmax` | turn scores into weights |
| ★ | `cat_sat_weights`, `cat_sat_output` | one look-up by hand |
| ★ | `soft_lookup` | the soft dictionary |
| | `temperature_for` | choose how sharp it is |
| ★ | `softmax_jacobian`, `query_gradient` | how the answer changes with the question |
| ★ | `learn_query` | let it learn what to look for |

Set aside about two hours (planned; nobody has been timed yet). Every exercise has three hints, folded away; open one only after a try of your own.

**How it works.** Predict, then run, then read the explanation. Where a cell says `raise NotImplementedError()`, replace that line by your own code. The `check` below each exercise tells you what is right and what to mend; run it as often as you like.
"""

# %%
import numpy as np

import utils
from utils import plots
from utils.check import check

utils.ready("01_dictionary_lookup")

# %% [markdown]
r"""
## 1. What a dict does

Here is a look-up as you know it.
"""

# %%
ages = {"ant": 1, "bear": 25, "cat": 12}
ages["cat"]

# %% [markdown]
r"""
**Predict.** What happens for `ages["car"]`, one letter off? What *should* happen if "car" were a sensor reading and "cat" the closest thing we have ever stored?
"""

# %%
try:
    print(ages["car"])
except KeyError as error:
    print("KeyError:", error)

# %% [markdown]
r"""
**Explain.** The dict only knows equal and not equal. That is the first thing we shall have to give up. To see it plainly, write the look-up as a loop, without the dict: a *query*, a list of *keys*, a list of *values*. These three words stay with us for the whole course.

### Exercise: `hard_lookup`

Return the value whose key equals the query. If several keys do, the first one wins. If none does, raise `KeyError`. `keys` and `values` are lists of one length. As in a dict, queries and keys are anything hashable: strings, numbers, tuples, `None`. Values may be anything at all, `0` and `None` included.
"""


# %% solution="hard_lookup"
def hard_lookup(query, keys, values):
    """The value of the first key that equals `query`; KeyError when there is none."""
    ### BEGIN SOLUTION
    for key, value in zip(keys, values):
        if key == query:
            return value
    raise KeyError(query)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Walk over keys and values side by side and stop at the first key that fits.</details>
<details><summary>Hint 2: the shape</summary><code>zip(keys, values)</code> gives one pair at a time. What is left to do when the loop has ended without a match?</details>
<details><summary>Hint 3: almost the line</summary><code>if key == query: return value</code> inside the loop, and <code>raise KeyError(query)</code> after it, not in an <code>else</code> of the <code>if</code>.</details>
"""

# %% test="hard_lookup" points=0
check("hard_lookup", hard_lookup)
assert hard_lookup("cat", ["ant", "cat"], [1, 12]) == 12
assert hard_lookup("a", ["a", "a"], [0, 1]) == 0

# %% [markdown]
r"""
## 2. How well does a key fit?

A soft look-up needs a number for "how well does this key fit my query". So let queries and keys be vectors, and compare them by their **dot product**:

$$ q \cdot k = \sum_{i=1}^{d} q_i\, k_i = \lVert q \rVert\, \lVert k \rVert \cos\theta . $$

It is large where the two point the same way, zero where they are at right angles, negative where they point apart. And a long key speaks louder than a short one: the dot product keeps the lengths, unlike a cosine.

**Predict.** The query is `[1, 0]`. Order these three keys by their dot product with it: `[0, 5]`, `[2, 0]`, `[1, 1]`.
"""

# %%
for arrow in ([0.0, 5.0], [2.0, 0.0], [1.0, 1.0]):
    print(arrow, "->", np.array([1.0, 0.0]) @ np.array(arrow))

# %% [markdown]
r"""
**Explain.** `[0, 5]` is the longest, but it points at a right angle to the query and scores 0. Only the part of a key along the query counts.

### Exercise: `similarity` ★

Dot products of queries with keys. `keys` is `(n, d)`, one key a row. `query` is `(..., d)`: one query `(d,)`, several `(m, d)`, or any number of axes in front; they all stay in the result.

`query (..., d), keys (n, d) -> (..., n)`
"""


# %% solution="similarity"
def similarity(query, keys):
    """Dot product of each query with each key: (..., d), (n, d) -> (..., n)."""
    ### BEGIN SOLUTION
    return np.asarray(query) @ np.asarray(keys).T
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>One dot product for each pair of a query and a key: that is a matrix product.</details>
<details><summary>Hint 2: the shape</summary>A matrix product sums over the last axis of the left factor and the last but one of the right: <code>(..., d) @ (d, n)</code> gives <code>(..., n)</code>. Your keys are <code>(n, d)</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>query @ keys.T</code>. If you want lists to work as well, put <code>np.asarray</code> round both.</details>
"""

# %% test="similarity" points=1
check("similarity", similarity)
assert np.allclose(similarity(np.array([1, 0]), np.array([[0, 1], [2, 0], [1, 1]])), [0, 2, 1])

# %% [markdown]
r"""
## 3. From scores to weights

Scores may be any numbers. To average values we want **weights**: none negative, and together exactly 1, a budget to be spent among the keys. Dividing scores by their sum will not do: scores can be negative, and their sum can be 0. The exponential makes every score positive and keeps their order. So:

$$ \operatorname{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}} . $$

**Predict.** What does softmax make of `[0, 0, 0]`? And if you add 100 to each of three scores, what happens to the weights?
"""


# %%
def naive_softmax(x):
    return np.exp(x) / np.exp(x).sum()


three = np.array([0.0, 2.0, 1.0])
print(naive_softmax(np.zeros(3)).round(3))
print(naive_softmax(three).round(3))
print(naive_softmax(three + 100).round(3))

# %% [markdown]
r"""
**Explain.** Equal scores share the budget equally. And a constant added to all scores changes nothing, because it cancels:

$$ \frac{e^{x_i + c}}{\sum_j e^{x_j + c}} = \frac{e^{c} e^{x_i}}{e^{c} \sum_j e^{x_j}} = \operatorname{softmax}(x)_i . $$

Only *differences* of scores matter. That is more than a curiosity, as the next cell shows.

**Break it.** What does `naive_softmax(three + 1000)` give? It should change nothing.
"""

# %%
with np.errstate(all="ignore"):
    print("e^1000     =", np.exp(1000.0))
    print("naive      =", naive_softmax(three + 1000))
    print("far below  =", naive_softmax(three - 1000))

# %% [markdown]
r"""
**Explain.** $e^{1000}$ is too large for a float64, it becomes `inf`, and `inf / inf` is `nan`. Far below zero all exponentials become 0, and `0 / 0` is `nan` as well. But we may subtract any constant we like, so we subtract each row's own maximum: then the largest exponent is 0, nothing overflows, and the sum is at least 1.

One case is left. A score of $-\infty$ means "this key must not be read" (chapter 4 lives on it), and $e^{-\infty} = 0$ does the right thing by itself. If *all* scores of a row are $-\infty$, there is no key to read at all. We decide, once for the whole course: then all weights are 0.

### Exercise: `softmax` ★

Along `axis`, for any number of axes. It must be stable for scores such as ±10 000, also in float32; a score of `-inf` weighs 0; a row that is all `-inf` gives zeros.

`x -> same shape`
"""


# %% solution="softmax"
def softmax(x, axis=-1):
    """Weights that sum to 1 along `axis`; zeros where every score is -inf."""
    ### BEGIN SOLUTION
    x = np.asarray(x)
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isneginf(top), 0, top)  # -inf - -inf would be nan
    e = np.exp(x - top)
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Shift, exponentiate, normalise: subtract the row's maximum, take exp, divide by the row's sum.</details>
<details><summary>Hint 2: the shape</summary>The maximum and the sum must line up with <code>x</code> again: <code>keepdims=True</code> keeps the axis, with length 1. For the row that is all <code>-inf</code>, two places make NaN: <code>-inf - -inf</code>, and <code>0 / 0</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>top = x.max(axis=axis, keepdims=True)</code>, then replace <code>-inf</code> in it by 0 with <code>np.where(np.isneginf(top), 0, top)</code>; and divide by <code>np.where(total == 0, 1, total)</code>.</details>
"""

# %% test="softmax" points=3
check("softmax", softmax)
assert np.allclose(softmax(np.array([0.0, 0.0])), [0.5, 0.5])
assert np.allclose(softmax(np.array([[1000.0, 0.0], [-np.inf, -np.inf]])), [[1, 0], [0, 0]])

# %% [markdown]
r"""
## 4. One look-up by hand

Three words, "the cat sat". The word "sat" is looking for whoever sat, and its query is $q = [1, 0]$. Each word offers a key and a value:

| word | key | value |
|---|---|---|
| the | [0, 1] | [1, 0, 0] |
| cat | [2, 0] | [0, 1, 0] |
| sat | [1, 1] | [0, 0, 1] |

We divide the scores by $\sqrt 2$ before the softmax. Call that number the *temperature* for now; chapter 3 says why this one. With pen and paper (and a calculator for the exponentials):

1. scores $q \cdot k$,
2. divided by $\sqrt 2 \approx 1.414$,
3. exponentials, and their sum,
4. each divided by the sum: the weights.

### Exercise: `cat_sat_weights` ★

Type the three weights, for *the*, *cat* and *sat*, to two decimals: `cat_sat_weights = [..., ..., ...]`. No code is needed.
"""

# %% solution="cat_sat_weights"
cat_sat_weights = None
### BEGIN SOLUTION
cat_sat_weights = [0.14, 0.58, 0.28]
### END SOLUTION

# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Follow the four steps for each word; the scores are 0, 2 and 1.</details>
<details><summary>Hint 2: the shape</summary>Three numbers that add up to 1. "cat" gets the most.</details>
<details><summary>Hint 3: almost the line</summary>Divided by 1.414 the scores are 0, 1.414 and 0.707; their exponentials 1, 4.11 and 2.03, which sum to 7.14. Round at the end only.</details>
"""

# %% test="cat_sat_weights" points=1
check("cat_sat_weights", cat_sat_weights)

# %% [markdown]
r"""
## 5. The soft dictionary

Now spend the budget. The output is the average of the values, each weighted by how well its key fits:

$$ \text{out} = \sum_{j=1}^{n} w_j\, v_j, \qquad w = \operatorname{softmax}\!\left(\frac{q \cdot k_1}{T}, \dots, \frac{q \cdot k_n}{T}\right). $$

No weight is negative and they sum to 1, so the output always lies *inside the convex hull* of the values: the region that a rubber band around them would enclose. One key far ahead: the output is nearly its value, a hard look-up. Several close together: a blend. The temperature $T$ sets how sharply the weights follow the scores. It is the same knob with which a language model's next word is drawn.

### Exercise: `soft_lookup` ★

`query (..., d), keys (n, d), values (n, d_v) -> out (..., d_v), weights (..., n)`

Return the pair `(out, weights)`. A temperature of 0 or below makes no sense: raise `ValueError`.
"""


# %% solution="soft_lookup"
def soft_lookup(query, keys, values, temperature=1.0):
    """Weighted average of the values, and the weights; ValueError unless temperature > 0."""
    ### BEGIN SOLUTION
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, not {temperature}")
    weights = softmax(similarity(query, keys) / temperature)  # (..., n)
    return weights @ np.asarray(values), weights
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>You have both parts already: <code>similarity</code> gives the scores, <code>softmax</code> turns them into weights.</details>
<details><summary>Hint 2: the shape</summary>Weights are <code>(..., n)</code>, values <code>(n, d_v)</code>: one more matrix product gives <code>(..., d_v)</code>.</details>
<details><summary>Hint 3: almost the line</summary>After the test of the temperature: <code>weights = softmax(similarity(query, keys) / temperature)</code>, then return <code>weights @ values, weights</code>.</details>
"""

# %% test="soft_lookup" points=2
check("soft_lookup", soft_lookup)
out, weights = soft_lookup(np.array([1.0]), np.array([[0.0], [0.0]]), np.array([[2.0], [4.0]]))
assert np.allclose(out, [3.0]) and np.allclose(weights, [0.5, 0.5])

# %% [markdown]
r"""
Back to "the cat sat". You know the weights; the values are one-hot, so the output can be read off without any code.

### Exercise: `cat_sat_output` ★

Type the output, three numbers to two decimals. Then say to yourself why it looks so familiar.
"""

# %% solution="cat_sat_output"
cat_sat_output = None
### BEGIN SOLUTION
cat_sat_output = [0.14, 0.58, 0.28]
### END SOLUTION

# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Weight times value, summed over the three words.</details>
<details><summary>Hint 2: the shape</summary>The output is as long as a value: three numbers.</details>
<details><summary>Hint 3: almost the line</summary>0.14 · [1, 0, 0] + 0.58 · [0, 1, 0] + 0.28 · [0, 0, 1].</details>
"""

# %% test="cat_sat_output" points=1
check("cat_sat_output", cat_sat_output)

# %%
words = ["the", "cat", "sat"]
word_keys = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]])
word_values = np.eye(3)
sat = np.array([1.0, 0.0])  # its query
plots.bars(words, soft_lookup(sat, word_keys, word_values, 2**0.5)[1], "What “sat” reads")

# %% [markdown]
r"""
The bars show 0.14, 0.58 and 0.28: "sat" reads mostly from "cat", a little from itself, and least from "the".

**Predict.** Sketch the three weights as the temperature goes from 0.1 to 10. Where does each curve start, where does it end?
"""

# %%
temperatures = np.geomspace(0.1, 10, 50)
by_temperature = np.array([soft_lookup(sat, word_keys, word_values, t)[1] for t in temperatures])
plots.lines(
    temperatures, dict(zip(words, by_temperature.T)), "", "temperature", "weight", logx=True
)

# %% [markdown]
r"""
**Explain.** On the left, cold, "cat" has nearly everything: the hard look-up is the limit of the soft one. On the right, hot, all three approach 1/3 and the query hardly matters. In between no weight is ever exactly 0. That will turn out to be the point: a key that weighs nothing could never learn to weigh more.

### Exercise: `temperature_for`

Turn the plot round: at which temperature does the *largest* weight of one query equal `weight`? Return a float. The largest weight must be right to within $10^{-6}$.

It falls as the temperature rises, from $1/m$, where $m$ keys are tied for the best score, down to $1/n$; both ends are only reached in the limit. Raise `ValueError` for a weight that is not strictly between them.

`query (d,), keys (n, d), weight -> float`
"""


# %% solution="temperature_for"
def temperature_for(query, keys, weight):
    """The temperature at which the largest weight is `weight`; ValueError if out of reach."""
    ### BEGIN SOLUTION
    scores = similarity(query, keys)
    n, tied = len(scores), np.sum(scores == scores.max())
    if not 1 / n < weight < 1 / tied:
        raise ValueError(f"weight must lie between 1/{n} and 1/{tied}, not {weight}")
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = np.sqrt(low * high)  # halve the interval on a log scale
        if softmax(scores / middle).max() > weight:
            low = middle
        else:
            high = middle
    return float(middle)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>The largest weight only ever falls as the temperature rises. Something that only falls can be searched by halving.</details>
<details><summary>Hint 2: the shape</summary>Keep an interval <code>low, high</code> of temperatures. If the middle one is still too sharp (largest weight above the target), the answer lies above it. Temperatures span powers of ten, so take the middle on a log scale.</details>
<details><summary>Hint 3: almost the line</summary><code>middle = np.sqrt(low * high)</code>, then <code>if softmax(scores / middle).max() > weight: low = middle</code>, otherwise <code>high = middle</code>. Start from 1e-6 and 1e6.</details>
"""

# %% test="temperature_for" points=0
check("temperature_for", temperature_for)
two = np.array([1.0]), np.array([[1.0], [0.0]])  # e^(1/T) / (e^(1/T) + 1) = 0.75 at T = 1 / ln 3
assert abs(temperature_for(*two, 0.75) - 1 / np.log(3)) < 1e-4

# %% [markdown]
r"""
## 6. Move the query

Below you can move a query among five keys. On the left, the keys; each dot is filled as far as its key weighs. In the middle, the weights. On the right, the values: the green diamond is the output, and it never leaves the outline. The cross is where we would like it to be.

Drag the arrow's handle, or reach it with the Tab key and use the arrow keys. Find out:

- Where must the query be for one key to get almost everything?
- Make the query longer in the same direction. What does it do to the weights? Which other control does the same?
- Put the query at (0, 0). Where is the output, and why?
- Press *Descend* and watch what the query does. You will write that yourself in a moment.
"""

# %% tags=["figure"]
from utils.widgets import soft_lookup_plane

soft_lookup_plane()

# %% [markdown] static="soft_lookup"
r"""
<details><summary>The same figure, standing still</summary>

Where no kernel runs, this picture and table say what the figure shows. A longer query acts like a lower temperature; a query of zeros gives every key the same weight, and the output is the plain mean of the values.

FIGURE

</details>
"""

# %% [markdown]
r"""
## 7. Which way should the query have pointed?

Every step of the soft look-up is differentiable: products, sums, exponentials. So we can ask how the output changes with the query, and move the query so that the output comes closer to what we want. Work backwards, one step at a time. First: how do the weights change with the scores?

Write $p = \operatorname{softmax}(x)$, that is $p_i = e^{x_i} / Z$ with $Z = \sum_j e^{x_j}$. Note $\partial Z / \partial x_j = e^{x_j}$. By the quotient rule, with $\delta_{ij} = 1$ if $i = j$ and 0 otherwise,

$$ \frac{\partial p_i}{\partial x_j} = \frac{\delta_{ij} e^{x_i} Z - e^{x_i} e^{x_j}}{Z^2} = \delta_{ij}\, p_i - p_i\, p_j . $$

Read it as a budget. A higher score raises its own weight by $p_i(1 - p_i)$ and lowers each other one by $p_i p_j$; what one key gets, the others lose. And look at the size: where $p_i$ is 0 or 1, nothing moves at all.

### Exercise: `softmax_jacobian` ★

The matrix of all these derivatives, entry $(i, j) = \partial p_i / \partial x_j$. The argument `p` is the *output* of softmax, weights that sum to 1.

`p (n,) -> (n, n)`
"""


# %% solution="softmax_jacobian"
def softmax_jacobian(p):
    """Entry (i, j) is d p_i / d x_j for weights p = softmax(x): (n,) -> (n, n)."""
    ### BEGIN SOLUTION
    p = np.asarray(p)
    return np.diag(p) - np.outer(p, p)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>The formula has two parts: one that lives on the diagonal only, and one for every pair.</details>
<details><summary>Hint 2: the shape</summary><code>np.diag(p)</code> puts a vector on the diagonal of an <code>(n, n)</code> matrix; <code>np.outer(p, p)</code> has entry <code>p[i] * p[j]</code>.</details>
<details><summary>Hint 3: almost the line</summary>The first minus the second.</details>
"""

# %% test="softmax_jacobian" points=2
check("softmax_jacobian", softmax_jacobian)
assert np.allclose(softmax_jacobian(np.array([0.5, 0.5])), [[0.25, -0.25], [-0.25, 0.25]])

# %% [markdown]
r"""
Never believe a derivative that has not been measured. Nudge each score a little and see how the weights move:
"""

# %%
x, h = np.array([0.3, -1.0, 0.8]), 1e-6
nudged = [np.subtract(softmax(x + h * e), softmax(x - h * e)) / (2 * h) for e in np.eye(3)]
measured = np.stack(nudged, axis=1)  # column j: the derivative in score j
print("largest difference:", np.abs(measured - np.asarray(softmax_jacobian(softmax(x)))).max())

# %% [markdown]
r"""
**Predict.** At which temperature do the weights of "the cat sat" react most to a change of a score: very cold, very hot, or in between?
"""

# %%
reaction = [np.trace(softmax_jacobian(w)) / t for w, t in zip(by_temperature, temperatures)]
plots.lines(temperatures, {"reaction": reaction}, "Sum of p (1 − p) / T", "temperature", logx=True)

# %% [markdown]
r"""
**Explain.** In between. In the cold one weight is nearly 1, the others nearly 0, and $p(1-p)$ vanishes for all of them: the choice is made, and a small change of a score moves nothing. In the heat the weights would move readily, but every score is divided by a large $T$ first and hardly changes. A look-up that is too sharp cannot learn, and one that is too even has little to learn from. Chapter 3 measures this properly.

Now the whole chain. Measure how far the output is from a target by the loss $L = \tfrac12 \lVert \text{out} - \text{target} \rVert^2$, at temperature 1. Going back from the loss to the query:

| step forward | derivative on the way back | shape |
|---|---|---|
| $L = \tfrac12 \lVert \text{out} - \text{target}\rVert^2$ | $\partial L/\partial\,\text{out} = \text{out} - \text{target}$ | `(d_v,)` |
| $\text{out} = \sum_j w_j v_j$ | $\partial L/\partial w_j = v_j \cdot (\text{out} - \text{target})$ | `(n,)` |
| $w = \operatorname{softmax}(s)$ | $\partial L/\partial s = J\, \partial L/\partial w$ with the Jacobian $J$ (it is symmetric, $J = J^\top$) | `(n,)` |
| $s_j = q \cdot k_j$ | $\partial L/\partial q = \sum_j (\partial L/\partial s_j)\, k_j$ | `(d,)` |

### Exercise: `query_gradient` ★

`query (d,), keys (n, d), values (n, d_v), target (d_v,) -> (d,)`
"""


# %% solution="query_gradient"
def query_gradient(query, keys, values, target):
    """Gradient of 0.5 * |out - target|^2 in the query, at temperature 1: -> (d,)."""
    ### BEGIN SOLUTION
    out, weights = soft_lookup(query, keys, values)
    d_out = out - np.asarray(target)  # (d_v,)
    d_weights = np.asarray(values) @ d_out  # (n,)
    d_scores = softmax_jacobian(weights) @ d_weights  # (n,)
    return d_scores @ np.asarray(keys)  # (d,)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Four lines, one for each row of the table, from the loss back to the query.</details>
<details><summary>Hint 2: the shape</summary><code>(n, d_v) @ (d_v,)</code> gives <code>(n,)</code>; the Jacobian <code>(n, n) @ (n,)</code> keeps it; <code>(n,) @ (n, d)</code> gives <code>(d,)</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>d_weights = values @ (out - target)</code>, <code>d_scores = softmax_jacobian(weights) @ d_weights</code>, and at last <code>d_scores @ keys</code>.</details>
"""

# %% test="query_gradient" points=2
check("query_gradient", query_gradient)
one = np.ones((1, 1))
assert np.allclose(
    query_gradient(np.ones(1), one, one, np.zeros(1)), 0
)  # one key: nothing to learn

# %% [markdown]
r"""
## 8. Let it learn

The gradient points to where the loss grows fastest; go the other way, a little, and again:

$$ q \leftarrow q - \text{lr} \cdot \frac{\partial L}{\partial q} . $$

### Exercise: `learn_query` ★

Start from a query of zeros and take `steps` such steps with step size `lr`. Return the last query.

`keys (n, d), values (n, d_v), target (d_v,) -> (d,)`
"""


# %% solution="learn_query"
def learn_query(keys, values, target, steps=200, lr=1.0):
    """Gradient descent from zeros towards out = target: -> query (d,)."""
    ### BEGIN SOLUTION
    query = np.zeros(np.shape(keys)[1])
    for _ in range(steps):
        query = query - lr * query_gradient(query, keys, values, target)
    return query
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>A loop of <code>steps</code> rounds; each takes the gradient where the query is <em>now</em>.</details>
<details><summary>Hint 2: the shape</summary>The query is as long as a key: <code>np.zeros(keys.shape[1])</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>query = query - lr * query_gradient(query, keys, values, target)</code>.</details>
"""

# %% test="learn_query" points=2
check("learn_query", learn_query)
assert np.allclose(learn_query(np.eye(2), np.eye(2), np.array([1.0, 0.0]), steps=0), [0, 0])

# %% [markdown]
r"""
From here on the temperature is 1. Let "sat" learn to read "the" instead, without telling it what the key of "the" is. We only say what we want to come out: `[1, 0, 0]`, the value of "the".

**Predict.** Will the output ever be exactly `[1, 0, 0]`? What will the learned query look like, given the three keys?
"""

# %%
aim = np.array([1.0, 0.0, 0.0])
losses = []
for steps in range(0, 201, 10):
    learned = learn_query(word_keys, word_values, aim, steps)
    read, weights = soft_lookup(learned, word_keys, word_values)
    losses.append(0.5 * np.sum((np.asarray(read) - aim) ** 2))
print("query  ", np.round(learned, 2), "  weights", np.round(weights, 3))
plots.lines(np.arange(0, 201, 10), {"loss": losses}, "", "steps", "loss", logy=True)

# %% [markdown]
r"""
**Explain.** The loss falls steadily and never reaches 0: the output stays inside the hull, and `[1, 0, 0]` is a corner of it, which softmax only approaches. Now look at the query, about `[-3.3, 0.4]`. You may have expected the key of "the", `[0, 1]`. But along that direction "the" and "sat" score the same, and neither could ever get more than half. Only differences of scores count, so the descent found another way: point *away* from the first direction, in which both "cat" and "sat" have their keys. The scores are about 0.4, -6.5 and -2.9, and "the" wins by the others losing. The dictionary has learned what to look for, though not in the way we would have written down.

**Break it.** Start the same descent from a query that is already very sure of "cat":
"""

# %%
for length in (1, 5, 20, 100):
    q = np.array([float(length), 0.0])
    gradient = query_gradient(q, word_keys, word_values, aim)
    print(f"query [{length:3d}, 0]   |gradient| = {np.linalg.norm(gradient):.1e}")

# %% [markdown]
r"""
**Explain.** The longer the query, the sharper the softmax, and the smaller the gradient, down to nothing: at length 20 it would take longer than your patience to change its mind, at 100 for ever. The look-up has become hard again. This is why the course spends a whole chapter on one division (chapter 3).

Everything you did for the query works for the keys and the values too: they are in the same differentiable formula, so they can learn what to *offer*. In a transformer all three are learned at once, and this look-up is the only place where one token reads from another.
"""

# %% [markdown]
r"""
## 9. In your own words

Why can the hard look-up not be learned by gradient descent, and what exactly does the soft one change? Answer in five to ten sentences. Say what a small change of the query does in either case, what happens to keys that were not chosen, and name one price that the soft look-up pays.
"""

# %% [markdown] answer="why_soft" points=2
r"""
**Model answer.** The hard look-up's output does not change under a small change of the query, as long as the same key wins: its derivative is zero almost everywhere. Where the winner changes, the output jumps and has no derivative at all. So gradient descent never gets a direction to move in. An exact match is worse still: without a match there is no output to compare with the target. The soft look-up replaces the choice by weights that depend smoothly on the scores. A small change of the query changes all weights a little, by the Jacobian diag(p) - p pᵀ, and with them the output. Because no weight is exactly zero, keys that were not "chosen" receive a gradient too and can gain weight. The price: every output is a blend, so some weight always goes to keys that do not fit, and the look-up must visit every key; and once the weights are nearly one-hot the gradient all but vanishes again.

**Marking notes.** 2 points: (a) zero or undefined derivative of the hard look-up, said in any words; (b) smooth weights, so that every key gets a gradient. Half a point off if only "softmax is differentiable" is said without what it means for the keys. Any one sensible price is enough (blending, cost of visiting all keys, saturation, something must always be attended to).
"""

# %% [markdown]
r"""
## 10. The whole look-up in one picture

Scores by dot product, weights by softmax, output by weighted average. Read the picture from left to right.
"""

# %%
spoken = np.array([1.0, 4.0, 2.5])  # one number a word as value, so that it fits one axis
read, weights = soft_lookup(sat, word_keys, spoken[:, None], temperature=2**0.5)
plots.steps_of_lookup(word_keys @ sat, weights, spoken, read[0], words)

# %% [markdown]
r"""
In the left panel the scores are 0, 2 and 1; in the middle the weights 0.14, 0.58 and 0.28; on the right the grey bars are the values 1, 4 and 2.5, and the green line, the output at 3.15, lies between the smallest and the largest, drawn towards the 4 of "cat".

**What you know now**

- A look-up compares a *query* with *keys* and returns *values*; the soft one returns a weighted average.
- Softmax turns scores into a budget of 1. Only differences of scores count, so the maximum is subtracted first.
- The output lies in the convex hull of the values. Temperature moves it between a hard choice and a plain mean.
- All of it is differentiable, with the Jacobian diag(p) − p pᵀ; the gradient vanishes where the weights are nearly one-hot.
- Softmax must put its weight somewhere, even if no key fits. Keep that in mind until chapter 5.

**Sources.** D. Bahdanau, K. Cho, Y. Bengio, *Neural Machine Translation by Jointly Learning to Align and Translate*, 2015, where the soft look-up entered translation. A. Graves, G. Wayne, I. Danihelka, *Neural Turing Machines*, 2014, on memory read by content, with a sharpness to choose. A. Vaswani et al., *Attention Is All You Need*, 2017, section 3.2. I. Goodfellow, Y. Bengio, A. Courville, *Deep Learning*, 2016, section 4.1, on overflow in softmax.

**Onward.** Where do queries, keys and values come from? In [chapter 2](../02_qkv/02_qkv.ipynb) every token makes all three from itself.
"""
