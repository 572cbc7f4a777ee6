"""Idioms of single numbers: dynamic quantization, what is computed of all elements, roundings, bytes."""

from __future__ import annotations

from kits.dense_graphs.bench import HIGHEST_RANK, LARGEST, Bench, volume
from kits.dense_graphs.extras import searched
from kits.dense_graphs.idioms import Idiom, positive
from kits.dense_graphs.views import viewed

__all__ = ["DYNAMIC"]

ROUNDINGS = ("round", "floor", "ceil", "trunc")
WIDE = "int32"


def rounded(bench: Bench) -> int:
    """To whole numbers, which stay floats."""
    value = viewed(bench, bench.value())
    if bench.chance(0.5):
        value = bench.binary("multiply", value, bench.scalar(bench.one_of((2.5, 8.0, 0.1))))
    return bench.unary(bench.one_of(ROUNDINGS), value)


def scaled_by_all(bench: Bench) -> int:
    """A value and a number that is computed of all of its elements, or of another one's."""
    value = viewed(bench, bench.value())
    number = _of_all(bench, bench.one_of(("sum", "mean", "max", "min")), value if bench.chance(0.7) else None)
    if bench.chance(0.4):
        number = bench.unary(bench.one_of(("tanh", "nn.relu", "abs", "square", "negative")), number)
    way = bench.rng.random()
    if way < 0.2:
        truth = bench.binary(bench.one_of(("less", "greater_equal")), number, bench.scalar(0.5), "bool")
        return bench.add("where", (truth, value, number), {}, bench.shape_of(value))
    if way < 0.4:
        return bench.binary("divide", value, positive(bench, number))
    if way < 0.5:
        wide = bench.add(
            "broadcast_to", (number,), {"shape": list(bench.shape_of(value))}, bench.shape_of(value)
        )
        return bench.binary("add", value, wide)
    pair = (value, number) if bench.chance(0.6) else (number, value)
    return bench.binary(bench.one_of(("add", "subtract", "multiply", "maximum")), *pair)


def _of_all(bench: Bench, name: str, value: int | None) -> int:
    operand = viewed(bench, bench.value()) if value is None else value
    return bench.add(name, (operand,), {"axis": None, "keepdims": False}, ())


def measured(bench: Bench) -> int:
    """A value quantized by its own range, and a product of what comes out, or the way back."""
    value = viewed(bench, bench.value())
    whole, scale, zero = dynamically_quantized(bench, value)
    shape = bench.shape_of(whole)
    if bench.chance(0.25):
        attrs = {"axis": 0, "out_dtype": "float32"}
        return bench.add("dequantize", (whole, scale, zero), attrs, shape)
    wide = bench.add("astype", (whole,), {"dtype": WIDE}, shape, WIDE)
    wide = viewed(bench, wide, 0.3)
    level = bench.add("astype", (zero,), {"dtype": WIDE}, (), WIDE)
    centred = bench.binary("subtract", wide, level, WIDE)
    shape = bench.shape_of(centred)
    if shape and isinstance(shape[-1], int) and bench.chance(0.8):
        centred = _multiplied(bench, centred)
    floats = bench.add("astype", (centred,), {"dtype": "float32"}, bench.shape_of(centred))
    floats = viewed(bench, floats, 0.3)
    result = bench.binary("multiply", floats, _factor(bench, scale, floats))
    return (
        bench.binary("add", result, bench.source(bench.shape_of(result)[-1:]))
        if bench.chance(0.3)
        else result
    )


def _factor(bench: Bench, scale: int, floats: int) -> int:
    """The scale of the value, times those of the columns of a weight."""
    shape = bench.shape_of(floats)
    if not shape or bench.chance(0.3):
        return scale
    return bench.binary("multiply", scale, bench.source(shape[-1:], "positive"))


def _multiplied(bench: Bench, centred: int) -> int:
    """The product with a weight of whole numbers, most of which are bytes."""
    shape = bench.shape_of(centred)
    columns = bench.one_of((1, 2, 3, 8, 16))
    if bench.chance(0.7):
        weight = bench.source((shape[-1], columns), "signed", WIDE, constant=0.9)
    else:
        raw = bench.source((shape[-1], columns), "signed", "int8", constant=0.5)
        weight = bench.add("astype", (raw,), {"dtype": WIDE}, (shape[-1], columns), WIDE)
    return bench.add("matmul", (centred, weight), {"out_dtype": WIDE}, (*shape[:-1], columns), WIDE)


def dynamically_quantized(bench: Bench, value: int) -> tuple[int, int, int]:
    """As ONNX defines it: bytes, their scale and their zero point, from the largest and the least number."""
    nothing = bench.scalar(0.0)
    largest = bench.binary("maximum", _of_all(bench, "max", value), nothing)
    least = bench.binary("minimum", _of_all(bench, "min", value), nothing)
    quantum = bench.binary("divide", bench.binary("subtract", largest, least), bench.scalar(255.0))
    is_flat = bench.binary("equal", largest, least, "bool")
    scale = bench.add("where", (is_flat, bench.scalar(1.0), quantum), {}, ())
    shift = bench.binary("subtract", nothing, bench.binary("divide", least, scale))
    bounded = bench.add("clip", (shift,), {"min": 0.0, "max": 255.0}, ())
    zero = bench.add("astype", (bench.unary("round", bounded),), {"dtype": "uint8"}, (), "uint8")
    attrs = {"axis": 0, "out_dtype": "uint8"}
    whole = bench.add("quantize", (value, scale, zero), attrs, bench.shape_of(value), "uint8")
    return whole, scale, zero


def of_bytes(bench: Bench) -> int | None:
    """Bytes that are moved and converted."""
    dtype = bench.one_of(("int8", "uint8"))
    given = bench.source(bench.shape(bench.number(1, 4)), "bytes", dtype, constant=0.1)
    moved = viewed(bench, given)
    shape = bench.shape_of(moved)
    if bench.chance(0.3) and volume(shape) * 2 <= LARGEST and 0 < len(shape) <= HIGHEST_RANK:
        joined = bench.add("concat", (moved, moved), {"axis": 0}, (_twice(shape[0]), *shape[1:]), dtype)
        moved = viewed(bench, joined, 0.4)
    wide = bench.one_of(("int32", "int64", "float32"))
    result = bench.add("astype", (moved,), {"dtype": wide}, bench.shape_of(moved), wide)
    if wide == "float32":
        return result
    return bench.add("astype", (result,), {"dtype": "float32"}, bench.shape_of(result))


def _twice(extent: int | str) -> int | str:
    return 2 * extent if isinstance(extent, int) else f"({extent}+{extent})"


def ordered(bench: Bench) -> int:
    """What comes first along an axis, or where it stands."""
    value = viewed(
        bench, bench.value() if bench.chance(0.5) else bench.source(bench.shape(bench.number(1, 4)))
    )
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    way, extent = bench.one_of(("topk", "sort", "argsort")), shape[axis]
    wanted: dict[str, object] = {"axis": axis}
    if way == "topk" and isinstance(extent, int):
        first = bench.number(1, extent)
        kind = bench.one_of(("values", "indices"))
        wanted |= {"k": first, "ret_type": kind, "largest": bench.chance(0.6), "dtype": "int64"}
        result = (*shape[:axis], first, *shape[axis + 1 :])
        return bench.add(way, (value,), wanted, result, "float32" if kind == "values" else "int64")
    wanted["descending"] = bench.chance(0.5)
    if way == "argsort":
        return bench.add(way, (value,), {**wanted, "dtype": "int64"}, shape, "int64")
    return bench.unary("sort", value, **wanted)


DYNAMIC: tuple[tuple[float, Idiom], ...] = (
    (0.7, rounded),
    (1.2, scaled_by_all),
    (1.2, measured),
    (0.4, of_bytes),
    (0.6, ordered),
    (0.4, searched),
)
"""Weights and idioms."""
