"""Attention of every kind: as one op, and by its parts as models write it."""

from __future__ import annotations

import math

import numpy as np

from kits.dense_graphs.bench import Bench, added, times
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import permuted, reshaped, viewed

__all__ = ["ATTENTIONS", "of_one_value"]

LOWEST = float(np.finfo("float32").min)


def whole_op(bench: Bench) -> int | None:
    """Of (batch, row, head, depth)."""
    if bench.whole:
        return None
    value = bench.value(4)
    shape = bench.shape_of(value)
    if not isinstance(shape[3], int):
        return None
    batch, rows, heads, depth = shape
    fewer = (-1,) if isinstance(rows, int) and rows > 1 else ()
    columns = added(rows, bench.one_of((0, 1, 4, *fewer)))
    keys = bench.source((batch, columns, heads, depth), constant=0.0)
    values = bench.source((batch, columns, heads, bench.one_of((depth, 3))), constant=0.0)
    width = bench.shape_of(values)[3]
    attrs = {
        "scale": bench.one_of((None, 0.5)),
        "causal_mask": bench.one_of((None, None, "TopLeft", "BottomRight")),
    }
    operands = [value, keys, values]
    if bench.chance(0.6):
        bias = [extent if bench.chance(0.5) else 1 for extent in (batch, heads, rows)]
        kind = bench.one_of(("normal", "visible", "lowered")) if attrs["causal_mask"] is None else "normal"
        operands.append(bench.source((*bias, columns), kind, constant=0.2))
    name = "nn.attention_bias" if len(operands) > 3 else "nn.attention"
    return bench.add(name, operands, attrs, (batch, rows, heads, width))


def of_one_value(bench: Bench) -> int | None:
    """Queries, keys and values are products of one value with constants, which are joined."""
    return by_parts(bench, is_shared=True)


def by_parts(bench: Bench, is_shared: bool = False) -> int | None:
    """Projections, heads, positions, past, mask, softmax, values, and the heads together again."""
    if bench.whole:
        return None
    batch: Dim = bench.one_of((1, 1, 2))
    rows: Dim = bench.one_of((1, 1, 2, 3, 4))
    if bench.symbol is not None:
        if bench.chance(0.5):
            rows = bench.symbol
        elif bench.chance(0.3):
            batch = bench.symbol
    groups, times_ = bench.one_of((1, 1, 2, 3)), bench.one_of((1, 1, 2, 3))
    depth = bench.one_of((2, 4, 4, 8, 16))
    heads = groups * times_
    data = bench.source((batch, rows, 4), constant=0.0) if is_shared else None
    q = _heads(bench, (batch, rows, heads, depth), data)
    k = _heads(bench, (batch, rows, groups, depth), data)
    v = _heads(bench, (batch, rows, groups, depth), data)
    if bench.chance(0.3):
        q, k = _rotated(bench, q, rows, depth), _rotated(bench, k, rows, depth)
    columns: Dim = rows
    if bench.chance(0.45):
        symbol = bench.other or bench.symbol
        past: Dim = symbol if symbol is not None and bench.chance(0.5) else bench.one_of((1, 2, 3))
        k, v = (_with_past(bench, each, past) for each in (k, v))
        columns = added(past, rows)
    if times_ > 1 and bench.chance(0.9):
        k, v = (_repeated(bench, each, times_) for each in (k, v))
    elif times_ > 1:
        return None
    weights = _weights(bench, q, k, batch, heads, rows, columns, depth)
    result = bench.add("matmul", (weights, v), {}, (batch, heads, rows, depth))
    if bench.chance(0.8):
        result = permuted(bench, result, (0, 2, 1, 3))
        if bench.chance(0.8):
            result = reshaped(bench, result, (batch, rows, times(heads, depth)))
    if bench.chance(0.3):
        width = bench.extent()
        inner = bench.shape_of(result)[-1]
        weight = bench.source((inner, width), constant=0.8)
        result = bench.add("matmul", (result, weight), {}, (*bench.shape_of(result)[:-1], width))
    return result


def _heads(bench: Bench, shape: tuple[Dim, ...], data: int | None = None) -> int:
    """Of shape (batch, row, head, depth), from an input or a projection (of `data`); heads first behind."""
    batch, rows, heads, depth = shape
    if data is not None:
        flat = _projected(bench, data, times(heads, depth), 1.0)
        return permuted(bench, reshaped(bench, flat, shape), (0, 2, 1, 3))
    way = bench.rng.random()
    if way < 0.25:
        return bench.source((batch, heads, rows, depth), constant=0.0)
    if way < 0.5:
        value = bench.source(shape, constant=0.0)
    else:
        width = times(heads, depth)
        if way < 0.75:
            flat = _projected(bench, bench.source((batch, rows, 4), constant=0.0), width, 0.8)
        else:
            flat = bench.source((batch, rows, width), constant=0.0)
        value = reshaped(bench, flat, shape)
    if bench.chance(0.15):
        value = bench.unary_with(
            "nn.rms_norm", value, [bench.source((depth,), "positive")], axes=[-1], epsilon=1e-2
        )
    return permuted(bench, value, (0, 2, 1, 3))


def _projected(bench: Bench, data: int, width: Dim, constant: float) -> int:
    *rows, inner = bench.shape_of(data)
    weight = bench.source((inner, width), constant=constant)
    flat = bench.add("matmul", (data, weight), {}, (*rows, width))
    return bench.binary("add", flat, bench.source((width,))) if bench.chance(0.4) else flat


def _rotated(bench: Bench, value: int, rows: Dim, depth: int) -> int:
    """Rotary positions: x * cos + rotate_half(x) * sin."""
    shape = bench.shape_of(value)
    ones: tuple[Dim, ...] = (1, 1) if bench.chance(0.7) else ()
    cosine, sine = (bench.source((*ones, rows, depth), "unit", constant=0.3) for _ in range(2))
    half = (*shape[:-1], depth // 2)
    parts = []
    if bench.chance(0.5):
        whole = bench.add("split", (value,), {"indices_or_sections": 2, "axis": 3}, half)
        parts = [bench.add("field", (whole,), {"index": index}, half) for index in range(2)]
    else:
        for begin in (0, depth // 2):
            attrs = {"axes": [3], "begin": [begin], "end": [begin + depth // 2], "strides": [1]}
            parts.append(bench.add("strided_slice", (value,), attrs, half))
    turned = bench.add("concat", (bench.unary("negative", parts[1]), parts[0]), {"axis": -1}, shape)
    pair = bench.binary("multiply", value, cosine), bench.binary("multiply", turned, sine)
    return bench.binary("add", pair[0], pair[1])


def _with_past(bench: Bench, value: int, past: Dim) -> int:
    batch, heads, rows, depth = bench.shape_of(value)
    before = bench.source((batch, heads, past, depth), constant=0.0)
    return bench.add("concat", (before, value), {"axis": 2}, (batch, heads, added(past, rows), depth))


def _repeated(bench: Bench, value: int, count: int) -> int:
    batch, heads, rows, depth = bench.shape_of(value)
    whole = (batch, times(heads, count), rows, depth)
    if bench.chance(0.3):
        return bench.add("repeat", (value,), {"repeats": count, "axis": 1}, whole)
    wide = (batch, heads, count, rows, depth)
    value = bench.add("expand_dims", (value,), {"axis": [2]}, (batch, heads, 1, rows, depth))
    value = bench.add("broadcast_to", (value,), {"shape": list(wide)}, wide)
    return reshaped(bench, value, whole)


def _weights(
    bench: Bench, q: int, k: int, batch: Dim, heads: Dim, rows: Dim, columns: Dim, depth: int
) -> int:
    shape = (batch, heads, rows, columns)
    factor = depth**-0.5
    way = bench.number(0, 3)
    if way == 1:
        q = bench.binary("multiply", q, bench.scalar(factor))
    turned = permuted(bench, k, (0, 1, 3, 2))
    scores = bench.add("matmul", (q, turned), {}, shape)
    if way == 0:
        scores = bench.binary("multiply", scores, bench.scalar(factor))
    if way == 2:
        scores = bench.binary("divide", scores, bench.scalar(math.sqrt(depth)))
    if bench.chance(0.15):
        scores = bench.unary("tanh", bench.binary("multiply", scores, bench.scalar(0.25)))
        scores = bench.binary("multiply", scores, bench.scalar(4.0))
    scores = _masked(bench, scores, shape)
    if bench.chance(0.12):
        return _guarded(bench, scores)
    return bench.unary("nn.softmax", scores, axis=bench.one_of((-1, 3)))


def _mask_shape(bench: Bench, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    batch, heads, rows, columns = shape
    return bench.one_of(
        (
            (1, 1, rows, columns),
            (1, 1, 1, columns),
            (batch, 1, 1, columns),
            (batch, 1, rows, columns),
            (batch, heads, rows, columns),
            (1, heads, rows, columns),
            (1, heads, 1, columns),
            (heads, 1, columns),
            (rows, columns),
            (columns,),
            (1, 1, rows, 1),
        )
    )


def _masked(bench: Bench, scores: int, shape: tuple[Dim, ...]) -> int:
    way = bench.rng.random()
    if way < 0.25:
        return scores
    extents = _mask_shape(bench, shape)
    if way < 0.55:
        kind = bench.one_of(("normal", "visible", "lowered", "lowest"))
        pair = [scores, bench.source(extents, kind, constant=0.3)]
        if bench.chance(0.2):
            pair.reverse()
        scores = bench.binary("add", pair[0], pair[1])
        return bench.binary("add", scores, bench.source(shape)) if bench.chance(0.15) else scores
    kind = bench.one_of(("causal", "window")) if len(extents) > 1 and bench.chance(0.4) else "truth"
    truth = bench.source(extents, kind, constant=0.3)
    if bench.chance(0.15):
        truth = bench.binary("logical_and", truth, bench.source(_mask_shape(bench, shape), "truth"), "bool")
    fill = bench.scalar(bench.one_of((-1e9, -1e4, LOWEST)), bench.one_of((0, 1, 4)))
    if bench.chance(0.25):
        zero = bench.scalar(0.0)
        added_ = bench.add(
            "where",
            (truth, zero, fill),
            {},
            Bench.broadcast(bench.shape_of(truth), bench.shape_of(fill)) or shape,
        )
        return bench.binary("add", scores, added_)
    pair = [scores, fill]
    if bench.chance(0.2):
        pair.reverse()
    return bench.add("where", (truth, *pair), {}, shape)


def _guarded(bench: Bench, scores: int) -> int:
    """As PyTorch writes it: where nothing is seen, the weights are zero."""
    shape = bench.shape_of(scores)
    mask = bench.source(bench.one_of(((1, 1, *shape[2:]), shape)), "hidden", constant=0.0)
    scores = bench.binary("add", scores, mask)
    equal = bench.binary(
        "equal",
        scores,
        bench.add("constant", (), {"value": float("-inf"), "key": len(bench.nodes)}, ()),
        "bool",
    )
    seen = bench.unary("logical_not", equal)
    number = bench.add("astype", (seen,), {"dtype": "int8"}, shape, "int8")
    largest = bench.add("max", (number,), {"axis": [-1], "keepdims": True}, (*shape[:-1], 1), "int8")
    some = bench.add("astype", (largest,), {"dtype": "bool"}, (*shape[:-1], 1), "bool")
    none = bench.unary("logical_not", some)
    soft = bench.unary("nn.softmax", scores, axis=-1)
    return bench.add("where", (none, bench.scalar(0.0), soft), {}, shape)


def on_a_value(bench: Bench) -> int | None:
    """Self-attention of a value of the graph: queries, keys and values are views of it."""
    if bench.whole:
        return None
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if len(shape) < 3 or not isinstance(shape[-1], int):
        return None
    turned = permuted(bench, value, [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
    scores = bench.add("matmul", (value, turned), {}, (*shape[:-1], shape[-2]))
    scores = bench.binary("multiply", scores, bench.scalar(0.5))
    weights = bench.unary("nn.softmax", scores, axis=-1)
    return bench.add("matmul", (weights, value), {}, shape)


ATTENTIONS: tuple[tuple[float, Idiom], ...] = ((1.0, whole_op), (2.2, by_parts), (0.7, on_a_value))
"""Weights and idioms."""
