"""The order of the passes over the graph of a region.

| pass | reason for its position |
|---|---|
| `JoinLinearFunctions` | patterns expect the factor and the term in one node |
| `RebuildLocalResponse`, `RecognizeGates`, `RecognizeRotation` | before `SinkViews` moves their parts |
| `LiftStacks` | `RecognizeAttention` expects batches and heads as separate axes |
| `GuardSoftmax`, `RecognizeAttention`, `ReadKeysInParts` | before views sink into their parts |
| `JoinLinearFunctions` | composes the factors that remain after attention |
| `SinkViews` | makes arithmetic adjacent to its product, across views |
| `MakeDynamicProducts`, `SinkViews` | makes products of bytes adjacent to their users |
| `LowerDequantization`, `TabulateFunctions` | functions of bytes must have no views inside |
| `MakeInt8Products` | `Fuse` must see int8 products |
| `QuantizeParts`, `RoundInChains` | chains of int8 products must not be cut by concatenations and roundings |
| `RequantizeChannels` | `Fuse` would merge what it looks for |
| `Fuse` | |
| `ReadInt8Residuals`, `StoreInt8Results`, `ShortenChains` | need the fused chains |
| `JoinProducts` | needs to know which products have no post-op but a bias |
"""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.backends.dnnl.graph import Graph
from annotated_region.backends.dnnl.rewriting.attention import GuardSoftmax, RecognizeAttention
from annotated_region.backends.dnnl.rewriting.attention_parts import ReadKeysInParts
from annotated_region.backends.dnnl.rewriting.dynamic_products import MakeDynamicProducts
from annotated_region.backends.dnnl.rewriting.fusion import Fuse
from annotated_region.backends.dnnl.rewriting.gates import RecognizeGates
from annotated_region.backends.dnnl.rewriting.int8_chains import ShortenChains
from annotated_region.backends.dnnl.rewriting.int8_channels import RequantizeChannels
from annotated_region.backends.dnnl.rewriting.int8_products import LowerDequantization, MakeInt8Products
from annotated_region.backends.dnnl.rewriting.int8_results import (
    QuantizeParts,
    ReadInt8Residuals,
    RoundInChains,
    StoreInt8Results,
)
from annotated_region.backends.dnnl.rewriting.int8_tables import TabulateFunctions
from annotated_region.backends.dnnl.rewriting.joining import JoinProducts
from annotated_region.backends.dnnl.rewriting.linear import JoinLinearFunctions
from annotated_region.backends.dnnl.rewriting.lrn import RebuildLocalResponse
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite, Rewriter, verified
from annotated_region.backends.dnnl.rewriting.rotation import RecognizeRotation
from annotated_region.backends.dnnl.rewriting.sinking import SinkViews
from annotated_region.backends.dnnl.rewriting.stacks import LiftStacks

__all__ = ["DYNAMIC", "FUSION", "INT8", "JOINS", "NORMALIZATION", "rewrite"]

NORMALIZATION: tuple[type[Rewrite], ...] = (
    JoinLinearFunctions,
    RebuildLocalResponse,
    RecognizeGates,
    RecognizeRotation,
    LiftStacks,
    GuardSoftmax,
    RecognizeAttention,
    ReadKeysInParts,
    JoinLinearFunctions,
    SinkViews,
)
DYNAMIC: tuple[type[Rewrite], ...] = (MakeDynamicProducts, SinkViews)
INT8: tuple[type[Rewrite], ...] = (
    LowerDequantization,
    TabulateFunctions,
    MakeInt8Products,
    QuantizeParts,
    RoundInChains,
    RequantizeChannels,
)
FUSION: tuple[type[Rewrite], ...] = (Fuse, ReadInt8Residuals, StoreInt8Results, ShortenChains)
JOINS: tuple[type[Rewrite], ...] = (JoinProducts,)


def rewrite(graph: Graph, passes: Sequence[type[Rewrite]]) -> None:
    """Run passes over a graph, in their order.

    Parameters
    ----------
    graph
        The graph; it is modified in place.
    passes
        Some of `NORMALIZATION`, `DYNAMIC`, `INT8`, `FUSION` and `JOINS`.

    Raises
    ------
    CodegenError
        A pass does not terminate within its step limit.
    """
    graph.remove_dead_nodes()
    verified(graph, "the importer")
    for each in passes:
        rewriter = Rewriter(graph)
        rewriter.run(each(rewriter))
        verified(graph, each.__name__)
    graph.remove_dead_nodes()
    graph.compact()
