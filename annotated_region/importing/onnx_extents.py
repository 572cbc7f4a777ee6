"""Names for the unknown extents of a model's inputs.

TVM 0.27's importer gives all extents without a name one variable, so that images of unknown height and width
would have to be square; and it takes the -1 that older exporters write for a number.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from annotated_region.importing.onnx_functions import OnnxGraph

if TYPE_CHECKING:
    import onnx

__all__ = ["with_named_extents"]


def with_named_extents(graph: OnnxGraph) -> OnnxGraph:
    """The graph, with a name for each unknown extent of an input: that of the input, and the axis."""
    taken = {extent.dim_param for value in graph.input for extent in _extents(value)}
    return replace(graph, input=[_named(value, taken) for value in graph.input])


def _named(value: onnx.ValueInfoProto, taken: set[str]) -> onnx.ValueInfoProto:
    if all(extent.dim_param or extent.dim_value > 0 for extent in _extents(value)):
        return value
    named = type(value)()
    named.CopyFrom(value)
    for axis, extent in enumerate(_extents(named)):
        if not extent.dim_param and (extent.dim_value < 0 or not extent.HasField("dim_value")):
            extent.dim_param = _new_name(f"{value.name}_{axis}", taken)
    return named


def _new_name(wanted: str, taken: set[str]) -> str:
    """A name that is not taken, and that TVM does not read as a formula, such as ``x/1``."""
    name = re.sub(r"\W", "_", wanted)
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _extents(value: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension]:
    return list(value.type.tensor_type.shape.dim)
