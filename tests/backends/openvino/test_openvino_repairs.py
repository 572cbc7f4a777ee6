"""What is inserted into a graph for OpenVINO, told by its operators alone; answers are tested elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from annotated_region.backends.onnx_emitter.graph import Graph
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.repairs import repair

COLUMN = np.ones((3, 1, 1), "float32")


def _added(graph: Graph, kind: str, *inputs: str) -> str:
    for name in inputs:
        if name not in graph.dtypes:
            graph.declare(name, "float32")
    return graph.add(kind, inputs, 1, {})[0]


@pytest.mark.parametrize("first", ["MatMul", "Add"])
def test_only_what_stems_from_a_product_is_copied_however_long_the_way(first):
    graph = Graph("chain", DIALECT)
    value = _added(graph, first, "x", "y")
    for _ in range(800):
        value = _added(graph, "Exp", _added(graph, "Mul", value, graph.constant(np.full(1, 0.5, "float32"))))
    result = _added(graph, "Add", value, graph.constant(COLUMN))
    repair(graph)
    (last,) = (each for each in graph.operators if each.outputs == (result,))
    assert (last.inputs[0] != value) == (first == "MatMul")


@pytest.mark.parametrize("first", ["Mul", "Relu"])
def test_a_convolution_reads_a_copy_of_scaled_data_however_long_the_way(first):
    graph = Graph("chain", DIALECT)
    constant = graph.constant(COLUMN)
    value = _added(graph, first, "x", constant) if first == "Mul" else _added(graph, first, "x")
    for _ in range(1200):
        value = _added(graph, "Identity", value)
    _added(graph, "Conv", value, "w")
    repair(graph)
    assert (graph.operators[-1].inputs[0] != value) == (first == "Mul")
