"""Layouts: storage orders of tensors, and rules that convert ops to another layout."""

from annotated_region.layouts import blocked_convolution, data_rules  # imported to register their rules
from annotated_region.layouts.image_rules import with_kernel
from annotated_region.layouts.layout import Layout, Piece
from annotated_region.layouts.registry import (
    LayoutChange,
    carried,
    data_layout_of,
    layout_rule_of,
    register_layout_rule,
)

__all__ = [
    "blocked_convolution",
    "data_rules",
    "Layout",
    "LayoutChange",
    "Piece",
    "carried",
    "data_layout_of",
    "layout_rule_of",
    "register_layout_rule",
    "with_kernel",
]
