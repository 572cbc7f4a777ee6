"""Sequences of tensors, of a length that is known while a model is read: tuples of Relax.

TVM's importer splits by a number that does not divide the axis into equal parts, and loses the parts in
between, because the result of a split is one call to it.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_MOST = 2**12
"""The maximum number of parts of a tensor."""


@converts("", "SequenceConstruct", (1, 2**16))
def _constructed(node: OnnxNode) -> relax.Expr:
    return relax.Tuple([node.tensor(place) for place in range(len(node.inputs))])


@converts("", "SequenceEmpty", (0, 0), "dtype")
def _empty(_node: OnnxNode) -> relax.Expr:
    return relax.Tuple([])


@converts("", "SplitToSequence", (1, 2), "axis keepdims")
def _split(node: OnnxNode) -> relax.Expr:
    """Parts of given lengths, or of one length but for the last; without either, of one element."""
    data = node.tensor(0)
    rank = rank_of(data)
    axis = node.integer("axis", 0, -rank, rank - 1) % rank
    extent = node.shape(data)[axis]
    lengths = np.array(1) if not node.has(1) else node.constant(node.tensor(1, ("int32", "int64"), (0, 1)))
    if lengths is None or not isinstance(extent, int):
        raise node.declined("splits an axis of unknown extent, or into parts of unknown lengths")
    if lengths.ndim == 0:
        size = int(lengths)
        node.require(size > 0 and extent > 0, f"splits {extent} elements into parts of {size}")
        count = -(-extent // size)
        node.require(count <= _MOST, f"splits into {count} parts; at most {_MOST} are supported")
        ends = list(range(size, extent, size))
    else:
        # As Python's numbers, whose sums do not overflow. TVM has no empty parts.
        sizes = lengths.tolist()
        is_whole = all(size > 0 for size in sizes) and sum(sizes) == extent
        node.require(is_whole, f"splits {extent} elements into parts of {sizes}; each needs one at least")
        ends = list(accumulate(sizes))[:-1]
    fields = _fields(node, relax.op.split(data, ends, axis)) if ends else [data]
    if not node.has(1) and not node.integer("keepdims", 1, 0, 1):
        fields = [node.emit(relax.op.squeeze(field, [axis])) for field in fields]
    return relax.Tuple(fields)


@converts("", "SequenceInsert", (2, 3))
def _inserted(node: OnnxNode) -> relax.Expr:
    """At a place, by default the end."""
    fields = _fields(node, node.inputs[0])
    place = _place(node, 2, len(fields), len(fields), is_new=True)
    return relax.Tuple([*fields[:place], node.tensor(1), *fields[place:]])


@converts("", "SequenceErase", (1, 2))
def _erased(node: OnnxNode) -> relax.Expr:
    """The element at a place, by default the last one."""
    fields = _fields(node, node.inputs[0])
    place = _place(node, 1, len(fields), len(fields) - 1)
    return relax.Tuple([*fields[:place], *fields[place + 1 :]])


@converts("", "SequenceAt", (2, 2))
def _at(node: OnnxNode) -> relax.Expr:
    fields = _fields(node, node.inputs[0])
    return fields[_place(node, 1, len(fields), 0)]


@converts("", "SequenceLength", (1, 1))
def _length(node: OnnxNode) -> relax.Expr:
    return relax.const(len(_fields(node, node.inputs[0])), "int64")


@converts("", "ConcatFromSequence", (1, 1), "axis new_axis")
def _joined(node: OnnxNode) -> relax.Expr:
    """The tensors along an axis, which is a new one if asked for."""
    fields = _fields(node, node.inputs[0])
    node.require(bool(fields), "joins a sequence without tensors")
    is_new = node.integer("new_axis", 0, 0, 1)
    rank = rank_of(fields[0]) + is_new
    axis = node.integer("axis", None, -rank, rank - 1) % rank
    if is_new:
        fields = [node.emit(relax.op.expand_dims(field, [axis])) for field in fields]
    return relax.op.concat(fields, axis) if len(fields) > 1 else fields[0]


def _fields(node: OnnxNode, sequence: relax.Expr | None) -> list[relax.Expr]:
    """The tensors of a sequence."""
    if sequence is None:
        raise node.declined("lacks a sequence")
    if isinstance(sequence, relax.Tuple):
        return list(sequence.fields)
    bound = sequence if isinstance(sequence, relax.Var) else node.emit(sequence)
    if not isinstance(bound.ty, relax.TupleType):
        raise node.declined("reads a sequence of a length that is not known")
    return [node.emit(relax.TupleGetItem(bound, place)) for place in range(len(bound.ty.fields))]


def _place(node: OnnxNode, position: int, count: int, default: int, *, is_new: bool = False) -> int:
    """A place of `count` ones, or behind them for a new one; negative ones count from the end."""
    end = count + is_new
    if not node.has(position):
        node.require(0 <= default < end, "reads a sequence without tensors")
        return default
    given = node.inputs[position]
    numbers = None if given is None else known_numbers(given)
    if numbers is None or numbers.size != 1:
        raise node.declined("has a place in a sequence that is not constant")
    place = int(numbers.item())
    node.require(-count <= place < end, f"has the place {place} in a sequence of {count}")
    return place + count if place < 0 else place
