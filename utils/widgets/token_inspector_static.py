"""Chapter 2's figure standing still: who reads whom in one sentence, as a map and in tables."""

import math

import numpy as np

from utils.data import ROBOT_W_K, ROBOT_W_Q, ROBOT_W_V, ROBOT_WORDS, ROBOT_X
from utils.palette import BLUE, GREY, INK, LIGHT
from utils.widgets.numbers import fix, markdown_table

WORDS = list(ROBOT_WORDS)
D_K = ROBOT_W_K.shape[1]
ROW, COLUMN = WORDS.index("it"), WORDS.index("robot")  # where the figure starts

CAPTIONS = {
    "In plain words.": "Each row is one token with a budget of 1, which it spends on the tokens it "
    "reads. Here “it” spends most on “robot”, for we gave the pronoun a query that looks for a "
    "noun, best a subject. These numbers were designed by hand, not learned. The sentence itself "
    "is ambiguous: “it” could be the robot or the patient, and with other numbers it would read "
    "“patient”.",
    "Technically.": "Weights = softmax(QKᵀ / √d_k) along each row, with d_k = 4 and with X, W_q "
    "and W_k set by hand; there are no positions, so “The” and “the” have equal rows until the "
    "mask tells them apart. The causal mask puts −∞ in place of the scores of later keys, and "
    "softmax renormalises what is left. A weight is the share of one value vector in one head's "
    "output: a map of weights is one internal quantity, and not an explanation of what a model "
    "does.",
}

# Pixels of the static map: a cell, and where the first one lies.
WIDE, HIGH, LEFT, TOP = 58, 36, 84, 72


def look(causal=False):
    """Queries, keys, and every number of the map, as arrays of shape (query, key)."""
    # Imported late: to import the figure must load no solution.
    from utils.reference.qkv import attend, project, scores

    q, k, v = project(ROBOT_X, ROBOT_W_Q, ROBOT_W_K, ROBOT_W_V)
    dots = scores(q, k)
    raw = dots / math.sqrt(D_K)
    allowed = np.tri(len(WORDS), dtype=bool) if causal else np.ones(raw.shape, bool)
    masked = np.where(allowed, raw, -np.inf)
    _out, weights = attend(masked, v)
    return {
        "q": q,
        "k": k,
        "dots": dots,
        "scores": raw,
        "allowed": allowed,
        "exponentials": np.exp(masked),
        "weights": weights,
    }


def steps(state, row, column):
    """From the dot product to the weight: four lines of arithmetic."""
    dot, raw, e, weight = (
        state[name][row, column] for name in ("dots", "scores", "exponentials", "weights")
    )
    products = " + ".join(map(fix, state["q"][row] * state["k"][column])).replace("+ -", "- ")
    total = fix(state["exponentials"][row].sum())
    return [
        f"q·k = {products} = {fix(dot)}",
        f"{fix(dot)} / {fix(math.sqrt(D_K), 0)} = {fix(raw)}",
        f"exp({fix(raw)}) = {fix(e)}" if e else "masked: exp(−∞) = 0",
        f"{fix(e)} / {total} = {fix(weight, 3)}",
    ]


def summarise(state, row, column):
    """The chosen cell and its row, in sentences."""
    arithmetic = "; ".join(steps(state, row, column))
    readable, total = state["allowed"][row].sum(), fix(state["weights"][row].sum())
    return (
        f"Query “{WORDS[row]}”, key “{WORDS[column]}”: {arithmetic}. "
        f"“{WORDS[row]}” may read {readable} of {len(WORDS)} tokens; its weights sum to {total}."
    )


def static():
    """What the chapter shows in place of the figure: (text alternative, SVG, Markdown table)."""
    words = summarise(look(), ROW, COLUMN)
    alt = f"Heat map of attention weights, nine queries by nine keys. {words}"
    return alt, static_svg(), static_table()


def static_table(row=ROW):
    """One row of the map in Markdown: every step for every key, without and with the mask."""
    free, causal = look(), look(causal=True)
    names = ("dots", "scores", "exponentials", "weights")
    columns = [free[name][row] for name in names]
    rows = [
        [word, *map(fix, numbers[:3]), fix(numbers[3], 3), masked]
        for word, masked, *numbers in zip(WORDS, _weights(causal)[row], *columns, strict=True)
    ]
    sums = [fix(columns[2].sum()), fix(columns[3].sum(), 3), fix(causal["weights"][row].sum(), 3)]
    rows.append(["sum", "", "", *sums])
    head = ["Token", "q·k", "Raw score QKᵀ / √d_k", "Exponential", "Weight", "Weight, causal"]
    return markdown_table(head, rows)


def static_svg(row=ROW, column=COLUMN, causal=False):
    """The map of weights, the chosen cell outlined, with the numbers of its row in words."""
    state = look(causal)
    places = range(len(WORDS))
    right, bottom = _corner(len(WORDS), len(WORDS))
    spent = ", ".join(f"{WORDS[j]} {fix(state['weights'][row, j], 3)}" for j in places)
    x, y = _corner(row, column)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 12} {bottom + 12}" '
        f'role="img" font-family="sans-serif" font-size="14" text-anchor="middle" fill="{INK}">',
        f"<title>Attention weights{', causal' if causal else ''}</title>",
        f"<desc>{summarise(state, row, column)} Weights: {spent}.</desc>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{(LEFT + right) // 2}" y="24">Weights: softmax(QKᵀ / √d_k). '
        "A row is a query, a column a key.</text>",
        *map(_names, places),
        *(_cell(state, i, j) for i in places for j in places),
        f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" fill="none" '
        f'stroke="{INK}" stroke-width="3"/>',
        "</svg>",
    ]
    return "\n".join(lines)


def _corner(row, column):
    return LEFT + WIDE * column, TOP + HIGH * row


def _names(i):
    """A token, at its column and at its row."""
    x, y = _corner(i, i)
    return (
        f'<text x="{x + WIDE // 2}" y="{TOP - 10}">{WORDS[i]}</text>'
        f'<text x="{LEFT - 10}" y="{y + 23}" text-anchor="end">{WORDS[i]}</text>'
    )


def _cell(state, row, column):
    """A square as blue as its weight; a forbidden one is crossed out instead."""
    x, y = _corner(row, column)
    box = f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" stroke="{LIGHT}" '
    if not state["allowed"][row, column]:
        return f'{box}fill="none"/><path d="M{x} {y + HIGH} l{WIDE} -{HIGH}" stroke="{GREY}"/>'
    weight = state["weights"][row, column]
    return (  # at most 0.8 of the blue: the number on it stays readable
        f'{box}fill="{BLUE}" fill-opacity="{0.8 * weight:.3f}"/>'
        f'<text x="{x + WIDE // 2}" y="{y + 23}">{fix(weight)}</text>'
    )


def _weights(state):
    """The weights in words, the forbidden ones named."""
    return [
        [fix(weight, 3) if may else "0 (masked)" for weight, may in zip(*pair, strict=True)]
        for pair in zip(state["weights"], state["allowed"], strict=True)
    ]


def html(row, column, causal):
    """The static drawing, its captions, and tables of its raw scores and its weights."""
    state = look(causal)
    captions = "".join(f"<p><strong>{name}</strong> {it}</p>" for name, it in CAPTIONS.items())
    raw = [map(fix, line) for line in state["scores"]]
    return (
        f"<figure>{static_svg(row, column, causal)}<figcaption>"
        f"<p>{summarise(state, row, column)} (This is the figure standing still: run the cell to "
        f"choose another.)</p>{captions}</figcaption></figure>"
        f"{_html_table('Raw scores QKᵀ / √d_k, before any mask', raw)}"
        f"{_html_table('Weights, a row sums to 1', _weights(state))}"
    )


def _html_table(caption, rows):
    head = "".join(f'<th scope="col">{word}</th>' for word in WORDS)
    body = "".join(
        f'<tr><th scope="row">{word}</th>{"".join(f"<td>{cell}</td>" for cell in row)}</tr>'
        for word, row in zip(WORDS, rows, strict=True)
    )
    return (
        f"<table><caption>{caption}</caption><thead><tr><th>query \\ key</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
