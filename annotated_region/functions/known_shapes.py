"""Writes shapes that are bound to variables out in the calls whose types are unknown without them."""

from __future__ import annotations

import tvm
from tvm import relax

from annotated_region.functions.retyping import Emit, retyped

__all__ = ["with_known_shapes"]


def with_known_shapes(function: relax.Function) -> relax.Function:
    """The function with shapes in the place of variables for shapes, where a result has no known shape.

    TVM 0.27 infers only the rank of ``R.image.resize2d(x, size)`` if `size` is a variable bound to
    ``R.shape([16, 16])``, and has the variable as the shape of ``R.broadcast_to(x, size)``. It cannot compile
    either of them.

    Returns
    -------
    `function` itself if there is no such call. Types of users are inferred again, so they become known.

    Notes
    -----
    Linear in the number of bindings.
    """
    return retyped(function, _written_out)


def _written_out(call: relax.Call, _binding: relax.VarBinding, _emit: Emit) -> relax.Expr | None:
    ty = call.ty
    is_open = isinstance(ty, relax.TensorType) and not isinstance(ty.shape, relax.ShapeExpr)
    if not is_open or not isinstance(call.op, tvm.ir.Op):
        return None
    arguments = list(map(_known, call.args))
    if all(new.same_as(old) for new, old in zip(arguments, call.args, strict=True)):
        return None
    return relax.Call(call.op, arguments, call.attrs, call.ty_args, call.span)


def _known(argument: relax.Expr) -> relax.Expr:
    """The value of a variable for a shape whose extents are part of its type."""
    if not isinstance(argument, relax.Var):
        return argument
    ty = argument.ty
    if not isinstance(ty, relax.ShapeType) or ty.values is None:
        return argument
    return relax.ShapeExpr(ty.values, argument.span)
