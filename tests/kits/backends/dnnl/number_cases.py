"""Graphs of single numbers (rank 0), bytes and products of whole numbers for oneDNN's regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from kits.backends.dnnl.whole_cases import Array, Make, WholeCase, module_of_cases

__all__ = ["NUMBER_CASES", "number_module"]

LONG, SHORT, FLOAT, TRUTH, BYTE, UNSIGNED = "int64", "int32", "float32", "bool", "int8", "uint8"
RNG = np.random.default_rng(27)
HALVES = np.arange(-4, 4.5, 0.5).astype(FLOAT)
EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, 8388609.0, 2.0**23 + 1, -(2.0**31)], FLOAT)

SHAPES = (((3, 5), (5, 7)), ((2, 3, 5), (5, 300)), ((2, 1, 3, 5), (4, 5, 2)), ((5,), (5, 3)), ((5,), (5,)))
"""Of two factors."""

Cases = Iterator[tuple[str, Sequence[Array], Make]]


def number(value: float, dtype: str = FLOAT) -> Array:
    """A tensor of rank 0."""
    return np.array(value, dtype)


def floats(*shape: int) -> Array:
    """Seeded numbers."""
    return RNG.standard_normal(shape).astype(FLOAT)


def whole(dtype: str, *shape: int) -> Array:
    """Seeded whole numbers, of all that a byte has."""
    limits = np.iinfo(dtype if dtype in (BYTE, UNSIGNED) else SHORT)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def _single_numbers() -> Cases:
    pair, block = (number(2.5), number(-0.75)), floats(3, 4)
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "equal"):
        yield f"{name}_numbers", pair, getattr(op, name)
        yield f"{name}_number_left", (pair[0], block), getattr(op, name)
        yield f"{name}_number_right", (block, pair[1]), getattr(op, name)
    for name in ("negative", "abs", "sigmoid", "tanh", "exp", "sqrt", "erf", "round"):
        yield f"{name}_number", pair[:1], getattr(op, name)
    yield "clip_number", pair[:1], lambda x: op.clip(x, -1, 1)
    yield "power_number", pair[:1], lambda x: op.power(x, relax.const(2.0, FLOAT))
    yield "where_numbers", (number(1, TRUTH), *pair), op.where
    yield "where_number", (block > 0, pair[0], block), op.where
    yield "isnan_number", (number(np.nan),), op.isnan
    for name in ("sum", "mean", "max", "min", "prod"):
        yield f"{name}_of_all", (block,), getattr(op, name)
        yield f"{name}_of_row", (block[0],), lambda x, n=name: getattr(op, n)(x, 0)
    yield "variance_of_all", (block,), op.variance
    yield "share_of_all", (block,), lambda x: op.divide(x, op.sum(op.abs(x)))
    yield "reshaped", pair[:1], lambda x: op.reshape(op.expand_dims(x, 0), (1, 1))
    yield "made_single", (floats(1, 1),), lambda x: op.add(op.reshape(x, ()), op.squeeze(x))
    yield "repeated_number", pair[:1], lambda x: op.broadcast_to(x, (2, 3))
    yield "stacked_numbers", pair, lambda x, y: op.stack([x, y], 0)
    yield "turned_number", pair[:1], lambda x: op.permute_dims(op.square(x), [])
    yield "vector_product", (floats(5), floats(5)), op.matmul
    for dtype in (LONG, SHORT, TRUTH, "float16"):
        yield f"number_as_{dtype}", pair[:1], lambda x, d=dtype: op.astype(x, d)
        yield f"number_from_{dtype}", (number(1, dtype),), lambda x: op.astype(x, FLOAT)


def _single_whole_numbers() -> Cases:
    for dtype in (LONG, SHORT):
        pair, block = (number(7, dtype), number(-3, dtype)), whole(dtype, 3, 4)
        for name in ("add", "multiply", "minimum", "less", "bitwise_and"):
            yield f"{name}_{dtype}_numbers", pair, getattr(op, name)
            yield f"{name}_{dtype}_number", (block, pair[1]), getattr(op, name)
        yield f"halved_{dtype}_number", pair[:1], lambda x, d=dtype: op.floor_divide(x, relax.const(2, d))
    table, place = floats(5, 4), number(3, LONG)
    yield "take_one_row", (table, place), lambda x, i: op.take(x, i, 0)
    yield "take_one_column", (table, place), lambda x, i: op.take(x, i, 1, "clip")
    yield "take_one_number", (table[0], place), lambda x, i: op.take(x, i, 0)
    yield "index_one_row", (table, place), lambda x, i: op.index_tensor(x, [i])
    yield "index_one_number", (table, place, place), lambda x, i, j: op.index_tensor(x, [i, j])
    yield "gather_one_number", (table[0], np.array([2])), op.gather_nd
    yield "and_truth_numbers", (number(1, TRUTH), number(0, TRUTH)), op.logical_and
    yield "zeros_number", (number(3, SHORT),), lambda x: op.add(op.zeros((), SHORT), x)


def _roundings() -> Cases:
    for name in ("round", "floor", "ceil", "trunc"):
        yield f"{name}_halves", (HALVES,), getattr(op, name)
        yield f"{name}_edges", (EDGES,), getattr(op, name)
        given = (floats(3, 5) * 9, floats(5))
        yield f"{name}_of_sum", given, lambda x, y, n=name: getattr(op, n)(op.add(x, y))


def _bytes() -> Cases:
    for before in (BYTE, UNSIGNED, SHORT, LONG, FLOAT):
        given = RNG.uniform(-120, 120, 40).astype(FLOAT) if before == FLOAT else whole(before, 40)
        for after in (BYTE, UNSIGNED, SHORT, LONG, FLOAT):
            if {before, after} & {BYTE, UNSIGNED} and (before, after) != (FLOAT, UNSIGNED):
                yield f"{before}_to_{after}", (given,), lambda x, d=after: op.astype(x, d)
    yield "float32_to_uint8", (np.abs(floats(40)) * 60,), lambda x: op.astype(x, UNSIGNED)
    for dtype in (BYTE, UNSIGNED):
        given = whole(dtype, 2, 5, 4)
        yield (
            f"views_{dtype}",
            (given,),
            lambda x: op.reshape(op.permute_dims(op.expand_dims(x, 1)), (10, 4)),
        )
        yield f"part_{dtype}", (given,), lambda x: op.strided_slice(x, [1, 2], [1, 0], [5, 4], [2, 3])
        yield f"repeated_{dtype}", (given[0, :, :1],), lambda x: op.broadcast_to(x, (3, 5, 2))
        yield f"concat_{dtype}", (given, given), lambda x, y: op.concat([x, y], 1)
        yield f"where_{dtype}", (given > 9, given, given[:1]), op.where
        yield f"reflected_{dtype}", (given,), lambda x: op.nn.pad(x, (0, 0, 1, 2, 3, 1), "reflect")


def _quantizations() -> Cases:
    data, rows = floats(3, 40), np.abs(floats(3)) + 0.5
    for dtype, zero in ((BYTE, -7), (UNSIGNED, 131)):
        pair = (number(0.017), number(zero, dtype))
        yield f"quantize_{dtype}", (data, *pair), lambda x, s, z, d=dtype: op.quantize(x, s, z, 0, d)
        fixed = relax.const(np.array(zero, dtype))
        yield (
            f"quantize_{dtype}_known_zero",
            (data, pair[0]),
            lambda x, s, z=fixed, d=dtype: op.quantize(x, s, z, 0, d),
        )
        known = relax.const(np.array(0.03, FLOAT))
        yield (
            f"quantize_{dtype}_known_scale",
            (data, pair[1]),
            lambda x, z, s=known, d=dtype: op.quantize(x, s, z, 1, d),
        )
        each = (rows * 0.02, whole(dtype, 3))
        yield f"quantize_{dtype}_rows", (data, *each), lambda x, s, z, d=dtype: op.quantize(x, s, z, 0, d)
        given = whole(dtype, 3, 40)
        yield f"dequantize_{dtype}", (given, *pair), lambda x, s, z: op.dequantize(x, s, z, 0)
        yield f"dequantize_{dtype}_rows", (given, *each), lambda x, s, z: op.dequantize(x, s, z, 0)
    nothing = relax.const(0, SHORT)
    yield (
        "dequantize_sums",
        (whole(SHORT, 3, 4) // 2**12, number(0.01)),
        lambda x, s: op.dequantize(x, s, nothing, 0),
    )


def _products() -> Cases:
    for dtype in (SHORT, LONG):
        for left, right in SHAPES:
            pair = (whole(dtype, *left), whole(dtype, *right))
            name = "x".join(map(str, (*left, "", *right)))
            yield f"product_{dtype}_{name}", pair, lambda x, y, d=dtype: op.matmul(x, y, d)
    for one, other in ((BYTE, BYTE), (UNSIGNED, BYTE), (UNSIGNED, UNSIGNED)):
        pair = (whole(one, 4, 33), whole(other, 33, 17))
        yield (
            f"product_of_{one}_{other}",
            pair,
            lambda x, y: op.matmul(op.astype(x, SHORT), op.astype(y, SHORT), SHORT),
        )


def _orders() -> Cases:
    floats_ = RNG.integers(-3, 3, (2, 3, 9)).astype(FLOAT)
    for dtype, given in ((FLOAT, floats_), (LONG, floats_.astype(LONG)), (SHORT, floats_.astype(SHORT))):
        for axis, largest in ((-1, True), (1, False), (0, True)):
            for kind in ("both", "values", "indices"):
                yield (
                    f"topk_{dtype}_{axis}_{kind}",
                    (given,),
                    lambda x, a=axis, t=kind, w=largest: op.topk(x, 2, a, t, w, "int64"),
                )
            yield f"sort_{dtype}_{axis}", (given,), lambda x, a=axis, w=largest: op.sort(x, a, w)
            yield f"argsort_{dtype}_{axis}", (given,), lambda x, a=axis, w=largest: op.argsort(x, a, w)
            for name in ("argmax", "argmin"):
                yield (
                    f"{name}_{dtype}_{axis}",
                    (given,),
                    lambda x, a=axis, k=largest, n=name: getattr(op, n)(x, a, k),
                )
        yield f"argmax_{dtype}_of_all", (given,), op.argmax
        yield f"topk_{dtype}_short", (given,), lambda x: op.topk(x, 5, dtype="int32")
        yield f"sorted_{dtype}_whole", (given,), lambda x: op.topk(x, 0, -1)


FAMILIES = (_single_numbers, _single_whole_numbers, _roundings, _bytes, _quantizations, _products, _orders)
NUMBER_CASES = [WholeCase(name, tuple(given), make) for each in FAMILIES for name, given, make in each()]


def number_module() -> tvm.IRModule:
    """One function a case."""
    return module_of_cases(NUMBER_CASES)
