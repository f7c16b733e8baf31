# %% [markdown]
r"""
# Chapter 2. Three views of every token

**The question.** In chapter 1 somebody handed us a query, keys and values. In a sentence there is nothing but words. Where do the three come from?

Read "bank" beside "river", then beside "loan". The four letters are the same, the meaning is not: a word has to take in its neighbours. So every token must be able to *ask* the others something, to be *found* by them, and to *hand over* what they came for. These are three different things, and each token makes all three from itself, by three learned projections:

- the **query**: what am I looking for?
- the **key**: how can I be found?
- the **value**: what do I hand over?

The query of a pronoun can look for "a noun that names a person", while that noun's key says just this, and its value says who it is. Keys decide who is heard; values what they say.
"""

# %% [markdown]
r"""
**What you need.** [Chapter 1](../01_dictionary_lookup/01_dictionary_lookup.ipynb): the soft look-up. Matrix products.

**What you will write.** Exercises marked ★ are the core; the others lie beside the path and are worth no points. (Cells that need one of those take the course's own, through `yours_or_ours`, as long as yours does not pass.)

| | exercise | what it does |
|---|---|---|
| | `self_share` | what goes wrong without projections |
| ★ | `project` | queries, keys and values of every token |
| ★ | `one_row` | one token's output, one pair at a time |
| ★ | `scores` | compare every query with every key |
| ★ | `attend` | weights and output |
| ★ | `self_attention` | one head, whole |
| ★ | `cross_attention` | read from another sequence |
| ★ | `shape_ledger` | keep the books of shapes |
| ★ | `is_permutation_equivariant` | a test you write: does order matter? |
| | `previous_token` | design queries and keys by hand |
| ★ | a written question | why projections at all? |

Set aside about two hours (planned; nobody has been timed yet).

From here on the shapes have names. `T` tokens, each a vector of width `d_model`, make a matrix `X` of shape `(T, d_model)`, one row a token. Queries and keys are `d_k` wide, values `d_v`. What is read from may be another sequence, of `S` tokens.
"""

# %%
import numpy as np

import utils
from utils import data, plots
from utils.check import check, yours_or_ours
from utils.reference.dictionary_lookup import softmax

utils.ready("02_qkv")

# %% [markdown]
r"""
`softmax` is the one of chapter 1: stable, along the last axis unless told otherwise. You may use it in every exercise.

## 1. Why not let tokens look each other up as they are?

The simplest idea needs no projections at all: let each token be its own query, key and value. The scores are then all dot products of tokens with tokens, $X X^\top$.

**Predict.** Here are six random tokens. In each row of $X X^\top$, where will the largest number stand? And is the table symmetric?
"""

# %%
X = np.random.default_rng(2).normal(size=(6, 4))
table = X @ X.T
print(table.round(1))
print("symmetric:", np.allclose(table, table.T), "  largest in column:", table.argmax(axis=1))

# %% [markdown]
r"""
**Explain.** The table is symmetric: what "it" finds in "robot", "robot" must find in "it". And most rows have their maximum on the diagonal, since $x \cdot x = \lVert x \rVert^2$ is hard to beat: left to themselves, tokens mostly look at themselves. Here rows 0 to 3 do; rows 4 and 5 look at tokens 0 and 1, which are longer than they are.

**Break it.** What if one token is fifty times longer than it was?
"""

# %%
long = X.copy()
long[3] *= 50
print("largest in column:", (long @ long.T).argmax(axis=1))

# %% [markdown]
r"""
**Explain.** Every row whose dot product with token 3 is positive now looks there, whatever token 3 means; the others flee from it. One table cannot say "I look for you, but you need not look for me", nor keep what a token *is* apart from how it wants to be *found*. Separate projections can.

### Exercise: `self_share`

Measure it: the share of rows of $X X^\top$ whose largest entry stands on the diagonal. Where the diagonal entry ties with another one, it counts.

`x (T, d) -> float`
"""


# %% solution="self_share"
def self_share(x):
    """Share of rows of x @ x.T whose largest entry is on the diagonal; ties count."""
    ### BEGIN SOLUTION
    x = np.asarray(x)
    table = x @ x.T  # (T, T)
    return float(np.mean(np.diag(table) >= table.max(axis=1)))
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>For each row two numbers matter: the entry on the diagonal, and the largest of the row.</details>
<details><summary>Hint 2: the shape</summary><code>np.diag(table)</code> and <code>table.max(axis=1)</code> are both <code>(T,)</code>.</details>
<details><summary>Hint 3: almost the line</summary>The mean of <code>np.diag(table) &gt;= table.max(axis=1)</code>: a mean of True and False is a share. (<code>argmax</code> would lose ties.)</details>
"""

# %% test="self_share" points=0
check("self_share", self_share)
assert self_share(np.eye(3)) == 1.0

# %%
share_of_self = yours_or_ours("self_share", self_share)
lengths, draw = (4, 8, 16, 32), np.random.default_rng(3)
shares = {
    f"d = {d}": [
        np.mean([share_of_self(draw.normal(size=(T, d))) for _ in range(30)]) for T in lengths
    ]
    for d in (2, 8, 32)
}
for width, share in shares.items():
    print(width, np.round(share, 2))
plots.lines(lengths, shares, "How often a token finds itself", "tokens T", "share")

# %% [markdown]
r"""
The picture has one curve for each width. In width 32 a token always finds itself in these draws; in width 8 mostly; in width 2 the share falls steeply as tokens are added, since among many neighbours there is a longer one in about the same direction. In either case the similarity of raw tokens decides, and nothing can be learned about *whom to look for*.

## 2. Three projections

So give each role a matrix of its own:

$$ Q = X W_q, \qquad K = X W_k, \qquad V = X W_v . $$

Row $i$ of $Q$ is the query of token $i$, and so on. The matrices are the same for all tokens, and they are what training changes.

### Exercise: `project` ★

`x (..., T, d_model), W_q (d_model, d_k), W_k (d_model, d_k), W_v (d_model, d_v) -> q, k, v`

Return the three, in this order. Any number of axes may stand in front of `T`; they stay.
"""


# %% solution="project"
def project(x, W_q, W_k, W_v):
    """Queries, keys and values: x (..., T, d_model) -> q, k (..., T, d_k), v (..., T, d_v)."""
    ### BEGIN SOLUTION
    x = np.asarray(x)
    return x @ np.asarray(W_q), x @ np.asarray(W_k), x @ np.asarray(W_v)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Three matrix products of the same <code>x</code>.</details>
<details><summary>Hint 2: the shape</summary><code>(..., T, d_model) @ (d_model, d_k)</code> gives <code>(..., T, d_k)</code>: the last axis of x meets the first of W. No transpose is needed.</details>
<details><summary>Hint 3: almost the line</summary><code>return x @ W_q, x @ W_k, x @ W_v</code>.</details>
"""

# %% test="project" points=1
check("project", project)

# %% [markdown]
r"""
## 3. From one pair to the whole matrix

Begin with one pair. Token $i$ asks, token $j$ is found: the score is $q_i \cdot k_j$, one number. Keep $i$ and let $j$ run over all tokens: one **row** of numbers. It answers one question: *where does token $i$ read from?* Softmax turns the row into weights, and the weighted average of the values is the output of token $i$. That is chapter 1's soft look-up, once for each token.

### Exercise: `one_row` ★

Write it that way: the output of token `i` alone, with a loop over `j`. Nothing is scaled yet, and token `i` reads itself as well.

`i, x (T, d_model), W_q, W_k, W_v -> (d_v,)`
"""


# %% solution="one_row"
def one_row(i, x, W_q, W_k, W_v):
    """Output of token i alone, with loops over j: x (T, d_model) -> (d_v,)."""
    ### BEGIN SOLUTION
    x = np.asarray(x)
    query = x[i] @ np.asarray(W_q)
    row = []
    for j in range(len(x)):
        key = x[j] @ np.asarray(W_k)
        row.append(query @ key)
    weights = softmax(np.array(row))
    out = np.zeros(np.shape(W_v)[1])
    for j in range(len(x)):
        out = out + weights[j] * (x[j] @ np.asarray(W_v))
    return out
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Two loops over j: the first collects scores, the second adds up weighted values. Softmax stands between them.</details>
<details><summary>Hint 2: the shape</summary><code>x[i] @ W_q</code> and <code>x[j] @ W_k</code> are both <code>(d_k,)</code>; <code>x[j] @ W_v</code> is <code>(d_v,)</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>row.append(query @ (x[j] @ W_k))</code>, then <code>weights = softmax(np.array(row))</code>, then <code>out = out + weights[j] * (x[j] @ W_v)</code>.</details>
"""

# %% test="one_row" points=2
check("one_row", one_row)

# %% [markdown]
r"""
Now let $i$ run as well. All rows below each other make the matrix $Q K^\top$: entry $(i, j)$ is query $i$ times key $j$. The shapes through one head:

```
X  (T, d_model) ──┬── W_q ──> Q (T, d_k) ──┐
                  │                        ├── Q Kᵀ ──> scores (T, T) ── softmax ──> weights (T, T) ──┐
                  ├── W_k ──> K (T, d_k) ──┘                                                          ├──> out (T, d_v)
                  └── W_v ──> V (T, d_v) ────────────────────────────────────────────────────────────┘
```

| step | operation | shape | meaning |
|---|---|---|---|
| 1 | $Q, K, V = X W_q, X W_k, X W_v$ | `(T, d_k)`, `(T, d_k)`, `(T, d_v)` | three views of every token |
| 2 | $Q K^\top$ | `(T, T)` | scores: how well each key fits each query |
| 3 | softmax along each row | `(T, T)` | weights: the row's budget of 1 |
| 4 | weights · $V$ | `(T, d_v)` | out: what each token takes in |
| 5 | $X$ + out (when widths agree) | `(T, d_model)` | the token, now knowing its neighbours |

Step 5 belongs to the layer around attention and comes in chapter 9: the result is *added* to the token's own vector, not put in its place. What the token was is not lost.

### Exercise: `scores` ★

`q (..., T, d_k), k (..., S, d_k) -> (..., T, S)`

Not scaled yet. With axes in front, each batch entry is compared with itself only.
"""


# %% solution="scores"
def scores(q, k):
    """Every query times every key: (..., T, d_k), (..., S, d_k) -> (..., T, S)."""
    ### BEGIN SOLUTION
    return np.asarray(q) @ np.swapaxes(np.asarray(k), -1, -2)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>A matrix product of q with k transposed.</details>
<details><summary>Hint 2: the shape</summary>With a batch, <code>k.T</code> would turn round <em>all</em> axes. Swap the last two only.</details>
<details><summary>Hint 3: almost the line</summary><code>q @ np.swapaxes(k, -1, -2)</code>, or <code>np.einsum("...td,...sd-&gt;...ts", q, k)</code>.</details>
"""

# %% test="scores" points=1
check("scores", scores)
assert np.allclose(scores(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [2.0, 0.0]])), [[0, 2]])

# %% [markdown]
r"""
### Exercise: `attend` ★

`scores (..., T, S), v (..., S, d_v) -> out (..., T, d_v), weights (..., T, S)`

Rows of weights sum to 1. Return the pair.
"""


# %% solution="attend"
def attend(scores, v):
    """Weights by softmax over the keys, and the averaged values: -> (out, weights)."""
    ### BEGIN SOLUTION
    weights = softmax(scores)  # (..., T, S)
    return weights @ np.asarray(v), weights
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Chapter 1's <code>soft_lookup</code>, with the scores already made.</details>
<details><summary>Hint 2: the shape</summary>Softmax along the last axis, over the S keys; then <code>(..., T, S) @ (..., S, d_v)</code>.</details>
<details><summary>Hint 3: almost the line</summary><code>weights = softmax(scores)</code>; <code>return weights @ v, weights</code>.</details>
"""

# %% test="attend" points=1
check("attend", attend)

# %% [markdown]
r"""
### Exercise: `self_attention` ★

Put it together. (Give no variable inside the name of one of your functions: `scores = scores(q, k)` hides the function.) It is called *self*-attention because queries, keys and values all come from the same `x`.

`x (..., T, d_model), W_q, W_k, W_v -> out (..., T, d_v), weights (..., T, T)`
"""


# %% solution="self_attention"
def self_attention(x, W_q, W_k, W_v):
    """One head, not scaled: x (..., T, d_model) -> out (..., T, d_v), weights (..., T, T)."""
    ### BEGIN SOLUTION
    q, k, v = project(x, W_q, W_k, W_v)
    return attend(scores(q, k), v)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Everything is there: steps 1 to 4 of the table.</details>
<details><summary>Hint 2: the shape</summary>project gives three arrays; scores takes the first two; attend takes the scores and the third.</details>
<details><summary>Hint 3: almost the line</summary><code>q, k, v = project(x, W_q, W_k, W_v)</code>; <code>return attend(scores(q, k), v)</code>.</details>
"""

# %% test="self_attention" points=2
check("self_attention", self_attention)

# %% [markdown]
r"""
The loop and the matrix must agree. **Predict:** to how many digits?
"""

# %%
draw = np.random.default_rng(4)
W_q, W_k, W_v = (draw.normal(size=(4, 3)) for _ in range(3))
out, weights = self_attention(X, W_q, W_k, W_v)
rows = np.stack([one_row(i, X, W_q, W_k, W_v) for i in range(6)])
print("largest difference:", np.abs(rows - np.asarray(out)).max())

# %% [markdown]
r"""
**Explain.** To rounding. The matrix form does nothing else than the loop; it only does all rows at once, which is what a processor likes.

## 4. Look inside

"The robot carried the patient because it was tired." Who was tired? Below, nine words attend to each other. Each cell of the map is one weight: row, who reads; column, who is read. Move with the mouse or the arrow keys and follow the four steps for the cell you are on. One thing is new: the scores are divided by $\sqrt{d_k} = 2$ (chapter 3 says why).

Find out:

- From whom does "it" read most, and with which weight?
- The rows of "The" and "the" are the same. Why must they be?
- Turn on the causal switch: each word may then read only itself and those before it. What happens to the weights that are left in the row of "it"?
"""

# %% tags=["figure"]
from utils.widgets import token_inspector

token_inspector()

# %% [markdown] static="token_inspector"
r"""
<details><summary>The same figure, standing still</summary>

The map of all weights, and the row of "it" in numbers: the product of its query with each key, the raw score (divided by 2), the exponential, the weight, and the weight when later words are hidden.

FIGURE

</details>
"""

# %% [markdown]
r"""
**Two captions for this map, and a warning.** *In plain words:* "it" reads mostly from "robot", because its query looks for a noun that is a subject, and the key of "robot" says that it is both. *In technical words:* the softmax of $q_{it} K^\top / \sqrt{d_k}$ puts 0.629 on "robot". The warning: these numbers were designed by hand so that the map can be read; no model learned them. The sentence itself is ambiguous, it may have been the patient who was tired. And even in a trained model a map of weights is one quantity inside one head, and not an explanation of what the model does. Chapter 5 comes back to this.

The words went in as rows of 0 and 1, one column for each property; the query of a pronoun, and the keys, are made from them by the designed matrices. Your functions give the same row:
"""

# %%
q, k, v = project(data.ROBOT_X, data.ROBOT_W_Q, data.ROBOT_W_K, data.ROBOT_W_V)
print("columns of queries and keys:", *data.ROBOT_COLUMNS, sep="  ")
print("query of it:  ", np.asarray(q)[6], "\nkey of robot: ", np.asarray(k)[1])
out, weights = attend(np.asarray(scores(q, k)) / 2, v)
it = data.ROBOT_WORDS.index("it")
plots.bars(data.ROBOT_WORDS, weights[it], "What “it” reads")

# %% [markdown]
r"""
The tallest bar, 0.63, stands over "robot", the next, 0.21, over "patient"; the seven others share the rest in equal parts of 0.02.

## 5. Reading from somewhere else

Nothing in the formula says that queries and keys must come from the same tokens. A translation decoder asks with what it has written so far, and reads the source sentence; a text model reads the features of an image. Queries come from `x`, keys and values from a `memory`. That is **cross-attention**: the same formula, other inputs. The scores need not be square any more.

### Exercise: `cross_attention` ★

`x (..., T, d_model), memory (..., S, d_memory), W_q, W_k, W_v -> out (..., T, d_v), weights (..., T, S)`
"""


# %% solution="cross_attention"
def cross_attention(x, memory, W_q, W_k, W_v):
    """Queries from x (..., T, d_model), keys and values from memory (..., S, d_memory)."""
    ### BEGIN SOLUTION
    q = np.asarray(x) @ np.asarray(W_q)
    k = np.asarray(memory) @ np.asarray(W_k)
    v = np.asarray(memory) @ np.asarray(W_v)
    return attend(scores(q, k), v)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>As self_attention, but ask of each projection: whose is it, x's or memory's?</details>
<details><summary>Hint 2: the shape</summary>q is <code>(..., T, d_k)</code>, k <code>(..., S, d_k)</code>, v <code>(..., S, d_v)</code>: the output has one row for each token of x.</details>
<details><summary>Hint 3: almost the line</summary><code>attend(scores(x @ W_q, memory @ W_k), memory @ W_v)</code>.</details>
"""

# %% test="cross_attention" points=2
check("cross_attention", cross_attention)

# %% [markdown]
r"""
## 6. Keep the books

Most bugs in attention are bugs of shape, and the worst are those in which the shapes happen to fit. So keep a ledger.

### Exercise: `shape_ledger` ★

Self-attention with `T = 10`, `d_model = 512`, `d_k = d_v = 64`: the shapes of `"Q"`, `"K"`, `"V"`, `"scores"` and `"out"`. Then cross-attention with `T = 7` queries and `S = 11` keys, the same widths: `"cross_scores"` and `"cross_out"`. Type each as a tuple.
"""

# %% solution="shape_ledger"
shape_ledger = {
    "Q": None,
    "K": None,
    "V": None,
    "scores": None,
    "out": None,
    "cross_scores": None,
    "cross_out": None,
}
### BEGIN SOLUTION
shape_ledger = {
    "Q": (10, 64),
    "K": (10, 64),
    "V": (10, 64),
    "scores": (10, 10),
    "out": (10, 64),
    "cross_scores": (7, 11),
    "cross_out": (7, 64),
}
### END SOLUTION

# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Walk through the table of five steps. Rows always belong to whoever asks.</details>
<details><summary>Hint 2: the shape</summary>The width 512 is gone after the first step; the width 64 is summed away in the second and comes back with the values in the fourth.</details>
<details><summary>Hint 3: almost the line</summary>scores is <code>(T, T)</code>, out <code>(T, d_v)</code>; with a memory <code>(T, S)</code> and <code>(T, d_v)</code>. Replace the <code>None</code>s, or the line that raises.</details>
"""

# %% test="shape_ledger" points=1
check("shape_ledger", shape_ledger)

# %% [markdown]
r"""
## 7. Does order matter?

**Predict.** Shuffle the rows of `X`, that is, the words of the sentence. What happens to the output?
"""

# %%
out, _ = self_attention(X, W_q, W_k, W_v)
perm = np.random.default_rng(5).permutation(6)
shuffled, _ = self_attention(X[perm], W_q, W_k, W_v)
print("order of the tokens:", perm)
print("same rows, shuffled in the same way:", np.allclose(shuffled, np.asarray(out)[perm]))

# %% [markdown]
r"""
**Explain.** The outputs are the same vectors, shuffled in the same way. Nothing in the formula knows where a token stands: the sum over $j$ takes its terms in any order. Such a layer is called **permutation equivariant**. "Dog bites man" and "man bites dog" are the same set of tokens to it; chapter 6 brings the order in. (*Invariant* would be something else: an output that does not change at all.)

### Exercise: `is_permutation_equivariant` ★

This time you write the *test*. `layer` is a black box from `(T, d)` to `(T, d')`; `x` is an input `(T, d)` for it; `rng` is a `np.random.Generator` for whatever you want to draw. Return True if the layer is permutation equivariant, else False.

Your test is tried on 26 layers, and counts only if it judges all of them rightly; there is no partial credit here. Some are unsound in one position only, or only for long inputs, or only where tokens tie, or only when two certain tokens change their order, which half of all permutations leave alone. Some are sound but differ in the last digits, because sums are taken in another order. So: use all of `x`, try at least twenty permutations, and allow for rounding.

`layer, x (T, d), rng -> bool`
"""


# %% solution="is_permutation_equivariant"
def is_permutation_equivariant(layer, x, rng):
    """Does layer(x[perm]) equal layer(x)[perm], up to rounding, for every permutation tried?"""
    ### BEGIN SOLUTION
    out = layer(x)
    perms = [rng.permutation(len(x)) for _ in range(30)]
    return all(np.allclose(layer(x[perm]), out[perm]) for perm in perms)
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Shuffle, then apply; apply, then shuffle. Equivariant means that both give the same.</details>
<details><summary>Hint 2: the shape</summary><code>perm = rng.permutation(len(x))</code> is <code>(T,)</code>; <code>x[perm]</code> shuffles the rows.</details>
<details><summary>Hint 3: almost the line</summary><code>np.allclose(layer(x[perm]), layer(x)[perm])</code> for each of some thirty permutations: one alone may leave the crucial position where it was.</details>
"""

# %% test="is_permutation_equivariant" points=2
check("is_permutation_equivariant", is_permutation_equivariant)
assert is_permutation_equivariant(lambda x: 2 * x, np.eye(4), np.random.default_rng(0))

# %% [markdown]
r"""
## 8. Design a head

If tokens knew where they stand, what could queries and keys do with it? Suppose they do, and you may choose all queries and keys freely.

### Exercise: `previous_token`

Build `q` and `k` for `T` tokens so that token $i$ scores token $i - 1$ above every other token, by at least `strength`. Row 0 has no token before it and is free. The width is yours to choose.

`T, strength=20.0 -> q (T, d), k (T, d)`
"""


# %% solution="previous_token"
def previous_token(T, strength=20.0):
    """q, k so that in q @ k.T token i - 1 leads row i by at least `strength`."""
    ### BEGIN SOLUTION
    k = np.eye(T)  # each token has an axis of its own
    q = strength * np.eye(T, k=-1)  # and asks along the axis of the one before
    return q, k
    ### END SOLUTION


# %% [markdown]
r"""
<details><summary>Hint 1: the idea</summary>Give each token's key a direction that no other key has.</details>
<details><summary>Hint 2: the shape</summary>With width d = T, the keys can be the rows of the identity matrix. Which row must query i be?</details>
<details><summary>Hint 3: almost the line</summary><code>np.eye(T, k=-1)</code> has its ones just below the diagonal. Multiply by <code>strength</code>.</details>
"""

# %% test="previous_token" points=0
check("previous_token", previous_token)

# %%
q, k = map(np.asarray, yours_or_ours("previous_token", previous_token)(6))
out, weights = attend(scores(q, k), np.eye(6))
print(np.round(weights, 2))

# %% [markdown]
r"""
With the identity matrix for keys row 0 spreads its weight evenly, since it finds nobody (yours may differ there). Every other row puts practically all of it on the token before. Heads that do this are found in trained language models, and in chapter 9 you will meet one of yours.

## 9. In your own words

Why does attention compare $X W_q$ with $X W_k$, and not simply $X$ with itself, $X X^\top$? Give at least three reasons, and for one of them an example of two words. Why, besides, is there a third projection for the values?
"""

# %% [markdown] answer="why_not_xxt" points=2
r"""
**Model answer.** (1) X Xᵀ is symmetric: if "it" fits "robot", then "robot" fits "it" just as well. With two projections the score of (i, j) and of (j, i) are independent; a pronoun can look for its noun without the noun looking for pronouns. (2) In X Xᵀ the diagonal is |x|², which is hard to beat, so tokens mostly find themselves; and a long token attracts (or repels) everybody, whatever it means. (3) Nothing in X Xᵀ can be learned: similarity of meaning is not the same as relevance. "Tired" must find a noun, not other adjectives; W_q and W_k let training decide which properties are asked for and which are offered. (4) The score may live in a smaller space, d_k < d_model, which keeps it cheap and lets several heads ask different things. The values have a projection of their own because what makes a token findable (a key: "I am a subject and a noun") is not what it should hand over once found (its meaning), and because the output's width and content can then be chosen freely.

**Marking notes.** 2 points: half a point for each of symmetry, self-similarity and "nothing to learn / similarity is not relevance" (any three sensible reasons), half a point for saying that being found and handing over are different jobs. An example that contradicts the reason given costs the half point of that reason.
"""

# %% [markdown]
r"""
## 10. The head in one picture

Read each row of the map from left to right: it is the budget of the word on its left.
"""

# %%
q, k, v = project(data.ROBOT_X, data.ROBOT_W_Q, data.ROBOT_W_K, data.ROBOT_W_V)
out, weights = attend(np.asarray(scores(q, k)) / 2, v)
plots.heat_map(weights, data.ROBOT_WORDS, data.ROBOT_WORDS, "Who reads from whom")

# %% [markdown]
r"""
The map has nine rows and nine columns; numbers stand in the cells of 0.10 and more. The darkest cells: "it" reads "robot" (0.63), "carried" reads "robot" (0.51), "robot" reads "carried" (0.49), "tired" reads "robot" (0.49), "because" reads "carried" (0.48).

**What you know now**

- Every token makes a query, a key and a value from itself, by three learned matrices.
- A row of the weights answers "where does this token read from?", and sums to 1. Columns may sum to anything.
- Self- and cross-attention are one formula; the scores are `(T, S)`, the output `(T, d_v)`.
- Raw similarity $X X^\top$ is symmetric, favours the token itself (the wider the vectors, the more) and cannot be learned.
- Without positions or a mask, shuffled tokens give shuffled outputs.
- A map of weights is one internal quantity, not an explanation.

**Sources.** A. Vaswani et al., *Attention Is All You Need*, 2017, sections 3.2 and 3.3, for queries, keys, values and the two kinds of attention. J. Lee et al., *Set Transformer*, 2019, on attention as an operation on sets. S. Jain and B. Wallace, *Attention is not Explanation*, 2019, and S. Wiegreffe and Y. Pinter, *Attention is not not Explanation*, 2019, for the warning. N. Elhage et al., *A Mathematical Framework for Transformer Circuits*, 2021, on heads that find the previous token.

**Back** to [chapter 1](../01_dictionary_lookup/01_dictionary_lookup.ipynb). **Onward:** why did we divide by 2 in the figure? [Chapter 3](../03_scaling/03_scaling.ipynb) measures what happens without it.
"""
