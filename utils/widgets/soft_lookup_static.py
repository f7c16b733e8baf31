"""Chapter 1's figure standing still: its numbers, one SVG and a table, for where no kernel runs."""

import numpy as np

from utils.palette import BLUE, GREEN, GREY, INK, LIGHT, VERMILLION
from utils.widgets.numbers import fix, markdown_table, pair

LABELS = list("ABCDE")
KEYS = np.array([[2.0, 0.5], [0.3, 1.6], [-1.7, 1.2], [-1.1, -1.3], [0.9, -2.1]])
VALUES = np.array([[-0.6, 2.2], [2.1, 1.2], [1.4, -1.6], [-0.9, -1.9], [-2.2, 0.4]])
HULL = VALUES  # A to E already run round their convex hull
TARGET = np.array([0.9, 0.5])
LIMIT = 3.0  # the planes run from -LIMIT to LIMIT
COLDEST, HOTTEST = 0.1, 5.0
QUERY, TEMPERATURE = (1.0, 0.5), 1.0  # where the figure starts, and where Reset goes
STEPS, RATE = 10, 0.15  # gradient steps a press, and the size of each

# Pixels, for both drawings: the side of a panel, one unit of a plane, the radius
# of a dot that weighs 1, and the column of bars (left end, width, first row, gap).
DRAWING = {"side": 320, "unit": 46, "ring": 18, "left": 108, "full": 148, "top": 62, "gap": 46}


def look(query, temperature):
    """What the query looks up, in plain numbers: scores, weights, out and loss."""
    # Imported late, here and below: to import the figure must load no solution.
    from utils.reference.dictionary_lookup import similarity, soft_lookup

    out, weights = soft_lookup(query, KEYS, VALUES, temperature)
    return {
        "scores": similarity(query, KEYS).tolist(),
        "weights": weights.tolist(),
        "out": out.tolist(),
        "loss": float(0.5 * np.sum((out - TARGET) ** 2)),
    }


def summarise(state):
    """One or two sentences on what `look` returned."""
    best = int(np.argmax(state["weights"]))
    top = state["weights"][best]
    lead = f"Key {LABELS[best]} leads with weight {fix(top)}"
    if top - min(state["weights"]) < 0.005:
        lead = f"All keys weigh the same, {fix(top)}"
    hard = " This is close to a hard look-up: the gradient is almost zero." if top > 0.99 else ""
    return f"{lead}; the output is {pair(state['out'])}; the loss is {fix(state['loss'], 4)}.{hard}"


def static():
    """What the chapter shows in place of the figure: (text alternative, SVG, Markdown table)."""
    states = {
        "start": (QUERY, TEMPERATURE),
        "start, colder": (QUERY, 0.2),
        "start, hotter": (QUERY, 5.0),
        "between C and D": ((-1.5, 0.0), 1.0),
        "query of zeros": ((0.0, 0.0), 1.0),
    }
    words = summarise(look(QUERY, TEMPERATURE))
    alt = f"Three panels: keys and query, weights, values and output. {words}"
    return alt, static_svg(), static_table(states)


def static_table(states):
    """A Markdown table of `{name: (query, temperature)}`: weights, output, loss."""
    rows = []
    for name, (query, temperature) in states.items():
        state = look(query, temperature)
        weights = [fix(w, 3) for w in state["weights"]]
        end = [pair(state["out"]), fix(state["loss"], 4)]
        rows.append([name, pair(query), fix(temperature), *weights, *end])
    return markdown_table(["State", "Query", "Temperature", *LABELS, "Output", "Loss"], rows)


def static_svg(query=QUERY, temperature=TEMPERATURE):
    """The three panels as one SVG, with the numbers in its text alternative."""
    state = look(query, temperature)
    side = DRAWING["side"]
    weights = ", ".join(f"{a} {fix(w, 3)}" for a, w in zip(LABELS, state["weights"], strict=True))
    panels = {
        "Keys, and the query (arrow)": [_grid(), _dots(KEYS, state["weights"]), _arrow(query)],
        "Weights: softmax(q·k / T)": [_bars(state)],
        "Values, output (◆), target (+)": [_value_space(state)],
    }
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 0 {3 * side + 42} {side + 62}" '
        f'role="img" font-family="sans-serif" font-size="14" fill="{INK}">',
        f"<title>Soft look-up: query {pair(query)}, temperature {fix(temperature)}</title>",
        f"<desc>{summarise(state)} Weights: {weights}. Target {pair(TARGET)}.</desc>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, (title, parts) in enumerate(panels.items()):
        lines += [f'<g transform="translate({i * (side + 20)} 32)">', _text(side / 2, -12, title)]
        lines += [*parts, "</g>"]
    below = f"query {pair(query)}, temperature T {fix(temperature)}, loss {fix(state['loss'], 4)}"
    lines += [_text(1.5 * side + 20, side + 50, below), "</svg>"]
    return "\n".join(lines)


def _place(point):
    """A point of a plane, in pixels of its panel; y grows upwards."""
    return DRAWING["side"] / 2 + DRAWING["unit"] * np.multiply(point, (1, -1))


def _path(points, style):
    """A closed polygon through points given in pixels."""
    return f'<path d="M{" L".join(f"{x:.1f} {y:.1f}" for x, y in points)} Z" {style}/>'


def _text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _grid():
    side, middle = DRAWING["side"], DRAWING["side"] / 2
    return (
        f'<rect width="{side}" height="{side}" fill="none" stroke="{LIGHT}"/>'
        f'<path d="M0 {middle:.0f} H{side} M{middle:.0f} 0 V{side}" stroke="{LIGHT}"/>'
    )


def _dots(points, weights):
    """Each point as a ring, filled by area as far as it weighs, and its letter outside."""
    parts = []
    for label, point, weight in zip(LABELS, points, weights, strict=True):
        (x, y), r = _place(point), DRAWING["ring"]
        dx, dy = np.array([point[0], -point[1]]) / np.hypot(*point) * (r + 12)
        ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r='
        parts += [
            f'{ring}"{r}" fill="none" stroke="{GREY}"/>',
            f'{ring}"{max(2, r * weight**0.5):.1f}" fill="{BLUE}"/>',
            _text(x + dx, y + dy + 5, label),
        ]
    return "".join(parts)


def _arrow(query):
    """From the origin to the query; a query of zeros has no direction to point in."""
    tip, length = _place(query), np.hypot(*query)
    if length == 0:
        return f'<circle cx="{tip[0]:.1f}" cy="{tip[1]:.1f}" r="5" fill="{VERMILLION}"/>'
    along = np.array([query[0], -query[1]]) / length
    across = along[::-1] * (1, -1)
    head = [tip, tip - 14 * along + 6 * across, tip - 14 * along - 6 * across]
    shaft = [_place((0, 0)), tip - 10 * along]
    return (
        _path(shaft, 'stroke="white" stroke-width="7"')
        + _path(head, 'stroke="white" stroke-width="4"')
        + _path(shaft, f'stroke="{VERMILLION}" stroke-width="3"')
        + _path(head, f'fill="{VERMILLION}"')
    )


def _bars(state):
    left, full, top, gap = (DRAWING[name] for name in ("left", "full", "top", "gap"))
    end = DRAWING["side"] - 8
    parts = [_text(16, top - 30, "key"), _text(left - 16, top - 30, "q·k", "end")]
    parts.append(_text(end, top - 30, "weight", "end"))
    rows = zip(LABELS, state["scores"], state["weights"], strict=True)
    for i, (label, score, weight) in enumerate(rows):
        y = top + gap * i
        bar = f'<rect x="{left}" y="{y - 13:.1f}" height="18" width='
        parts += [
            _text(16, y, label),
            _text(left - 16, y, fix(score), "end"),
            f'{bar}"{full}" fill="none" stroke="{LIGHT}"/>',
            f'{bar}"{full * weight:.1f}" fill="{BLUE}"/>',
            _text(end, y, fix(weight, 3), "end"),
        ]
    total = f"sum {fix(sum(state['weights']), 3)}"
    return "".join([*parts, _text(end, top + gap * len(LABELS), total, "end")])


def _value_space(state):
    """The values with their hull, the target as a plus, the output as a diamond."""
    hull = _path([_place(p) for p in HULL], f'fill="none" stroke="{GREY}"')
    x, y = _place(TARGET)
    cross = f'<path d="M{x - 9:.1f} {y:.1f} h18 M{x:.1f} {y - 9:.1f} v18" '
    plus = f'{cross}stroke="white" stroke-width="7"/>{cross}stroke="{INK}" stroke-width="3"/>'
    sides = [(0, -9), (9, 0), (0, 9), (-9, 0)]
    diamond = _path(_place(state["out"]) + sides, f'fill="{GREEN}" stroke="white"')
    dots = _dots(VALUES, state["weights"])
    return f"{_grid()}{hull}{dots}{diamond}{plus}"


def html(query, temperature):
    """The static drawing, its caption, and a table of its numbers."""
    state = look(query, temperature)
    rows = zip(LABELS, KEYS, state["scores"], state["weights"], VALUES, strict=True)
    body = "".join(
        f'<tr><th scope="row">{label}</th><td>{pair(key)}</td><td>{fix(score)}</td>'
        f"<td>{fix(weight, 3)}</td><td>{pair(value)}</td></tr>"
        for label, key, score, weight, value in rows
    )
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("label", "key", "q·k", "weight", "value")
    )
    return (
        f"<figure>{static_svg(query, temperature)}<figcaption>{summarise(state)} (This is the "
        "figure standing still: run the cell to move the query.)</figcaption></figure>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
