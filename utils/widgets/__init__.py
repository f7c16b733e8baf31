"""The interactive figures, one module a figure, and how each looks where no kernel runs."""

from utils.widgets import (
    mask_composer_static,
    scaling_static,
    soft_lookup_static,
    token_inspector_static,
)
from utils.widgets.mask_composer import mask_composer
from utils.widgets.scaling import scaling_figure
from utils.widgets.soft_lookup import soft_lookup_plane
from utils.widgets.token_inspector import token_inspector

__all__ = ["STATIC", "mask_composer", "scaling_figure", "soft_lookup_plane", "token_inspector"]

STATIC = {
    "mask_composer": mask_composer_static.static,
    "scaling": scaling_static.static,
    "soft_lookup": soft_lookup_static.static,
    "token_inspector": token_inspector_static.static,
}
