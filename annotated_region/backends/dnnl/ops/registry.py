"""The registry of ops: for each op the rule that claims it and its conversion to graph nodes.

Each family of ops is one file of this folder. A conversion may rely on every condition that its rule checks.
Rules match exactly what the code generator and oneDNN support. Anything else is declined: a decline only
costs time, a wrong claim gives wrong results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm
from tvm import relax

from annotated_region.backends.dnnl.graph import DataType, Dim, Graph, Kind, TensorId
from annotated_region.backends.dnnl.importer import Importer, extents_of
from annotated_region.backends.dnnl.ops.checks import FLOATS, Problems, first_problem, tensor_problem
from annotated_region.backends.dnnl.parameters import NO_PARAMETERS, Parameters
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_rule

__all__ = ["CONVERTERS", "TARGET", "OpConversion", "converts"]

TARGET = "dnnl"


@dataclass(frozen=True, slots=True)
class OpConversion:
    """One op during its conversion.

    Attributes
    ----------
    importer
        The importer of the function, which resolves its values.
    op
        The op.
    """

    importer: Importer
    op: OpView

    @property
    def graph(self) -> Graph:
        """The graph that nodes are added to."""
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
        """The tensor of argument `index`."""
        return self.importer.operand(self.op.args[index])

    def operands(self) -> list[TensorId]:
        """The tensors of all arguments."""
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
"""The result of an op, or a tuple of results (None: not computed)."""

Convert: TypeAlias = Callable[[OpConversion], Results]
"""Adds the nodes of one op."""

Suits: TypeAlias = Callable[[OpView], bool]
"""Whether a conversion applies to a call."""

CONVERTERS: dict[str, Callable[[Importer, OpView], Results]] = {}
"""The conversion of each op, by name."""


@dataclass(frozen=True, slots=True)
class _Conversion:
    """One conversion of an op; an op may have several, such as for floats and for integers."""

    suits: Suits | None
    convert: Convert
    problems: Callable[[OpView], Problems]


_CONVERSIONS: dict[str, list[_Conversion]] = {}
"""The conversions of each op; the default one without a `suits`, if any, is last."""


def _conversion(op: OpView) -> _Conversion:
    """The conversion that suits an op; if a type or a shape is unknown, the last one, whose checks say so."""
    forms = _CONVERSIONS[op.name]
    if any(map(_is_unknown, (*op.arg_types, op.out_type))):
        return forms[-1]
    return next((each for each in forms if each.suits is None or each.suits(op)), forms[-1])


def _is_unknown(type_: tvm.ir.Type) -> bool:
    """Whether it may be the type of a tensor of unknown shape."""
    is_open = isinstance(type_, relax.TensorType) and extents_of(type_) is None
    return is_open or isinstance(type_, relax.AnyType)


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
        The names of the leading arguments in messages; these must be tensors.
    types
        The dtypes that they may have.
    result
        The dtypes that the result may have; None if it is not a single tensor.
    unless
        Further checks of an op, run after operands and result have been accepted.
    suits
        The calls that this conversion is for, if an op has several; None for the default conversion. Asked
        only if the shapes of all tensors are known.
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
