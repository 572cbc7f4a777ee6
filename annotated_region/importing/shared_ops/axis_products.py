"""The product of a tensor with a matrix along one axis: resizing is one such product for each axis."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from annotated_region.tvm_adapter.types import shape_of

__all__ = ["product_along"]


def product_along(
    emit: Callable[[relax.Expr], relax.Var], data: relax.Expr, axis: int, matrix: relax.Expr
) -> relax.Var:
    """The data with each vector along an axis multiplied by a matrix, whose rows stand for its elements."""
    last = len(shape_of(data).values) - 1
    if axis == last:
        return emit(relax.op.matmul(data, matrix))
    order = [*range(axis), last, *range(axis + 1, last), axis]
    turned = emit(relax.op.permute_dims(data, order))
    return emit(relax.op.permute_dims(emit(relax.op.matmul(turned, matrix)), order))
