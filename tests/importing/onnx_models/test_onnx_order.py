"""Nodes of ONNX models that stand in another order than they run in."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

import annotated_region as ar
from annotated_region.importing.onnx_models.order import in_order

SHAPE = [2, 3]


def value(name: str, kind: int = TensorProto.FLOAT, shape: list[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, SHAPE if shape is None else shape)


def branch(node: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph([node], "branch", [], [value(node.output[0])])


NODES = (
    helper.make_node("Abs", ["x"], ["size"], name="abs"),
    helper.make_node("Neg", ["x"], ["less"], name="neg"),
    helper.make_node("Sub", ["size", "less"], ["wide"], name="sub"),
    helper.make_node(
        "If",
        ["choice"],
        ["y"],
        name="if",
        then_branch=branch(helper.make_node("Exp", ["wide"], ["a"])),
        else_branch=branch(helper.make_node("Identity", ["less"], ["b"])),
    ),
)


def model_of(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    inputs = [value("x"), value("choice", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_nodes_are_sorted_whatever_their_order(order: tuple[int, ...]) -> None:
    """Branches read what is made outside of them."""
    found = [node.name for node in in_order([NODES[number] for number in order])]
    assert found.index("abs") < found.index("sub")
    assert found.index("neg") < found.index("sub")
    assert found[-1] == "if"
    # Of two that may come first, it is the one that stood first.
    assert (found.index("abs") < found.index("neg")) == (order.index(0) < order.index(1))


def test_a_model_whose_nodes_are_not_sorted_is_imported_and_stays_as_it_was() -> None:
    model = model_of(list(reversed(NODES)))
    before = model.SerializeToString()
    machine = relax.VirtualMachine(ar.build(ar.from_onnx(model)).jit(), tvm.cpu())
    assert model.SerializeToString() == before
    x = np.array([[1, -2, 3], [0.5, 0, -1]], "float32")
    for choice, right in ((True, np.exp(np.abs(x) + x)), (False, -x)):
        found = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(np.array(choice)))
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-6)


def test_nodes_in_order_and_in_a_cycle_stay() -> None:
    assert in_order(NODES) is NODES
    cycle = [helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Relu", ["y"], ["b"])]
    assert in_order(cycle) is cycle
