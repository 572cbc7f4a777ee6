"""Types of expressions: setting one without inferring it, narrowing it, and the variables in it."""

from __future__ import annotations

from typing import TypeVar

import tvm
from tvm import relax
from tvm.relax.expr import _update_type

__all__ = ["expect", "fixed_extents", "set_type", "shape_of", "shape_vars_of", "tensor_type"]

Kind = TypeVar("Kind")


def set_type(expr: relax.Expr, ty: tvm.ir.Type) -> None:
    """Give an expression its type in place.

    TVM infers types while a `BlockBuilder` normalizes; where the type is known already, inferring it again
    costs milliseconds a call. TVM does not check that the type is right.

    Parameters
    ----------
    expr
        An expression or a global variable that is used nowhere else yet.
    ty
        Its type.
    """
    _update_type(expr, ty)


def shape_vars_of(ty: tvm.ir.Type) -> list[relax.Var]:
    """The variables in the shapes of a type, in the order of their first use."""
    return list(relax.analysis.tir_vars_in_type(ty))


def expect(kind: type[Kind], value: object) -> Kind:
    """`value`, narrowed to a class, where TVM declares only a base class."""
    assert isinstance(value, kind), f"{value} is of no kind {kind.__name__}"
    return value


def tensor_type(expr: relax.Expr) -> relax.TensorType:
    """The type of an expression that is known to be a tensor."""
    return expect(relax.TensorType, expr.ty)


def shape_of(expr: relax.Expr) -> relax.ShapeExpr:
    """The shape in a tensor type, which must list its extents."""
    return expect(relax.ShapeExpr, tensor_type(expr).shape)


def fixed_extents(expr: relax.Expr) -> tuple[int, ...]:
    """The shape of a tensor all of whose extents are known to be numbers."""
    return tuple(int(expect(tvm.tirx.IntImm, extent)) for extent in shape_of(expr).values)
