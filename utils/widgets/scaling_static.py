"""Chapter 3's figure standing still: its numbers, one SVG and a table, for where no kernel runs."""

import functools

import numpy as np

from utils.palette import BLUE, GREY, INK, LIGHT
from utils.widgets.numbers import fix, markdown_table

WIDTHS = [2**i for i in range(12)]  # 1 to 2048
START, SCALED = 7, False  # where the figure starts: width 128, not scaled
N_KEYS, ROWS, SEED = 64, 200, 4
LIMITS = (5, 10, 20, 50, 100, 200)  # the histogram's axis ends at one of these
BINS = 40
DRAWING = {"side": 320, "left": 12, "right": 308, "base": 268, "top": 40}  # pixels of a panel


@functools.cache
def _dots(index):
    rng = np.random.default_rng([SEED, index])
    q, k = (rng.standard_normal((n, WIDTHS[index])) for n in (ROWS, N_KEYS))
    return q @ k.T  # (ROWS, N_KEYS)


@functools.cache
def look(index, scaled):
    """The numbers at one width: histogram, a row of weights, means over the rows."""
    # Imported late: to import the figure must load no solution.
    from utils.reference.dictionary_lookup import softmax
    from utils.reference.scaling import row_entropy

    scores = _dots(index) / (WIDTHS[index] ** 0.5 if scaled else 1)
    weights = softmax(scores)
    limit = next(x for x in LIMITS if x >= min(4 * scores.std(), LIMITS[-1]))
    counts, _ = np.histogram(scores, BINS, (-limit, limit))
    return {
        "width": WIDTHS[index],
        "limit": limit,
        "shares": (counts / scores.size).tolist(),
        "std": float(scores.std()),
        "weights": weights[0].tolist(),
        "entropy": float(row_entropy(weights).mean()),
        "sensitivity": float(1 - np.sum(weights**2, axis=-1).mean()),
    }


def facts(state):
    """What stands beside the drawings, as (name, number) pairs."""
    return [
        ["Standard deviation of the scores", fix(state["std"])],
        ["Mean entropy (nats)", fix(state["entropy"])],
        ["Mean sensitivity", fix(state["sensitivity"])],
        ["Largest weight of the row shown", fix(max(state["weights"]))],
    ]


def summarise(state, scaled):
    """One or two sentences on what `look` returned."""
    top = max(state["weights"])
    how = "divided by its root" if scaled else "not scaled"
    words = ", ".join(f"{name.lower()} {number}" for name, number in facts(state))
    lead = " One key takes nearly all: this row has almost no gradient." if top > 0.99 else ""
    return f"Width {state['width']}, {how}: {words}.{lead}"


def static():
    """What the chapter shows in place of the figure: (text alternative, SVG, Markdown table)."""
    words = summarise(look(START, SCALED), SCALED)
    alt = f"Two panels: a histogram of scores, and one row of weights. {words}"
    return alt, static_svg(), static_table()


def static_table():
    """A Markdown table: both settings of the switch at every width."""
    rows = [
        [str(WIDTHS[i]), name, *(number for _, number in facts(look(i, scaled)))]
        for i in range(len(WIDTHS))
        for name, scaled in (("no", False), ("yes", True))
    ]
    head = ["Width", "Scaled", *(name for name, _ in facts(look(0, False)))]
    return markdown_table(head, rows)


def _text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _bars(heights, highest):
    """Bars side by side over the width of a panel, and the line they stand on."""
    d = DRAWING
    step = (d["right"] - d["left"]) / len(heights)
    tall = (d["base"] - d["top"]) / highest
    bars = "".join(
        f'<rect x="{d["left"] + i * step:.1f}" y="{d["base"] - h * tall:.1f}" '
        f'width="{step - 1:.1f}" height="{h * tall:.1f}" fill="{BLUE}"/>'
        for i, h in enumerate(heights)
    )
    return f'{bars}<path d="M{d["left"]} {d["base"]} H{d["right"]}" stroke="{GREY}"/>'


def _histogram(state):
    d, limit = DRAWING, state["limit"]
    middle, unit = (d["left"] + d["right"]) / 2, (d["right"] - d["left"]) / 2 / limit
    band = (
        f'<rect x="{middle - unit:.1f}" y="{d["base"] + 2}" width="{2 * unit:.1f}" '
        f'height="6" fill="{GREY}"/>'
    )
    y = d["base"] + 20
    ticks = _text(d["left"], y, f"−{limit}", "start") + _text(middle, y, "0")
    ticks += _text(d["right"], y, limit, "end")
    return band + _bars(state["shares"], max(state["shares"])) + ticks


def _weights(state):
    d = DRAWING
    y, top = d["base"] + 20, max(state["weights"])
    line = f'<path d="M{d["left"]} {d["top"]} H{d["right"]}" stroke="{LIGHT}"/>'
    ticks = _text(d["left"], y, "key 1", "start") + _text(d["right"], y, f"key {N_KEYS}", "end")
    marks = _text(d["right"], d["top"] - 8, f"top line: weight {fix(ceiling(top), 1)}", "end")
    return line + _bars(state["weights"], ceiling(top)) + ticks + marks


def ceiling(top):
    """The weight at the top of the panel: 1, or less where all weights are small."""
    return next(x for x in (0.1, 0.2, 0.5, 1.0) if top <= x + 1e-12)


def static_svg(index=START, scaled=SCALED):
    """The two panels as one SVG, with the numbers in its text alternative."""
    state, side = look(index, scaled), DRAWING["side"]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * side + 20} {side + 62}" '
        f'role="img" font-family="sans-serif" font-size="14" fill="{INK}">',
        f"<title>Scores and weights at width {state['width']}</title>",
        f"<desc>{summarise(state, scaled)}</desc>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    panels = {"Scores (grey mark: from −1 to 1)": _histogram, "One row of 64 weights": _weights}
    for i, (title, panel) in enumerate(panels.items()):
        lines += [f'<g transform="translate({i * (side + 20)} 24)">', _text(side / 2, 0, title)]
        lines += [panel(state), "</g>"]
    short = ("std", "entropy", "sensitivity", "largest weight")
    told = ", ".join(f"{a} {n}" for a, (_, n) in zip(short, facts(state), strict=True))
    how = "scaled" if scaled else "not scaled"
    below = f"width {state['width']}, {how}: {told}"
    lines += [_text(side + 10, side + 44, below), "</svg>"]
    return "\n".join(lines)


def html(index, scaled):
    """The static drawing, its caption, and a table of its numbers."""
    state = look(index, scaled)
    body = "".join(
        f'<tr><th scope="row">{name}</th><td>{number}</td></tr>' for name, number in facts(state)
    )
    return (
        f"<figure>{static_svg(index, scaled)}<figcaption>{summarise(state, scaled)} (This is the "
        "figure standing still: run the cell to move the slider.)</figcaption></figure>"
        f"<table><tbody>{body}</tbody></table>"
    )
