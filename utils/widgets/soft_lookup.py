"""The interactive figure of chapter 1: a query among keys, and what it looks up.

Python computes every number; `static/soft_lookup_plane.js` only draws them and
sends back where the reader has put the query.
"""

import numpy as np
import traitlets

from utils.widgets.figure import Bounded, Figure, module
from utils.widgets.soft_lookup_static import (
    COLDEST,
    DRAWING,
    HOTTEST,
    HULL,
    KEYS,
    LABELS,
    LIMIT,
    QUERY,
    RATE,
    STEPS,
    TARGET,
    TEMPERATURE,
    VALUES,
    html,
    look,
    summarise,
)


class SoftLookupPlane(Figure):
    """A query to drag among five keys, and the blend of their values it finds."""

    _esm = module("soft_lookup_plane.js")

    query = Bounded(list(QUERY), -LIMIT, LIMIT).tag(sync=True)
    temperature = Bounded(TEMPERATURE, COLDEST, HOTTEST).tag(sync=True)
    labels = traitlets.List(LABELS).tag(sync=True)
    # (`keys` is taken: ipywidgets keeps the names of its traits there.)
    key_points = traitlets.List(KEYS.tolist()).tag(sync=True)
    value_points = traitlets.List(VALUES.tolist()).tag(sync=True)
    hull = traitlets.List(HULL.tolist()).tag(sync=True)
    target = traitlets.List(TARGET.tolist()).tag(sync=True)
    scores = traitlets.List().tag(sync=True)
    weights = traitlets.List().tag(sync=True)
    out = traitlets.List().tag(sync=True)
    loss = traitlets.Float().tag(sync=True)
    steps = traitlets.Int(0).tag(sync=True)
    summary = traitlets.Unicode().tag(sync=True)
    drawing = traitlets.Dict(
        {**DRAWING, "limit": LIMIT, "temperatures": [COLDEST, HOTTEST], "press": STEPS}
    ).tag(sync=True)

    def __init__(self, query=QUERY, temperature=TEMPERATURE, **kwargs):
        super().__init__(query=query, temperature=temperature, **kwargs)
        self._compute()
        self.on_msg(self._on_button)

    @traitlets.observe("query", "temperature")
    def _compute(self, _change=None):
        state = look(self.query, self.temperature)
        with self.hold_sync():  # one message for all the numbers
            for name, value in state.items():
                self.set_trait(name, value)
            self.summary = summarise(state)

    def descend(self, steps=STEPS):
        """Move the query `steps` gradient steps towards the target.

        The weights depend on query / temperature alone, so the descent is in that
        quotient: then one step size is stable at every temperature. (In the query
        itself the same step would be RATE * temperature**2.)
        """
        from utils.reference.dictionary_lookup import query_gradient

        bound = LIMIT / self.temperature
        scaled = np.array(self.query) / self.temperature
        for _ in range(steps):
            scaled = scaled - RATE * query_gradient(scaled, KEYS, VALUES, TARGET)
            scaled = scaled.clip(-bound, bound)
        with self.hold_sync():
            self.steps += steps
            self.query = scaled * self.temperature

    def reset(self):
        """Back to the first query and temperature, no steps taken."""
        with self.hold_sync():
            self.query, self.temperature, self.steps = QUERY, TEMPERATURE, 0

    def _on_button(self, _widget, content, _buffers):
        if content == {"press": "descend"}:
            self.descend()
        elif content == {"press": "reset"}:
            self.reset()

    def html(self):
        """The figure standing still, where the query is now."""
        return html(self.query, self.temperature)


def soft_lookup_plane(query=QUERY, temperature=TEMPERATURE):
    """The figure, ready to be the last line of a cell."""
    return SoftLookupPlane(query, temperature)
