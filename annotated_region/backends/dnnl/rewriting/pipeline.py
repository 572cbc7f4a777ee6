"""The order of the passes over the graph of a region.

| pass | what the later ones need it for |
|---|---|
| `JoinLinearFunctions` | factors and terms stand in one node, where patterns look for them |
| `RebuildLocalResponse`, `RecognizeGates` | before `SinkViews` moves their parts |
| `LiftStacks` | batches and heads are axes of their own, as `RecognizeAttention` wants them |
| `GuardSoftmax`, `RecognizeAttention` | before views sink into their parts |
| `JoinLinearFunctions` | of what the attention has left over |
| `SinkViews` | arithmetic stands next to its product, whatever its axes were called |
| `MakeDynamicProducts`, `SinkViews` | products of bytes stand next to what follows them |
| `LowerDequantization`, `MakeInt8Products` | products are of int8 before `Fuse` |
| `QuantizeParts`, `RoundInChains` | chains of products of int8 are not cut by joins and roundings |
| `Fuse` | |
| `ReadInt8Residuals`, `StoreInt8Results` | the chains are known |
| `JoinProducts` | which products have nothing but a bias behind them is known |
"""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.backends.dnnl.graph import Graph
from annotated_region.backends.dnnl.rewriting.attention import GuardSoftmax, RecognizeAttention
from annotated_region.backends.dnnl.rewriting.dynamic_products import MakeDynamicProducts
from annotated_region.backends.dnnl.rewriting.fusion import Fuse
from annotated_region.backends.dnnl.rewriting.gates import RecognizeGates
from annotated_region.backends.dnnl.rewriting.int8_products import LowerDequantization, MakeInt8Products
from annotated_region.backends.dnnl.rewriting.int8_results import (
    QuantizeParts,
    ReadInt8Residuals,
    RoundInChains,
    StoreInt8Results,
)
from annotated_region.backends.dnnl.rewriting.joining import JoinProducts
from annotated_region.backends.dnnl.rewriting.linear import JoinLinearFunctions
from annotated_region.backends.dnnl.rewriting.lrn import RebuildLocalResponse
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite, Rewriter, verified
from annotated_region.backends.dnnl.rewriting.sinking import SinkViews
from annotated_region.backends.dnnl.rewriting.stacks import LiftStacks

__all__ = ["DYNAMIC", "FUSION", "INT8", "JOINS", "NORMALIZATION", "rewrite"]

NORMALIZATION: tuple[type[Rewrite], ...] = (
    JoinLinearFunctions,
    RebuildLocalResponse,
    RecognizeGates,
    LiftStacks,
    GuardSoftmax,
    RecognizeAttention,
    JoinLinearFunctions,
    SinkViews,
)
DYNAMIC: tuple[type[Rewrite], ...] = (MakeDynamicProducts, SinkViews)
INT8: tuple[type[Rewrite], ...] = (
    LowerDequantization,
    MakeInt8Products,
    QuantizeParts,
    RoundInChains,
)
FUSION: tuple[type[Rewrite], ...] = (Fuse, ReadInt8Residuals, StoreInt8Results)
JOINS: tuple[type[Rewrite], ...] = (JoinProducts,)


def rewrite(graph: Graph, passes: Sequence[type[Rewrite]]) -> None:
    """Run passes over a graph, in their order.

    Parameters
    ----------
    graph
        The graph; it is changed.
    passes
        Some of `NORMALIZATION`, `DYNAMIC`, `INT8`, `FUSION` and `JOINS`.

    Raises
    ------
    CodegenError
        A pass takes more steps than it can need.
    """
    graph.remove_dead_nodes()
    verified(graph, "the importer")
    for each in passes:
        rewriter = Rewriter(graph)
        rewriter.run(each(rewriter))
        verified(graph, each.__name__)
    graph.remove_dead_nodes()
    graph.compact()
