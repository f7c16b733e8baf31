"""Chapter 4's figure standing still: one SVG and a table, for where no kernel runs."""

from utils.palette import BLUE, GREY, INK, LIGHT
from utils.widgets.mask_composer_numbers import (
    CAPTIONS,
    COLUMN,
    CONSTRAINTS,
    NAMES,
    ROW,
    WORDS,
    Choice,
    S,
    look,
    lost,
    reasons,
    summarise,
)
from utils.widgets.numbers import fix, markdown_table


def static():
    """What the chapter shows in place of the figure: (text alternative, SVG, Markdown table)."""
    choice = Choice()
    words = summarise(look(choice), choice, ROW, COLUMN)
    return f"Map of masked attention weights. {words}", static_svg(), static_table()


def static_table():
    """How many keys each constraint leaves each query, and its row's sums, both ways."""
    choice = Choice()
    right, late = look(choice), look(Choice(after=True))
    rows = [
        [
            NAMES[i],
            *(str(right["masks"][name][i].sum()) for name in CONSTRAINTS),
            f"{right['allowed'][i].sum()}{' (empty)' if right['empty'][i] else ''}",
            fix(right["sums"][i]),
            fix(late["sums"][i]),
            fix(late["lost"][i]),
        ]
        for i in range(S)
    ]
    on = ", ".join(choice.on)
    head = ["Query", *(f"Keys left by {name}" for name in CONSTRAINTS), f"by {on} together"]
    head[3] += f" of {choice.width}"
    return markdown_table([*head, "Row's sum", "Sum, masked after softmax", "Lost"], rows)


# Pixels of the static map: a cell, and where the first one lies.
WIDE, HIGH, LEFT, TOP = 58, 40, 84, 72


def static_svg(row=ROW, column=COLUMN, choice=None):
    """The map of weights with each row's sum, forbidden cells crossed out, one cell outlined."""
    choice = choice or Choice()
    state = look(choice)
    T = len(state["sums"])
    right, bottom = _corner(T, S + 2)[0], _corner(T, 0)[1]
    x, y = _corner(row - choice.first, column)
    summary = summarise(state, choice, row, column)
    when = "after" if choice.after else "before"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 12} {bottom + 12}" '
        f'role="img" font-family="sans-serif" font-size="14" text-anchor="middle" fill="{INK}">',
        f"<title>Attention weights, masked {when} softmax</title>",
        f"<desc>{summary}</desc>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{(LEFT + right) // 2}" y="24">Weights, masked {when} softmax. A row is a query; '
        "crossed out: may not be read.</text>",
        *(_text(0, j, name, TOP - 10) for j, name in enumerate([*WORDS, "sum", "lost"])),
        *(line for i in range(T) for line in _row(state, choice, i)),
        f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" fill="none" '
        f'stroke="{INK}" stroke-width="3"/>',
        "</svg>",
    ]
    return "\n".join(lines)


def _corner(i, column):
    return LEFT + WIDE * column, TOP + HIGH * i


def _text(i, column, words, y=None):
    left, top = _corner(i, column)
    return f'<text x="{left + WIDE // 2}" y="{y or top + 25}">{words}</text>'


def _row(state, choice, i):
    """A query: its word, whether it is left empty, its cells and its sums."""
    y, empty = _corner(i, 0)[1], state["empty"][i]
    word = WORDS[choice.first + i]
    yield f'<text x="{LEFT - 10}" y="{y + (18 if empty else 25)}" text-anchor="end">{word}</text>'
    if empty:
        place = f'x="{LEFT - 10}" y="{y + 33}" font-size="12"'
        yield f'<text {place} font-style="italic" text-anchor="end">empty</text>'
    yield from (_cell(state, i, j) for j in range(S))
    yield _text(i, S, fix(state["sums"][i]))
    yield _text(i, S + 1, lost(state, choice, i))


def _cell(state, i, j):
    """A square as blue as its weight; a forbidden one is crossed out instead."""
    x, y = _corner(i, j)
    box = f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" stroke="{LIGHT}" '
    if not state["allowed"][i, j]:
        return f'{box}fill="none"/><path d="M{x} {y + HIGH} l{WIDE} -{HIGH}" stroke="{GREY}"/>'
    weight = state["weights"][i, j]  # at most 0.8 of the blue: the number stays readable
    return f'{box}fill="{BLUE}" fill-opacity="{0.8 * weight:.3f}"/>' + _text(i, j, fix(weight))


def html(row, column, choice):
    """The static drawing, its captions, and a table of the weights and of what forbids them."""
    state = look(choice)
    captions = "".join(f"<p><strong>{name}</strong> {it}</p>" for name, it in CAPTIONS.items())
    return (
        f"<figure>{static_svg(row, column, choice)}<figcaption>"
        f"<p>{summarise(state, choice, row, column)} (This is the figure standing still: run the "
        f"cell to work its switches.)</p>{captions}</figcaption></figure>"
        f"{_html_table(state, choice)}"
    )


def _html_table(state, choice):
    names = [*NAMES, "sum", "lost"]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(_html_row(state, choice, i) for i in range(len(state["sums"])))
    return (
        "<table><caption>Weights; a forbidden key with what forbids it</caption>"
        f"<thead><tr><th>query \\ key</th>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _html_row(state, choice, i):
    row = choice.first + i
    cells = [
        fix(weight, 3) if may else f"0 ({', '.join(name for name, _ in reasons(choice, row, j))})"
        for j, (weight, may) in enumerate(
            zip(state["weights"][i], state["allowed"][i], strict=True)
        )
    ]
    cells += [fix(state["sums"][i]), lost(state, choice, i)]
    name = NAMES[row] + (", empty" if state["empty"][i] else "")
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
