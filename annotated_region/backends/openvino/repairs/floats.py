"""Repairs of any model; those of convolutions are in `convolutions.py`.

A result that is a view of a value with another reader shares its memory, and is overwritten; a permutation
that moves axes of extent 1 is a view, too:

    e = Exp(x), r = Reshape(e), y = Conv(Transpose(e))        results r and y: y is wrong
    e = Exp(x), v = Reshape(e), r = Max(v, v), y = ...        right

An absolute value is computed before its inputs are joined, though others read what is joined:

    c = Concat(a, b), y = Mul(c, Abs(c))        wrong; so is c, if it is a result
    c = Concat(a, b), y = Mul(c, Abs(Max(c, c)))        right

Repetitions along several axes of a tensor of symbolic extents may be in another order, and so may be those
along one axis of images of one channel or pixel that a pool, a softmax or a local norm makes; behind a
softmax of what is computed, those of fixed extents, too:

    y = Tile(x, [1, 2, 1, 2, 1])        wrong, if x is (n, 1, 2, 1, 2)
    t = Tile(x, [1, 2, 1, 1, 1]), y = Tile(Max(t, t), [1, 1, 1, 2, 1])        right
    y = Tile(MaxPool(x), [1, 2, 1, 1])        wrong, if x is (n, 3, 1, 1)
    p = MaxPool(x), y = Tile(Max(p, p), [1, 2, 1, 1])        right
    y = Tile(Softmax(Exp(x)), [1, 2, 1, 1])        wrong, if x is (1, 1, 2, 3)

A matrix product without summands is fused with a function behind it: the result is not written, and the
process ends in the next call:

    y = Relu(MatMul(a, b))        wrong, if a is (2, n), b is (n, 2), and n is 0
    m = MatMul(a, b), y = Relu(Max(m, m))        0

A product of one matrix of symbolic extents with a stack of constant ones is computed as one matrix:

    y = MatMul(x, w)        not written, if x is (1, n, 2) and w is (3, 2, 5)
    y = Squeeze(MatMul(x, Unsqueeze(w)))        right

A constant that is combined with a product is assumed to vary along the columns. The result is wrong if it
varies along the second of four axes (an error if that axis and the columns differ in length); and of a
constant with two columns the plugin may read only one:

    m = MatMul(x, w), y = Add(m, c)        wrong, if m is (1, 3, 2, 3) and c is (3, 1, 1)
    m = MatMul(a, b), y = Div(m, c)        wrong, if m is (1, 2) and c is (2,)
    m = MatMul(a, b), n = Max(m, m), y = Div(n, c)        right

A permutation that moves only an axis of extent 1 is lost behind a reduction that removes an axis, so that
its reader broadcasts it otherwise:

    y = Add(Transpose(ReduceMean(x)), c)        (3, 3), if the mean is (3, 1) and c is (1, 3)
    m = ReduceMean(x), y = Add(Transpose(Max(m, m)), c)        right

A function of a reduction along the last of three axes, or of a global pool of lines, is fused with it; if its
constant varies along the channels, the result is not written for batches of more than one. So it is if there
is one channel, and the function a division:

    y = Add(ReduceMean(x), c)        wrong, if x is (2, 3, 8) and c is (3,)
    y = Div(ReduceMean(x), 2)        wrong, if x is (2, 1, 8)
    m = ReduceMean(x), y = Add(Max(m, m), c)        right

A test for infinity that is fused with an element-wise function in front of it finds none:

    y = IsInf(Exp([inf, 1]))        [0, 0]
    y = Equal(Abs(Exp([inf, 1])), inf)        [1, 0]
"""

from __future__ import annotations

import numpy as np

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.onnx_emitter.lowest_numbers import of_halves
from annotated_region.backends.openvino.repairs.sources import (
    EXTREMES,
    LINEAR,
    OF_BYTES,
    POOLS,
    VIEWS,
    Repair,
    ValueSources,
    behind,
    holds_several,
    is_product,
    read_as_a_copy,
    reading_a_copy,
    shape_of,
    source_of,
)

__all__ = ["REPAIRS", "is_shared_view"]

# Views, and permutations, which are views where they move axes of extent 1.
_SHARING = VIEWS | {"Transpose"}
# Operators with constant operands that the plugin may fuse with a product.
_BEHIND = LINEAR | {"Max", "Min", "PRelu", "Pow"}
# Functions that the plugin may fuse with a reduction, with a number for each channel.
_BY_CHANNELS = _BEHIND | {"BatchNormalization"}


def is_shared_view(graph: Graph, sources: ValueSources, name: str) -> bool:
    """Whether a value is or may be a view, maybe through other views, of a value with another reader."""
    makers = sources.makers
    while name in makers and makers[name].kind in _SHARING:
        name = makers[name].inputs[0]
        readers = sum(name in each.inputs for each in graph.operators)
        if readers + sum(port.name == name for port in graph.outputs) > 1:
            return True
    return False


def _apart_from_products(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; one with a constant that OpenVINO misplaces reads a copy of the product."""
    if operator.kind not in _BEHIND:
        return (operator,)
    constants = [each for each in operator.inputs if each in sources.constants]
    data = [each for each in operator.inputs if each not in constants]
    if len(data) != 1 or not any(_is_misplaced(graph, each) for each in constants):
        return (operator,)
    return reading_a_copy(graph, operator, *data) if is_product(sources, *data) else (operator,)


def _apart_from_reductions(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a permutation reads a copy of what a reduction makes that removes axes.

    A permutation of symbolic extents may be written as a reshape, which has the attribute `allowzero`.
    """
    permutes = operator.kind == "Transpose" or (operator.kind == "Reshape" and "allowzero" in operator.attrs)
    maker = sources.makers.get(operator.inputs[0]) if permutes else None
    if maker is None or not maker.kind.startswith("Reduce") or maker.attrs.get("keepdims", 1):
        return (operator,)
    return reading_a_copy(graph, operator, operator.inputs[0])


def _apart_from_channels(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a function with several numbers reads a copy of what is computed from a reduction."""
    if operator.kind not in _BY_CHANNELS:
        return (operator,)
    is_norm = operator.kind == "BatchNormalization"  # whose parameters may be computed
    inputs = operator.inputs[:1] if is_norm else operator.inputs
    data = [each for each in inputs if each not in sources.constants]
    constants = [each for each in operator.inputs if each in sources.constants]
    is_varied = is_norm or operator.kind == "Div" or any(holds_several(graph, each) for each in constants)
    if len(data) != 1 or not is_varied or not _is_reduced(sources, *data):
        return (operator,)
    return reading_a_copy(graph, operator, *data)


def _written(graph: Graph, _sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; readers of a matrix product that may have no summands read a copy."""
    if operator.kind != "MatMul" or not graph.open_sums.intersection(operator.outputs):
        return (operator,)
    return read_as_a_copy(graph, operator)


def _with_four_axes(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a product with a stack of constant matrices that repeats a matrix has a further axis."""
    is_repeating = operator.kind == "MatMul" and not graph.repeated_matrices.isdisjoint(operator.outputs)
    if not is_repeating or operator.inputs[1] not in sources.constants:
        return (operator,)
    data, stack = operator.inputs
    wide = graph.declare(graph.fresh("wide"), graph.dtypes[stack])
    product = graph.declare(graph.fresh("product"), graph.dtypes[data])
    if not graph.open_sums.isdisjoint(operator.outputs):
        graph.open_sums.add(product)
    first = graph.constant(np.array([0]))
    return (
        Operator("Unsqueeze", (stack, first), (wide,), {}),
        Operator("MatMul", (data, wide), (product,), {}),
        Operator("Squeeze", (product, first), operator.outputs, {}),
    )


def _apart_from_joined(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; an absolute value reads a copy of what was joined and has another reader."""
    if operator.kind != "Abs":
        return (operator,)
    (data,) = operator.inputs
    name = behind(sources, data, VIEWS)
    is_joined = name in sources.makers and sources.makers[name].kind == "Concat"
    readers = sum(each.inputs.count(value) for each in graph.operators for value in {data, name})
    readers += sum(port.name in (data, name) for port in graph.outputs)
    return reading_a_copy(graph, operator, data) if is_joined and readers > 1 else (operator,)


def _by_axes(graph: Graph, sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; repetitions read a copy; those of symbolic extents are made axis by axis."""
    if operator.kind != "Tile" or sources.constants.issuperset(operator.inputs):
        return (operator,)
    data, counts = operator.inputs
    repeats = graph.constants.get(counts)
    is_open = any(not isinstance(extent, int) for port in graph.inputs for extent in port.shape)
    if not is_open and data not in sources.makers:
        return (operator,)
    if not is_open or repeats is None or 0 in repeats:
        return reading_a_copy(graph, operator, data)
    parts: list[Operator] = []
    axes = np.flatnonzero(repeats > 1).tolist() or [0]
    for axis in axes:
        single = graph.constant(np.where(np.arange(repeats.size) == axis, repeats, 1))
        results = operator.outputs
        if axis != axes[-1]:
            results = (graph.declare(graph.fresh("repeated"), graph.dtypes[data]),)
        parts += reading_a_copy(graph, Operator("Tile", (data, single), results, {}), data)
        (data,) = results
    return tuple(parts)


def _of_halves(graph: Graph, _sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; the double of an extreme of halves."""
    return of_halves(graph, operator) if operator.kind in EXTREMES else (operator,)


def _by_comparison(graph: Graph, _sources: ValueSources, operator: Operator) -> tuple[Operator, ...]:
    """The operator; a test for infinity as a comparison."""
    if operator.kind != "IsInf":
        return (operator,)
    (data,) = operator.inputs
    infinity = graph.constant(np.asarray(np.inf, graph.dtypes[data]))
    size = graph.declare(graph.fresh("size"), graph.dtypes[data])
    return Operator("Abs", (data,), (size,), {}), Operator("Equal", (size, infinity), operator.outputs, {})


def _is_misplaced(graph: Graph, constant: str) -> bool:
    """Whether a constant has two columns, or varies along other axes only."""
    shape = shape_of(graph, constant)
    if shape is None:
        return True
    return shape[-1:] == (2,) or (shape[-1:] == (1,) and any(extent != 1 for extent in shape))


def _is_reduced(sources: ValueSources, name: str) -> bool:
    """Whether a value is a reduction or a global pool, or computed from one and constants by functions."""

    def is_reduction(maker: Operator) -> bool:
        return maker.kind.startswith("Reduce") or maker.kind in POOLS

    maker = source_of(sources, name, lambda maker: is_reduction(maker) or maker.kind in OF_BYTES)
    return maker is not None and is_reduction(maker)


REPAIRS: tuple[Repair, ...] = (
    _of_halves,
    _by_comparison,
    _with_four_axes,
    _apart_from_products,
    _apart_from_reductions,
    _apart_from_channels,
    _written,
    _apart_from_joined,
    _by_axes,
)
"""In this order."""
