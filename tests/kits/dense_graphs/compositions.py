"""What models write by its parts: GELU, SiLU, norms; quantization; values in front of a rounding."""

from __future__ import annotations

import math

from kits.dense_graphs.bench import LARGEST, Bench, volume
from kits.dense_graphs.idioms import Idiom, positive
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import reshaped, viewed

__all__ = ["COMPOSITIONS"]

ABOVE_LOGARITHMS = (0.72134763, 1.4426953, 2.8853905, 4.328086)
"""The float32 numbers two above a multiple of 1 / log(2). Times the logarithm of a power of two they lie
above a whole number, by more than the roundings of a good logarithm and of the product."""


def gelu_by_parts(bench: Bench) -> int:
    """With the error function or the hyperbolic tangent; the factors in any place."""
    x = viewed(bench, bench.value())
    if bench.chance(0.5):
        scaled = _scaled(bench, x, math.sqrt(0.5))
        inner = bench.unary("erf", scaled)
    else:
        cube = bench.binary("power", x, bench.scalar(3.0))
        bent = bench.binary("add", x, _scaled(bench, cube, 0.044715))
        inner = bench.unary("tanh", _scaled(bench, bent, math.sqrt(2 / math.pi)))
    gate = bench.binary("add", inner, bench.scalar(1.0))
    if bench.chance(0.5):
        return _scaled(bench, _times(bench, x, gate), 0.5)
    return _times(bench, _scaled(bench, x, 0.5), gate)


def _scaled(bench: Bench, value: int, factor: float) -> int:
    if bench.chance(0.2):
        return bench.binary("divide", value, bench.scalar(1 / factor))
    pair = [value, bench.scalar(factor, bench.one_of((0, 0, 1)))]
    if bench.chance(0.2):
        pair.reverse()
    return bench.binary("multiply", pair[0], pair[1])


def _times(bench: Bench, a: int, b: int) -> int:
    first, second = (a, b) if bench.chance(0.6) else (b, a)
    return bench.binary("multiply", first, second)


def silu_by_parts(bench: Bench) -> int:
    """A value times a sigmoid; of another value, in a gate."""
    x = viewed(bench, bench.value())
    return _times(bench, x, bench.unary("sigmoid", x))


def norm_by_parts(bench: Bench) -> int | None:
    """Layer norm and root mean square norm over the last axes, group norm over groups."""
    x = viewed(bench, bench.value())
    shape = bench.shape_of(x)
    if len(shape) < 2 or not isinstance(shape[-1], int) or shape[-1] < 2:
        return None
    if bench.chance(0.5):
        return _root_mean_square(bench, x)
    if len(shape) == 4 and bench.chance(0.5):
        return _grouped(bench, x)
    return _centred(bench, x, [len(shape) - 1], shape[-1:])


def _root_mean_square(bench: Bench, x: int) -> int:
    shape = bench.shape_of(x)
    square = (
        bench.binary("power", x, bench.scalar(2.0)) if bench.chance(0.5) else bench.binary("multiply", x, x)
    )
    mean = _mean(bench, square, [-1])
    mean = bench.binary("add", mean, bench.scalar(1e-2))
    if bench.chance(0.5):
        normal = bench.binary("divide", x, bench.unary("sqrt", mean))
    else:
        normal = _times(bench, x, bench.unary("rsqrt", mean))
    return _times(bench, normal, bench.source(shape[-1:])) if bench.chance(0.7) else normal


def _mean(bench: Bench, value: int, axes: list[int]) -> int:
    shape = bench.shape_of(value)
    where = [axis % len(shape) for axis in axes]
    kept = [1 if axis in where else extent for axis, extent in enumerate(shape)]
    return bench.add("mean", (value,), {"axis": axes, "keepdims": True}, kept)


def _centred(bench: Bench, x: int, axes: list[int], vector: tuple[Dim, ...]) -> int:
    centred = bench.binary("subtract", x, _mean(bench, x, axes))
    variance = _mean(bench, bench.binary("multiply", centred, centred), axes)
    root = bench.unary("sqrt", bench.binary("add", variance, bench.scalar(1e-2)))
    normal = bench.binary("divide", centred, root)
    scaled = _times(bench, normal, bench.source(vector))
    return bench.binary("add", scaled, bench.source(vector))


def _grouped(bench: Bench, x: int) -> int | None:
    """As ONNX writes it: groups become rows, which are normalised; then scale and shift of each channel."""
    shape = bench.shape_of(x)
    if any(not isinstance(extent, int) for extent in shape):
        return None
    batch, channels = shape[:2]
    assert isinstance(channels, int)
    groups = bench.one_of([count for count in (1, 2, channels) if channels % count == 0])
    rows = (batch, groups, volume(shape[1:]) // groups)
    if rows[-1] < 2:
        return None
    flat = reshaped(bench, x, rows)
    centred = bench.binary("subtract", flat, _mean(bench, flat, [2]))
    variance = _mean(bench, bench.binary("multiply", centred, centred), [2])
    root = bench.unary("sqrt", bench.binary("add", variance, bench.scalar(1e-2)))
    normal = reshaped(bench, bench.binary("divide", centred, root), shape)
    scaled = bench.binary("multiply", normal, bench.source((channels, 1, 1), constant=0.8))
    return bench.binary("add", scaled, bench.source((channels, 1, 1), constant=0.8))


def decided_exactly(bench: Bench) -> int | None:
    """A comparison of what is exact: a quotient, a root, a logarithm of one, in the reference on the edge."""
    value = bench.source(bench.shape(bench.number(1, 3)), bench.one_of(("counting", "power")), constant=0.0)
    way = bench.number(0, 3)
    if way == 0:
        number = bench.one_of((3.0, 41.0, 7.0, 49.0))
        product = bench.binary("multiply", value, bench.scalar(number))
        result = bench.binary("divide", product, bench.scalar(number))
    elif way == 1:
        result = bench.binary("divide", value, value)
    elif way == 2:
        result = bench.unary("sqrt", bench.binary("multiply", value, value))
    else:
        result = bench.unary("log", bench.binary("divide", value, value))
    return result


def rounded_logarithm(bench: Bench) -> int:
    """The logarithm of a power of two to the base of a root of two, as buckets of positions are computed."""
    value = bench.source(bench.shape(bench.number(1, 3)), "power", constant=0.0)
    log = bench.unary("log", value)
    factor = bench.one_of(ABOVE_LOGARITHMS)
    result = bench.binary("multiply", log, bench.scalar(factor))
    return (
        bench.binary("add", result, bench.scalar(bench.one_of((2.0, 8.0)))) if bench.chance(0.3) else result
    )


def rounded(bench: Bench, value: int) -> int:
    """What the host rounds to whole numbers."""
    shape = bench.shape_of(value)
    if bench.chance(0.6):
        return bench.add("astype", (value,), {"dtype": "int64"}, shape, "int64")
    return bench.unary(bench.one_of(("floor", "round", "ceil")), value)


def in_front_of_a_rounding(bench: Bench) -> int | None:
    """Values that the host rounds to whole numbers, or that are compared."""
    way = bench.rng.random()
    if way < 0.35:
        value: int | None = rounded_logarithm(bench)
    elif way < 0.8:
        value = decided_exactly(bench)
    else:
        value = positive(bench, bench.value())
    if value is None:
        return None
    if bench.chance(0.25) and volume(bench.shape_of(value)) < LARGEST:
        truth = bench.binary(
            bench.one_of(("equal", "greater_equal", "less")), value, bench.scalar(1.0), "bool"
        )
        return bench.add("astype", (truth,), {"dtype": "float32"}, bench.shape_of(truth))
    return rounded(bench, value)


COMPOSITIONS: tuple[tuple[float, Idiom], ...] = (
    (1.2, gelu_by_parts),
    (0.8, silu_by_parts),
    (1.6, norm_by_parts),
    (0.8, in_front_of_a_rounding),
)
"""Weights and idioms."""
