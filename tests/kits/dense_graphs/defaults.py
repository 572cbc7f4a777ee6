"""Idioms of attributes written in other ways: no axis, several, negative ones, borders beyond the end."""

from __future__ import annotations

from collections.abc import Callable

from kits.dense_graphs.bench import HIGHEST_RANK, LARGEST, Bench, added, times, volume
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed

__all__ = ["DEFAULTS"]

Way = Callable[[Bench, int], "int | None"]


def _count(bench: Bench, value: int) -> Dim:
    """How many elements there are."""
    count: Dim = 1
    for extent in bench.shape_of(value):
        count = times(count, extent)
    return count


def _squeezed(bench: Bench, value: int) -> int | None:
    """Without its axes of extent one; symbols, which may be one when they run, are no such axes."""
    shape = bench.shape_of(value)
    if 1 not in shape or any(isinstance(extent, str) for extent in shape):
        return None
    return bench.add("squeeze", (value,), {"axis": None}, [extent for extent in shape if extent != 1])


def _turned(bench: Bench, value: int) -> int:
    return bench.add("permute_dims", (value,), {"axes": None}, bench.shape_of(value)[::-1])


def _parted(bench: Bench, value: int) -> int | None:
    """At places; parts may have no elements only where no result needs one."""
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    extent = shape[axis]
    if not isinstance(extent, int) or extent < 2:
        return None
    places = sorted({bench.number(1, extent - 1) for _ in range(bench.number(1, 2))})
    sizes = [end - begin for begin, end in zip([0, *places], [*places, extent], strict=True)]
    shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    attrs = {"indices_or_sections": places, "axis": axis - len(shape) if bench.chance(0.3) else axis}
    whole = bench.add("split", (value,), attrs, shapes[0])
    parts = [bench.add("field", (whole,), {"index": at}, each) for at, each in enumerate(shapes)]
    return bench.one_of(parts)


def _repeated(bench: Bench, value: int) -> int | None:
    repeats = bench.number(1, 3)
    if volume(bench.shape_of(value)) * repeats > LARGEST:
        return None
    attrs = {"repeats": repeats, "axis": None}
    return bench.add("repeat", (value,), attrs, (times(_count(bench, value), repeats),))


def _tiled(bench: Bench, value: int) -> int | None:
    """Along more axes than there are, or along the last ones only."""
    shape = bench.shape_of(value)
    repeats = [bench.number(1, 2) for _ in range(bench.number(1, min(len(shape) + 1, HIGHEST_RANK)))]
    wide = (1,) * (len(repeats) - len(shape)) + shape
    factors = [1] * (len(wide) - len(repeats)) + repeats
    result = [times(extent, factor) for extent, factor in zip(wide, factors, strict=True)]
    return None if volume(result) > LARGEST else bench.add("tile", (value,), {"repeats": repeats}, result)


def _summed_up(bench: Bench, value: int) -> int:
    return bench.add("cumsum", (value,), {"axis": None}, (_count(bench, value),))


def _expanded(bench: Bench, value: int) -> int | None:
    shape = list(bench.shape_of(value))
    if len(shape) + 2 > HIGHEST_RANK:
        return None
    axes = sorted(int(axis) for axis in bench.rng.permutation(len(shape) + 2)[:2])
    for axis in axes:
        shape.insert(axis, 1)
    if bench.chance(0.4):
        axes = [axis - len(shape) for axis in axes]
    return bench.add("expand_dims", (value,), {"axis": axes}, shape)


def _cut(bench: Bench, value: int) -> int | None:
    """Along two axes; borders count from the end or lie beyond it.

    TVM lowers no axis that counts from the end if an extent is symbolic.
    """
    shape = list(bench.shape_of(value))
    axes = [axis for axis, extent in enumerate(shape) if isinstance(extent, int)][-2:]
    is_known = all(isinstance(extent, int) for extent in shape)
    attrs: dict[str, list[int]] = {"axes": [], "begin": [], "end": [], "strides": []}
    for axis in axes:
        extent = shape[axis]
        assert isinstance(extent, int)
        begin, step = bench.number(0, extent - 1), bench.one_of((1, 1, 2, 3))
        end = bench.one_of((bench.number(begin + 1, extent), extent + 3, 2**31 - 1))
        shape[axis] = len(range(begin, min(end, extent), step))
        is_last = is_known and bench.chance(0.3)
        attrs["axes"].append(axis - len(shape) if is_last else axis)
        attrs["begin"].append(begin - extent if bench.chance(0.3) else begin)
        attrs["end"].append(end - extent if end < extent and bench.chance(0.3) else end)
        attrs["strides"].append(step)
    return bench.add("strided_slice", (value,), attrs, shape) if axes else None


def _reduced(bench: Bench, value: int) -> int:
    """All elements, or along negative axes."""
    shape, name = bench.shape_of(value), bench.one_of(("sum", "mean", "max", "min", "variance"))
    if bench.chance(0.4):
        keep = bench.chance(0.5)
        attrs = {"axis": None, "keepdims": keep}
        return bench.add(name, (value,), attrs, (1,) * len(shape) if keep else ())
    axis = bench.number(0, len(shape) - 1)
    kept = [1 if index == axis else extent for index, extent in enumerate(shape)]
    return bench.add(name, (value,), {"axis": [axis - len(shape)], "keepdims": True}, kept)


def _joined(bench: Bench, value: int) -> int | None:
    """With itself, along an axis that counts from the end."""
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    if volume(shape) * 2 > LARGEST:
        return None
    result = (*shape[:axis], added(shape[axis], shape[axis]), *shape[axis + 1 :])
    return bench.add("concat", (value, value), {"axis": axis - len(shape)}, result)


WAYS: tuple[Way, ...] = (
    _squeezed, _turned, _parted, _repeated, _tiled, _summed_up, _expanded, _cut, _reduced, _joined,
)  # fmt: skip


def by_default(bench: Bench) -> int | None:
    """A view or a sum of a value, written in one of these ways."""
    value = viewed(bench, bench.value(), 0.3)
    return bench.one_of(WAYS)(bench, value) if bench.shape_of(value) else None


def found_among_all(bench: Bench) -> int:
    """Where the first extreme of all elements stands."""
    value = bench.source(bench.shape(bench.number(1, 3)), constant=0.0)
    attrs = {"axis": None, "keepdims": False}
    return bench.add(bench.one_of(("argmax", "argmin")), (value,), attrs, (), "int64")


DEFAULTS: tuple[tuple[float, Idiom], ...] = ((2.5, by_default), (0.2, found_among_all))
"""Weights and idioms."""
