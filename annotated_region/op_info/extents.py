"""Symbolic extents in op infos: where the parameters of a function tell them, and their values at a call.

The shape of ``reshape(x, (n * m, 4))`` in a function with ``x: (n, m, 4)`` and ``out: (n * m, 4)`` starts
with the extent of axis 0 of ``out``. Extents of values inside a function that no parameter has are derived::

    n + m    ->    DerivedExtent("add", (ExtentOf(0, 0), ExtentOf(0, 1)))
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

import tvm
import tvm_ffi
from tvm import relax, tirx

from annotated_region.errors import OpInfoError
from annotated_region.functions.polynomials import are_equal
from annotated_region.op_info.info import DerivedExtent, Extent, ExtentOf, Parameter
from annotated_region.tvm_adapter.nodes import PrimExpr
from annotated_region.tvm_adapter.types import expect

__all__ = [
    "ExtentPlaces",
    "expression_at_call",
    "extent_at_call",
    "extent_places",
    "known_extents",
    "parameters_at_call",
    "types_in",
]

Operator = tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorDiv | tirx.FloorMod | tirx.Min | tirx.Max

_OPERATORS: Mapping[str, tuple[type[Operator], Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    "add": (tirx.Add, operator.add),
    "subtract": (tirx.Sub, operator.sub),
    "multiply": (tirx.Mul, operator.mul),
    "floor_divide": (tirx.FloorDiv, tirx.floordiv),
    "floor_mod": (tirx.FloorMod, tirx.floormod),
    "minimum": (tirx.Min, tirx.Min),
    "maximum": (tirx.Max, tirx.Max),
}


class ExtentPlaces:
    """Where a function's parameters tell its symbolic extents.

    Parameters
    ----------
    shapes
        The shapes of tensor parameters, by number. An extent that several have is taken from the first one.
    scalars
        Integer parameters, by number.
    """

    def __init__(
        self, shapes: Mapping[int, Sequence[int | PrimExpr]], scalars: Mapping[int, PrimExpr]
    ) -> None:
        self._known: list[tuple[PrimExpr, Extent]] = [
            (extent, ExtentOf(number, axis))
            for number, shape in shapes.items()
            for axis, extent in enumerate(shape)
            if not isinstance(extent, int | tirx.IntImm)
        ]
        self._known += [(scalar, Parameter(number)) for number, scalar in scalars.items()]

    def place(self, extent: int | PrimExpr) -> Extent | None:
        """The extent, as the parameters tell it; None if they do not."""
        if isinstance(extent, int | tirx.IntImm):
            return int(extent)
        for known, place in self._known:
            if extent.same_as(known) or tvm_ffi.structural_equal(extent, known):
                return place
        for name, (kind, _) in _OPERATORS.items():
            if isinstance(extent, kind):
                left, right = self.place(extent.a), self.place(extent.b)
                return None if left is None or right is None else DerivedExtent(name, (left, right))
        return None


def extent_places(arguments: Sequence[relax.Expr], results: tvm.ir.Type) -> ExtentPlaces:
    """The places of a function with such arguments and results, the results first.

    What the last op makes then has the type that the call states, however the extents are written.
    """
    types = types_in(results)
    parameters = [
        *enumerate(types, len(arguments)),
        *enumerate(argument.ty for argument in arguments),
    ]
    shapes = {number: known for number, ty in parameters if (known := known_extents(ty)) is not None}
    scalars = {n: each for n, each in enumerate(arguments) if isinstance(each.ty, tvm.ir.PrimType)}
    return ExtentPlaces(shapes, scalars)


def extent_at_call(extent: Extent, parameters: Mapping[int, relax.Expr]) -> int | PrimExpr:
    """The value of an extent, with an expression for each parameter.

    Raises
    ------
    OpInfoError
        A tensor has no such axis, or none that is known.
    KeyError
        A parameter is missing.
    """
    match extent:
        case int():
            return extent
        case Parameter(index):
            return parameters[index]
        case ExtentOf(index, axis):
            shape = known_extents(parameters[index].ty)
            if shape is None or axis >= len(shape):
                raise OpInfoError(f"axis {axis} of parameter {index} is unknown")
            return shape[axis]
        case DerivedExtent(name, (left, right)):
            compute = _OPERATORS[name][1]
            return compute(expression_at_call(left, parameters), expression_at_call(right, parameters))


def expression_at_call(extent: Extent, parameters: Mapping[int, relax.Expr]) -> PrimExpr:
    """The value of an extent as an expression, even of a number."""
    value = extent_at_call(extent, parameters)
    return tirx.IntImm("int64", value) if isinstance(value, int) else value


def parameters_at_call(call: relax.Call) -> dict[int, relax.Expr]:
    """An expression for each parameter of the PrimFunc of a ``call_tir``; for an output, a variable."""
    types = types_in(call.ty_args[0])
    outputs = [relax.Var("output", ty) for ty in types]
    return dict(enumerate((*expect(relax.Tuple, call.args[1]).fields, *outputs)))


def types_in(ty: tvm.ir.Type) -> list[tvm.ir.Type]:
    """The fields of a tuple type; another type by itself."""
    return list(ty.fields) if isinstance(ty, tvm.ir.TupleType) else [ty]


def known_extents(ty: tvm.ir.Type) -> Sequence[PrimExpr] | None:
    """The shape in a type; None if it is no tensor, or has no known shape."""
    shape = ty.shape if isinstance(ty, relax.TensorType) else None
    return list(shape.values) if isinstance(shape, relax.ShapeExpr) else None


def is_same_tensor(left: tvm.ir.Type, right: tvm.ir.Type) -> bool:
    """Whether two types are of tensors of one data type whose extents are equal, however they are written."""
    shapes = [known_extents(ty) for ty in (left, right)]
    if None in shapes or str(expect(relax.TensorType, left).dtype) != str(
        expect(relax.TensorType, right).dtype
    ):
        return False
    one, other = (shape or () for shape in shapes)
    return len(one) == len(other) and all(map(are_equal, one, other))
