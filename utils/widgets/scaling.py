"""The interactive figure of chapter 3: how scores spread, and what softmax makes of them.

Python computes every number; `static/scaling.js` only draws them and sends back
the width and the switch that the reader has chosen.
"""

import traitlets

from utils.widgets.figure import Figure, Index, Switch, module
from utils.widgets.scaling_static import (
    DRAWING,
    SCALED,
    START,
    WIDTHS,
    ceiling,
    facts,
    html,
    look,
    summarise,
)


class ScalingFigure(Figure):
    """A slider for the width, a switch for the scale; scores, one row of weights, numbers."""

    _esm = module("scaling.js")

    index = Index(START, 0, len(WIDTHS) - 1).tag(sync=True)  # the width is 2**index
    scaled = Switch(SCALED).tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    summary = traitlets.Unicode().tag(sync=True)
    drawing = traitlets.Dict({**DRAWING, "last": len(WIDTHS) - 1}).tag(sync=True)

    def __init__(self, index=START, scaled=SCALED, **kwargs):
        super().__init__(index=index, scaled=scaled, **kwargs)
        self._compute()

    @traitlets.observe("index", "scaled")
    def _compute(self, _change=None):
        state = look(self.index, self.scaled)
        with self.hold_sync():  # one message for all the numbers
            top = ceiling(max(state["weights"]))
            self.state = {**state, "facts": facts(state), "ceiling": top}
            self.summary = summarise(state, self.scaled)

    def html(self):
        """The figure standing still, at the width and switch of now."""
        return html(self.index, self.scaled)


def scaling_figure(index=START, scaled=SCALED):
    """The figure, ready to be the last line of a cell."""
    return ScalingFigure(index, scaled)
