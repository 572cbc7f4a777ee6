"""Proposes reductions, matrix products, and norms, which consist of reductions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from tvm import relax

from annotated_region.op_info.infer.indices import factors
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops.trees import Extent
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["read_matmul", "read_norms", "read_reductions", "read_softmax"]

_BY_BLOCKS = {
    1: ("sum", "max", "min", "prod"),
    2: ("mean", "argmax", "argmin"),
}


def read_reductions(segment: Segment) -> Iterator[relax.Call]:
    """Reductions over the axes that the first block indexes with reduction variables."""
    first = segment.blocks[0]
    if not first.reduction or len(segment.variables) != 1 or len(segment.outputs) != 1:
        return
    x, rank = segment.variables[0], len(segment.inputs[0].shape)
    spatial = len(first.spatial)
    load = next((load for load in first.loads if load[1] == segment.program.inputs[0]), None)
    if load is None:
        return
    axes = [axis for axis, index in enumerate(load[2]) if any(i >= spatial for i in factors(index))]
    for name in _BY_BLOCKS.get(len(segment.blocks), ("variance", "std")):
        keepdims = len(segment.outputs[0].shape) == rank and bool(axes)
        if name.startswith("arg"):
            axis = axes[0] if len(axes) == 1 else None
            yield getattr(relax.op, name)(x, axis, keepdims)
        else:
            yield getattr(relax.op, name)(x, axes, keepdims)


def read_matmul(segment: Segment) -> Iterator[relax.Call]:
    """A sum of products."""
    if len(segment.blocks) != 1 or len(segment.blocks[0].reduction) != 1:
        return
    dtype = segment.outputs[0].dtype
    operands = list(segment.variables) * (2 if len(segment.variables) == 1 else 1)
    if len(operands) == 2:
        for left, right in permutations(operands):
            yield relax.op.matmul(left, right, None if dtype == str(tensor_type(left).dtype) else dtype)


def read_softmax(segment: Segment) -> Iterator[relax.Call]:
    """``softmax`` and ``log_softmax`` over each axis."""
    if len(segment.blocks) not in (3, 4) or len(segment.variables) != 1 or not segment.blocks[0].reduction:
        return
    if len(segment.outputs) != 1 or segment.outputs[0].shape != segment.inputs[0].shape:
        return
    op = relax.op.nn.softmax if len(segment.blocks) == 4 else relax.op.nn.log_softmax
    for axis in range(len(segment.inputs[0].shape)):
        yield op(segment.variables[0], axis)


def read_norms(segment: Segment) -> Iterator[relax.Call]:
    """Norms; epsilon is one of the small numbers in the code."""
    small = [number for number in segment.constants if 0 < number < 0.1]
    variables = segment.variables
    if len(segment.blocks) < 2:
        return
    for epsilon in small:
        if len(segment.outputs) == 3 and len(variables) <= 5 <= len(variables) + len(segment.spare):
            yield from _batch_norms(segment, epsilon)
        elif len(variables) in (2, 3) and len(segment.outputs) == 1:
            yield from _others(segment, epsilon)


def _batch_norms(segment: Segment, epsilon: float) -> Iterator[relax.Call]:
    variables = sorted((*segment.variables, *segment.spare), key=segment.buffer)
    rank = len(segment.outputs[0].shape)
    data = [x for x in variables if tensor_type(x).ndim == rank]
    vectors = [x for x in variables if tensor_type(x).ndim == 1]
    if len(data) != 1 or len(vectors) != 4:
        return
    for axis in range(rank):
        if segment.outputs[0].shape[axis] == segment.tensor(vectors[0]).shape[0]:
            for training in (False, True):
                yield from _momenta(segment, data[0], vectors, axis, epsilon, training)


def _momenta(
    segment: Segment,
    data: relax.Var,
    vectors: list[relax.Var],
    axis: int,
    epsilon: float,
    training: bool,
) -> Iterator[relax.Call]:
    momenta = [number for number in segment.constants if 0 <= number <= 1] if training else [0.1]
    for momentum in momenta:
        for scale, center in ((True, True), (False, True), (True, False), (False, False)):
            yield relax.op.nn.batch_norm(
                data, *vectors, axis, epsilon, center, scale, momentum=momentum, training=training
            )


def _others(segment: Segment, epsilon: float) -> Iterator[relax.Call]:
    rank = len(segment.outputs[0].shape)
    data = [x for x in segment.variables if tensor_type(x).ndim == rank]
    vectors = [x for x in segment.variables if not x.same_as(data[0])] if data else []
    for order in permutations(vectors):
        axes = list(range(rank - tensor_type(order[0]).ndim, rank)) if order else []
        if len(order) == 1:
            yield relax.op.nn.rms_norm(data[0], order[0], axes, epsilon)
        elif len(order) == 2:
            yield relax.op.nn.layer_norm(data[0], *order, axes, epsilon)
            if rank < 2:
                continue  # the other two have an axis of channels
            yield relax.op.nn.instance_norm(data[0], *order, 1, list(range(2, rank)), epsilon)
            for groups in _divisors(segment.outputs[0].shape[1]):
                yield relax.op.nn.group_norm(data[0], *order, groups, 1, list(range(2, rank)), epsilon)


def _divisors(extent: Extent) -> list[int]:
    return [n for n in range(1, extent + 1) if extent % n == 0] if isinstance(extent, int) else []
