"""The laws of the kinds of nodes of the dnnl backend: which extents the result of which operands has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from annotated_region.backends.dnnl.graph import (
    DataType,
    Dim,
    Graph,
    Kind,
    Node,
    same_dim,
    same_shape,
    volume,
)
from annotated_region.backends.dnnl.index_parameters import (
    BoxMeans,
    Element,
    ElementScatter,
    Gather,
    Ordering,
    Resizing,
    SampleMethod,
    Sampling,
    Scatter,
)
from annotated_region.backends.dnnl.parameters import (
    Begins,
    BorderPadding,
    ChannelScales,
    Concat,
    Cumulation,
    PackedProduct,
    Padding,
    Permutation,
    Requantization,
    Softmax,
)
from annotated_region.backends.dnnl.recurrent_parameters import CellKind, Recurrence

__all__ = ["BYTES", "LAWS", "Shape", "repeats_to"]

Shape = tuple[Dim, ...]
Law = Callable[[Graph, Node, Sequence[Shape], Shape], Iterator[str]]
"""Yields the errors of a node, given the graph, the node, and the shapes of its operands and of
its result.
"""

BYTES = (DataType.INT8, DataType.UINT8)


def repeats_to(extents: Shape, result: Shape) -> bool:
    """Whether an operand of some extents can be broadcast to a result of the same rank."""
    return len(extents) == len(result) and all(
        extent == 1 or same_dim(extent, whole) for extent, whole in zip(extents, result, strict=True)
    )


def _same(_graph: Graph, _node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    if not same_shape(operands[0], result):
        yield "the result has other extents than the operand"


def _binary(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    yield from _same(graph, node, operands, result)
    if not repeats_to(operands[1], result):
        yield "the second operand cannot be repeated to the result"


def _select(_graph: Graph, _node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    if not all(repeats_to(each, result) for each in operands):
        yield "an operand cannot be repeated to the result"


def _rotation(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    yield from _same(graph, node, operands, result)
    yield from _select(graph, node, operands, result)
    if not isinstance(result[-1], int) or result[-1] % 2:
        yield "the last axis has no halves"


def _expand(_graph: Graph, _node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    if not repeats_to(operands[0], result):
        yield "the operand cannot be repeated to the result"


def _reduction(_graph: Graph, _node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    if not repeats_to(result, operands[0]):
        yield "the result has axes that the operand has not"


def _reshape(_graph: Graph, _node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    before, after = volume(operands[0]), volume(result)
    if isinstance(before, int) and isinstance(after, int) and before != after:
        yield f"{before} elements become {after}"


def _permute(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Permutation)
    axes = node.parameters.axes
    if sorted(axes) != list(range(len(operands[0]))):
        yield "the axes are not a permutation"
    elif not same_shape(tuple(operands[0][axis] for axis in axes), result):
        yield "the extents of the result are not those of the permuted operand"


def _slice(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Begins)
    parts = zip(operands[0], result, node.parameters.begins, node.parameters.steps, strict=True)
    for whole, extent, begin, step in parts:
        if not all(isinstance(each, int) for each in (whole, extent, begin)):
            continue
        if begin < 0 or step < 1 or begin + (extent - 1) * step >= whole:
            yield f"{extent} elements from {begin} by {step} leave an axis of {whole}"


def _concat(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Concat)
    axis = node.parameters.axis
    for extents in operands:
        if not same_shape(extents[:axis] + extents[axis + 1 :], result[:axis] + result[axis + 1 :]):
            yield f"a part of extents {extents} does not fit"
    parts = [extents[axis] for extents in operands]
    if all(isinstance(part, int) for part in (*parts, result[axis])) and sum(parts) != result[axis]:
        yield f"the parts make {sum(parts)} of {result[axis]}"


def _matmul(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    left, right = operands[:2]
    if not (len(left) == len(right) == len(result)):
        yield "the ranks differ"
        return
    if not same_dim(left[-1], right[-2]) or not same_shape((left[-2], right[-1]), result[-2:]):
        yield "the matrices do not fit"
    if not all(repeats_to(each[:-2], result[:-2]) for each in (left, right)):
        yield "the stacks cannot be repeated to the result"
    if len(node.inputs) > 2 and not repeats_to(operands[2], result):
        yield "the bias cannot be repeated to the result"


def _packed_product(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    given = node.parameters
    assert isinstance(given, PackedProduct)
    *rows, depth = operands[0]
    if not same_shape((*rows, given.columns), result) or not same_dim(depth, given.depth):
        yield "the matrices do not fit"
    if graph.dtype(node.inputs[1]) is not DataType.UINT8:
        yield "the weights are not bytes"
    if len(node.inputs) > 2 and not repeats_to(operands[2], result):
        yield "the bias cannot be repeated to the result"


def _softmax(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Softmax)
    yield from _same(graph, node, operands, result)
    if not 0 <= node.parameters.axis < len(result):
        yield "there is no such axis"


def _group_norm(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    yield from _same(graph, node, operands, result)
    if not all(same_shape(vector, result[1:2]) for vector in operands[1:]):
        yield "a vector does not have an element for each channel"


def _rows(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    yield from _same(graph, node, operands, result)
    if not all(same_shape(vector, result[-1:]) for vector in operands[1:]):
        yield "a vector does not have an element for each place in a row"


def _pad(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Padding | BorderPadding)
    for before, extent, whole in zip(node.parameters.before, operands[0], result, strict=True):
        if isinstance(extent, int) and isinstance(whole, int) and not 0 <= before <= whole - extent:
            yield f"{before} elements are before {extent} of {whole}"


def _attention(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    queries, keys, values = operands[:3]
    expected = (*queries[:-1], values[-1])
    if not same_shape(expected, result):
        yield f"the result should have extents {expected}"
    if not same_dim(queries[-1], keys[-2]) or not same_dim(keys[-1], values[-2]):
        yield "the matrices do not fit"
    scores = (*queries[:-1], keys[-1])
    if len(node.inputs) > 3 and not repeats_to(operands[3], scores):
        yield "the mask cannot be repeated to the scores"


def _parted_attention(_graph: Graph, _node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    queries, first, second, *values = operands[:5]
    if not same_shape((*queries[:-1], values[0][-1]), result):
        yield "the result has other extents than the queries"
    if not same_dim(queries[-1], first[-2]) or not same_shape(first[:-1], second[:-1]):
        yield "the keys do not fit"
    if not all(same_dim(part[-1], other[-2]) for part, other in zip((first, second), values, strict=True)):
        yield "the parts of keys and values do not fit"
    if not same_dim(values[0][-1], values[1][-1]) or not same_shape(values[0][:2], values[1][:2]):
        yield "the values do not fit"


def _scales(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    yield from _same(graph, node, operands, result)
    scales = node.parameters
    if not isinstance(scales, ChannelScales):
        return
    channels = result[scales.first : scales.first + scales.count]
    if scales.count == 0 and scales.first != 0:
        yield "one scale for all has an axis"
    count, *others = [volume(vector) for vector in operands[1:]]
    if not same_dim(count, volume(channels)):
        yield "there is not a scale for each channel"
    if not all(same_dim(other, 1) or same_dim(other, count) for other in others):
        yield "there is neither one zero point nor one for each channel"


def _requantize(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Requantization)
    data, *vectors = operands
    yield from _same(graph, node, [data], result)
    if len(vectors) != node.parameters.has_factors + node.parameters.has_terms:
        yield "has other vectors than its parameters say"
    if not all(same_dim(volume(vector), result[1]) for vector in vectors):
        yield "a vector does not have an element for each channel"
    if graph.dtype(node.inputs[0]) not in (*BYTES, DataType.FLOAT32) or graph.dtype(node.output) not in BYTES:
        yield f"quantizes {graph.dtype(node.inputs[0])} to {graph.dtype(node.output)}"


def _lookup(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    data, table = operands
    yield from _same(graph, node, [data], result)
    if not same_dim(volume(table), 256):
        yield "the table does not have a result for each byte"
    if graph.dtype(node.inputs[0]) not in BYTES or graph.dtype(node.output) not in BYTES:
        yield f"looks up {graph.dtype(node.output)} by {graph.dtype(node.inputs[0])}"


def _gather(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Gather)
    data, *indices = operands
    first, last = node.parameters.axis, node.parameters.axis + len(indices)
    if not indices or last > len(data) or not all(same_shape(each, indices[0]) for each in indices):
        yield "the indices do not fit"
        return
    outer = () if node.parameters.batched else data[:first]
    if not same_dim(volume((*outer, *indices[0], *data[last:])), volume(result)):
        yield "the result has another number of elements"


def _gather_elements(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Element)
    if not same_shape(operands[1], result) or len(operands[0]) != len(result):
        yield "the indices have other extents than the result"
    if not 0 <= node.parameters.axis < len(result):
        yield "there is no such axis"


def _last_reduction(_graph: Graph, _node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    if not same_shape((*operands[0][:-1], 1), result):
        yield "it does not reduce the last axis to one element"


def _scatter(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Scatter)
    data, updates, *indices = operands
    if not indices or len(indices) > len(data) or not all(same_shape(each, indices[0]) for each in indices):
        yield "the indices do not fit"
    elif not same_dim(volume((*indices[0], *data[len(indices) :])), volume(updates)):
        yield "there are more or fewer updates than indices"
    if not same_shape(data, result):
        yield "the result has other extents than the data"


def _scatter_elements(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, ElementScatter)
    if not same_shape(operands[1], operands[2]) or len(operands[1]) != len(result):
        yield "the updates have other extents than the indices"
    if not same_shape(operands[0], result):
        yield "the result has other extents than the data"
    if not 0 <= node.parameters.axis < len(result):
        yield "there is no such axis"


def _ordering(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Ordering)
    axis = node.parameters.axis
    if not 0 <= axis < len(result):
        yield "there is no such axis"
        return
    before, after = (shape[:axis] + shape[axis + 1 :] for shape in (operands[0], result))
    if not same_shape(before, after):
        yield "the result has other extents on other axes"


def _sampling(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Sampling)
    image, grid = operands
    axes = len(image) - 2
    if axes not in (2, 3) or (axes == 3 and node.parameters.method is SampleMethod.CUBIC):
        yield f"samples {axes} axes"
    if not same_shape(result, (*image[:2], *grid[2:])):
        yield "the result has other extents than the places"
    if not same_shape(grid[:2], (image[0], axes)):
        yield "there are more or fewer coordinates than axes, or than images"


def _part_means(_graph: Graph, _node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    (data,) = operands
    if len(data) not in (3, 4, 5) or len(data) != len(result) or not same_shape(result[:2], data[:2]):
        yield "the result has other images or channels"


def _resizing(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Resizing)
    (image,) = operands
    if len(image) != 4 or not same_shape(result[:2], image[:2]):
        yield "the result has other images or channels"


def _box_pooling(_graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, BoxMeans)
    image, rows = operands
    if len(image) != 4 or len(rows) != 2 or rows[1] != 5:
        yield "the operands are not images and rows of an image's number and two corners"
    elif not same_shape(result[:2], (rows[0], image[1])):
        yield "the result has other extents than boxes and channels"
    if node.parameters.samples < 0:
        yield "there are fewer than no samples"


def _cumulation(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Cumulation)
    yield from _same(graph, node, operands, result)
    if not 0 <= node.parameters.axis < len(result):
        yield "there is no such axis"


def _recurrence(graph: Graph, node: Node, operands: Sequence[Shape], result: Shape) -> Iterator[str]:
    assert isinstance(node.parameters, Recurrence)
    states = 2 if node.parameters.cell is CellKind.LSTM else 1
    gates, weight, initial = operands[0], operands[1], operands[-1]
    lengths = len(operands) - states - 1 if node.parameters.has_lengths else None
    for place, tensor in enumerate(node.inputs):
        wanted = DataType.INT32 if place == lengths else DataType.FLOAT32
        if graph.dtype(tensor) is not wanted:
            yield f"operand {place} is of {graph.dtype(tensor)}"
    count = {CellKind.LSTM: 4, CellKind.GRU: 3, CellKind.RNN: 1}[node.parameters.cell]
    if not same_shape(initial, (gates[1], weight[1])) or not same_dim(gates[2], count * weight[1]):
        yield "the gates are not those of the states"
    if not same_shape(result, (gates[0] + states, *initial)):
        yield "the result has other extents than the states of all steps, and the last one"


LAWS: Mapping[Kind, Law] = {
    Kind.ELTWISE: _same,
    Kind.BINARY: _binary,
    Kind.SELECT: _select,
    Kind.PRELU: _binary,
    Kind.EXPAND: _expand,
    Kind.REDUCTION: _reduction,
    Kind.RESHAPE: _reshape,
    Kind.PERMUTE: _permute,
    Kind.SLICE: _slice,
    Kind.CONCAT: _concat,
    Kind.MATMUL: _matmul,
    Kind.PACKED_PRODUCT: _packed_product,
    Kind.SOFTMAX: _softmax,
    Kind.LAYER_NORM: _rows,
    Kind.GROUP_NORM: _group_norm,
    Kind.RMS_NORM: _rows,
    Kind.ROTATION: _rotation,
    Kind.PAD: _pad,
    Kind.BORDER_PAD: _pad,
    Kind.GATHER: _gather,
    Kind.GATHER_ELEMENTS: _gather_elements,
    Kind.SCATTER: _scatter,
    Kind.SCATTER_ELEMENTS: _scatter_elements,
    Kind.CUMULATION: _cumulation,
    Kind.ORDERING: _ordering,
    Kind.SAMPLING: _sampling,
    Kind.BOX_POOLING: _box_pooling,
    Kind.RECURRENCE: _recurrence,
    Kind.RESIZING: _resizing,
    Kind.PART_MEANS: _part_means,
    Kind.WHOLE: _select,
    Kind.WHOLE_MATMUL: _matmul,
    Kind.WHOLE_REDUCTION: _last_reduction,
    Kind.COMPARISON: _select,
    Kind.PREDICATE: _same,
    Kind.ATTENTION: _attention,
    Kind.PARTED_ATTENTION: _parted_attention,
    Kind.QUANTIZE: _scales,
    Kind.DEQUANTIZE: _scales,
    Kind.REQUANTIZE: _requantize,
    Kind.LOOKUP: _lookup,
    Kind.CAST: _same,
    Kind.ERROR_FUNCTION: _same,
    Kind.EXPONENTIAL: _same,
    Kind.GELU: _same,
    Kind.RECIPROCAL_ROOT: _same,
    Kind.LOGARITHM: _same,
    Kind.SINE: _same,
    Kind.COSINE: _same,
    Kind.FLOOR: _same,
    Kind.CEILING: _same,
    Kind.TRUNCATION: _same,
    Kind.ELEMENTARY: _same,
    Kind.FLOAT_PAIR: _select,
    Kind.LRN: _same,
}
"""The law of each kind that has one."""
