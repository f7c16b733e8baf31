"""The interactive figures, one module a figure, and how each looks where no kernel runs."""

from utils.widgets import scaling_static, soft_lookup_static, token_inspector_static
from utils.widgets.scaling import scaling_figure
from utils.widgets.soft_lookup import soft_lookup_plane
from utils.widgets.token_inspector import token_inspector

__all__ = ["STATIC", "scaling_figure", "soft_lookup_plane", "token_inspector"]

STATIC = {
    "scaling": scaling_static.static,
    "soft_lookup": soft_lookup_static.static,
    "token_inspector": token_inspector_static.static,
}
