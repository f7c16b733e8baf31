"""The interactive figures, one module a figure, and how each looks where no kernel runs."""

from utils.widgets import soft_lookup_static
from utils.widgets.soft_lookup import soft_lookup_plane

__all__ = ["STATIC", "soft_lookup_plane"]

STATIC = {"soft_lookup": soft_lookup_static.static}
