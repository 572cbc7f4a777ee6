"""The ops of quantized programs (PT2E and fake quantization), which TVM 0.27's importer lacks."""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.integer_grids import BYTES, IntegerGrid
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
    is_tensor,
)
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__: list[str] = []

_INTEGERS = (*BYTES, "int16", "uint16", "int32")
_MOVING = ("relax.astype", "relax.reshape")
_FORMS = ("default", "tensor", "tensor2")


@converts(*(f"quantize_per_tensor.{form}" for form in _FORMS), "quantize_per_token.default")
def quantize_whole(node: TorchNode) -> relax.Expr:
    """Integers by one scale and zero point, or by those of each row."""
    return _grid(node, 0, 3).integers(node, node.tensor(0))


@converts(*(f"dequantize_per_tensor.{form}" for form in _FORMS), "dequantize_per_token.default")
def dequantize_whole(node: TorchNode) -> relax.Expr:
    """The floats of integers by one scale and zero point, or by those of each row."""
    return _grid(node, 0, 3).floats(node, node.tensor(0), node.dtype)


@converts("quantize_per_channel.default")
def quantize_slices(node: TorchNode) -> relax.Expr:
    """Integers by a scale and a zero point for each slice of an axis."""
    return _grid(node, _whole(node, 3), 4).integers(node, node.tensor(0))


@converts("dequantize_per_channel.default")
def dequantize_slices(node: TorchNode) -> relax.Expr:
    """The floats of integers by a scale and a zero point for each slice of an axis."""
    return _grid(node, _whole(node, 3), 4).floats(node, node.tensor(0), node.dtype)


@converts(
    "fake_quantize_per_tensor_affine_cachemask.default",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
)
def fake_quantize_whole(node: TorchNode) -> relax.Expr:
    """Floats rounded to what integers by one scale and zero point stand for."""
    at = 4 if node.name.startswith("_") else 3
    return _rounded_floats(node, 0, at)


@converts("fake_quantize_per_channel_affine_cachemask.default")
def fake_quantize_slices(node: TorchNode) -> relax.Expr:
    """Floats rounded to what integers by a scale for each slice of an axis stand for."""
    return _rounded_floats(node, _whole(node, 3), 4)


def _rounded_floats(node: TorchNode, axis: int, ends_at: int) -> relax.Expr:
    """The first result alone: the mask beside it serves the gradient."""
    if node.are_read(1):
        raise ModelError("of a fake quantization only the first result is supported")
    ends = _ends(node, ends_at)
    holding = [dtype for dtype, (least, largest) in BYTES.items() if least <= ends[0] and ends[1] <= largest]
    data = node.tensor(0)
    grid = IntegerGrid(*_scale_and_zero(node), axis, ends, holding[0] if holding else "int32")
    floats = grid.floats(node, grid.integers(node, data), dtype_of_tensor(data))
    return node.emit(relax.Tuple([floats]))


@converts("choose_qparams.tensor")
def chosen_grid(node: TorchNode) -> relax.Expr:
    """The scale and the zero point for the range of a tensor, which includes 0."""
    least = _whole(node, 1)
    below, above = _range(node)
    scale = _scale_of(node, node.emit(relax.op.subtract(above, below)))
    steps = node.emit(relax.op.round(node.emit(relax.op.divide(below, scale))))
    zero = node.emit(relax.op.subtract(relax.const(float(least), "float32"), steps))
    return _as_pytorch(node, scale, node.emit(relax.op.clip(zero, least, _whole(node, 2))))


@converts("choose_qparams_symmetric.tensor")
def chosen_symmetric_grid(node: TorchNode) -> relax.Expr:
    """The scale for the largest magnitude of a tensor; the zero point is in the middle of the data type."""
    below, above = _range(node)
    size = node.emit(relax.op.maximum(node.emit(relax.op.negative(below)), above))
    scale = _scale_of(node, node.emit(relax.op.multiply(size, relax.const(2.0, "float32"))))
    zero = 128.0 if str(node.argument(4)) == "torch.uint8" else 0.0
    return _as_pytorch(node, scale, relax.const(zero, "float32"))


def _range(node: TorchNode) -> tuple[relax.Expr, relax.Expr]:
    data, nothing = node.cast(node.tensor(0), "float32"), relax.const(0.0, "float32")
    below = node.emit(relax.op.minimum(node.emit(relax.op.min(data)), nothing))
    return below, node.emit(relax.op.maximum(node.emit(relax.op.max(data)), nothing))


def _scale_of(node: TorchNode, width: relax.Expr) -> relax.Expr:
    """The step between two integers, which is not below the smallest one that is asked for."""
    steps, smallest = _whole(node, 2) - _whole(node, 1), node.argument(3)
    assert isinstance(smallest, float)
    quantum = node.emit(relax.op.divide(width, relax.const(float(steps), "float32")))
    return node.emit(relax.op.maximum(quantum, relax.const(smallest, "float32")))


def _as_pytorch(node: TorchNode, scale: relax.Expr, zero: relax.Expr) -> relax.Expr:
    """Tensors of one element, of the types of PyTorch; what quantizes by them looks behind the casts."""
    both = [node.emit(relax.op.reshape(each, [1])) for each in (scale, zero)]
    return node.emit(relax.Tuple([node.cast(both[0], "float64"), node.cast(both[1], "int64")]))


def _grid(node: TorchNode, axis: int, ends_at: int) -> IntegerGrid:
    dtype = str(node.argument(ends_at + 2, "dtype")).removeprefix("torch.")
    if dtype not in _INTEGERS:
        raise ModelError(f"integers of type {dtype} are not supported; there are {', '.join(_INTEGERS)}")
    return IntegerGrid(*_scale_and_zero(node), axis, _ends(node, ends_at), dtype)


def _ends(node: TorchNode, place: int) -> tuple[int, int]:
    """The least and the largest integer, which are arguments in a row."""
    return _whole(node, place), _whole(node, place + 1)


def _scale_and_zero(node: TorchNode) -> tuple[relax.Expr, relax.Expr]:
    scale = _numbers(node, 1, "float32")
    if node.given(2) is not None:
        return scale, _numbers(node, 2, "int32")
    counts = [extent for extent in extents_of_tensor(scale) if isinstance(extent, int)]
    return scale, relax.const(np.zeros(counts, "int32"))


def _whole(node: TorchNode, place: int) -> int:
    """An argument that is a whole number, or a tensor of one that the program contains."""
    number = _numbers(node, place, "int64")
    assert isinstance(number, Constant)
    return int(number.value.numpy())


def _numbers(node: TorchNode, place: int, dtype: str) -> relax.Expr:
    """Scales, zero points or ends: constants where the program has them; one number has rank 0."""
    given = node.given(place)
    held = node.constants.get(getattr(given, "name", ""))
    if isinstance(given, int | float) or held is not None:
        numbers = np.asarray(given if held is None else held.detach().numpy(), dtype)
        return relax.const(numbers.reshape(()) if numbers.size == 1 else numbers)
    value = _behind_casts(node, node.tensor(place))
    alone = extents_of_tensor(value) == [1]
    return node.cast(node.emit(relax.op.reshape(value, [])) if alone else value, dtype)


def _behind_casts(node: TorchNode, value: relax.Expr) -> relax.Expr:
    """The number that this file's converters cast to the types of PyTorch."""
    while isinstance(value, relax.Var):
        bound = node.importer.block_builder.lookup_binding(value)
        if isinstance(bound, relax.TupleGetItem):
            fields = node.importer.block_builder.lookup_binding(expect(relax.Var, bound.tuple_value))
            bound = fields.fields[bound.index] if isinstance(fields, relax.Tuple) else None
        elif isinstance(bound, relax.Call) and getattr(bound.op, "name", "") in _MOVING:
            bound = bound.args[0]
        if not isinstance(bound, relax.Var) or not is_tensor(bound):
            break
        value = bound
    return value
