"""Proposes ops that only move elements, from the indices of their loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate, combinations, islice, product
from math import prod
from operator import mul

from tvm import relax

from annotated_region.functions.polynomials import are_equal
from annotated_region.op_info.infer.indices import affine, difference, factors, only_value, quotient
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.infer.slices import read_slices
from annotated_region.op_info.loops.trees import Extent, Tree, loads_in, subtrees

__all__ = [
    "read_dropout",
    "read_joins",
    "read_mirrors",
    "read_moves",
    "read_pad",
    "read_split",
    "read_take",
]

MOST_ROUNDS = 64
"""The number of circular paddings to try; there are several only if an axis is shorter than its padding."""


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
    wanted = relax.ShapeExpr(segment.shape(target))
    if _have_one_count(segment, shape, target):
        yield relax.op.reshape(x, wanted)
    yield from _changes_of_rank(x, shape, target, used)
    if shape == target:
        yield from _flips(x, load)
    yield from read_slices(segment, load)
    if _is_broadcast(shape, target):
        yield relax.op.broadcast_to(x, wanted)
    yield from _repetitions(x, shape, target)


def _have_one_count(segment: Segment, shape: tuple[Extent, ...], target: tuple[Extent, ...]) -> bool:
    """Whether two shapes have as many elements, whatever the sizes are.

    TVM also lowers a reshape of ``n`` to ``m`` elements, but that code is a reshape only if they are equal.
    """
    if segment.is_static:
        return prod(shape) == prod(target)
    counts = (reduce(mul, segment.shape(extents), 1) for extents in (shape, target))
    return are_equal(*counts)


def _is_broadcast(shape: tuple[Extent, ...], target: tuple[Extent, ...]) -> bool:
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(extent in (1, to) for extent, to in pairs)


def _flips(x: relax.Var, load: Tree) -> Iterator[relax.Call]:
    """The flip of an axis, whose index is ``n - 1 - i``."""
    turned = [axis for axis, index in enumerate(load[2]) if factors(index).get(axis) == -1]
    if len(turned) == 1:
        yield relax.op.flip(x, turned[0])


def _changes_of_rank(
    x: relax.Var, shape: tuple[Extent, ...], target: tuple[Extent, ...], used: list[int]
) -> Iterator[relax.Call]:
    if len(target) > len(shape):
        yield relax.op.expand_dims(x, [axis for axis in range(len(target)) if axis not in used])
    if len(target) < len(shape):
        units = [axis for axis, extent in enumerate(shape) if extent == 1]
        for axes in combinations(units, len(shape) - len(target)):
            yield relax.op.squeeze(x, list(axes))


def _repetitions(x: relax.Var, shape: tuple[Extent, ...], target: tuple[Extent, ...]) -> Iterator[relax.Call]:
    pairs = zip(shape, target, strict=False)
    times = [factor for extent, to in pairs if (factor := quotient(to, extent)) is not None]
    if len(shape) != len(target) or len(times) < len(target):
        return
    grown = [axis for axis, factor in enumerate(times) if factor > 1]
    if len(grown) == 1:
        yield relax.op.repeat(x, times[grown[0]], grown[0])
    yield relax.op.tile(x, times)


def read_pad(segment: Segment) -> Iterator[relax.Call]:
    """Zero or constant padding: an element where a guard holds, otherwise a number."""
    value = only_value(segment)
    if value is None or value[0] != "if" or value[2][0] != "load" or value[3][0] not in ("float", "int"):
        return
    forms = [affine(index) for index in value[2][2]]
    growth = _growth(segment)
    if growth is None or None in forms:
        return
    before = [-form.offset for form in forms if form is not None]
    yield relax.op.nn.pad(segment.variables[0], _widths(before, growth), pad_value=float(value[3][2]))


def read_mirrors(segment: Segment) -> Iterator[relax.Call]:
    """Padding with elements of the tensor itself: the other modes of ``pad``."""
    load, growth = _only_load(segment), _growth(segment)
    if load is None or growth is None:
        return
    before = [_first_offset(index) if more else 0 for index, more in zip(load[2], growth, strict=True)]
    yield relax.op.nn.pad(segment.variables[0], _widths(before, growth), pad_mode="replicate")
    yield relax.op.nn.pad(segment.variables[0], _widths(before, growth), pad_mode="reflect")
    # Circular: offsets are equal modulo the length, and all padding may be at the end.
    rounds = [
        [width for width in range(more + 1) if isinstance(extent, int) and (width - first) % extent == 0]
        for first, more, extent in zip(before, growth, segment.inputs[0].shape, strict=True)
    ]
    for chosen in islice(product(*(widths or [0] for widths in rounds)), MOST_ROUNDS):
        yield relax.op.nn.pad(segment.variables[0], _widths(chosen, growth), pad_mode="circular")


def _growth(segment: Segment) -> list[int] | None:
    """The growth of each axis; None if an axis shrinks, or not by a number."""
    if len(segment.variables) != 1 or len(segment.outputs) != 1:
        return None
    shape, target = segment.inputs[0].shape, segment.outputs[0].shape
    if len(shape) != len(target):
        return None
    growth = [difference(to, extent) for to, extent in zip(target, shape, strict=True)]
    known = [more for more in growth if more is not None and more >= 0]
    return known if len(known) == len(growth) else None


def _widths(before: Sequence[int], growth: Sequence[int]) -> list[int]:
    return [width for first, more in zip(before, growth, strict=True) for width in (first, more - first)]


def _first_offset(index: Tree) -> int:
    """The offset of the first sum with an iteration variable inside an index."""
    forms = (part for part in subtrees(index) if part[0] == "linear")
    shifts = (-int(form[1]) for form in forms if any(atom[0] == "iter" for atom, _ in form[2]))
    return next(shifts, 0)


def read_take(segment: Segment) -> Iterator[relax.Call]:
    """A gather: an index that is itself loaded."""
    value = only_value(segment)
    if value is None or len(segment.variables) != 2:
        return
    for load in loads_in(value):
        for axis, index in enumerate(load[2]):
            inner = loads_in(index)
            if not inner:
                continue
            x, indices = segment.variable(load[1]), segment.variable(inner[0][1])
            if len(segment.tensor(x).shape) == len(segment.tensor(indices).shape):
                yield relax.op.gather_elements(x, indices, axis)
            for mode in _modes(value, index):
                yield relax.op.take(x, indices, axis, mode=mode)


def _modes(value: Tree, index: Tree) -> tuple[str, ...]:
    """The candidate modes for indices out of range; ``fast`` only if it fits, because TVM warns of it."""
    if value[0] == "if":
        return ("nan",)
    plain = index[1] == 0 and [(atom[0], factor) for atom, factor in index[2]] == [("load", 1)]
    return ("fast",) if plain else ("clip", "wrap")


def read_joins(segment: Segment) -> Iterator[relax.Call]:
    """A cascade of guards, each with a different tensor: ``concat`` and ``stack``."""
    value = only_value(segment)
    order: list[relax.Var] = []
    while value is not None and value[0] == "if" and value[2][0] == "load":
        order.append(segment.variable(value[2][1]))
        value = value[3]
    if value is None or value[0] != "load" or not order:
        return
    order = [segment.variable(value[1]), *reversed(order)]
    shape, target = segment.tensor(order[0]).shape, segment.outputs[0].shape
    for axis, extent in enumerate(target):
        if len(target) > len(shape):
            if extent == len(order):
                yield relax.op.stack(order, axis)
        elif extent != shape[axis]:
            yield relax.op.concat(order, axis)


def read_split(segment: Segment) -> Iterator[relax.Call]:
    """Consecutive slices of one tensor."""
    outputs = segment.outputs
    if len(outputs) < 2 or len(segment.variables) != 1 or len(outputs) != len(segment.blocks):
        return
    shape = segment.inputs[0].shape
    if any(len(tensor.shape) != len(shape) for tensor in outputs):
        return
    for axis, extent in enumerate(shape):
        lengths = [tensor.shape[axis] for tensor in outputs]
        parts = [length for length in lengths if isinstance(length, int)]
        if len(parts) == len(outputs) and sum(parts) == extent:
            if len(set(parts)) == 1:
                yield relax.op.split(segment.variables[0], len(parts), axis)
            yield relax.op.split(segment.variables[0], list(accumulate(parts))[:-1], axis)


def read_dropout(segment: Segment) -> Iterator[relax.Call]:
    """A copy and a mask of ones: ``dropout`` at inference, where the rate has no effect."""
    if len(segment.variables) == 1 and len(segment.outputs) == 2:
        yield relax.op.nn.dropout(segment.variables[0], 0.5)


def _only_load(segment: Segment) -> Tree | None:
    value = only_value(segment)
    return value if value is not None and value[0] == "load" else None
