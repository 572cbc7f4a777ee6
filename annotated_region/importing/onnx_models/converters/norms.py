"""Normalizations with statistics as results, and dropout with a mask.

TVM 0.27.0 returns 0 for the mean and the deviation of `LayerNormalization`, wrong running statistics for
a `BatchNormalization` in training mode, and a float mask for `Dropout`, whose training mode it
ignores, and refuses an `LRN` of half precision. Before opset 14 a `BatchNormalization` is in training mode
if it has all five outputs: networks that normalize the weights of their convolutions are exported so, and
TVM refuses them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

HALVES = ("float16", "bfloat16")

_WITH_MODE = 14
"""The opset since which a batch normalization has the attribute `training_mode`."""
_OUTPUTS = 5
"""Those of a batch normalization in training mode, before."""


@converts("", "LayerNormalization", (2, 3), "axis epsilon stash_type")
def _layer_normalization(node: OnnxNode) -> relax.Expr:
    """The normalization is TVM's; mean and inverse deviation are at least float32."""
    whole = _with_bias(node).by_tvm()
    norm = node.emit(whole.fields[0] if isinstance(whole, relax.Tuple) else relax.TupleGetItem(whole, 0))
    if not node.makes(1) and not node.makes(2):
        return norm
    node.integer("stash_type", 1, 1, 1)
    data = node.tensor(0, (*FLOATS, "bfloat16"))
    if dtype_of(data) in HALVES:
        data = node.emit(relax.op.astype(data, "float32"))
    axis = node.integer("axis", -1, -rank_of(data), rank_of(data) - 1)
    axes = list(range(axis % rank_of(data), rank_of(data)))
    mean, variance = _moments(node, data, axes)
    epsilon = relax.const(node.number("epsilon", 1e-5), dtype_of(data))
    one = relax.const(1.0, dtype_of(data))
    deviation = node.emit(relax.op.sqrt(relax.op.add(variance, epsilon)))
    return relax.Tuple([norm, mean, node.emit(relax.op.divide(one, deviation))])


@converts("", "LRN", (1, 1), "alpha beta bias size")
def _local_response_normalization(node: OnnxNode) -> relax.Expr:
    """TVM combines half precision with constants of float32, and fails; squares may also exceed float16."""
    data = node.tensor(0, (*FLOATS, "bfloat16"))
    if dtype_of(data) not in HALVES:
        return node.by_tvm()
    wide = node.emit(relax.op.astype(data, "float32"))
    normal = node.emit(replace(node, inputs=(wide,)).by_tvm())
    return relax.op.astype(normal, dtype_of(data))


def _with_bias(node: OnnxNode) -> OnnxNode:
    """The node with zeros for a bias that it lacks, if the scale has symbolic extents, where TVM fails."""
    scale = node.tensor(1)
    shape = node.shape(scale)
    if node.has(2) or all(isinstance(extent, int) for extent in shape):
        return node
    zero = relax.const(0.0, dtype_of(scale))
    zeros = node.emit(relax.op.full(relax.ShapeExpr(shape), zero, dtype_of(scale)))
    return replace(node, inputs=(*node.inputs[:2], zeros))


def _moments(node: OnnxNode, data: relax.Expr, axes: list[int]) -> tuple[relax.Var, relax.Var]:
    """The mean and the variance along axes, which keep extent 1."""
    mean = node.emit(relax.op.mean(data, axes, keepdims=True))
    centred = node.emit(relax.op.subtract(data, mean))
    return mean, node.emit(relax.op.mean(relax.op.multiply(centred, centred), axes, keepdims=True))


@converts("", "BatchNormalization", (5, 5), "epsilon momentum training_mode")
def _batch_normalization(node: OnnxNode) -> relax.Expr:
    """In training mode the statistics of the batch are used, and averaged into the running ones."""
    is_old = node.opset < _WITH_MODE and len(node.proto.output) == _OUTPUTS
    if not node.integer("training_mode", 0, 0, 1) and not is_old:
        return node.by_tvm()
    data = node.tensor(0, FLOATS)
    dtype, rank = dtype_of(data), rank_of(data)
    node.require(rank > 1, f"has an input 0 of rank {rank}; it has a batch and channels")
    mean, variance = _moments(node, data, [axis for axis in range(rank) if axis != 1])
    scale, shift, *running = (
        node.emit(relax.op.reshape(node.tensor(at, (dtype,), (1,)), [1, -1, *[1] * (rank - 2)]))
        for at in range(1, 5)
    )
    epsilon = relax.const(node.number("epsilon", 1e-5), dtype)
    deviation = node.emit(relax.op.sqrt(relax.op.add(variance, epsilon)))
    unit = node.emit(relax.op.divide(relax.op.subtract(data, mean), deviation))
    norm = node.emit(relax.op.add(relax.op.multiply(unit, scale), shift))
    if not is_old and not node.makes(1) and not node.makes(2):
        return norm
    kept = node.number("momentum", 0.9)
    shares = zip(running, (mean, variance), strict=True)
    mixed = [_mixed(node, old, new, kept, dtype) for old, new in shares]
    saved = [node.emit(relax.op.reshape(each, [-1])) for each in (mean, variance) if is_old]
    return relax.Tuple([norm, *mixed, *saved])


def _mixed(node: OnnxNode, old: relax.Expr, new: relax.Expr, kept: float, dtype: str) -> relax.Expr:
    """Running statistics: the weighted average of the old and the new ones."""
    parts = [
        node.emit(relax.op.multiply(part, relax.const(share, dtype)))
        for part, share in ((old, kept), (new, 1 - kept))
    ]
    return node.emit(relax.op.reshape(node.emit(relax.op.add(*parts)), [-1]))


@converts("", "Dropout", (1, 3), "seed")
def _dropout(node: OnnxNode) -> relax.Expr:
    """Nothing is dropped: in inference, or if the ratio is 0."""
    node.require(
        _keeps_all(node), "drops elements at random, which is only used in training; Relax has no op for it"
    )
    if not node.makes(1):
        return node.standard("Dropout", [node.tensor(0)], {})
    data = node.tensor(0)
    mask = relax.op.full(relax.ShapeExpr(node.shape(data)), relax.const(np.array(True)), "bool")
    return relax.Tuple([data, node.emit(mask)])


def _keeps_all(node: OnnxNode) -> bool:
    if not node.has(2):
        return True
    training, ratio = (node.constant(node.tensor(at)) if node.has(at) else None for at in (2, 1))
    is_inference = training is not None and not training.any()
    return is_inference or (ratio is not None and not ratio.any())
