"""Scales and zero points of nodes, and quantization with them."""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, rank_of

__all__ = ["BYTES", "dequantized", "one_number", "parameters", "product_of", "quantized"]

BYTES = ("int8", "uint8")


def dequantized(
    node: OnnxNode, position: int, axis: int | None = None, dtypes: tuple[str, ...] = BYTES
) -> relax.Expr:
    """The floats of a quantized input, which is followed by its scale and its zero point.

    Parameters
    ----------
    node
        The node.
    position
        The position of the quantized tensor; scale and zero point are the next two inputs.
    axis
        The axis whose slices may have separate scales; None for a single scale.
    dtypes
        The supported data types.
    """
    data = node.tensor(position, dtypes)
    extent = None if axis is None else node.shape(data)[axis]
    scale, zero = parameters(node, position + 1, position + 2, dtype_of(data), extent)
    return relax.op.dequantize(data, scale, zero, axis=0 if axis is None else axis, out_dtype="float32")


def quantized(node: OnnxNode, floats: relax.Expr, position: int, dtype: str) -> relax.Expr:
    """Floats quantized by the single scale at a position and the zero point after it."""
    scale, zero = parameters(node, position, position + 1, dtype, None)
    return relax.op.quantize(floats, scale, zero, axis=0, out_dtype=dtype)


def parameters(
    node: OnnxNode, scale_at: int, zero_at: int, dtype: str, extent: int | relax.Expr | None
) -> tuple[relax.Expr, relax.Expr]:
    """Scale and zero point: both scalar, or both vectors of `extent` elements.

    Raises
    ------
    ModelError
        They have other shapes or types.
    """
    scale = _parameter(node, scale_at, "float32", extent)
    if not node.has(zero_at):
        return scale, relax.const(np.zeros([], dtype))
    zero = _parameter(node, zero_at, dtype, extent)
    if rank_of(scale) == rank_of(zero):
        return scale, zero
    return _repeated(node, scale, extent), _repeated(node, zero, extent)


def _parameter(node: OnnxNode, position: int, dtype: str, extent: int | relax.Expr | None) -> relax.Expr:
    expr = node.tensor(position, (dtype,), (0, 1))
    shape = node.shape(expr)
    if shape in ((), (1,)):
        return one_number(node, expr)
    node.require(
        extent is not None and shape == (extent,),
        f"has an input {position} of {shape[0]} numbers; it should be "
        f"{'one' if extent is None else f'one, or {extent}'}",
    )
    return expr


def one_number(node: OnnxNode, expr: relax.Expr) -> relax.Expr:
    """A tensor with one element as a tensor of rank 0."""
    if rank_of(expr) == 0:
        return expr
    numbers = node.constant(expr)
    return (
        node.typed(relax.op.reshape(expr, ()))
        if numbers is None
        else relax.const(numbers.reshape(()), dtype_of(expr))
    )


def _repeated(node: OnnxNode, expr: relax.Expr, extent: int | relax.Expr | None) -> relax.Expr:
    if rank_of(expr) == 1:
        return expr
    assert extent is not None, "a list has the length of an axis"
    return node.typed(relax.op.broadcast_to(expr, relax.ShapeExpr([extent])))


def product_of(node: OnnxNode, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """The product of two scales; a constant if both are."""
    one, other = node.constant(left), node.constant(right)
    if one is None or other is None:
        return node.typed(relax.op.multiply(left, right))
    return relax.const(np.asarray(one * other, "float32"))
