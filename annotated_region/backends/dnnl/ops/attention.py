"""Attention as one op; heads stay between the other axes, as in the operands."""

from __future__ import annotations

import math

from annotated_region.backends.dnnl.graph import Kind, TensorId
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.ops.checks import Problems
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import Attention, Causal, Mask
from annotated_region.backends.dnnl.views import align_rank, permute
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

CAUSAL = {
    None: Causal.NONE,
    "": Causal.NONE,
    "TopLeft": Causal.FROM_UPPER_LEFT,
    "BottomRight": Causal.TO_LOWER_RIGHT,
}
HEADS_FIRST = (0, 2, 1, 3)
OPERANDS = ("the queries", "the keys", "the values", "the bias")


def _problems(op: OpView) -> Problems:
    if op.attrs["window_size"] is not None:
        yield "it has a sliding window"
    if op.attrs["causal_mask"] not in CAUSAL:
        yield f"the mask {op.attrs['causal_mask']} is unknown"
    for index in (0, 2):
        if not isinstance((extents_of(op.arg_types[index]) or ())[-1], int):
            yield f"the depth of {OPERANDS[index]} is symbolic"
    scale = op.attrs["scale"]
    if scale is not None and not math.isfinite(scale):
        yield "the scale is not finite"


@converts("relax.nn.attention", "relax.nn.attention_bias", operands=OPERANDS, unless=_problems)
def _attention(call: OpConversion) -> TensorId:
    """Converts the layout (batch, position, head, depth) to heads first and back, as views."""
    graph = call.graph
    queries, keys, values, *bias = call.operands()
    depth = graph.shape(queries)[-1]
    given = call.attrs["scale"]
    assert isinstance(depth, int)
    scale = depth**-0.5 if given is None else float(given)
    inputs = [
        permute(graph, queries, HEADS_FIRST),
        permute(graph, keys, (0, 2, 3, 1)),
        permute(graph, values, HEADS_FIRST),
        *(align_rank(graph, tensor, 4) for tensor in bias),
    ]
    batch, rows, heads, width = call.shape
    mask = Mask.ADDED if bias else Mask.NONE
    parameters = Attention(scale, mask, causal=CAUSAL[call.attrs["causal_mask"]])
    result = graph.add(Kind.ATTENTION, inputs, (batch, heads, rows, width), parameters)
    return permute(graph, result, HEADS_FIRST)
