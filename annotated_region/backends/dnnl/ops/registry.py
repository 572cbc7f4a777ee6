"""What the backend knows of each op: whether it claims it, and how it becomes nodes of the graph.

A family of ops is one file of this folder: for each op the reasons to decline it, and its conversion, which
may rely on these. Rules are exact about what the code generator and oneDNN can do. What a rule does not know
it declines: a decline costs time, a wrong claim costs the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from annotated_region.backends.dnnl.graph import DataType, Dim, Graph, Kind, TensorId
from annotated_region.backends.dnnl.importer import Importer
from annotated_region.backends.dnnl.ops.checks import FLOATS, Problems, first_problem, tensor_problem
from annotated_region.backends.dnnl.parameters import NO_PARAMETERS, Parameters
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_rule

__all__ = ["CONVERTERS", "TARGET", "OpConversion", "converts"]

TARGET = "dnnl"


@dataclass(frozen=True, slots=True)
class OpConversion:
    """One op while it is converted.

    Attributes
    ----------
    importer
        What knows the values of the function.
    op
        The op.
    """

    importer: Importer
    op: OpView

    @property
    def graph(self) -> Graph:
        """Where nodes are added."""
        return self.importer.graph

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the op, by name."""
        return self.op.attrs

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The extents of the result."""
        return self.importer.shape(self.op.call)

    def extents(self, index: int) -> tuple[Dim, ...]:
        """The extents of argument `index`."""
        return self.importer.shape(self.op.args[index])

    def operand(self, index: int) -> TensorId:
        """The tensor that is argument `index`."""
        return self.importer.operand(self.op.args[index])

    def operands(self) -> list[TensorId]:
        """All arguments, which are tensors."""
        return list(map(self.importer.operand, self.op.args))

    def parts(self) -> tuple[TensorId, ...]:
        """The tensors of the tuple that is the first argument."""
        return self.importer.operands(self.op.args[0])

    def add(
        self,
        kind: Kind,
        inputs: Iterable[TensorId],
        parameters: Parameters = NO_PARAMETERS,
        dtype: DataType | None = None,
    ) -> TensorId:
        """A new node with the extents of the op's result."""
        return self.graph.add(kind, tuple(inputs), self.shape, parameters, dtype=dtype)


Results: TypeAlias = TensorId | tuple[TensorId | None, ...]
"""The result of an op, or the results of one that has several (None: not made)."""

Convert: TypeAlias = Callable[[OpConversion], Results]
"""Adds the nodes of one op."""

Suits: TypeAlias = Callable[[OpView], bool]
"""Whether a call is of the kind that a conversion is for."""

CONVERTERS: dict[str, Callable[[Importer, OpView], Results]] = {}
"""The conversion of each op, by name."""


@dataclass(frozen=True, slots=True)
class _Conversion:
    """One of the conversions of an op, which may have one for floats and another one for whole numbers."""

    suits: Suits | None
    convert: Convert
    problems: Callable[[OpView], Problems]


_CONVERSIONS: dict[str, list[_Conversion]] = {}
"""The conversions of each op; the one for all other calls, if there is one, stands last."""


def _conversion(op: OpView) -> _Conversion:
    forms = _CONVERSIONS[op.name]
    return next((each for each in forms if each.suits is None or each.suits(op)), forms[-1])


def _add_conversion(name: str, each: _Conversion) -> None:
    forms = _CONVERSIONS.setdefault(name, [])
    assert each.suits is not None or all(other.suits is not None for other in forms), name
    forms.insert(len(forms) if each.suits is None else 0, each)


def converts(
    *names: str,
    operands: Iterable[str] = ("the data",),
    types: tuple[str, ...] = FLOATS,
    result: tuple[str, ...] | None = FLOATS,
    unless: Callable[[OpView], Problems] | None = None,
    suits: Suits | None = None,
) -> Callable[[Convert], Convert]:
    """Decorator: register the conversion of ops, and the rule that claims them.

    Parameters
    ----------
    *names
        The ops.
    operands
        What the first arguments are called, which have to be tensors.
    types
        The types that their elements may have.
    result
        The types that those of the result may have; None if it is not one tensor.
    unless
        What else may be wrong with an op; asked when operands and result are known to be good.
    suits
        Which calls this is for, where an op has several conversions; None: those that no other is for.
    """
    called = tuple(operands)

    def problems(op: OpView) -> Iterator[str | None]:
        for type_, what in zip(op.arg_types, called, strict=False):
            yield tensor_problem(type_, what, types)
        if result is not None:
            yield tensor_problem(op.out_type, "the result", result)
        if unless is not None:
            yield from unless(op)

    def register(convert: Convert) -> Convert:
        for name in names:
            _add_conversion(name, _Conversion(suits, convert, problems))
            CONVERTERS[name] = lambda importer, op: _conversion(op).convert(OpConversion(importer, op))
            register_rule(TARGET, name)(lambda op: first_problem(_conversion(op).problems(op)))
        return convert

    return register
