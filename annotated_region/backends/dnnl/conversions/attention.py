"""Attention as one op; the heads are found between the other axes, where they stay."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import Kind, TensorId
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.parameters import Attention, Mask
from annotated_region.backends.dnnl.views import align_rank, permute
from annotated_region.targets.op_view import OpView

__all__ = ["CAUSAL", "CONVERTERS"]

CAUSAL = {None: 0, "": 0, "TopLeft": 1, "BottomRight": 2}
"""Which columns a row may look at; the values are the runtime's."""

HEADS_FIRST = (0, 2, 1, 3)


def _attention(importer: Importer, op: OpView) -> TensorId:
    """From (batch, position, head, depth) to heads first and back, which are views."""
    graph = importer.graph
    queries, keys, values = (importer.operand(argument) for argument in op.args[:3])
    depth = graph.shape(queries)[-1]
    given = op.attrs["scale"]
    assert isinstance(depth, int)
    scale = depth**-0.5 if given is None else float(given)
    inputs = [
        permute(graph, queries, HEADS_FIRST),
        permute(graph, keys, (0, 2, 3, 1)),
        permute(graph, values, HEADS_FIRST),
    ]
    if len(op.args) > 3:
        inputs.append(align_rank(graph, importer.operand(op.args[3]), 4))
    mask = Mask.ADDED if len(op.args) > 3 else Mask.NONE
    batch, rows, heads, width = importer.shape(op.call)
    parameters = Attention(scale, mask, causal=CAUSAL[op.attrs["causal_mask"]])
    result = graph.add(Kind.ATTENTION, inputs, (batch, heads, rows, width), parameters)
    return permute(graph, result, HEADS_FIRST)


CONVERTERS: dict[str, Convert] = {
    "relax.nn.attention": _attention,
    "relax.nn.attention_bias": _attention,
}
