"""What the interactive figures share: their files, and what stands in for them."""

import pathlib

import anywidget

STATIC = pathlib.Path(__file__).parent / "static"


def module(*names):
    """Files of `static/`, in this order, as the one ES module that anywidget asks for.

    They share one scope: a later file calls what an earlier one defines, without
    an import, and no two may define the same name at their top level.
    """
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)


class Figure(anywidget.AnyWidget):
    """A widget that viewers without one can show too: it has a `summary` and `html()`."""

    _css = STATIC / "figure.css"

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/plain": self.summary, "text/html": self.html()}, metadata
