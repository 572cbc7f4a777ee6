"""Idioms of products with weights of 4 or 8 bits, which dnnl keeps packed, in groups with a scale each."""

from __future__ import annotations

from kits.dense_graphs.bench import Bench
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import permuted, reshaped, viewed

__all__ = ["PACKED"]

SCALES = (0.0625, 0.03125, 0.05, 0.125)
COLUMNS = (1, 2, 3, 8, 16, 33, 65)
"""A tile has 64."""


def packed_product(bench: Bench) -> int | None:
    """Rows times one such weight, or times two, with a bias and a function behind, now and then."""
    value = _rows(bench)
    depth = bench.shape_of(value)[-1]
    if not isinstance(depth, int):
        return None
    bits = bench.one_of((4, 8))
    group = _group(bench, depth, bits)
    result = _product(bench, value, depth, bits, group)
    if bench.chance(0.3):
        other = _product(bench, value, depth, bits, group)
        result = bench.add("concat", (result, other), {"axis": -1}, _joined(bench, result, other))
    return bench.unary(bench.one_of(("nn.relu", "nn.silu")), result) if bench.chance(0.3) else result


def _rows(bench: Bench) -> int:
    """A value of the graph, or new rows as long as those of such models; one, a few, many, any number."""
    if bench.chance(0.3):
        return viewed(bench, bench.value())
    count: Dim = bench.one_of((1, 1, 2, 3, 16, 17, 33))
    if bench.symbol is not None and bench.chance(0.7):
        count = bench.symbol
    depth = bench.one_of((8, 16, 32, 64))
    value = bench.source((*bench.one_of(((), (1,), (2,))), count, depth), constant=0.0)
    return bench.unary("tanh", value) if bench.chance(0.2) else value


def _group(bench: Bench, depth: int, bits: int) -> int:
    """How many rows share a scale: all, or whole words of them, the last of which may reach out."""
    word = 32 // bits
    if depth <= word or bench.chance(0.3):
        return depth + depth % 2 if bits == 4 else depth
    return word * bench.number(1, -(-depth // word))


def _product(bench: Bench, value: int, depth: int, bits: int, group: int) -> int:
    columns, groups = bench.one_of(COLUMNS), -(-depth // group)
    if columns * groups * group > 2600:
        columns = 8
    rows = columns * groups
    floats = _numbers(bench, rows, group, bits)
    whole = reshaped(bench, floats, (columns, groups * group))
    if groups * group > depth:
        attrs = {"axes": [1], "begin": [0], "end": [depth], "strides": [1]}
        whole = bench.add("strided_slice", (whole,), attrs, (columns, depth))
    weight = permuted(bench, whole, (1, 0))
    result = bench.add("matmul", (value, weight), {}, (*bench.shape_of(value)[:-1], columns))
    return (
        bench.binary("add", result, bench.source((columns,), constant=0.7)) if bench.chance(0.3) else result
    )


def _numbers(bench: Bench, rows: int, group: int, bits: int) -> int:
    """What the packed numbers stand for, a row for each group."""
    dtype = "uint8" if bits == 4 else bench.one_of(("uint8", "int8"))
    words = _pairs(bench, rows, group) if bits == 4 else _bytes(bench, rows, group, dtype)
    middle = 0 if dtype == "int8" else 1 << (bits - 1)
    own = bench.chance(0.5)
    zero: object = [bench.number(middle - 3, middle + 3) for _ in range(rows)] if own else middle
    scale = [bench.one_of(SCALES) for _ in range(rows)]
    attrs = {"scale": scale, "zero": zero, "zero_dtype": dtype, "axis": 0, "out_dtype": "float32"}
    return bench.add("dequantize", (words,), attrs, (rows, group))


def _bytes(bench: Bench, rows: int, group: int, dtype: str) -> int:
    return bench.add("constant", (), {"kind": "bits", "key": len(bench.nodes)}, (rows, group), dtype)


def _pairs(bench: Bench, rows: int, group: int) -> int:
    """Two numbers of each byte, side by side."""
    shape = (rows, group // 2)
    packed = _bytes(bench, *shape, "uint8")
    mask, shift = (
        bench.add("constant", (), {"value": number, "key": len(bench.nodes)}, (), "uint8")
        for number in (15, 4)
    )
    low = bench.binary("bitwise_and", packed, mask, "uint8")
    high = bench.binary("bitwise_and", bench.binary("right_shift", packed, shift, "uint8"), mask, "uint8")
    pairs = bench.add("stack", (low, high), {"axis": -1}, (*shape, 2), "uint8")
    return reshaped(bench, pairs, (rows, group))


def _joined(bench: Bench, left: int, right: int) -> tuple[Dim, ...]:
    first, second = bench.shape_of(left), bench.shape_of(right)
    assert isinstance(first[-1], int)
    assert isinstance(second[-1], int)
    return (*first[:-1], first[-1] + second[-1])


PACKED: tuple[tuple[float, Idiom], ...] = ((30.0, packed_product),)
"""Weights and idioms."""
