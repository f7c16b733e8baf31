"""The interactive figure of chapter 2: one sentence, and which token reads which.

Python computes every number; `static/token_inspector.js` only draws them, on the
heat map of `static/heat_map.js`, and sends back the cell and the mask that the
reader has chosen.
"""

import traitlets

from utils.widgets.figure import Figure, module
from utils.widgets.soft_lookup import Bounded
from utils.widgets.token_inspector_static import (
    AXES,
    CAPTIONS,
    COLUMN,
    ROW,
    STEPS,
    WORDS,
    describe,
    html,
    inspect,
    look,
    summarise,
)

LAST = len(WORDS) - 1


class Index(Bounded):
    """A whole number within bounds; what is no number leaves the old one."""

    def validate(self, obj, value):
        return int(super().validate(obj, value))


class Switch(traitlets.TraitType):
    """True or False; anything else leaves the old value."""

    def validate(self, obj, value):
        if isinstance(value, bool):
            return value
        return obj._trait_values.get(self.name, self.default_value)


class TokenInspector(Figure):
    """A map of attention weights to walk in, and how the chosen one is computed."""

    _esm = module("heat_map.js", "token_inspector.js")

    row = Index(ROW, 0, LAST).tag(sync=True)
    column = Index(COLUMN, 0, LAST).tag(sync=True)
    causal = Switch(False).tag(sync=True)
    # Never changes; changes with the mask; changes with the chosen cell.
    fixed = traitlets.Dict(
        {"words": WORDS, "axes": AXES, "steps": STEPS, "captions": CAPTIONS}
    ).tag(sync=True)
    table = traitlets.Dict().tag(sync=True)
    cell = traitlets.Dict().tag(sync=True)
    summary = traitlets.Unicode().tag(sync=True)

    def __init__(self, row=ROW, column=COLUMN, causal=False, **kwargs):
        super().__init__(row=row, column=column, causal=causal, **kwargs)
        self._compute()

    @traitlets.observe("row", "column", "causal")
    def _compute(self, _change=None):
        state = look(self.causal)
        with self.hold_sync():  # one message for all the numbers
            self.table = tabulate(state)
            self.cell = inspect(state, self.row, self.column)
            self.summary = summarise(state, self.row, self.column)

    def html(self):
        """The figure standing still, at the chosen cell."""
        return html(self.row, self.column, self.causal)


def tabulate(state):
    """The whole map: weights to colour the cells, which are forbidden, and each in words."""
    places = range(len(WORDS))
    return {
        "weights": state["weights"].tolist(),
        "forbidden": (~state["allowed"]).tolist(),
        "labels": [[describe(state, i, j) for j in places] for i in places],
    }


def token_inspector(row=ROW, column=COLUMN, causal=False):
    """The figure, ready to be the last line of a cell."""
    return TokenInspector(row, column, causal)
