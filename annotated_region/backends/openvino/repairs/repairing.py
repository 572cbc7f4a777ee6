"""Applies the repairs to the graph of a region, and writes what has a kernel as its operator.

The maximum of nothing but -inf is the lowest finite number; minima, and windows, alike. See `lowest_numbers`.
"""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.copies import copy_output
from annotated_region.backends.onnx_emitter.graph import Graph
from annotated_region.backends.onnx_emitter.lowest_numbers import with_infinities
from annotated_region.backends.openvino.local_response import write_local_responses
from annotated_region.backends.openvino.repairs.channel_summands import SUMMAND_REPAIRS
from annotated_region.backends.openvino.repairs.convolutions import CONVOLUTION_REPAIRS
from annotated_region.backends.openvino.repairs.floats import REPAIRS, is_shared_view
from annotated_region.backends.openvino.repairs.joined_bytes import JOIN_REPAIRS, without_signs
from annotated_region.backends.openvino.repairs.padded_bytes import PADDING_REPAIRS
from annotated_region.backends.openvino.repairs.quantizations import QUANTIZATION_REPAIRS
from annotated_region.backends.openvino.repairs.quantized import FACTOR_REPAIRS, SCALE_REPAIRS
from annotated_region.backends.openvino.repairs.sequences import give_sequences_their_own
from annotated_region.backends.openvino.repairs.single_pixels import PIXEL_REPAIRS
from annotated_region.backends.openvino.repairs.sources import QUANTIZED, ValueSources
from annotated_region.backends.openvino.repairs.tiles import (
    BYTE_TILE_REPAIRS,
    ROUNDED_TILE_REPAIRS,
    TILE_REPAIRS,
)

__all__ = ["repair"]


def repair(graph: Graph, precision: str = "f32") -> None:
    """Insert copies and write operators otherwise where OpenVINO needs it; the graph computes the same.

    Parameters
    ----------
    graph
        The graph of a region.
    precision
        That of its products; see `CompileSettings`.
    """
    write_local_responses(graph)
    give_sequences_their_own(graph)
    with_infinities(graph)
    is_quantized = any(each.kind in QUANTIZED for each in graph.operators)
    if is_quantized:
        without_signs(graph)
    sources = ValueSources.of(graph)
    for port in graph.outputs:
        if is_shared_view(graph, sources, port.name):
            copy_output(graph, port, f"{port.name}_view")
    parts = REPAIRS + CONVOLUTION_REPAIRS + TILE_REPAIRS
    if precision != "f32":
        parts += ROUNDED_TILE_REPAIRS
    if is_quantized:
        parts = SCALE_REPAIRS + parts + FACTOR_REPAIRS + QUANTIZATION_REPAIRS + JOIN_REPAIRS + SUMMAND_REPAIRS
        parts += PIXEL_REPAIRS + BYTE_TILE_REPAIRS + PADDING_REPAIRS
    for part in parts:
        graph.operators = [each for operator in graph.operators for each in part(graph, sources, operator)]
        sources = ValueSources.of(graph)  # what was repaired before is read as a copy
