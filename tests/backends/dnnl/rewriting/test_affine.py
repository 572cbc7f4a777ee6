"""Per-channel arithmetic by constants: what becomes a batch normalisation, and what must not."""

from __future__ import annotations

import pytest
from tvm import tirx

from annotated_region.backends.dnnl.graph import Graph, Kind, same_dim
from annotated_region.backends.dnnl.parameters import Arithmetic, BatchNorm
from annotated_region.backends.dnnl.rewriting.affine import GatherAffineFunctions
from annotated_region.backends.dnnl.rewriting.rewriter import Rewriter
from annotated_region.testing.dnnl_verifier import verify

VECTOR = (1, 3, 1)


def kinds(
    algorithms: list[str], shape: tuple[int, ...] = (2, 3, 4), *, constant_first: bool = False
) -> list[Kind]:
    """The nodes that a chain of arithmetic with constant vectors becomes, without what is constant."""
    graph = Graph("chain")
    value = graph.tensor(shape, source=0)
    graph.inputs = [value]
    result = tuple(max(extents) for extents in zip(shape, VECTOR, strict=True))
    for position, algorithm in enumerate(algorithms):
        constant = graph.tensor(VECTOR, source=f"vector_{position}")
        operands = (constant, value) if constant_first else (value, constant)
        value = graph.add(Kind.BINARY, operands, result, Arithmetic(f"binary_{algorithm}"))
    graph.outputs = [value]
    rewriter = Rewriter(graph)
    rewrite = GatherAffineFunctions(rewriter)
    rewriter.run(rewrite)
    verify(graph, "the test")
    known = rewrite.constants()
    return [node.kind for node in graph.nodes if node.output not in known]


@pytest.mark.parametrize("algorithms", [["mul"], ["mul", "add"], ["mul", "sub", "mul", "add"]])
def test_products_and_sums_are_one_normalisation(algorithms: list[str]) -> None:
    assert kinds(algorithms) == [Kind.BATCH_NORM]


def test_a_quotient_stays_a_quotient() -> None:
    """x / 41 can be a whole number where x * (1 / 41) is not."""
    assert kinds(["div"]) == [Kind.BINARY]
    assert kinds(["mul", "div"]) == [Kind.BATCH_NORM, Kind.BINARY]


def test_a_sum_alone_stays_a_sum() -> None:
    assert kinds(["add"]) == [Kind.BINARY]


def test_a_constant_that_repeats_the_data_is_left_alone() -> None:
    """The normalisation would have the extents of the data and not those of the result."""
    assert kinds(["mul"], shape=(1, 1, 1), constant_first=True) == [Kind.BINARY]


def test_a_normalisation_by_inputs_is_left_alone() -> None:
    """Its shift is not known before the call, so a constant cannot be added to it once for all calls."""
    graph = Graph("normalised")
    graph.inputs = [
        graph.tensor((2, 3, 4), source=0),
        *(graph.tensor((3,), source=each) for each in range(1, 5)),
    ]
    norm = graph.add(Kind.BATCH_NORM, graph.inputs, (2, 3, 4), BatchNorm(1e-5))
    constant = graph.tensor(VECTOR, source="vector")
    graph.outputs = [graph.add(Kind.BINARY, (norm, constant), (2, 3, 4), Arithmetic("binary_add"))]
    rewriter = Rewriter(graph)
    assert rewriter.run(GatherAffineFunctions(rewriter)) == 0


def test_extents_are_the_same_however_they_are_written() -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    assert same_dim(n + 1, 1 + n)
    assert same_dim(n + n, n * 2)
    assert same_dim(n * m, m * n)
    assert not same_dim(n, m)
    assert not same_dim(n, 3)
    assert not same_dim(n // 2 * 2, n)
