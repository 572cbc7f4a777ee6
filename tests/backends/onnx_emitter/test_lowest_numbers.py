"""Windows of minus infinity on engines that begin a maximum with the lowest finite number."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.engine_kit import built, call
from kits.backends.relax_kit import module, op_views, var
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.backends.onnx_emitter.graph import Graph, Port
from annotated_region.backends.onnx_emitter.lowest_numbers import with_infinities

INF = float("inf")
LOWEST = np.finfo("float32").min
POOLS = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}


def windows(data: np.ndarray, rank: int) -> np.ndarray:
    """The maxima of windows of three, one beside each element."""
    padded = np.pad(data, [(0, 0), (0, 0), *[(1, 1)] * rank], constant_values=-INF)
    views = np.lib.stride_tricks.sliding_window_view(padded, [3] * rank, tuple(range(2, 2 + rank)))
    return np.asarray(views.max(tuple(range(-rank, 0))))


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_a_window_of_minus_infinity_is_minus_infinity(target):
    """Beside windows whose maximum is the lowest finite number, and ordinary ones."""
    random, numbers = np.random.default_rng(3), np.array([-INF, LOWEST, -3.5, 2], "float32")
    shapes = [(1, 2, *[6] * rank) for rank in POOLS]
    arrays = [random.choice(numbers, shape, p=[0.9, 0.06, 0.02, 0.02]) for shape in shapes]
    params = [var(f"x{len(shape)}", shape) for shape in shapes]

    def make(_):
        pairs = zip(POOLS.items(), params, strict=True)
        return tuple(pool(x, [3] * rank, padding=[1] * rank) for (rank, pool), x in pairs)

    for array in arrays:
        array[0, 1] = -INF
    for found, array in zip(call(built(target, module(params, make)), *arrays), arrays, strict=True):
        np.testing.assert_array_equal(found, windows(array, array.ndim - 2))


def number(graph, value):
    return graph.constant(np.float32(value))


FRONTS = {
    "nothing": lambda graph, x: x,
    "a copy": lambda graph, x: one(graph, "Transpose", x),
    "a sum of positive numbers": lambda graph, x: one(graph, "Add", *[one(graph, "Relu", x)] * 2),
    "one of two": lambda graph, x: one(graph, "Concat", one(graph, "Relu", x), x, axis=0),
    "an infinite bound": lambda graph, x: one(graph, "Clip", x, number(graph, -INF), number(graph, 1)),
    "an infinite scale": lambda graph, x: one(graph, "DequantizeLinear", x, number(graph, INF)),
    "a gate of another value": lambda graph, x: one(graph, "Mul", x, one(graph, "Sigmoid", number(graph, 1))),
    "a normalization by a constant": lambda graph, x: one(graph, "LRN", x, bias=1.0, alpha=0.0, beta=0.75),
    "a constant": lambda graph, x: graph.constant(np.array([1, -INF], "float32")),
}
BOUNDED = {
    "a ReLU": lambda graph, x: one(graph, "Relu", x),
    "a window of a ReLU": lambda graph, x: one(graph, "MaxPool", one(graph, "Relu", x), kernel_shape=[2]),
    "several ReLUs": lambda graph, x: one(graph, "Concat", *[one(graph, "Relu", x)] * 2, axis=0),
    "a bound": lambda graph, x: one(graph, "Clip", x, number(graph, -1), number(graph, INF)),
    "bytes": lambda graph, x: one(graph, "DequantizeLinear", x, number(graph, 0.1)),
    "a normalization": lambda graph, x: one(graph, "LRN", x, bias=1.0, alpha=1e-4, beta=0.75),
    "SiLU": lambda graph, x: one(graph, "Mul", x, one(graph, "Sigmoid", x)),
    "a constant": lambda graph, x: graph.constant(np.array([1, -3], "float32")),
}


def one(graph, kind, *inputs, **attrs):
    (result,) = graph.add(kind, inputs, 1, attrs)
    return result


def is_left_alone(front) -> bool:
    """Whether a window stays as it is behind what `front` makes of an input."""
    graph = Graph("main", Dialect("none", 20, frozenset(("float32",))))
    one(graph, "MaxPool", front(graph, graph.declare("x", "float32")), kernel_shape=[2])
    before = list(graph.operators)
    with_infinities(graph)
    return graph.operators == before


@pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS)
def test_a_window_that_may_be_infinite_is_repaired(front):
    assert not is_left_alone(front)


@pytest.mark.parametrize("front", BOUNDED.values(), ids=BOUNDED)
def test_a_window_behind_what_is_bounded_is_left_alone(front):
    assert is_left_alone(front)


def test_padding_that_onnx_runtime_refuses_is_declined():
    """It may be no wider than the window is without dilation."""
    x = var("x", (1, 1, 5))
    for padding, claimed in (([1, 1], True), ([2, 0], False)):
        mod = module([x], lambda _, p=padding: op.nn.max_pool1d(x, 2, dilation=2, padding=p))
        partitioned = ar.partition(mod, ["onnxruntime"], prepare=False)
        assert claimed == all(view.name == "relax.call_dps_packed" for view in op_views(partitioned))


def test_a_repair_brings_its_constants_although_an_equal_one_was_removed():
    """A half that only a dead operator read is gone when a maximum is written with halves."""
    graph = Graph("g", Dialect("none", 20, frozenset(("float32",))))
    data = graph.declare("x", "float32")
    graph.inputs.append(Port(data, "float32", (1, 1, 4)))
    graph.add("Mul", [data, number(graph, 0.5)], 1, {})
    (peak,) = graph.add("MaxPool", [data], 1, {"kernel_shape": [1]})
    graph.outputs.append(Port(peak, "float32", (1, 1, 4)))
    graph.drop_unused()
    assert not graph.constants
    with_infinities(graph)
    known = {data, *graph.constants, *(name for each in graph.operators for name in each.outputs)}
    assert known.issuperset(name for each in graph.operators for name in each.inputs)
    assert sorted(values.item() for values in graph.constants.values()) == [0.5, 2]
