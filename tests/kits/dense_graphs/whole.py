"""Idioms of whole numbers: lookups, gathers, positions and masks, running sums, paddings from inside."""

from __future__ import annotations

from collections.abc import Sequence

from kits.dense_graphs.bench import HIGHEST_RANK, LARGEST, Bench, added, volume
from kits.dense_graphs.idioms import Idiom, narrowed
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed

__all__ = ["WHOLE"]

TYPES = ("int64", "int32")
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def tested(bench: Bench) -> int:
    """Whether values are numbers, as numbers."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    truth = bench.add(bench.one_of(("isnan", "isinf", "isfinite")), (value,), {}, shape, "bool")
    return bench.add("astype", (truth,), {"dtype": "float32"}, shape)


def summed_up(bench: Bench) -> int:
    """Sums of all that comes before, along one axis; of whole numbers, too."""
    value = viewed(bench, _whole(bench) if bench.chance(0.5) else bench.value())
    axis = bench.number(0, len(bench.shape_of(value)) - 1)
    return _as_float(bench, bench.unary("cumsum", value, axis=axis))


def _as_float(bench: Bench, value: int) -> int:
    """What is computed as float32; results of other types leave the graph now and then."""
    if bench.nodes[value].dtype == "float32" or bench.chance(0.15):
        return value
    return bench.add("astype", (value,), {"dtype": "float32"}, bench.shape_of(value))


def _whole(bench: Bench, shape: Sequence[Dim] | None = None, dtype: str | None = None) -> int:
    """Whole numbers: new ones, or floats without what stands behind the point."""
    if shape is None and bench.chance(0.3):
        value = bench.value()
        dtype = dtype or bench.one_of(TYPES)
        return bench.add("astype", (value,), {"dtype": dtype}, bench.shape_of(value), dtype)
    return bench.source(
        bench.shape(bench.number(1, 4)) if shape is None else shape,
        bench.one_of(("signed", "whole")),
        dtype or bench.one_of(TYPES),
        constant=0.2,
    )


def _number(bench: Bench, value: int, dtype: str) -> int:
    """A constant whole number without a rank."""
    return bench.add("constant", (), {"value": value, "key": len(bench.nodes)}, (), dtype)


def of_whole_numbers(bench: Bench) -> int:
    """Arithmetic of int64 or int32, which nobody may round."""
    dtype = bench.one_of(("int64", "int32"))
    shape = bench.shape(bench.number(1, 4))
    left = bench.source(shape, "signed", dtype, constant=0.1)
    for _ in range(bench.number(1, 3)):
        left = viewed(bench, left, 0.4)
        name = bench.one_of(
            (
                "add",
                "subtract",
                "multiply",
                "maximum",
                "minimum",
                "bitwise_and",
                "bitwise_or",
                "bitwise_xor",
                "floor_divide",
                "floor_mod",
                "mod",
            )
        )
        if name.startswith("floor") or name == "mod":
            divisor = bench.one_of((-3, -1, 1, 2, 7))
            right = _number(bench, divisor, dtype)
        else:
            right = bench.source(narrowed(bench, bench.shape_of(left)), "whole", dtype)
        left = bench.binary(name, left, right, dtype)
    if bench.chance(0.2):
        left = bench.unary(bench.one_of(("sign", "abs", "negative")), left)
    return _as_float(bench, left)


def masked(bench: Bench) -> int | None:
    """A value where whole numbers compare so, and something else elsewhere."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    dtype = bench.one_of(TYPES)
    left = viewed(bench, _whole(bench, narrowed(bench, shape), dtype), 0.0)
    right = _number(bench, bench.number(-2, 2), dtype) if bench.chance(0.4) else _whole(bench, shape, dtype)
    truth = bench.binary(bench.one_of(COMPARISONS), left, right, "bool")
    if bench.chance(0.3):
        other = bench.source(bench.shape_of(truth), "truth", "bool")
        truth = bench.binary(bench.one_of(("bitwise_and", "bitwise_or")), truth, other, "bool")
    if bench.chance(0.2):
        truth = bench.unary("bitwise_not", truth)
    other = bench.source(narrowed(bench, shape), "normal")
    result = bench.broadcast(bench.shape_of(truth), shape)
    result = None if result is None else bench.broadcast(result, bench.shape_of(other))
    if result is None or volume(result) > LARGEST or len(result) > HIGHEST_RANK:
        return None
    return bench.add("where", (truth, value, other), {}, result)


def counted(bench: Bench) -> int:
    """Positions along an axis, compared with each other and chosen by."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if bench.chance(0.4):
        return _times_its_length(bench, value)
    last = bench.add("arange", (), {"end": shape[-1]}, (shape[-1],), "int64")
    if bench.chance(0.5) or len(shape) < 2:
        return bench.binary("add", value, bench.add("astype", (last,), {"dtype": "float32"}, (shape[-1],)))
    rows = bench.add("arange", (), {"end": shape[-2]}, (shape[-2],), "int64")
    column = bench.add("expand_dims", (rows,), {"axis": [1]}, (shape[-2], 1), "int64")
    truth = bench.binary(bench.one_of(COMPARISONS), last, column, "bool")
    return bench.add("where", (truth, value, bench.scalar(-1.0)), {}, shape)


def _times_its_length(bench: Bench, value: int) -> int:
    """A value times one of its extents."""
    shape = bench.shape_of(value)
    extents = bench.add("shape_to_tensor", (), {"shape": list(shape)}, (len(shape),), "int64")
    place = bench.number(0, len(shape) - 1)
    length = bench.add("take", (extents,), {"indices": [place], "axis": 0}, (1,), "int64")
    factor = bench.add("astype", (length,), {"dtype": "float32"}, (1,))
    return bench.binary("multiply", value, factor)


def filled(bench: Bench) -> int:
    """A tensor of one number, beside a value."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    way = bench.one_of(("zeros", "ones", "zeros_like", "ones_like", "full", "full_like"))
    if way == "full_like":
        made = bench.binary(way, value, bench.scalar(1.5))
    elif way.endswith("like"):
        made = bench.unary(way, value)
    else:
        number = (bench.scalar(1.5),) if way == "full" else ()
        made = bench.add(way, number, {"shape": list(shape), "dtype": "float32"}, shape)
    return bench.binary(bench.one_of(("add", "multiply")), value, made)


def _indices(bench: Bench, extent: Dim, shape: Sequence[Dim]) -> tuple[int, str]:
    """Indices for an axis, and the mode in which they are in range."""
    dtype = bench.one_of(TYPES)
    given = _whole(bench, shape, dtype)
    if not isinstance(extent, int) or bench.chance(0.4):
        return given, bench.one_of(("clip", "wrap"))
    return bench.binary("floor_mod", given, _number(bench, extent, dtype), dtype), "fast"


def looked_up(bench: Bench) -> int | None:
    """Rows of a table, or other parts of a value, by computed indices."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    places = bench.shape(bench.number(1, 2))
    result = (*shape[:axis], *places, *shape[axis + 1 :])
    if volume(result) > LARGEST or len(result) > HIGHEST_RANK:
        return None
    indices, mode = _indices(bench, shape[axis], places)
    dtype = bench.nodes[value].dtype
    return bench.add("take", (value, indices), {"axis": axis, "mode": mode}, result, dtype)


def gathered(bench: Bench) -> int | None:
    """An element for each place of a tensor of indices."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    if not all(isinstance(extent, int) for extent in shape):
        return None
    result = (*shape[:axis], bench.extent(), *shape[axis + 1 :])
    given = _whole(bench, result, "int64")
    extent = shape[axis]
    assert isinstance(extent, int)
    indices = bench.binary("floor_mod", given, _number(bench, extent, "int64"), "int64")
    return bench.add("gather_elements", (value, indices), {"axis": axis}, result)


def indexed(bench: Bench) -> int | None:
    """By an index for each of the first axes, which are repeated to the same extents."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    count = bench.number(1, min(2, len(shape)))
    if not all(isinstance(extent, int) for extent in shape[:count]):
        return None
    places = tuple(bench.extent() for _ in range(bench.number(1, 2)))
    result = (*places, *shape[count:])
    if volume(result) > LARGEST:
        return None
    indices = []
    for extent in shape[:count]:
        assert isinstance(extent, int)
        given = _whole(bench, places, "int64")
        indices.append(bench.binary("floor_mod", given, _number(bench, extent, "int64"), "int64"))
    if bench.chance(0.5):
        return bench.add("index_tensor", (value, *indices), {}, result)
    joined = bench.add("stack", tuple(indices), {"axis": -1}, (*places, count), "int64")
    return bench.add("gather_nd", (value, joined), {}, result)


def bordered(bench: Bench) -> int | None:
    """Padded with elements of itself."""
    value = viewed(bench, _whole(bench) if bench.chance(0.3) else bench.value())
    node = bench.nodes[value]
    mode = bench.one_of(("reflect", "replicate", "circular"))
    widths: list[int] = []
    result: list[Dim] = []
    for extent in node.shape:
        most = min(2, extent - 1) if isinstance(extent, int) and mode == "reflect" else 2
        pair = (
            [0, 0]
            if mode == "reflect" and not isinstance(extent, int)
            else [bench.number(0, most) for _ in range(2)]
        )
        widths += pair
        result.append(added(extent, sum(pair)))
    if volume(result) > LARGEST:
        return None
    padded = bench.add("nn.pad", (value,), {"pad_width": widths, "pad_mode": mode}, result, node.dtype)
    return _as_float(bench, padded)


WHOLE: tuple[tuple[float, Idiom], ...] = (
    (0.5, tested),
    (0.8, summed_up),
    (1.0, of_whole_numbers),
    (1.0, masked),
    (0.8, counted),
    (1.6, filled),
    (1.2, looked_up),
    (0.6, gathered),
    (0.6, indexed),
    (0.6, bordered),
)
"""Weights and idioms."""
