"""Layout rules: what an op is called, and with which attributes, when its tensors are stored otherwise.

A rule answers with the op that does the same work on tensors in the new layout. Without a rule an op gets its
tensors in the old one.
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
        The parameters that come in another layout, and in which; the others stay as they are. An operand of
        lower rank than its layout is read as broadcasting reads it, with extents of one in front.
    results
        The layout of each result, and None for one that stays as it is.
    """

    info: OpInfo
    operands: Mapping[int, Layout] = field(hash=False)
    results: tuple[Layout | None, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", MappingProxyType(dict(self.operands)))


LayoutRule: TypeAlias = Callable[[OpInfo, Layout], LayoutChange | None]

_RULES: dict[str, LayoutRule] = {}


def register_layout_rule(*names: str) -> Callable[[LayoutRule], LayoutRule]:
    """Decorator: the rule for the ops of these names, such as ``"relax.concat"``.

    The rule gets the op info and the wanted layout of the op's data, which is its first operand, or for
    ops that broadcast their result. It gives a `LayoutChange`, or None where it has no answer. An answer
    whose types do not fit together is dropped.
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
    """The name of the attribute that says the layout of the data."""
    return next((name for name in ("data_layout", "layout") if name in info.attrs), None)


def data_layout_of(info: OpInfo) -> str | None:
    """The layout of the data by its letters, for ops that name it."""
    name = layout_attribute(info)
    return None if name is None else str(info.attrs[name])


def parameters_of(source: Source) -> tuple[int, ...]:
    """The parameters that an argument is made of."""
    if isinstance(source, Parameter):
        return (source.index,)
    return sum(map(parameters_of, source.fields), ()) if isinstance(source, Sources) else ()


def carried(
    info: OpInfo, layout: Layout, roles: Iterable[int] | None = None, result: Layout | None = None
) -> LayoutChange:
    """A change that stores the arguments at `roles` (all of them if not given) and the result in `layout`.

    Parameters
    ----------
    info
        The op with its new attributes.
    layout
        Of the arguments.
    roles
        Positions of arguments.
    result
        The layout of the result, if that is another one.
    """
    places = range(len(info.arg_roles)) if roles is None else roles
    parameters = [index for place in places for index in parameters_of(info.arg_roles[place].source)]
    return LayoutChange(info, dict.fromkeys(parameters, layout), (result or layout,))


def _elementwise(info: OpInfo, layout: Layout) -> LayoutChange | None:
    return None if "axis" in info.attrs else carried(info, layout)
