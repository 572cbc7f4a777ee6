"""Local response normalization is one operator of OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.backends.openvino_kit import needs_openvino
from onnx import TensorProto, helper
from tvm import relax

import annotated_region as ar
from annotated_region.backends.onnx_emitter.graph import Graph, Port
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.local_response import write_local_responses

POOL = {"kernel_shape": [5, 1, 1], "strides": [1, 1, 1], "pads": [2, 0, 0, 2, 0, 0], "count_include_pad": 1}
EVEN = {"kernel_shape": [4, 1, 1], "strides": [1, 1, 1], "pads": [2, 0, 0, 2, 0, 0], "count_include_pad": 1}


def _number(graph: Graph, value: float | Sequence[float]) -> str:
    return graph.constant(np.asarray(value, "float32"))


def _graph(
    pool: Mapping[str, object] = POOL,
    axis: int = 1,
    factor: str = "x",
    alpha: float | Sequence[float] | None = 0.5,
    bias: float = 2.0,
    dividend: str = "x",
) -> Graph:
    """The arithmetic of a normalization over five channels, or of something else."""
    graph = Graph("response", DIALECT)
    for name in ("x", "y"):
        graph.declare(name, "float32")
    place = graph.constant(np.asarray([axis]))
    square = graph.add("Mul", ["x", factor], 1, {})[0]
    inner = graph.add("Unsqueeze", [square, place], 1, {})[0]
    mean = graph.add("AveragePool", [inner], 1, dict(pool))[0]
    outer = graph.add("Squeeze", [mean, place], 1, {})[0]
    scaled = graph.add("Mul", [outer, "y" if alpha is None else _number(graph, alpha)], 1, {})[0]
    sums = graph.add("Add", [scaled, _number(graph, bias)], 1, {})[0]
    power = graph.add("Pow", [sums, _number(graph, 0.75)], 1, {})[0]
    graph.add("Div", [dividend, power], 1, {})
    return graph


def _kinds(graph: Graph) -> list[str]:
    return [each.kind for each in graph.operators]


@pytest.mark.parametrize(
    "other",
    [
        {"pool": POOL | {"count_include_pad": 0}},
        {"pool": POOL | {"pads": [1, 0, 0, 3, 0, 0]}},
        {"pool": POOL | {"kernel_shape": [5, 3, 1]}},
        {"pool": POOL | {"strides": [2, 1, 1]}},
        {"pool": EVEN},
        {"axis": 2},
        {"factor": "y"},
        {"alpha": None},
        {"alpha": [0.5, 0.25]},
        {"bias": 1.5},
        {"bias": float("inf")},
        {"dividend": "y"},
    ],
)
def test_other_arithmetic_stays(other):
    graph = _graph(**other)
    before = list(graph.operators)
    write_local_responses(graph)
    assert graph.operators == before


def test_a_normalization_is_one_operator():
    graph = _graph()
    graph.outputs.append(Port(graph.operators[-1].outputs[0], "float32", (1, 8, 4, 4)))
    write_local_responses(graph)
    (written,) = graph.operators
    assert (written.kind, written.inputs) == ("LRN", ("x",))
    assert written.attrs == {"size": 5, "alpha": 0.5, "beta": 0.75, "bias": 2.0}


def test_the_divisor_stays_where_it_is_read_elsewhere():
    graph = _graph()
    (divisor,) = graph.operators[-2].outputs
    graph.add("Sqrt", [divisor], 1, {})
    for each in graph.operators[-2:]:
        graph.outputs.append(Port(each.outputs[0], "float32", (1, 8, 4, 4)))
    write_local_responses(graph)
    assert _kinds(graph) == ["Mul", "Unsqueeze", "AveragePool", "Squeeze", "Mul", "Add", "Pow", "LRN", "Sqrt"]


@needs_openvino
@pytest.mark.parametrize("bias", [1.5, 2.0])
@pytest.mark.parametrize(("size", "channels"), [(1, 4), (3, 2), (5, 8), (7, 3)])
def test_a_normalization_computes_what_onnx_says(size, channels, bias):
    """OpenVINO 2026.4 computes with a bias of 1 where it is 1.5."""
    shape = [2, channels, 3, 5]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.3, beta=0.6, bias=bias)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:]), opset_imports=opsets)
    model.ir_version = 9
    onnx.checker.check_model(model)
    data = np.random.default_rng(size).normal(0, 3, shape).astype("float32")
    mod = ar.partition(ar.from_onnx(model), ["openvino"])
    found = relax.VirtualMachine(ar.build(mod), tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(found, session.run(None, {"x": data})[0], rtol=2e-6, atol=1e-6)
