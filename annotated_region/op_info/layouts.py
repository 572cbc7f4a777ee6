"""Layout rules: what an op is called, and with which attributes, when its tensors are stored transposed.

A layout is given as an order of axes: the new tensor is ``permute_dims(old, order)``. A rule answers with the
op that does the same work on tensors in that order. Without a rule an op gets its tensors in the old order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from annotated_region.op_info.info import ArgRole, OpInfo, Parameter, Source, Sources, Value
from annotated_region.op_info.kinds import OpKind, kind_of

__all__ = [
    "LayoutChange",
    "Order",
    "layout_attribute",
    "layout_rule_of",
    "order_between",
    "register_layout_rule",
]

Order: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """An op in the new layout.

    Attributes
    ----------
    info
        The op with its new attributes.
    carried
        The parameters that come in the new layout; the others stay as they are.
    """

    info: OpInfo
    carried: tuple[int, ...]


LayoutRule: TypeAlias = Callable[[OpInfo, Order], LayoutChange | None]

_RULES: dict[str, LayoutRule] = {}


def register_layout_rule(*names: str) -> Callable[[LayoutRule], LayoutRule]:
    """Decorator: the rule for the ops of these names, such as ``"relax.concat"``.

    The rule gets the op info and the order, and gives a `LayoutChange`, or None where it has no answer. The
    result of the op has to come in the new order.
    """

    def register(rule: LayoutRule) -> LayoutRule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def layout_rule_of(name: str) -> LayoutRule | None:
    """The rule for an op; None if there is none."""
    if name not in _RULES and kind_of(name) is OpKind.ELEMENTWISE:
        return _elementwise
    return _RULES.get(name)


def order_between(old: str, new: str) -> Order | None:
    """The order that turns one layout into another, such as NCHW into NHWC; None if the axes differ."""
    return tuple(old.index(axis) for axis in new) if sorted(old) == sorted(new) else None


def layout_attribute(info: OpInfo) -> str | None:
    """The name of the attribute that says the layout of the data."""
    return next((name for name in ("data_layout", "layout") if name in info.attrs), None)


def _parameters(source: Source) -> tuple[int, ...]:
    if isinstance(source, Parameter):
        return (source.index,)
    return sum(map(_parameters, source.fields), ()) if isinstance(source, Sources) else ()


def _all_parameters(info: OpInfo) -> tuple[int, ...]:
    return tuple(index for role in info.arg_roles for index in _parameters(role.source))


def _elementwise(info: OpInfo, _order: Order) -> LayoutChange | None:
    return None if "axis" in info.attrs else LayoutChange(info, _all_parameters(info))


@register_layout_rule(
    "relax.nn.conv2d",
    "relax.nn.max_pool2d",
    "relax.nn.avg_pool2d",
    "relax.nn.adaptive_avg_pool2d",
    "relax.image.resize2d",
)
def _of_images(info: OpInfo, order: Order) -> LayoutChange | None:
    """The layout by its letters; weights stay as they are."""
    name = layout_attribute(info)
    layout = str(info.attrs[name]) if name else ""
    out = info.attrs.get("out_layout", layout)
    if name is None or out != layout or len(layout) != len(order):
        return None
    new = "".join(layout[axis] for axis in order)
    changed = {name: new} | ({"out_layout": new} if "out_layout" in info.attrs else {})
    return LayoutChange(replace(info, attrs={**info.attrs, **changed}), _parameters(info.arg_roles[0].source))


@register_layout_rule("relax.concat", "relax.nn.softmax", "relax.nn.log_softmax", "relax.flip")
def _along_an_axis(info: OpInfo, order: Order) -> LayoutChange | None:
    axis = order.index(int(info.attrs["axis"]) % len(order))
    return LayoutChange(replace(info, attrs={**info.attrs, "axis": axis}), _all_parameters(info))


@register_layout_rule(*(f"relax.{name}" for name in ("sum", "max", "min", "mean", "prod", "variance", "std")))
def _over_axes(info: OpInfo, order: Order) -> LayoutChange | None:
    axes = info.attrs["axis"]
    if not info.attrs["keepdims"] or axes is None:
        return None
    moved = tuple(order.index(axis % len(order)) for axis in axes)
    return LayoutChange(replace(info, attrs={**info.attrs, "axis": moved}), _all_parameters(info))


@register_layout_rule("relax.nn.pad")
def _pad(info: OpInfo, order: Order) -> LayoutChange | None:
    widths = info.attrs["pad_width"]
    moved = tuple(width for axis in order for width in widths[2 * axis : 2 * axis + 2])
    return LayoutChange(replace(info, attrs={**info.attrs, "pad_width": moved}), _all_parameters(info))


@register_layout_rule("relax.strided_slice")
def _slice(info: OpInfo, order: Order) -> LayoutChange | None:
    """The axes are the second argument; begins, ends and steps go with them."""
    axes = info.arg_roles[1].source
    if not isinstance(axes, Sources):
        return None
    moved = []
    for axis in axes.fields:
        if not isinstance(axis, Value):
            return None
        moved.append(Value(order.index(int(axis.value) % len(order)), axis.dtype))
    roles = (info.arg_roles[0], ArgRole(info.arg_roles[1].role, Sources(tuple(moved))), *info.arg_roles[2:])
    return LayoutChange(replace(info, arg_roles=roles), _all_parameters(info))
