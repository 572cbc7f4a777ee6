"""Layout rules of ops with a layout attribute: convolutions, pools, resizing."""

from __future__ import annotations

from dataclasses import replace

from annotated_region.layouts.layout import Layout
from annotated_region.layouts.registry import (
    LayoutChange,
    carried,
    data_layout_of,
    layout_attribute,
    parameters_of,
    register_layout_rule,
)
from annotated_region.op_info.info import OpInfo

__all__ = ["with_kernel"]

PLAIN = ("NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC")
"""The unblocked layouts in which TVM can lower convolutions."""


def _renamed(info: OpInfo, layout: Layout) -> tuple[OpInfo, str] | None:
    """The op with the letters of the new layout, and the letters; None if they cannot express it."""
    letters = data_layout_of(info) or ""
    if info.attrs.get("out_layout", letters) != letters or len(letters) != layout.rank:
        return None
    name, new = layout_attribute(info), layout.letters(letters)
    changed = {str(name): new} | ({"out_layout": new} if "out_layout" in info.attrs else {})
    return replace(info, attrs={**info.attrs, **changed}), new


@register_layout_rule(
    *(f"relax.nn.{kind}_pool{rank}d" for kind in ("max", "avg", "adaptive_avg") for rank in (1, 2, 3))
)
def _pool(info: OpInfo, layout: Layout) -> LayoutChange | None:
    renamed = _renamed(info, layout)
    return None if renamed is None else carried(renamed[0], layout)


@register_layout_rule("relax.image.resize2d", "relax.image.resize3d")
def _resize(info: OpInfo, layout: Layout) -> LayoutChange | None:
    renamed = _renamed(info, layout)
    return carried(renamed[0], layout, [0]) if renamed is not None and renamed[1] in PLAIN else None


@register_layout_rule("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
def _convolution(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """The kernel keeps its layout, except that blocked data need a blocked kernel."""
    renamed = _renamed(info, layout)
    if renamed is None:
        return None
    change, letters = carried(renamed[0], layout, [0]), renamed[1]
    if letters in PLAIN:
        return change
    block = letters.removeprefix("NCHW").removesuffix("c")
    is_blocked = letters == f"NCHW{block}c" and block.isdecimal()
    return with_kernel(change, f"OIHW{block}i{block}o") if is_blocked else None


def with_kernel(change: LayoutChange, kernel: str) -> LayoutChange | None:
    """The change with the kernel in a named layout; None if that layout has other axes."""
    info = change.info
    if "kernel_layout" not in info.attrs:
        return None
    layout = Layout.between(str(info.attrs["kernel_layout"]), kernel)
    if layout is None:
        return None
    (weight,) = parameters_of(info.arg_roles[1].source)
    named = replace(info, attrs={**info.attrs, "kernel_layout": kernel})
    return replace(change, info=named, operands={**change.operands, weight: layout})
