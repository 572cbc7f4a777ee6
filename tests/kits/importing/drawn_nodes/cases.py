"""The drawn models as cases, with what ONNX Runtime answers without its optimizer."""

from __future__ import annotations

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as states

from kits.importing.drawn_nodes import contributed, elementwise, further, moving, sums, windows
from kits.importing.drawn_nodes.draw import NodeDraw
from kits.importing.node_cases import NodeCase

__all__ = ["FAMILIES", "drawn_case"]

FAMILIES = {
    name: family
    for room in (elementwise, moving, windows, sums, further, contributed)
    for name, family in room.FAMILIES.items()
}
OPSETS = (9, 11, 13, 15, 17, 18, 20, 21, 23)
REFUSALS = (
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.NotImplemented,
    states.RuntimeException,
)


def drawn_case(family: str, seed: int) -> NodeCase | None:
    """The model of a seed; None if ONNX Runtime refuses it: versions, types and attributes are by lot."""
    draw = NodeDraw(seed, OPSETS[seed % len(OPSETS)])
    FAMILIES[family](draw)
    model = draw.model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        expected = session.run(None, {port.name: draw.feeds[port.name] for port in session.get_inputs()})
    except REFUSALS:
        return None
    given = tuple(draw.feeds[port.name] for port in model.graph.input)
    return NodeCase(f"{family} {seed}", model, ((given, tuple(expected)),))
