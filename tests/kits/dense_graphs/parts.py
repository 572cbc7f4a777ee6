"""Idioms of parts that begin where an extent ends: of tensors that were joined, and of long ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from kits.dense_graphs.bench import LARGEST, Bench, added, volume
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import permuted, viewed

__all__ = ["PARTS"]

MOST = 3
"""How many tensors are joined."""


def part_of_joined(bench: Bench) -> int | None:
    """Of tensors that are joined along an axis, what stands behind the first; two such parts are added."""
    value = viewed(bench, _symbolic(bench))
    shape = bench.shape_of(value)
    axes = [axis for axis, extent in enumerate(shape) if isinstance(extent, str)]
    if not axes or volume(shape) * 2 * MOST > LARGEST:
        return None
    axis = bench.one_of(axes)
    lengths = [shape[axis], *(_length(bench, shape[axis]) for _ in range(bench.number(1, MOST - 1)))]
    lengths = [lengths[int(place)] for place in bench.rng.permutation(len(lengths))]
    whole = _whole(bench, value, axis, lengths)
    if bench.chance(0.4) and len(shape) > 1:
        axes = [int(each) for each in bench.rng.permutation(len(shape))]
        whole, axis = permuted(bench, whole, axes), axes.index(axis)
    part = _part(bench, whole, axis, lengths)
    if bench.chance(0.4):
        other = _part(bench, whole, axis, lengths)
        if bench.shape_of(other) == bench.shape_of(part) and bench.nodes[part].dtype == "float32":
            part = bench.binary(bench.one_of(("add", "multiply", "subtract")), part, other)
    if bench.nodes[part].dtype == "float32":
        return part
    part = viewed(bench, part)
    return bench.add("astype", (part,), {"dtype": "float32"}, bench.shape_of(part))


def _symbolic(bench: Bench) -> int:
    """A value with a symbolic extent: one of the graph, or a new one, of numbers of any type."""
    found = bench.pick(lambda node: any(isinstance(extent, str) for extent in node.shape))
    if found is not None and bench.chance(0.8):
        return found
    assert bench.symbol is not None
    shape = list(bench.shape(bench.number(1, 4)))
    shape[bench.number(0, len(shape) - 1)] = bench.symbol
    dtype = bench.one_of(("float32", "float32", "int64", "int32", "uint8", "bool"))
    kind = {"float32": "normal", "bool": "truth"}.get(dtype, "bytes")
    return bench.source(shape, kind, dtype)


def _length(bench: Bench, extent: Dim) -> Dim:
    """How long another of the joined tensors is."""
    way = bench.rng.random()
    if way < 0.5:
        return extent
    return bench.other if bench.other is not None and way < 0.75 else bench.number(1, 3)


def _whole(bench: Bench, value: int, axis: int, lengths: Sequence[Dim]) -> int:
    """Tensors of these lengths along an axis, joined; or an input that is as long as all of them."""
    node = bench.nodes[value]
    kind = {"float32": "normal", "bool": "truth"}.get(node.dtype, "bytes")
    before, extent, after = node.shape[:axis], node.shape[axis], node.shape[axis + 1 :]
    total = list(accumulate(lengths, added))[-1]
    if bench.chance(0.2) and _is_bound(bench, lengths):
        return bench.source((*before, total, *after), kind, node.dtype)
    members = [
        value
        if length == extent and bench.chance(0.6)
        else bench.source((*before, length, *after), kind, node.dtype)
        for length in lengths
    ]
    return bench.add("concat", members, {"axis": axis}, (*before, total, *after), node.dtype)


def _is_bound(bench: Bench, lengths: Sequence[Dim]) -> bool:
    """Whether inputs say what the symbols stand for."""
    alone = {extent for node in bench.nodes if node.op == "input" for extent in node.shape}
    return bench.symbol in alone and (bench.other in alone or bench.other not in lengths)


def _part(bench: Bench, whole: int, axis: int, lengths: Sequence[Dim]) -> int:
    """The tensors from one that is not the first to another."""
    first = bench.number(1, len(lengths) - 1)
    last = bench.number(first + 1, len(lengths))
    borders: list[Dim] = [0, *accumulate(lengths, added)]
    extents = list(bench.shape_of(whole))
    extents[axis] = list(accumulate(lengths[first:last], added))[-1]
    attrs = {
        "axes": [axis],
        "begin": [borders[first]],
        "end": [borders[last]],
        "strides": [1],
        "assume_inbound": True,
    }
    known = [each for each, extent in enumerate(extents) if isinstance(extent, int) and each != axis]
    if known and bench.chance(0.3):
        _narrow(bench, attrs, extents, bench.one_of(known))
    return bench.add("strided_slice", (whole,), attrs, extents, bench.nodes[whole].dtype)


def _narrow(bench: Bench, attrs: dict[str, object], extents: list[Dim], axis: int) -> None:
    """Take a part of an axis of known extent in the same slice."""
    extent = extents[axis]
    assert isinstance(extent, int)
    begin = bench.number(0, extent - 1)
    end = bench.number(begin + 1, extent)
    step = bench.one_of((1, 2))
    for name, number in (("axes", axis), ("begin", begin), ("end", end), ("strides", step)):
        numbers = attrs[name]
        assert isinstance(numbers, list)
        numbers.append(number)
    extents[axis] = len(range(begin, end, step))


PARTS: tuple[tuple[float, Idiom], ...] = ((16.0, part_of_joined),)
"""Weights and idioms; their graphs need a symbol."""
