"""Idioms of whole numbers at their edges: all bits, bytes, casts, ties, places outside or named twice."""

from __future__ import annotations

from collections.abc import Sequence

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.edges import hidden_from
from kits.dense_graphs.idioms import Idiom, narrowed
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed

__all__ = ["WHOLE_EDGES"]

TYPES = ("int64", "int64", "int32", "int32", "int8", "uint8")
ARITHMETIC = (
    "add", "subtract", "multiply", "multiply", "maximum", "minimum",
    "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip
DIVISIONS = ("floor_divide", "floor_mod", "mod")
DIVISORS = (-7, -3, 2, 3, 10)
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
CASTS = {"int32": "to_int32", "int64": "to_int64", "int8": "to_int8", "uint8": "to_uint8"}


def of_all_bits(bench: Bench) -> int:
    """Arithmetic of any whole numbers, which wraps around; then a sum, an order, or a comparison."""
    dtype = bench.one_of(TYPES)
    left = bench.source(bench.shape(bench.number(1, 4)), "bits", dtype, constant=0.1)
    for _ in range(bench.number(1, 2)):
        left = viewed(bench, left, 0.4)
        left = _divided(bench, left, dtype) if bench.chance(0.25) else _combined(bench, left, dtype)
    if dtype != "uint8" and bench.chance(0.2):
        left = bench.unary(bench.one_of(("sign", "abs", "negative", "bitwise_not")), left)
    return bench.one_of((_reduced, _reduced, _ordered, _compared, _converted, viewed))(bench, left)


def _combined(bench: Bench, left: int, dtype: str) -> int:
    right = bench.source(narrowed(bench, bench.shape_of(left)), "bits", dtype, constant=0.3)
    pair = (left, right) if bench.chance(0.6) else (right, left)
    return bench.binary(bench.one_of(ARITHMETIC), *pair, dtype)


def _divided(bench: Bench, left: int, dtype: str) -> int:
    divisor = abs(bench.one_of(DIVISORS)) if dtype == "uint8" else bench.one_of(DIVISORS)
    right = bench.add("constant", (), {"value": divisor, "key": len(bench.nodes)}, (), dtype)
    return bench.binary(bench.one_of(DIVISIONS), left, right, dtype)


def _reduced(bench: Bench, value: int) -> int:
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    name = bench.one_of(("sum", "prod", "max", "min", "cumsum", "cumsum"))
    if name == "cumsum":
        return bench.unary(name, value, axis=axis, exclusive=bench.chance(0.5))
    kept = [1 if index == axis else extent for index, extent in enumerate(shape)]
    return bench.add(name, (value,), {"axis": [axis], "keepdims": True}, kept, bench.nodes[value].dtype)


def _ordered(bench: Bench, value: int) -> int:
    """A sorted line, or the place of an extreme."""
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    name = bench.one_of(("sort", "argsort", "topk", "argmax", "argmin"))
    descending = bench.chance(0.5)
    if name == "sort":
        return bench.unary(name, value, axis=axis, descending=descending)
    if name == "argsort":
        attrs: dict[str, object] = {"axis": axis, "descending": descending, "dtype": "int64"}
        return bench.add(name, (value,), attrs, shape, "int64")
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    if name == "topk" and isinstance(shape[axis], int):  # a symbolic extent may be 0
        attrs = {"axis": axis, "k": 1, "ret_type": "values", "largest": descending, "dtype": "int64"}
        return bench.add(name, (value,), attrs, one, bench.nodes[value].dtype)
    extreme = bench.one_of(("argmax", "argmin")) if name == "topk" else name
    return bench.add(extreme, (value,), {"axis": axis, "keepdims": True}, one, "int64")


def _compared(bench: Bench, value: int) -> int:
    """Truth values, as numbers; of neighbours, too, which floats cannot tell apart."""
    node = bench.nodes[value]
    one = bench.add("constant", (), {"value": 1, "key": len(bench.nodes)}, (), node.dtype)
    other = bench.binary(
        "bitwise_xor", value, one, node.dtype
    )  # a sum may overflow, which TVM takes for never
    truth = bench.binary(bench.one_of(COMPARISONS), value, other, "bool")
    if bench.chance(0.4):
        return bench.add("where", (truth, value, other), {}, node.shape, node.dtype)
    return bench.add("astype", (truth,), {"dtype": "float32"}, node.shape)


def _converted(bench: Bench, value: int) -> int:
    """To a type with more bits, or with fewer, of which the low ones stay; or to truth values and back."""
    node = bench.nodes[value]
    dtype = bench.one_of(("int64", "int32", "int8", "uint8", "bool"))
    result = bench.add("astype", (value,), {"dtype": dtype}, node.shape, dtype)
    if dtype != "bool":
        return result
    return bench.add("astype", (result,), {"dtype": "int32"}, node.shape, "int32")


def cast_at_edges(bench: Bench) -> int:
    """Floats that the type of whole numbers just holds."""
    begin = len(bench.nodes)
    dtype = bench.one_of(tuple(CASTS))
    value = viewed(bench, bench.source(bench.shape(bench.number(1, 4)), CASTS[dtype], constant=0.2))
    result = bench.add("astype", (value,), {"dtype": dtype}, bench.shape_of(value), dtype)
    return hidden_from(bench, begin, result)


def of_truths(bench: Bench) -> int:
    """Truth values that are compared, chosen among, joined, converted and counted."""
    shape = bench.shape(bench.number(1, 4))
    truth = viewed(bench, bench.source(shape, "truth", "bool", constant=0.2))
    shape = bench.shape_of(truth)
    other = bench.source(shape, "truth", "bool", constant=0.2)
    way = bench.number(0, 2)
    if way == 0:
        truth = bench.binary(bench.one_of(("equal", "not_equal")), truth, other, "bool")
    elif way == 1:
        third = bench.source(shape, "truth", "bool", constant=0.2)
        truth = bench.add("where", (truth, other, third), {}, shape, "bool")
    else:
        truth = bench.binary(bench.one_of(("logical_xor", "logical_and")), truth, other, "bool")
    whole = bench.one_of(("int64", "int32"))
    number = bench.add("astype", (truth,), {"dtype": whole}, shape, whole)
    return bench.one_of((_reduced, viewed))(bench, number)


def marked(bench: Bench) -> int | None:
    """A one in each row, at a place that may lie outside."""
    shape = bench.shape(bench.number(1, 3))
    places = bench.source(shape, "whole", bench.one_of(("int64", "int32")), constant=0.2)
    depth = bench.number(1, 4)
    axis = bench.one_of((-1, 0))
    result = (*shape, depth) if axis == -1 else (depth, *shape)
    attrs = {"on": 1.0, "off": 0.0, "depth": depth, "axis": axis, "dtype": "float32"}
    return bench.add("one_hot", (places,), attrs, result)


def tied(bench: Bench) -> int:
    """Where the first of many equal numbers stands."""
    value = viewed(bench, bench.source(bench.shape(bench.number(1, 4)), "few", constant=0.1))
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    name = bench.one_of(("argmax", "argmin", "argsort", "topk"))
    extent = shape[axis]
    if name.startswith("argm"):
        keep = bench.chance(0.5) or len(shape) == 1
        rest = [1 if index == axis else e for index, e in enumerate(shape) if keep or index != axis]
        return bench.add(name, (value,), {"axis": axis, "keepdims": keep}, rest, "int64")
    attrs: dict[str, object] = {"axis": axis, "dtype": "int64"}
    if name == "topk" and isinstance(extent, int):
        attrs |= {"k": extent, "ret_type": "indices", "largest": bench.chance(0.5)}
        return bench.add(name, (value,), attrs, shape, "int64")
    return bench.add("argsort", (value,), {**attrs, "descending": bench.chance(0.5)}, shape, "int64")


def gathered_up(bench: Bench) -> int | None:
    """Numbers added to, multiplied with, or compared with those at places some of which are named twice."""
    shape = bench.shape(bench.number(1, 3))
    if not all(isinstance(extent, int) for extent in shape):
        return None
    dtype = bench.one_of(("float32", "int64", "int32"))
    data = viewed(bench, bench.source(shape, "whole", dtype, constant=0.1), 0.3)
    reduction = bench.one_of(("add", "mul", "min", "max"))
    make = _lines_gathered if bench.chance(0.6) else _slices_gathered
    return make(bench, data, dtype, reduction)


def _lines_gathered(bench: Bench, data: int, dtype: str, reduction: str) -> int:
    shape = bench.shape_of(data)
    axis = bench.number(0, len(shape) - 1)
    places = tuple(bench.number(1, 4) if index == axis else extent for index, extent in enumerate(shape))
    indices = _places(bench, shape[axis], places)
    updates = bench.source(places, "whole", dtype, constant=0.3)
    attrs = {"axis": axis, "reduction": reduction}
    return bench.add("scatter_elements", (data, indices, updates), attrs, shape, dtype)


def _slices_gathered(bench: Bench, data: int, dtype: str, reduction: str) -> int:
    shape = bench.shape_of(data)
    count = bench.number(1, 4)
    index = bench.add(
        "reshape", (_places(bench, shape[0], (count,)),), {"shape": [count, 1]}, (count, 1), "int64"
    )
    updates = bench.source((count, *shape[1:]), "whole", dtype, constant=0.3)
    return bench.add("scatter_nd", (data, index, updates), {"reduction": reduction}, shape, dtype)


def _places(bench: Bench, extent: Dim, shape: Sequence[Dim]) -> int:
    given = bench.source(shape, "whole", "int64", constant=0.2)
    limit = bench.add("constant", (), {"value": extent, "key": len(bench.nodes)}, (), "int64")
    return bench.binary("floor_mod", given, limit, "int64")


def summed_before(bench: Bench) -> int:
    """Sums of what comes before each element, without it."""
    value = viewed(bench, bench.value())
    axis = bench.number(0, len(bench.shape_of(value)) - 1)
    return bench.unary("cumsum", value, axis=axis, exclusive=True)


WHOLE_EDGES: tuple[tuple[float, Idiom], ...] = (
    (8, of_all_bits),
    (3, cast_at_edges),
    (2, of_truths),
    (2, marked),
    (3, tied),
    (3, gathered_up),
    (1, summed_before),
)
"""Weights and idioms."""
