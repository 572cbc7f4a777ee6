"""Views sink below arithmetic, each at most once below each node, whatever the operands are."""

from __future__ import annotations

import itertools

import pytest
from tvm import tirx

from annotated_region.backends.dnnl.graph import Graph, Kind, same_dim
from annotated_region.backends.dnnl.parameters import Arithmetic, Curve, Permutation
from annotated_region.backends.dnnl.rewriting.pipeline import FUSION, NORMALIZATION, rewrite
from annotated_region.backends.dnnl.rewriting.rewriter import Rewriter
from annotated_region.backends.dnnl.rewriting.sinking import SinkViews
from annotated_region.testing.dnnl_verifier import verify

SUM = Arithmetic("binary_add")
RELU = Curve("eltwise_relu")
SWAP = Permutation((0, 2, 1, 3))
BEFORE, AFTER = (1, 3, 4, 4), (1, 4, 3, 4)


def operand(graph: Graph, kind: str) -> int:
    """A tensor of extents `AFTER`, made in one of several ways."""
    position = len(graph.inputs)
    is_direct = kind in ("input", "relu", "product")
    value = graph.tensor(AFTER if is_direct else BEFORE, source=position)
    graph.inputs.append(value)
    shape = graph.shape(value)
    if "relu" in kind:
        value = graph.add(Kind.ELTWISE, (value,), shape, RELU)
    if "product" in kind:
        weight = graph.tensor((1, 1, 4, 4), source=f"weight_{position}")
        value = graph.add(Kind.MATMUL, (value, weight), shape)
    if "permuted" in kind:
        value = graph.add(Kind.PERMUTE, (value,), AFTER, SWAP)
    if "reshaped" in kind:
        value = graph.add(Kind.RESHAPE, (value,), AFTER)
    return value


KINDS = (
    "input",
    "relu",
    "product",
    "permuted input",
    "permuted relu",
    "permuted product",
    "reshaped relu",
    "reshaped product",
)


@pytest.mark.parametrize(("left", "right"), list(itertools.product(KINDS, KINDS)))
def test_sinking_ends_for_every_pair_of_operands(left: str, right: str) -> None:
    """The pair of relu and permuted relu once went on for ever."""
    graph = Graph("pair")
    total = graph.add(Kind.BINARY, (operand(graph, left), operand(graph, right)), AFTER, SUM)
    graph.outputs = [graph.add(Kind.ELTWISE, (total,), AFTER, RELU)]
    rewriter = Rewriter(graph)
    steps = rewriter.run(SinkViews(rewriter))
    assert steps <= 4
    verify(graph, "the test")
    assert steps == 0 or graph.nodes[-1].kind in (Kind.PERMUTE, Kind.RESHAPE)


@pytest.mark.parametrize("other", KINDS)
def test_a_product_takes_in_the_sum_behind_its_view(other: str) -> None:
    graph = Graph("fused")
    total = graph.add(Kind.BINARY, (operand(graph, "permuted product"), operand(graph, other)), AFTER, SUM)
    graph.outputs = [graph.add(Kind.ELTWISE, (total,), AFTER, RELU)]
    rewrite(graph, (*NORMALIZATION, *FUSION))
    products = [node for node in graph.nodes if node.kind is Kind.MATMUL]
    assert [post.algorithm for post in products[-1].post_ops] == ["binary_add", "eltwise_relu"]


def test_extents_are_the_same_however_they_are_written() -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    assert same_dim(n + 1, 1 + n)
    assert same_dim(n + n, n * 2)
    assert same_dim(n * m, m * n)
    assert not same_dim(n, m)
    assert not same_dim(n, 3)
    assert not same_dim(n // 2 * 2, n)
