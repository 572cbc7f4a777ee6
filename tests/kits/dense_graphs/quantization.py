"""Idioms of quantization: to bytes and back, with products of what the bytes stand for."""

from __future__ import annotations

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed

__all__ = ["QUANTIZATION", "dequantized", "parameters", "round_trip"]


def quantized(bench: Bench) -> int | None:
    """To int8 or uint8 and back, with views or a maximum between; a product behind, often."""
    value = viewed(bench, bench.value())
    if not bench.shape_of(value):
        return None
    whole = round_trip(bench, value)
    shape = bench.shape_of(whole)
    way = bench.rng.random()
    if way < 0.35 and isinstance(shape[-1], int):
        columns = bench.one_of((1, 2, 3, 8, 16))
        raw = bench.source((shape[-1], columns), "signed", "int8", constant=0.8)
        weight = dequantized(bench, raw, "int8", axis=1)
        result = bench.add("matmul", (whole, weight), {}, (*shape[:-1], columns)) if len(shape) > 1 else None
        if result is None:
            return whole
        if bench.chance(0.5):
            result = bench.binary("add", result, bench.source((columns,)))
        if bench.chance(0.4):
            result = bench.unary("nn.relu", result)
        return round_trip(bench, result) if bench.chance(0.6) else result
    return whole


def round_trip(bench: Bench, value: int) -> int:
    """To int8 or uint8 and back."""
    dtype = bench.one_of(("int8", "uint8"))
    shape = bench.shape_of(value)
    attrs = parameters(bench, shape, dtype, bench.number(0, len(shape) - 1))
    whole = bench.add("quantize", (value,), {**attrs, "out_dtype": dtype}, shape, dtype)
    return bench.add("dequantize", (whole,), {**attrs, "out_dtype": "float32"}, shape)


def dequantized(bench: Bench, value: int, dtype: str, axis: int) -> int:
    """What bytes stand for; without zero points, as weights have them."""
    shape = bench.shape_of(value)
    attrs = parameters(bench, shape, dtype, axis)
    attrs["zero"] = [0] * len(attrs["zero"]) if isinstance(attrs["zero"], list) else 0
    return bench.add("dequantize", (value,), {**attrs, "out_dtype": "float32"}, shape)


def parameters(bench: Bench, shape: tuple[Dim, ...], dtype: str, axis: int) -> dict[str, object]:
    """A scale and a zero point, or those of each place along an axis."""
    scales = (0.0625, 0.03125, 0.05, 0.125, 0.1)
    low = 0 if dtype == "uint8" else -8
    extent = shape[axis]
    if not isinstance(extent, int) or bench.chance(0.6):
        scale: object = bench.one_of(scales)
        zero: object = bench.one_of((0, 0, low + 9, 128 if dtype == "uint8" else 3))
    else:
        scale = [bench.one_of(scales) for _ in range(extent)]
        zero = [bench.number(low, 8) if bench.chance(0.5) else 0 for _ in range(extent)]
        if bench.chance(0.2):
            zero = bench.one_of((0, 3, 8))
    return {"scale": scale, "zero": zero, "zero_dtype": dtype, "axis": axis}


QUANTIZATION: tuple[tuple[float, Idiom], ...] = ((1.8, quantized),)
"""Weights and idioms."""
