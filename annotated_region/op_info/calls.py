"""Conversion of Relax calls to op infos, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tvm
from tvm import relax

from annotated_region.errors import OpInfoError
from annotated_region.op_info.attributes import attributes_of
from annotated_region.op_info.extents import expression_at_call, extent_at_call
from annotated_region.op_info.info import (
    ArgRole,
    DerivedExtent,
    Extent,
    ExtentOf,
    Number,
    OpInfo,
    Parameter,
    Result,
    Shape,
    Source,
    Sources,
    Value,
)
from annotated_region.op_info.kinds import kind_of
from annotated_region.tvm_adapter.nodes import Constant, PrimExpr, TextConstant
from annotated_region.tvm_adapter.types import expect

__all__ = ["flat_operands", "info_of_call", "make_call"]

Place = Callable[[relax.Expr], Source | None]
"""Maps a variable or a constant to its source; None if unknown."""

PlaceExtent = Callable[[PrimExpr], Extent | None]
"""Maps a symbolic integer to where it is known; None if unknown."""

# TVM records the type of the attributes with most ops, but not with these.
_STATISTICS = ("max", "mean", "median", "min", "prod", "std", "sum", "variance")
_ATTRS_TYPES = {
    "relax.matmul": "relax.attrs.MatmulAttrs",
    "relax.argmax": "relax.attrs.ArgmaxArgminAttrs",
    "relax.argmin": "relax.attrs.ArgmaxArgminAttrs",
    **{f"relax.{name}": "relax.attrs.StatisticalAttrs" for name in _STATISTICS},
}


def _nowhere(_extent: PrimExpr) -> None:
    return None


def info_of_call(call: relax.Call, place: Place, place_extent: PlaceExtent = _nowhere) -> OpInfo | None:
    """The info of a call to a Relax op.

    Parameters
    ----------
    call
        A call whose op is a `tvm.ir.Op`.
    place
        Called for each variable and each constant tensor among the arguments.
    place_extent
        Called for each symbolic integer among the arguments.

    Returns
    -------
    The info; None if the source of an argument is unknown, or an argument or attribute is not plain data.
    """
    op = expect(tvm.ir.Op, call.op)
    declared = [argument.name for argument in op.arguments]
    roles = []
    for index, argument in enumerate(call.args):
        source = _source_of(argument, place, place_extent)
        if source is None:
            return None
        role = declared[index] if index < len(declared) else f"arg{index}"
        roles.append(ArgRole(str(role), source))
    try:
        info = OpInfo(str(op.name), kind_of(op.name), attributes_of(call.attrs), tuple(roles))
        info.to_dict()
    except OpInfoError:
        return None
    return info


def flat_operands(call: relax.Call) -> Iterator[relax.Expr]:
    """The variables and constant tensors among the arguments of a call, including those in tuples."""
    for argument in call.args:
        yield from _leaves(argument)


def _leaves(expr: relax.Expr) -> Iterator[relax.Expr]:
    if isinstance(expr, relax.Tuple):
        for part in expr.fields:
            yield from _leaves(part)
    elif isinstance(expr, relax.Var | Constant):
        yield expr


def _source_of(expr: relax.Expr, place: Place, place_extent: PlaceExtent) -> Source | None:
    if isinstance(expr, relax.Tuple):
        parts = [_source_of(part, place, place_extent) for part in expr.fields]
        return None if None in parts else Sources(tuple(part for part in parts if part is not None))
    if isinstance(expr, relax.ShapeExpr):
        extents = [_extent_of(extent, place_extent) for extent in expr.values]
        return None if None in extents else Shape(tuple(each for each in extents if each is not None))
    if isinstance(expr, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return Value(expr.value, str(expr.ty))
    if isinstance(expr.ty, tvm.ir.PrimType):
        found = place_extent(expr) if str(expr.ty) == "int64" else None
        return None if isinstance(found, int) else found
    if isinstance(expr, TextConstant):
        return Value(str(expr.value), None)
    return place(expr) if isinstance(expr, relax.Var | Constant) else None


def _extent_of(extent: PrimExpr, place_extent: PlaceExtent) -> Extent | None:
    return int(extent) if isinstance(extent, tvm.tirx.IntImm) else place_extent(extent)


def make_call(
    info: OpInfo, parameters: Mapping[int, relax.Expr], results: Mapping[Result, relax.Expr]
) -> relax.Call:
    """The call that `info` describes.

    Parameters
    ----------
    info
        The op to call.
    parameters
        The expression for each parameter of the PrimFunc; for an output, a variable of its type.
    results
        The expression for each result of earlier ops of the same composition.

    Raises
    ------
    OpInfoError
        The op does not exist, does not have these attributes, or a parameter is missing.
    """
    try:
        args = [_expression(argument.source, parameters, results) for argument in info.arg_roles]
        op = tvm.ir.Op.get(info.name)
        return relax.Call(op, args, _make_attrs(op, info.attrs))
    except KeyError as error:
        raise OpInfoError(f"{info.name} lacks the attribute {error}") from error
    except (tvm.error.InternalError, TypeError, ValueError) as error:
        raise OpInfoError(f"there is no op {info.name} with attributes {dict(info.attrs)}") from error


def _make_attrs(op: tvm.ir.Op, attrs: Mapping[str, object]) -> tvm.ir.Attrs | None:
    if not attrs:
        return None
    kind = _ATTRS_TYPES.get(str(op.name)) or str(op.attrs_type_key)
    made: tvm.ir.Attrs = tvm.ir.make_node(
        kind, **{name: _as_declared(name, value) for name, value in attrs.items()}
    )
    return made


def _as_declared(name: str, value: object) -> object:
    """`value` as the attribute wants it: the one that may be a number or a list is an expression."""
    if name != "indices_or_sections":
        return value
    if isinstance(value, tuple):
        return [tvm.tirx.IntImm("int64", index) for index in value]
    return tvm.tirx.IntImm("int64", expect(int, value))


def _expression(
    source: Source, parameters: Mapping[int, relax.Expr], results: Mapping[Result, relax.Expr]
) -> relax.Expr:
    match source:
        case Parameter(index):
            made = parameters[index]
        case Result():
            made = results[source]
        case Number(value, dtype):
            made = relax.const(np.asarray(value), dtype)
        case Shape(extents):
            made = relax.ShapeExpr([extent_at_call(extent, parameters) for extent in extents])
        case ExtentOf() | DerivedExtent():
            made = expression_at_call(source, parameters)
        case Value(value, dtype):
            made = _primitive(value, dtype)
        case Sources(fields):
            made = relax.Tuple([_expression(part, parameters, results) for part in fields])
    return made


def _primitive(value: float | int | bool | str, dtype: str | None) -> relax.Expr:
    if dtype is None:
        return TextConstant(expect(str, value))
    if isinstance(value, str):
        raise OpInfoError(f"the number {value!r} is a string")
    return tvm.tirx.FloatImm(dtype, value) if "float" in dtype else tvm.tirx.IntImm(dtype, int(value))
