"""Proposes what only moves elements: their indices say where each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, combinations
from math import prod

from tvm import relax

from annotated_region.op_info.infer.indices import affine
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops.trees import Tree, loads_in

__all__ = ["read_dropout", "read_joins", "read_moves", "read_pad", "read_split", "read_take"]


def read_moves(segment: Segment) -> Iterator[relax.Call]:
    """Transposes, broadcasts, slices, reshapes and copies of parts of one tensor."""
    load = _only_load(segment)
    if load is None or len(segment.variables) != 1:
        return
    x, shape, target = segment.variables[0], segment.inputs[0].shape, segment.outputs[0].shape
    indices = [affine(index) for index in load[2]]
    singles = [index.single if index else None for index in indices]
    used = [single for single in singles if single is not None]
    if len(shape) == len(target) and sorted(used) == list(range(len(target))) != used:
        yield relax.op.permute_dims(x, [used.index(axis) for axis in range(len(target))])
    if prod(shape) == prod(target):
        yield relax.op.reshape(x, target)
        yield from _changes_of_rank(x, shape, target, used)
    if len(shape) == len(target) and all(index is not None for index in indices):
        yield from _slices(segment, load)
    yield relax.op.broadcast_to(x, target)
    yield from _repetitions(x, shape, target)


def _changes_of_rank(
    x: relax.Var, shape: tuple[int, ...], target: tuple[int, ...], used: list[int]
) -> Iterator[relax.Call]:
    if len(target) > len(shape):
        yield relax.op.expand_dims(x, [axis for axis in range(len(target)) if axis not in used])
    if len(target) < len(shape):
        units = [axis for axis, extent in enumerate(shape) if extent == 1]
        for axes in combinations(units, len(shape) - len(target)):
            yield relax.op.squeeze(x, list(axes))


def _slices(segment: Segment, load: Tree) -> Iterator[relax.Call]:
    """Index ``b + s * i`` on each axis: from `b` in steps of `s`."""
    x, shape, target = segment.variables[0], segment.inputs[0].shape, segment.outputs[0].shape
    axes, begins, ends, steps = [], [], [], []
    for axis, index in enumerate(load[2]):
        form = affine(index)
        assert form is not None
        step = form.factors.get(axis, 1)
        if form.offset == 0 and step == 1 and shape[axis] == target[axis]:
            continue
        last = form.offset + step * (target[axis] - 1)
        end = last + (1 if step > 0 else -1)
        axes.append(axis)
        begins.append(form.offset)
        ends.append(end if end >= 0 else -shape[axis] - 1)
        steps.append(step)
    if len(axes) == 1 and steps == [-1] and target == shape:
        yield relax.op.flip(x, axes[0])
    if axes:
        yield relax.op.strided_slice(x, axes, begins, ends, steps)


def _repetitions(x: relax.Var, shape: tuple[int, ...], target: tuple[int, ...]) -> Iterator[relax.Call]:
    if len(shape) != len(target) or any(to % extent for extent, to in zip(shape, target, strict=True)):
        return
    times = [to // extent for extent, to in zip(shape, target, strict=True)]
    grown = [axis for axis, factor in enumerate(times) if factor > 1]
    if len(grown) == 1:
        yield relax.op.repeat(x, times[grown[0]], grown[0])
    yield relax.op.tile(x, times)


def read_pad(segment: Segment) -> Iterator[relax.Call]:
    """An element where a guard holds, else a number."""
    value = _only_value(segment)
    if value is None or value[0] != "if" or value[2][0] != "load" or value[3][0] not in ("float", "int"):
        return
    shape, target = segment.inputs[0].shape, segment.outputs[0].shape
    forms = [affine(index) for index in value[2][2]]
    if len(shape) != len(target) or None in forms or len(segment.variables) != 1:
        return
    before = [-form.offset for form in forms if form is not None]
    after = [to - extent - first for to, extent, first in zip(target, shape, before, strict=True)]
    widths = [width for pair in zip(before, after, strict=True) for width in pair]
    yield relax.op.nn.pad(segment.variables[0], widths, pad_value=value[3][2])


def read_take(segment: Segment) -> Iterator[relax.Call]:
    """An index that is itself loaded."""
    value = _only_value(segment)
    if value is None or len(segment.variables) != 2:
        return
    for load in loads_in(value):
        for axis, index in enumerate(load[2]):
            inner = loads_in(index)
            if not inner:
                continue
            x, indices = segment.variable(load[1]), segment.variable(inner[0][1])
            for mode in ("fast", "clip", "wrap"):
                yield relax.op.take(x, indices, axis, mode=mode)


def read_joins(segment: Segment) -> Iterator[relax.Call]:
    """A cascade of guards, each with another tensor: ``concat`` and ``stack``."""
    value = _only_value(segment)
    order: list[relax.Var] = []
    while value is not None and value[0] == "if" and value[2][0] == "load":
        order.append(segment.variable(value[2][1]))
        value = value[3]
    if value is None or value[0] != "load" or not order:
        return
    order = [segment.variable(value[1]), *reversed(order)]
    shape, target = order[0].ty.shape, segment.outputs[0].shape
    for axis, extent in enumerate(target):
        if len(target) > len(shape):
            if extent == len(order):
                yield relax.op.stack(order, axis)
        elif extent != int(shape[axis]):
            yield relax.op.concat(order, axis)


def read_split(segment: Segment) -> Iterator[relax.Call]:
    """Several slices of one tensor that follow each other."""
    outputs = segment.outputs
    if len(outputs) < 2 or len(segment.variables) != 1 or len(outputs) != len(segment.blocks):
        return
    shape = segment.inputs[0].shape
    for axis, extent in enumerate(shape):
        parts = [tensor.shape[axis] if axis < len(tensor.shape) else 0 for tensor in outputs]
        if sum(parts) == extent and len(shape) == len(outputs[0].shape):
            if len(set(parts)) == 1:
                yield relax.op.split(segment.variables[0], len(parts), axis)
            yield relax.op.split(segment.variables[0], list(accumulate(parts))[:-1], axis)


def read_dropout(segment: Segment) -> Iterator[relax.Call]:
    """A copy and a mask of ones: ``dropout`` at inference, where its rate plays no part."""
    if len(segment.variables) == 1 and len(segment.outputs) == 2:
        yield relax.op.nn.dropout(segment.variables[0], 0.5)


def _only_value(segment: Segment) -> Tree | None:
    """What the only store of the only block stores."""
    if len(segment.blocks) != 1 or len(segment.blocks[0].stores) != 1 or segment.blocks[0].reduction:
        return None
    return segment.blocks[0].stores[0].value


def _only_load(segment: Segment) -> Tree | None:
    value = _only_value(segment)
    return value if value is not None and value[0] == "load" else None
