"""Extents that plans leave open: the number of earlier keys, unless anything but attention depends on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import ConstantNames
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.backends.dnnl.codegen import region_graph
from annotated_region.backends.dnnl.emission import emit_region
from annotated_region.backends.dnnl.graph import Graph
from annotated_region.backends.dnnl.open_extents import OpenView, open_views

HEADS, PART = 2, 16
PAST = tirx.Var("n", "int64")
Twist = Callable[["Step"], None]


class Step:
    """Attention of new tokens to earlier ones and themselves; a twist changes one thing."""

    def __init__(self) -> None:
        new = tirx.Var("s", "int64")
        self.builder = relax.BlockBuilder()
        self.past = [self.parameter(name, [PAST, HEADS, PART]) for name in "kv"]
        self.queries = self.parameter("q", [1, HEADS, new, PART])
        self.new = [self.parameter(f"new_{name}", [new, HEADS, PART]) for name in "kv"]
        self.mask = self.parameter("mask", [new, PAST + new])
        self.parameters = [self.queries, *self.past, *self.new, self.mask]
        self.results: list[relax.Expr] = []

    def parameter(self, name: str, shape: list[object], dtype: str = "float32") -> relax.Var:
        return relax.Var(name, relax.TensorType(shape, dtype))

    def emit(self, value: relax.Expr) -> relax.Var:
        return self.builder.emit(value)

    def graph(self, twist: Twist | None) -> Graph:
        with self.builder.function("main", self.parameters):
            with self.builder.dataflow():
                if twist is not None:
                    twist(self)
                found = self.attention()
                outputs = [self.builder.emit_output(each) for each in (found, *self.results)]
            self.builder.emit_func_output(relax.Tuple(outputs))
        function = self.builder.finalize()["main"].with_attr("global_symbol", "main")
        return region_graph(function, ConstantNames())

    def attention(self) -> relax.Var:
        keys, values = (
            self.emit(op.expand_dims(self.emit(op.permute_dims(self.emit(op.concat(each, 0)), [1, 0, 2])), 0))
            for each in zip(self.past, self.new, strict=True)
        )
        scores = self.emit(op.matmul(self.queries, self.emit(op.permute_dims(keys, [0, 1, 3, 2]))))
        scores = self.emit(op.add(scores, self.emit(op.expand_dims(self.mask, [0, 1]))))
        return self.emit(op.matmul(self.emit(op.nn.softmax(scores, -1)), values))


def returns_a_past(step: Step) -> None:
    step.results.append(op.negative(step.past[0]))


def reduces_a_past(step: Step) -> None:
    step.results.append(op.sum(step.past[1], [0]))


def computes_a_past(step: Step) -> None:
    step.past[0] = step.emit(op.multiply(step.past[0], relax.const(np.float32(2))))


def computes_a_mask(step: Step) -> None:
    step.mask = step.emit(op.multiply(step.mask, relax.const(np.float32(2))))


def counts_positions(step: Step) -> None:
    step.results.append(op.arange(PAST, PAST + 4, 1, "int64"))


def stores_heads_last(step: Step) -> None:
    """The numbers of a key are not side by side."""
    step.parameters[1] = step.parameter("k", [PAST, PART, HEADS])
    step.past[0] = step.emit(op.permute_dims(step.parameters[1], [0, 2, 1]))


def stores_halves(step: Step) -> None:
    step.parameters[2] = step.parameter("v", [PAST, HEADS, PART], "float16")
    step.past[1] = step.emit(op.astype(step.parameters[2], "float32"))


TWISTS = (
    returns_a_past,
    reduces_a_past,
    computes_a_past,
    computes_a_mask,
    counts_positions,
    stores_heads_last,
    stores_halves,
)


def test_the_number_of_earlier_keys_is_open() -> None:
    graph = Step().graph(None)
    ((extent, views),) = open_views(graph).items()
    assert extent.same_as(PAST)
    inputs = graph.inputs
    (node,) = (node for node in graph.nodes if node.kind.name == "PARTED_ATTENTION")
    by_tensor = {view.tensor: view for view in views}
    assert by_tensor[node.inputs[1]] == OpenView(node.inputs[1], inputs[1], (-1, 1, 2, 0))
    assert by_tensor[node.inputs[3]] == OpenView(node.inputs[3], inputs[2], (-1, 1, 0, 2))
    assert by_tensor[node.inputs[5]] == OpenView(node.inputs[5], inputs[5], (-1, -1, 0, 1))
    assert "{1, 0, true}" in emit_region(graph, "fp32")


@pytest.mark.parametrize("twist", TWISTS, ids=lambda twist: twist.__name__)
def test_what_something_else_depends_on_is_not_open(twist: Twist) -> None:
    graph = Step().graph(twist)
    assert any(node.kind.name == "PARTED_ATTENTION" for node in graph.nodes)
    assert not open_views(graph)
    assert "true}" not in emit_region(graph, "fp32").split("variables[]")[1].split(";")[0]
