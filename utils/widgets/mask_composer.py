"""The interactive figure of chapter 4: constraints to switch on, and who may then read whom.

Python computes every number; `static/mask_composer.js` only draws them, on the
heat map of `static/heat_map.js`, and sends back the switches and the cell that
the reader has chosen.
"""

import traitlets

from utils.widgets.figure import Figure, Index, Switch, module
from utils.widgets.mask_composer_numbers import (
    CAPTIONS,
    COLUMN,
    CONSTRAINTS,
    NAMES,
    ROW,
    SHORT,
    TEXTS,
    WORDS,
    Choice,
    S,
    empties,
    forbids,
    look,
    lost,
    summarise,
    total,
    verdict,
)
from utils.widgets.mask_composer_static import html
from utils.widgets.numbers import fix

SWITCHES = {
    "causal": "Causal: no key that comes later",
    "padding": "Padding: no key that is padding",
    "segment": "Segment: no key of another text",
    "window": "Window: only the last keys, its own included",
    "short": f"T ≠ S: only the last {SHORT} tokens ask",
    "after": "Mask after softmax, which is wrong",
}

START = Choice()


class MaskComposer(Figure):
    """A map of weights under the constraints that are on, and what forbids the chosen cell."""

    _esm = module("heat_map.js", "mask_composer.js")

    causal = Switch(START.causal).tag(sync=True)
    padding = Switch(START.padding).tag(sync=True)
    window = Switch(START.window).tag(sync=True)
    segment = Switch(START.segment).tag(sync=True)
    short = Switch(START.short).tag(sync=True)
    after = Switch(START.after).tag(sync=True)
    width = Index(START.width, 1, S).tag(sync=True)
    row = Index(ROW, 0, S - 1).tag(sync=True)  # of the whole sequence, also when T < S
    column = Index(COLUMN, 0, S - 1).tag(sync=True)
    # Never changes; changes with the switches; changes with the chosen cell.
    fixed = traitlets.Dict(
        {"words": WORDS, "texts": TEXTS, "switches": SWITCHES, "captions": CAPTIONS, "widest": S}
    ).tag(sync=True)
    table = traitlets.Dict().tag(sync=True)
    cell = traitlets.Dict().tag(sync=True)
    summary = traitlets.Unicode().tag(sync=True)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._compute()

    @property
    def choice(self):
        """What is switched on."""
        return Choice(**{name: getattr(self, name) for name in Choice.__dataclass_fields__})

    @traitlets.observe("row", "column", *Choice.__dataclass_fields__)
    def _compute(self, _change=None):
        choice = self.choice
        state = look(choice)
        with self.hold_sync():  # one message for all the numbers
            if self.row < choice.first:  # that token no longer asks
                self.row = choice.first
            self.table = tabulate(state, choice)
            self.cell = inspect(state, choice, self.row, self.column)
            self.summary = summarise(state, choice, self.row, self.column)

    def html(self):
        """The figure standing still, as it is now."""
        return html(self.row, self.column, self.choice)


def tabulate(state, choice):
    """The whole map: T rows of weights, what is forbidden, sums, and each cell in words."""
    first, T = choice.first, S - choice.first
    return {
        "first": first,
        "size": f"T = {T} queries, S = {S} keys",
        "weights": state["weights"].tolist(),
        "forbidden": (~state["allowed"]).tolist(),
        "empty": state["empty"].tolist(),
        "sums": [fix(x) for x in state["sums"]],
        "lost": [lost(state, choice, i) for i in range(T)],
        "empties": empties(state, choice),
        "labels": [[describe(state, choice, row, j) for j in range(S)] for row in range(first, S)],
    }


def describe(state, choice, row, column):
    """One cell in a few words."""
    weight = fix(state["weights"][row - choice.first, column], 3)
    if not state["allowed"][row - choice.first, column]:
        return f"Query {NAMES[row]}, key {NAMES[column]}: {verdict(choice, row, column)}"
    return f"{NAMES[row]} reads {NAMES[column]}: weight {weight}"


def inspect(state, choice, row, column):
    """What the figure says about one cell and its row, ready to be shown."""
    i = row - choice.first
    may = bool(state["allowed"][i, column])
    kept = [*state["weights"][i].tolist(), float(state["lost"][i]) if choice.after else 0.0]
    return {
        "title": f"Query {NAMES[row]}, key {NAMES[column]}",
        "may": may,
        "verdict": "May be read" if may else "May not be read",
        "constraints": [judge(name, choice, row, column) for name in CONSTRAINTS],
        "facts": [
            ["Score", fix(state["scores"][i, column])],
            ["Weight without a mask", fix(state["free"][i, column], 3)],
            ["Weight", fix(state["weights"][i, column], 3)],
        ],
        "budget": kept,
        "total": f"{total(state, choice, row)}.",
        "column": column,
    }


def judge(name, choice, row, column):
    """[name, what it says of the cell, why] of one constraint."""
    if name not in choice.on:
        return [name, "off", ""]
    why = forbids(name, choice, row, column)
    return [name, "forbids" if why else "allows", why]


def mask_composer(row=ROW, column=COLUMN, **switches):
    """The figure, ready to be the last line of a cell; `switches` as in `Choice`."""
    return MaskComposer(row=row, column=column, **switches)
