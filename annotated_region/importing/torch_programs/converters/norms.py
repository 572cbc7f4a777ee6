"""Norms with their statistics, of several data types, and of symbolic channels, which TVM 0.27 rejects.

The importer returns zeros or other numbers for the mean and the reciprocal deviation beside a batch norm or a
layer norm. An instance norm of a symbolic batch is exported as a batch norm of ``batch * channels`` channels.
TVM's norms take vectors of the type of the data only, and its batch norm of halves by the statistics of the
batch gives float32. PyTorch computes with halves in float32 and rounds the result; so do these converters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)
from annotated_region.tvm_adapter.arithmetic import Extent
from annotated_region.tvm_adapter.types import expect

HALVES = ("float16", "bfloat16")


@converts("_native_batch_norm_legit.no_stats")
def norm_of_batch(node: TorchNode) -> relax.Expr | None:
    """Normalized by the statistics of the batch: that, the mean and the reciprocal deviation."""
    if _has_known_channels(node) and not node.are_read(1, 2) and not _is_mixed(node, 1, 2):
        return None
    return _in_stated_types(node, _normalized_by_batch(node, node.argument(5, "eps"))[:3])


@converts("_native_batch_norm_legit_functional.default")
def norm_of_batch_and_history(node: TorchNode) -> relax.Expr | None:
    """As `norm_of_batch`, with the running mean and variance behind them, which the batch updates."""
    if not bool(node.argument(5, "training")):
        return None
    data, momentum = node.tensor(0), float(str(node.argument(6, "momentum")))
    is_plain = dtype_of_tensor(data) not in HALVES and not _is_mixed(node, 1, 2, 3, 4)
    if _has_known_channels(node) and is_plain and not node.are_read(1, 2, 3, 4):
        return None
    result, mean, deviation, variance = _normalized_by_batch(node, node.argument(7, "eps"))
    results = [result, mean, deviation]
    dtype = dtype_of_tensor(mean)
    count = _count(node, [extent for axis, extent in enumerate(extents_of_tensor(data)) if axis != 1], dtype)
    # The running variance is that of a sample.
    rest = node.emit(relax.op.subtract(count, relax.const(1.0, dtype)))
    sampled = node.emit(relax.op.multiply(variance, node.emit(relax.op.divide(count, rest))))
    for place, new in ((3, mean), (4, sampled)):
        old = node.cast(node.tensor(place), dtype)
        kept = node.emit(relax.op.multiply(old, relax.const(1 - momentum, dtype)))
        added = node.emit(relax.op.multiply(new, relax.const(momentum, dtype)))
        results.append(node.emit(relax.op.add(kept, added)))
    return _in_stated_types(node, results)


@converts("_native_batch_norm_legit_no_training.default")
def norm_of_history(node: TorchNode) -> relax.Expr | None:
    """Normalized by running statistics, of symbolic channels or another type; others are left to TVM."""
    data, mean, variance = (node.tensor(place) for place in (0, 3, 4))
    if not _has_known_channels(node):
        variance = _widened(node, variance)
        deviation = _reciprocal_deviation(node, variance, node.argument(6, "eps"))
        return node.cast(_scaled(node, _widened(node, data), mean, deviation), dtype_of_tensor(data))
    if not _is_mixed(node, 1, 2, 3, 4):
        return None
    wide = _widened(node, data)
    vectors = [node.cast(each, dtype_of_tensor(wide)) for each in (*_scale_and_shift(node), mean, variance)]
    epsilon = float(str(node.argument(6, "eps")))
    norm = node.emit(relax.op.nn.batch_norm(wide, *vectors, axis=1, epsilon=epsilon, training=False))
    return node.cast(node.emit(relax.TupleGetItem(norm, 0)), dtype_of_tensor(data))


@converts("native_layer_norm.default")
def norm_of_layer(node: TorchNode) -> relax.Expr | None:
    """Normalized along the last axes, with the mean and the reciprocal deviation if they are read."""
    if not node.are_read(1, 2):
        return _layer_norm_of_types(node) if _is_mixed(node, 2, 3) else None
    data, shape = node.tensor(0), node.argument(1, "normalized_shape")
    assert isinstance(shape, list)
    axes = list(range(-len(shape), 0))
    mean = node.emit(relax.op.mean(data, axes, keepdims=True))
    variance = node.emit(relax.op.variance(data, axes, keepdims=True))
    deviation = _reciprocal_deviation(node, variance, node.argument(4, "eps"))
    result = node.emit(relax.op.multiply(node.emit(relax.op.subtract(data, mean)), deviation))
    for place, operation in ((2, relax.op.multiply), (3, relax.op.add)):
        vector = node.argument(place)
        if isinstance(vector, relax.Expr):
            result = node.emit(operation(result, vector))
    return node.emit(relax.Tuple([result, mean, deviation]))


def _layer_norm_of_types(node: TorchNode) -> relax.Expr:
    """Normalized by vectors of another type than the data."""
    data, shape = node.tensor(0), node.argument(1, "normalized_shape")
    assert isinstance(shape, list)
    wide = _widened(node, data)
    dtype = dtype_of_tensor(wide)
    vectors = [
        node.cast(vector, dtype)
        if isinstance(vector, relax.Expr)
        else node.emit(relax.op.full(relax.ShapeExpr(shape), relax.const(number, dtype), dtype))
        for vector, number in ((node.argument(2), 1.0), (node.argument(3), 0.0))
    ]
    axes, epsilon = list(range(-len(shape), 0)), float(str(node.argument(4, "eps")))
    result = node.emit(relax.op.nn.layer_norm(wide, *vectors, axes=axes, epsilon=epsilon))
    return node.emit(relax.Tuple([node.cast(result, dtype_of_tensor(data))]))


def _is_mixed(node: TorchNode, *places: int) -> bool:
    """Whether a vector has another type than the data."""
    vectors = (node.argument(place) for place in places)
    dtype = dtype_of_tensor(node.tensor(0))
    return any(isinstance(each, relax.Expr) and dtype_of_tensor(each) != dtype for each in vectors)


def _widened(node: TorchNode, value: relax.Expr) -> relax.Expr:
    """Halves in float32."""
    return node.cast(value, "float32") if dtype_of_tensor(value) in HALVES else value


def _in_stated_types(node: TorchNode, results: Sequence[relax.Expr]) -> relax.Expr:
    """The tuple of results, in the types that the program states."""
    stated = (str(each.dtype).removeprefix("torch.") for each in node.node.meta["val"])
    return node.emit(
        relax.Tuple([node.cast(each, dtype) for each, dtype in zip(results, stated, strict=True)])
    )


def _scale_and_shift(node: TorchNode) -> list[relax.Expr]:
    """Ones and zeros for those that are not given."""
    channels, dtype = extents_of_tensor(node.tensor(0))[1], dtype_of_tensor(node.tensor(3))
    assert isinstance(channels, int)  # others are scaled without an op for norms
    return [
        vector if isinstance(vector, relax.Expr) else relax.const(np.full(channels, number, "float32"), dtype)
        for vector, number in ((node.argument(1), 1.0), (node.argument(2), 0.0))
    ]


def _has_known_channels(node: TorchNode) -> bool:
    return isinstance(extents_of_tensor(node.tensor(0))[1], int)


def _normalized_by_batch(
    node: TorchNode, epsilon: object
) -> tuple[relax.Expr, relax.Expr, relax.Expr, relax.Expr]:
    """The result, the mean, the reciprocal deviation and the variance."""
    data = _widened(node, node.tensor(0))
    axes = [axis for axis in range(len(extents_of_tensor(data))) if axis != 1]
    mean, variance = (node.emit(statistic(data, axes)) for statistic in (relax.op.mean, relax.op.variance))
    deviation = _reciprocal_deviation(node, variance, epsilon)
    return _scaled(node, data, mean, deviation), mean, deviation, variance


def _reciprocal_deviation(node: TorchNode, variance: relax.Expr, epsilon: object) -> relax.Expr:
    constant = relax.const(float(str(epsilon)), dtype_of_tensor(variance))
    return node.emit(relax.op.rsqrt(node.emit(relax.op.add(variance, constant))))


def _scaled(node: TorchNode, data: relax.Expr, mean: relax.Expr, deviation: relax.Expr) -> relax.Expr:
    """``(data - mean) * deviation * weight + bias``, with vectors of channels."""
    dtype = dtype_of_tensor(data)
    result: relax.Expr = data
    weight, bias = node.argument(1), node.argument(2)
    for vector, operation in (
        (mean, relax.op.subtract),
        (deviation, relax.op.multiply),
        (weight, relax.op.multiply),
        (bias, relax.op.add),
    ):
        if isinstance(vector, relax.Expr):
            result = node.emit(operation(result, _along_channels(node, node.cast(vector, dtype), data)))
    return result


def _along_channels(node: TorchNode, vector: relax.Expr, data: relax.Expr) -> relax.Expr:
    extents = extents_of_tensor(data)
    shape = [1, extents[1], *[1] * (len(extents) - 2)]
    return node.emit(relax.op.reshape(vector, relax.ShapeExpr(shape)))


def _count(node: TorchNode, extents: Sequence[Extent], dtype: str) -> relax.Expr:
    """The product of extents as a tensor of rank 0."""
    product: relax.Expr = relax.const(1.0, dtype)
    for extent in extents:
        factor = expect(relax.Expr, node.number_as_tensor(extent, dtype))
        product = node.emit(relax.op.multiply(product, factor))
    return product
