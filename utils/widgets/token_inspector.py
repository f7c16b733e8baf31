"""The interactive figure of chapter 2: one sentence, and which token reads which.

Python computes every number; `static/token_inspector.js` only draws them, on the
heat map of `static/heat_map.js`, and sends back the cell and the mask that the
reader has chosen.
"""

import traitlets

from utils.data import ROBOT_COLUMNS
from utils.widgets.figure import Figure, Index, Switch, module
from utils.widgets.numbers import fix
from utils.widgets.token_inspector_static import (
    CAPTIONS,
    COLUMN,
    ROW,
    WORDS,
    html,
    look,
    steps,
    summarise,
)

LAST = len(WORDS) - 1
AXES = list(ROBOT_COLUMNS)

STEPS = {  # what is done at each step, and why
    "Compare": "The query is multiplied with the key, entry by entry, and the products are added.",
    "Scale": "The sum is divided by √d_k = 2, so that wider vectors do not mean larger scores.",
    "Exponential": "Every number becomes positive; one more in the score is a factor of 2.72.",
    "Share": "Divided by the sum of the row's exponentials, the row's weights add up to 1.",
}


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


def inspect(state, row, column):
    """What the figure says about one cell of `look`'s numbers, ready to be shown."""
    query, key = state["q"][row], state["k"][column]
    vectors = {f"query of “{WORDS[row]}”": query, f"key of “{WORDS[column]}”": key}
    vectors["product"] = query * key
    return {
        "row": row,
        "column": column,
        "score": fix(state["scores"][row, column]),
        "weight": fix(state["weights"][row, column], 3),
        "vectors": [[name, *map(fix, vector)] for name, vector in vectors.items()],
        "steps": steps(state, row, column),
        "budget": [fix(weight, 3) for weight in state["weights"][row]],
        "total": fix(state["weights"][row].sum()),
    }


def describe(state, row, column):
    """One cell in a few words; the places tell "The" from "the" by ear."""
    query, key = f"“{WORDS[row]}” ({row + 1})", f"“{WORDS[column]}” ({column + 1})"
    score = f"raw score {fix(state['scores'][row, column])}"
    if not state["allowed"][row, column]:
        return f"{query} may not read {key}: weight 0, masked; {score}"
    return f"{query} reads {key}: weight {fix(state['weights'][row, column], 3)}; {score}"


def token_inspector(row=ROW, column=COLUMN, causal=False):
    """The figure, ready to be the last line of a cell."""
    return TokenInspector(row, column, causal)
