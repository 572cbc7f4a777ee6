"""Graphs of whole numbers and truth values for oneDNN's regions, and what their inputs look like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

__all__ = ["Array", "Make", "WHOLE_CASES", "WholeCase", "module_of_cases", "whole_module"]

Array = np.ndarray
Make = Callable[..., Any]
LONG, SHORT, FLOAT, TRUTH = "int64", "int32", "float32", "bool"
WHOLE = (LONG, SHORT)
LARGE = {LONG: 2**62, SHORT: 2**30}
EDGES = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 1e-42, 2.0**30, 2.0**31, -(2.0**63), 2.0**63], FLOAT
)
RNG = np.random.default_rng(20)


@dataclass(frozen=True, slots=True)
class WholeCase:
    """A graph: also the name of its function, the inputs, and how the result is made of them."""

    name: str
    inputs: tuple[Array, ...]
    make: Make


def numbers(dtype: str, *shape: int, largest: int = 9) -> Array:
    """Seeded numbers of a type."""
    if dtype == TRUTH:
        return RNG.random(shape) < 0.5
    if dtype == FLOAT:
        return RNG.standard_normal(shape).astype(FLOAT)
    return RNG.integers(-largest, largest, shape).astype(dtype)


def indices(extent: int, *shape: int, dtype: str = LONG) -> Array:
    """Seeded indices of an axis."""
    return RNG.integers(0, extent, shape).astype(dtype)


def beyond(*shape: int) -> Array:
    """Indices that may be out of range on both sides."""
    return RNG.integers(-20, 20, shape).astype(LONG)


def _gathers() -> Iterator[tuple[str, Sequence[Array], Make]]:
    table, block = numbers(FLOAT, 5, 4), numbers(FLOAT, 5, 4, 3)
    for dtype in WHOLE:
        words = indices(5, 3, 2, dtype=dtype)
        yield f"take_{dtype}", (table, words), lambda x, i: op.take(x, i, 0)
    for mode in ("clip", "wrap"):
        yield f"take_{mode}", (table, beyond(7)), lambda x, i, m=mode: op.take(x, i, 1, m)
    yield "take_nan", (table, beyond(3, 2)), lambda x, i: op.take(x, i, 1, "nan")
    yield "take_flat", (numbers(FLOAT, 5), beyond(9)), lambda x, i: op.take(x, i, None)
    yield "take_whole", (numbers(LONG, 5, 4, 3), indices(4, 7)), lambda x, i: op.take(x, i, 1)
    yield "take_truth", (numbers(TRUTH, 5, 4, 3), indices(3, 7)), lambda x, i: op.take(x, i, -1)
    yield "take_bytes", (numbers(SHORT, 5, 8).astype("int8"), indices(5, 3)), lambda x, i: op.take(x, i, 0)
    half = relax.const(numbers(FLOAT, 5, 4).astype("float16"), "float16")
    yield "take_half", (indices(5, 3),), lambda i: op.take(half, i, 0)
    yield "take_half_clip", (beyond(3),), lambda i: op.take(half, i, 1, "clip")
    known = relax.const(np.array([[3, 0], [1, 1]]), LONG)
    yield "take_known", (block,), lambda x: op.take(x, known, 1)
    for axis, shape in ((0, (3, 4, 3)), (1, (5, 6, 3)), (2, (5, 4, 2))):
        given = (block, indices(block.shape[axis], *shape))
        yield f"gather_elements_{axis}", given, lambda x, i, a=axis: op.gather_elements(x, i, a)
    for count, batch in ((1, 0), (2, 0), (3, 0), (1, 1), (2, 1)):
        given = (block, indices(3, *block.shape[:batch], 6, count))
        yield f"gather_nd_{count}_{batch}", given, lambda x, i, b=batch: op.gather_nd(x, i, b)
    pair = (block, indices(5, 7, 1), indices(4, 1, 2, dtype=SHORT))
    yield "index_tensor", pair, lambda x, i, j: op.index_tensor(x, [i, op.astype(j, LONG)])


def _scatters() -> Iterator[tuple[str, Sequence[Array], Make]]:
    for dtype in (FLOAT, *WHOLE):
        block, rows, one = numbers(dtype, 5, 4, 3), numbers(dtype, 9, 4, 3), numbers(dtype, 9)
        given = indices(5, 9, 4, 3) - 2  # some count from the end
        for how in ("add", "mul", "min", "max"):
            yield (
                f"scatter_elements_{dtype}_{how}",
                (block, given, rows),
                lambda x, i, u, h=how: op.scatter_elements(x, i, u, 0, h),
            )
            yield (
                f"scatter_nd_{dtype}_{how}",
                (block, indices(4, 9, 2, dtype=SHORT), numbers(dtype, 9, 3)),
                lambda x, i, u, h=how: op.scatter_nd(x, i, u, h),
            )
        places = (block, *(indices(extent, 9) for extent in block.shape), one)
        yield f"index_put_{dtype}_add", places, lambda x, i, j, k, u: op.index_put(x, (i, j, k), u, True)
    for dtype in (FLOAT, *WHOLE, TRUTH):
        block = numbers(dtype, 5, 4, 3)
        turned = np.argsort(RNG.random((5, 2, 3)), 1)  # each place once
        yield (
            f"scatter_elements_{dtype}",
            (block, turned, numbers(dtype, 5, 2, 3)),
            lambda x, i, u: op.scatter_elements(x, i, u, -2),
        )
        chosen = (block, RNG.permutation(5)[:3, None], numbers(dtype, 3, 4, 3))
        yield f"scatter_nd_{dtype}", chosen, op.scatter_nd
        crossed = (block, indices(3, 2), numbers(dtype, 2))
        first = relax.const(np.array([-1, 3]))
        yield f"index_put_{dtype}", crossed, lambda x, j, u, i=first: op.index_put(x, (i, j, j), u)
    block = numbers(FLOAT, 5, 4).astype("int8")
    yield "scatter_nd_bytes", (block, np.array([[3], [0]]), block[:2]), op.scatter_nd


def _arithmetic() -> Iterator[tuple[str, Sequence[Array], Make]]:
    names = (
        "add", "subtract", "multiply", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor",
        "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    )  # fmt: skip
    for dtype in WHOLE:
        large = LARGE[dtype]
        pair = (numbers(dtype, 3, 1, 5, largest=large), numbers(dtype, 4, 5, largest=large))
        for name in names:
            yield f"{name}_{dtype}", pair, getattr(op, name)
            seven = relax.const(7, dtype)
            near = (numbers(dtype, 3, 40),)
            yield f"{name}_{dtype}_left", near, lambda x, n=name, c=seven: getattr(op, n)(c, x)
            yield f"{name}_{dtype}_right", near, lambda x, n=name, c=seven: getattr(op, n)(x, c)
        for name in ("bitwise_not", "negative", "abs", "sign"):
            yield f"{name}_{dtype}", pair[:1], getattr(op, name)
        around = (np.arange(-20, 20).astype(dtype),)
        for name in ("floor_divide", "floor_mod", "divide", "mod"):
            for divisor in (3, -3, 1, -1):
                by = relax.const(divisor, dtype)
                yield f"{name}_{dtype}_{divisor}", around, lambda x, n=name, c=by: getattr(op, n)(x, c)
    pair = (numbers(TRUTH, 3, 5), numbers(TRUTH, 3, 1))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield f"{name}_truth", pair, getattr(op, name)
    yield "bitwise_not_truth", pair[:1], op.bitwise_not


def _conversions() -> Iterator[tuple[str, Sequence[Array], Make]]:
    for before in (*WHOLE, FLOAT, TRUTH):
        given = (
            RNG.uniform(-300, 300, 40).astype(FLOAT) if before == FLOAT else numbers(before, 40, largest=3)
        )
        if before == LONG:
            given[:4] = [2**40 + 1, -(2**40) - 1, 2**31, 2**53 + 1]
        for after in (*WHOLE, FLOAT, TRUTH):
            yield f"{before}_to_{after}", (given,), lambda x, d=after: op.astype(x, d)
    large = (numbers(LONG, 40, largest=2**20),)
    yield "long_to_half", large, lambda x: op.astype(x, "float16")
    yield (
        "long_to_half_and_back",
        large,
        lambda x: op.astype(op.astype(op.bitwise_and(x, x), "float16"), FLOAT),
    )
    for after in (*WHOLE, TRUTH):
        yield f"edges_to_{after}", (EDGES,), lambda x, d=after: op.astype(x, d)
    for name in ("isnan", "isinf", "isfinite"):
        yield name, (EDGES,), getattr(op, name)
    for dtype in (FLOAT, LONG, TRUTH):
        choices = (numbers(TRUTH, 3, 1, 5), numbers(dtype, 4, 5), numbers(dtype, 3, 4, 1))
        yield f"where_{dtype}", choices, op.where
        one = relax.const(1, dtype)
        yield f"where_{dtype}_one", choices[:2], lambda c, x, o=one: op.where(c, o, x)


def _movements() -> Iterator[tuple[str, Sequence[Array], Make]]:
    widths = (0, 0, 1, 2, 3, 1)
    for dtype in (FLOAT, *WHOLE, TRUTH):
        block = (numbers(dtype, 2, 5, 4),)
        for mode in ("reflect", "replicate", "circular"):
            yield f"pad_{mode}_{dtype}", block, lambda x, m=mode: op.nn.pad(x, widths, m)
        pair = (numbers(dtype, 3, 2), numbers(dtype, 2, 6))
        yield f"concat_{dtype}", pair, lambda x, y: op.concat([op.permute_dims(x), y], 1)
        yield f"concat_rows_{dtype}", pair, lambda x, y: op.concat([op.reshape(x, (1, 6)), y], 0)
        strided = ([1], [0], [6], [2])
        yield (
            f"concat_parts_{dtype}",
            pair,
            lambda x, y, s=strided: op.concat([op.permute_dims(x), op.strided_slice(y, *s)], 0),
        )
        yield f"stack_{dtype}", pair[:1] * 2, lambda x, y: op.stack([x, y], 1)
        yield f"views_{dtype}", block, lambda x: op.reshape(op.permute_dims(op.expand_dims(x, 1)), (10, 4))
        yield f"part_{dtype}", block, lambda x: op.strided_slice(x, [1, 2], [1, 0], [5, 4], [2, 3])
        yield f"repeated_{dtype}", pair[:1], lambda x: op.tile(op.repeat(x, 2, 1), (2, 3))
        yield f"split_{dtype}", block, lambda x: op.split(x, [1, 3], 1)
        for axis in (0, -2, 2):
            yield f"flip_{dtype}_{axis}", block, lambda x, a=axis: op.flip(x, a)
    for dtype in WHOLE:
        given = (numbers(dtype, 5, 4),)
        yield f"pad_{dtype}", given, lambda x: op.nn.pad(x, (1, 1, 1, 2), "constant", -100)


def _sums_and_ranges() -> Iterator[tuple[str, Sequence[Array], Make]]:
    for dtype in (*WHOLE, FLOAT):
        block = (numbers(dtype, 3, 5, 4),)
        for axis in (0, 1, -1, None):
            yield f"cumsum_{dtype}_{axis}", block, lambda x, a=axis: op.cumsum(x, a)
        for name in ("sum", "prod", "min", "max") if dtype != FLOAT else ():
            for axes in ([1], [0, -1], None):
                yield f"{name}_{dtype}_{axes}", block, lambda x, n=name, a=axes: getattr(op, n)(x, a)
            yield f"{name}_{dtype}_kept", block, lambda x, n=name: getattr(op, n)(x, [0], keepdims=True)
        yield f"cumsum_{dtype}_before", block, lambda x: op.cumsum(x, 1, exclusive=True)
    yield "cumsum_short_as_long", (numbers(SHORT, 3, 5),), lambda x: op.cumsum(x, 1, LONG)
    row = (numbers(LONG, 5),)
    yield "arange", row, lambda x: op.add(op.arange(3, 13, 2, LONG), x)
    yield "full", row, lambda x: op.add(op.full((5,), relax.const(3, LONG), LONG), x)
    yield "filled", row, lambda x: op.subtract(op.ones_like(x), op.add(op.zeros((5,), LONG), x))
    counts = relax.const(np.arange(4), LONG)
    whole = (numbers(FLOAT, 3, 4),)
    yield (
        "folded",
        whole,
        lambda x: op.add(x, op.astype(op.cumsum(op.broadcast_to(counts, (3, 4)), 0), FLOAT)),
    )


FAMILIES = (_gathers, _scatters, _arithmetic, _conversions, _movements, _sums_and_ranges)
WHOLE_CASES = [WholeCase(name, tuple(given), make) for each in FAMILIES for name, given, make in each()]


def whole_module() -> tvm.IRModule:
    """One function a case."""
    return module_of_cases(WHOLE_CASES)


def module_of_cases(cases: Sequence[WholeCase]) -> tvm.IRModule:
    """A module with a function for each case."""
    builder = relax.BlockBuilder()
    for case in cases:
        given = [
            relax.Var(f"x{index}", relax.TensorType(array.shape, str(array.dtype)))
            for index, array in enumerate(case.inputs)
        ]
        with builder.function(case.name, given):
            with builder.dataflow():
                result = builder.emit_output(builder.normalize(case.make(*given)))
            builder.emit_func_output(result)
    return builder.finalize()
