"""What the interactive figures share: their files, what stands in for them, their inputs."""

import pathlib

import anywidget
import numpy as np
import traitlets

STATIC = pathlib.Path(__file__).parent / "static"


def module(*names):
    """figure.js and these files of `static/`, as the one ES module that anywidget asks for.

    They share one scope: a later file calls what an earlier one defines, without
    an import, and no two may define the same name at their top level.
    """
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in ("figure.js", *names))


class Figure(anywidget.AnyWidget):
    """A widget that viewers without one can show too: it has a `summary` and `html()`."""

    _css = STATIC / "figure.css"

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/plain": self.summary, "text/html": self.html()}, metadata


class Bounded(traitlets.TraitType):
    """Numbers kept within bounds; what is no finite number leaves the old value.

    The front end may send anything, and a reader must not see a traceback for it.
    """

    def __init__(self, default, low, high):
        super().__init__(default_value=default)
        self.low, self.high = low, high

    def validate(self, obj, value):
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError, OverflowError):
            array = np.array(np.nan)
        if array.shape != np.shape(self.default_value) or not np.isfinite(array).all():
            return obj._trait_values.get(self.name, self.default_value)
        return array.clip(self.low, self.high).tolist()


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
