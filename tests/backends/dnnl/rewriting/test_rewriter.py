"""The rewriter: exact counts of readers, dead nodes go, passes end or are caught."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated_region.backends.dnnl.graph import Graph, Kind, Node, TensorId
from annotated_region.backends.dnnl.parameters import Arithmetic, Curve, linear
from annotated_region.backends.dnnl.rewriting.linear import JoinLinearFunctions
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite, Rewriter, _verify
from annotated_region.errors import CodegenError

SHAPE = (2, 3)


def chain(*curves: Curve) -> Graph:
    """Functions in a row behind one input."""
    graph = Graph("chain")
    value = graph.tensor(SHAPE, source=0)
    graph.inputs = [value]
    for curve in curves:
        value = graph.add(Kind.ELTWISE, (value,), SHAPE, curve)
    graph.outputs = [value]
    return graph


def run(graph: Graph, rewrite: type[Rewrite]) -> int:
    rewriter = Rewriter(graph)
    return rewriter.run(rewrite(rewriter))


def test_a_replaced_node_is_looked_at_again_and_what_nobody_reads_goes() -> None:
    graph = chain(linear(2.0, 1.0), linear(3.0), linear(1.0, -1.0))
    assert run(graph, JoinLinearFunctions) == 2
    assert [node.parameters for node in graph.nodes] == [linear(6.0, 2.0)]
    assert graph.nodes[0].inputs == (graph.inputs[0],)


def test_a_function_that_is_read_twice_stays() -> None:
    graph = chain(linear(2.0), linear(3.0))
    graph.outputs.append(graph.nodes[0].output)
    assert run(graph, JoinLinearFunctions) == 0


@pytest.mark.parametrize(
    ("inner", "outer"),
    [(linear(1e30), linear(1e30)), (linear(1e-30), linear(1e-30)), (linear(2.0, 1e30), linear(1e30))],
)
def test_functions_whose_product_leaves_the_range_of_float32_stay_apart(inner: Curve, outer: Curve) -> None:
    assert run(chain(inner, outer), JoinLinearFunctions) == 0


class Swap(Rewrite):
    """Exchanges the operands of sums, for ever."""

    def rewritten(self, node: Node) -> Node | None:
        return replace(node, inputs=node.inputs[::-1]) if node.kind is Kind.BINARY else None


def total() -> Graph:
    graph = Graph("total")
    graph.inputs = [graph.tensor(SHAPE, source=position) for position in range(2)]
    graph.outputs = [graph.add(Kind.BINARY, graph.inputs, SHAPE, Arithmetic("binary_add"))]
    return graph


def test_a_pass_whose_measure_does_not_fall_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"Swap: the measure went from \(1, 1\) to \(1, 1\)"):
        run(total(), Swap)


def test_a_pass_that_does_not_end_is_an_error_and_no_hang() -> None:
    token = _verify.set(None)
    try:
        with pytest.raises(CodegenError, match=r"total: the pass Swap of target 'dnnl' does not end"):
            run(total(), Swap)
    finally:
        _verify.reset(token)


class Watch(Rewrite):
    """Renames, replaces and removes by a script, and compares the counts with a walk at every node."""

    script: tuple[int, ...] = ()

    def rewritten(self, node: Node) -> Node | TensorId | None:
        self.compare()
        choice = self.script[node.output % len(self.script)]
        if choice == 0 or node.kind is not Kind.BINARY:
            return None
        if choice == 1:
            return node.inputs[0]
        if choice == 2:
            return Node(Kind.ELTWISE, (node.inputs[1],), node.output, linear(2.0))
        inner = self.graph.add(Kind.ELTWISE, (node.inputs[0],), SHAPE, linear(3.0))
        return Node(Kind.ELTWISE, (inner,), node.output, linear(2.0))

    def measure(self) -> tuple[int, ...]:
        return (sum(node.kind is Kind.BINARY for node in self.rewriter.nodes()),)

    def compare(self) -> None:
        nodes = list(self.rewriter.nodes())
        at_hand = Counter(self.graph.outputs)
        for node in nodes:
            at_hand.update(node.operands)
        for node in nodes:
            missing = self.rewriter.reads(node.output) - at_hand[node.output]
            assert missing in (0, 1, 2), "the node at hand is in neither list and reads two tensors"


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=12),
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
    st.lists(st.integers(0, 30), min_size=1, max_size=3),
)
def test_counts_of_readers_are_exact_at_every_step(
    pairs: list[tuple[int, int]], script: list[int], results: list[int]
) -> None:
    graph = Graph("any")
    graph.inputs = [graph.tensor(SHAPE, source=0)]
    for left, right in pairs:
        known = len(graph.tensors)
        graph.add(Kind.BINARY, (left % known, right % known), SHAPE, Arithmetic("binary_add"))
    graph.outputs = [result % len(graph.tensors) for result in results]
    graph.remove_dead_nodes()

    rewrite = type("Scripted", (Watch,), {"script": tuple(script)})
    rewriter = Rewriter(graph)
    rewriter.run(rewrite(rewriter))
    reads = Counter(graph.outputs)
    for node in graph.nodes:
        reads.update(node.operands)
    made = {node.output for node in graph.nodes}
    assert all(reads[tensor] == rewriter.reads(tensor) for tensor in made)
    assert all(reads[tensor] for tensor in made), "a dead node was left"
    assert all(t in made or t in graph.inputs for node in graph.nodes for t in node.operands)
