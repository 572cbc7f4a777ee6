"""Layout rules: how an op changes when its tensors are stored in another layout.

A rule returns the op that does the same work on tensors in the new layout. The tensors of an op without a
rule are converted back to their own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from annotated_region.layouts.layout import Layout
from annotated_region.op_info.info import OpInfo, Parameter, Source, Sources
from annotated_region.op_info.kinds import OpKind, kind_of

__all__ = [
    "LayoutChange",
    "LayoutRule",
    "carried",
    "data_layout_of",
    "layout_attribute",
    "layout_rule_of",
    "parameters_of",
    "register_layout_rule",
]


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """An op in another layout.

    Attributes
    ----------
    info
        The op with its new attributes.
    operands
        The layouts of the parameters that change; others keep theirs. An operand of lower rank than its
        layout gets leading extents of one, as for broadcasting.
    results
        The layout of each result; None for one that keeps its own.
    """

    info: OpInfo
    operands: Mapping[int, Layout] = field(hash=False)
    results: tuple[Layout | None, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", MappingProxyType(dict(self.operands)))


LayoutRule: TypeAlias = Callable[[OpInfo, Layout], LayoutChange | None]

_RULES: dict[str, LayoutRule] = {}


def register_layout_rule(*names: str) -> Callable[[LayoutRule], LayoutRule]:
    """Decorator: register the rule for some ops, such as ``"relax.concat"``.

    The rule takes the op info and the requested layout of the op's data: of its first operand, or for
    broadcasting ops of the result. It returns a `LayoutChange`, or None. A change whose types do not fit is
    discarded.
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


def layout_attribute(info: OpInfo) -> str | None:
    """The name of the attribute with the layout of the data."""
    return next((name for name in ("data_layout", "layout") if name in info.attrs), None)


def data_layout_of(info: OpInfo) -> str | None:
    """The layout of the data as letters, for ops with such an attribute."""
    name = layout_attribute(info)
    return None if name is None else str(info.attrs[name])


def parameters_of(source: Source) -> tuple[int, ...]:
    """The parameters in an argument."""
    if isinstance(source, Parameter):
        return (source.index,)
    return sum(map(parameters_of, source.fields), ()) if isinstance(source, Sources) else ()


def carried(
    info: OpInfo, layout: Layout, roles: Iterable[int] | None = None, result: Layout | None = None
) -> LayoutChange:
    """A change that stores the arguments at `roles` (by default all) and the result in `layout`.

    Parameters
    ----------
    info
        The op with its new attributes.
    layout
        The layout of the arguments.
    roles
        Argument positions.
    result
        The layout of the result, if different.
    """
    places = range(len(info.arg_roles)) if roles is None else roles
    parameters = [index for place in places for index in parameters_of(info.arg_roles[place].source)]
    return LayoutChange(info, dict.fromkeys(parameters, layout), (result or layout,))


def _elementwise(info: OpInfo, layout: Layout) -> LayoutChange | None:
    return None if "axis" in info.attrs else carried(info, layout)
