"""Inputs of nodes whose extents must be equal, though TVM 0.27 cannot prove it.

Networks that halve an image and double it again add and join tensors of the extents ``(n - 1) // 2 + 1`` and
``2 * ((n - 1) // 4 + 1)``; exporters give each input of a model a symbol of its own for its batch. TVM gives
such sums no shape. ONNX requires the extents to be equal, so one input is reshaped to those of the other, and
the function checks the equation (`annotated_region.importing.equations`).

Where an op broadcasts, an extent of 1 would be valid, too; such a call fails in the check. Extents that are
computed in the middle of a function, or in a branch of an `If`, are checked there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tvm import tirx

from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.importing.equations import common_extent
from annotated_region.importing.onnx_models.converters.node import OnnxNode, has_shape, is_one
from annotated_region.tvm_adapter.arithmetic import Extent

__all__ = ["agreeing"]

_BROADCASTING = frozenset(
    [
        *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater"),
        *("GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean"),
        *("Min", "Mod", "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor"),
    ]
)

_Place = tuple[int, int]
"""The position of an input, and one of its axes."""


def agreeing(node: OnnxNode) -> OnnxNode:
    """The node with inputs of extents that TVM knows to be equal; itself if it needs none."""
    inputs = [each for each in node.inputs if each is not None and has_shape(each)]
    if len(inputs) < 2 or len(inputs) < len(node.inputs):
        return node
    extents = [list(map(_without_formula, node.shape(each))) for each in inputs]
    if node.proto.op_type == "ScatterND":
        _know_depth(*extents)
    for places in _equal_axes(node, extents):
        common = common_extent([extents[position][axis] for position, axis in places])
        for position, axis in places:
            extents[position][axis] = 1 if common is None else common
    if not all(map(node.may_have_extents, inputs, extents)):
        return node
    changed = [node.with_extents(each, wanted) for each, wanted in zip(inputs, extents, strict=True)]
    is_same = all(new.same_as(old) for new, old in zip(changed, inputs, strict=True))
    return node if is_same else replace(node, inputs=tuple(changed))


def _without_formula(extent: Extent) -> Extent:
    """1 for an extent that is 1 unless another one is 0, such as ``1 - max(1 - n, 0)`` of a slice."""
    is_one_always = not isinstance(extent, int | tirx.Var) and bounds_of(extent, least=1) == (1, 1)
    return 1 if is_one_always else extent


def _equal_axes(node: OnnxNode, extents: Sequence[Sequence[Extent]]) -> Iterator[list[_Place]]:
    """The axes of inputs whose extents must be equal, set by set."""
    match node.proto.op_type:
        case "Concat":
            rank = min(map(len, extents))
            joined = node.integer("axis", 0, -rank, rank - 1) % rank if rank else 0
            axes = [axis for axis in range(rank) if axis != joined]
            yield from ([(position, axis) for position in range(len(extents))] for axis in axes)
        case "MatMul" if min(map(len, extents)) > 1:
            yield [(0, -1), (1, -2)]
            yield from _broadcast_axes(extents, 2)
        case "Gemm":
            left, right = (node.integer(f"trans{name}", 0, 0, 1) for name in "AB")
            yield [(0, 1 - left), (1, right)]
        case "Attention" if len(extents) in (3, 4):
            yield from _attention_axes(extents)
        case "Einsum":
            yield from _einsum_axes(node.text("equation", ""), extents)
        case "LayerNormalization" | "RMSNormalization" if extents[0]:
            yield from _normalized_axes(
                node.integer("axis", -1, -len(extents[0]), len(extents[0]) - 1), extents
            )
        case "GatherND":
            yield from ([(0, axis), (1, axis)] for axis in range(node.integer("batch_dims", 0, 0)))
        case "ReverseSequence":
            yield [(0, node.integer("batch_axis", 1, 0, 1)), (1, 0)]
        case "ScatterND":
            yield from _scattered_axes(extents)
        case name if name in _BROADCASTING:
            yield from _broadcast_axes(extents, 0)


def _know_depth(data: Sequence[Extent], indices: list[Extent], updates: Sequence[Extent]) -> None:
    """How many axes the indices name, which the ranks tell."""
    if indices:
        indices[-1] = len(indices) - 1 + len(data) - len(updates)


def _scattered_axes(extents: Sequence[Sequence[Extent]]) -> Iterator[list[_Place]]:
    """The axes of the indices and of the updates, and those of the data that are not indexed."""
    data, indices, updates = extents
    depth = indices[-1] if indices else 0
    if not isinstance(depth, int) or len(updates) != len(indices) - 1 + len(data) - depth:
        return
    yield from ([(1, axis), (2, axis)] for axis in range(len(indices) - 1))
    yield from ([(0, axis), (2, axis - depth + len(indices) - 1)] for axis in range(depth, len(data)))


def _normalized_axes(axis: int, extents: Sequence[Sequence[Extent]]) -> Iterator[list[_Place]]:
    """The axes that are normalized, also of the scale and of the bias, which may have an extent of 1."""
    for place in range(axis if axis < 0 else axis - len(extents[0]), 0):
        owners = [position for position, own in enumerate(extents) if len(own) >= -place]
        yield [(each, place) for each in owners if not each or not is_one(extents[each][place])]


def _attention_axes(extents: Sequence[Sequence[Extent]]) -> Iterator[list[_Place]]:
    """The batch of queries, keys and values, and their length, also in a mask; without a past."""
    if {len(each) for each in extents[:3]} not in ({3}, {4}):
        return
    mask = extents[3] if len(extents) == 4 else ()
    masked = [axis for axis in range(-len(mask), 0) if not is_one(mask[axis])]
    yield [(0, 0), (1, 0), (2, 0), *([(3, -4)] if -4 in masked else [])]
    yield [(1, -2), (2, -2), *([(3, -1)] if -1 in masked else [])]
    if -2 in masked:
        yield [(0, -2), (3, -2)]


def _einsum_axes(equation: str, extents: Sequence[Sequence[Extent]]) -> Iterator[list[_Place]]:
    """The axes of each letter; an extent of 1 may be repeated."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if "." in equation or [len(term) for term in terms] != [len(each) for each in extents]:
        return
    for letter in dict.fromkeys("".join(terms)):
        places = [
            (position, axis)
            for position, term in enumerate(terms)
            for axis, name in enumerate(term)
            if name == letter and not is_one(extents[position][axis])
        ]
        if len(places) > 1:
            yield places


def _broadcast_axes(extents: Sequence[Sequence[Extent]], behind: int) -> Iterator[list[_Place]]:
    """The axes in front of the last `behind` ones; inputs are repeated along axes of the number 1."""
    for axis in range(-max(map(len, extents)), -behind):
        owners = [position for position, own in enumerate(extents) if len(own) >= -axis]
        yield [(each, axis) for each in owners if not is_one(extents[each][axis])]
