"""Idioms that change views: any of them may stand between any two ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

from kits.dense_graphs.bench import HIGHEST_RANK, LARGEST, Bench, times, volume
from kits.dense_graphs.recipe import Dim

__all__ = ["VIEWS", "permuted", "reshaped", "viewed"]

View = Callable[[Bench, int], "int | None"]


def permuted(bench: Bench, value: int, axes: Sequence[int]) -> int:
    """A value with its axes in another order."""
    node = bench.nodes[value]
    shape = [node.shape[axis] for axis in axes]
    return _kept(bench, value, bench.add("permute_dims", (value,), {"axes": list(axes)}, shape, node.dtype))


def reshaped(bench: Bench, value: int, shape: Sequence[Dim]) -> int:
    """A value with other extents."""
    dtype = bench.nodes[value].dtype
    return _kept(bench, value, bench.add("reshape", (value,), {"shape": list(shape)}, shape, dtype))


def _kept(bench: Bench, before: int, after: int) -> int:
    if before in bench.positive:
        bench.positive.add(after)
    return after


def _permute(bench: Bench, value: int) -> int | None:
    rank = len(bench.shape_of(value))
    if rank < 2:
        return None
    if rank == 4 and bench.chance(0.4):
        axes: tuple[int, ...] = bench.one_of(((0, 2, 1, 3), (0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)))
    else:
        axes = tuple(int(axis) for axis in bench.rng.permutation(rank))
    return permuted(bench, value, axes)


def _reshape(bench: Bench, value: int) -> int | None:
    """Neighbouring axes joined, or one axis split; with extents of one put in."""
    shape = list(bench.shape_of(value))
    for _ in range(bench.number(1, 2)):
        axis = bench.number(0, len(shape) - 1) if shape else 0
        if len(shape) > 1 and bench.chance(0.5):
            axis = bench.number(0, len(shape) - 2)
            shape[axis : axis + 2] = [times(shape[axis], shape[axis + 1])]
        elif shape and len(shape) < HIGHEST_RANK and isinstance(shape[axis], int):
            extent = shape[axis]
            assert isinstance(extent, int)
            divisors = [d for d in range(1, extent + 1) if extent % d == 0]
            part = bench.one_of(divisors)
            shape[axis : axis + 1] = [part, extent // part]
    if tuple(shape) == bench.shape_of(value) and bench.chance(0.8):
        return None
    return reshaped(bench, value, shape)


def _expand(bench: Bench, value: int) -> int | None:
    shape = list(bench.shape_of(value))
    if len(shape) >= HIGHEST_RANK:
        return None
    axis = bench.number(0, len(shape))
    shape.insert(axis, 1)
    node = bench.nodes[value]
    return _kept(bench, value, bench.add("expand_dims", (value,), {"axis": [axis]}, shape, node.dtype))


def _squeeze(bench: Bench, value: int) -> int | None:
    shape = bench.shape_of(value)
    ones = [axis for axis, extent in enumerate(shape) if extent == 1]
    if not ones or len(shape) < 2:
        return None
    axis = bench.one_of(ones)
    node = bench.nodes[value]
    rest = [extent for index, extent in enumerate(shape) if index != axis]
    return _kept(bench, value, bench.add("squeeze", (value,), {"axis": [axis]}, rest, node.dtype))


def _slice(bench: Bench, value: int) -> int | None:
    shape = list(bench.shape_of(value))
    known = [axis for axis, extent in enumerate(shape) if isinstance(extent, int) and extent > 1]
    if not known:
        return None
    axis = bench.one_of(known)
    extent = shape[axis]
    assert isinstance(extent, int)
    begin = bench.number(0, extent - 1)
    end = bench.number(begin + 1, extent)
    step = bench.one_of((1, 1, 1, 2))
    shape[axis] = len(range(begin, end, step))
    attrs = {"axes": [axis], "begin": [begin], "end": [end], "strides": [step]}
    dtype = bench.nodes[value].dtype
    return _kept(bench, value, bench.add("strided_slice", (value,), attrs, shape, dtype))


def _split(bench: Bench, value: int) -> int | None:
    shape = list(bench.shape_of(value))
    pairs = [
        (axis, count)
        for axis, extent in enumerate(shape)
        for count in (2, 3)
        if isinstance(extent, int) and extent % count == 0
    ]
    if not pairs:
        return None
    axis, count = bench.one_of(pairs)
    extent = shape[axis]
    assert isinstance(extent, int)
    shape[axis] = extent // count
    dtype = bench.nodes[value].dtype
    whole = bench.add("split", (value,), {"indices_or_sections": count, "axis": axis}, shape, dtype)
    parts = [
        _kept(bench, value, bench.add("field", (whole,), {"index": index}, shape, dtype))
        for index in range(count)
    ]
    return bench.one_of(parts)


def _take(bench: Bench, value: int) -> int | None:
    shape = list(bench.shape_of(value))
    known = [axis for axis, extent in enumerate(shape) if isinstance(extent, int)]
    if not known or len(shape) < 2:
        return None
    axis = bench.one_of(known)
    extent = shape[axis]
    assert isinstance(extent, int)
    begin = bench.number(0, extent - 1)
    size = bench.number(1, extent - begin)
    alone = bench.chance(0.4)
    indices = begin if alone else list(range(begin, begin + size))
    shape[axis : axis + 1] = [] if alone else [size]
    dtype = bench.nodes[value].dtype
    return _kept(bench, value, bench.add("take", (value,), {"indices": indices, "axis": axis}, shape, dtype))


def _broadcast(bench: Bench, value: int) -> int | None:
    shape = bench.shape_of(value)
    wide = [bench.extent() if extent == 1 and bench.chance(0.6) else extent for extent in shape]
    if len(wide) < HIGHEST_RANK and bench.chance(0.3):
        wide.insert(0, bench.one_of((1, 2, 3)))
    if volume(wide) > LARGEST:
        return None
    dtype = bench.nodes[value].dtype
    return _kept(bench, value, bench.add("broadcast_to", (value,), {"shape": wide}, wide, dtype))


def _repeat(bench: Bench, value: int) -> int | None:
    shape = list(bench.shape_of(value))
    if volume(shape) * 3 > LARGEST:
        return None
    axis, count = bench.number(0, len(shape) - 1), bench.number(1, 3)
    shape[axis] = times(shape[axis], count)
    dtype = bench.nodes[value].dtype
    if bench.chance(0.5):
        repeats = [count if index == axis else 1 for index in range(len(shape))]
        return _kept(bench, value, bench.add("tile", (value,), {"repeats": repeats}, shape, dtype))
    return _kept(bench, value, bench.add("repeat", (value,), {"repeats": count, "axis": axis}, shape, dtype))


def _flatten(bench: Bench, value: int) -> int | None:
    whole: Dim = 1
    for extent in bench.shape_of(value):
        whole = times(whole, extent)
    return _kept(bench, value, bench.add("flatten", (value,), {}, (whole,), bench.nodes[value].dtype))


VIEWS: tuple[tuple[float, View], ...] = (
    (6, _permute),
    (5, _reshape),
    (2, _expand),
    (2, _squeeze),
    (2.5, _slice),
    (1.5, _split),
    (1, _take),
    (2, _broadcast),
    (1, _repeat),
    (0.3, _flatten),
)


def viewed(bench: Bench, value: int, part: float = 0.45) -> int:
    """A value, or in a part of all cases a view of it, or a view of that."""
    while bench.chance(part) and bench.shape_of(value):
        weights = [weight for weight, _ in VIEWS]
        index = int(bench.rng.choice(len(VIEWS), p=[weight / sum(weights) for weight in weights]))
        value = VIEWS[index][1](bench, value) or value
        part *= 0.6
    return value


def fitting(bench: Bench, value: int, shape: Sequence[Dim]) -> int | None:
    """A view of a value that has another's shape, if one permutation or reshape gives it."""
    given = bench.shape_of(value)
    if given == tuple(shape):
        return value
    orders = [
        axes
        for axes in permutations(range(len(given)))
        if tuple(given[axis] for axis in axes) == tuple(shape)
    ]
    if orders and bench.chance(0.8):
        return permuted(bench, value, bench.one_of(orders))
    known = all(isinstance(dim, int) for dim in (*given, *shape))
    return reshaped(bench, value, shape) if known and volume(given) == volume(shape) else None
