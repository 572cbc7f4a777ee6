"""Shapes that the user gives to inputs; in place of an extent, None leaves it as the model has it.

TVM's importer takes whole shapes, so that a model whose sequence must have a known length would lose its
symbolic batch, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from annotated_region.errors import UsageError
from annotated_region.importing.onnx_models.functions import OnnxGraph

if TYPE_CHECKING:
    import onnx

__all__ = ["with_given_shapes"]


def with_given_shapes(
    graph: OnnxGraph, shapes: Mapping[str, object], model: str
) -> tuple[OnnxGraph, dict[str, object]]:
    """The graph with the shapes that leave extents as they are, and the other shapes, for TVM's importer.

    Parameters
    ----------
    graph
        The graph; its unknown extents have names.
    shapes
        The shapes by the names of inputs.
    model
        The name of the model in messages.

    Raises
    ------
    UsageError
        A shape leaves extents as they are, and is of another rank than the input.
    """
    partial = {
        name: shape
        for name, shape in shapes.items()
        if isinstance(shape, Sequence) and any(each is None for each in shape)
    }
    inputs = [
        _with_extents(value, partial[value.name], model) if value.name in partial else value
        for value in graph.input
    ]
    rest = {name: shape for name, shape in shapes.items() if name not in partial}
    return replace(graph, input=inputs), rest


def _with_extents(value: onnx.ValueInfoProto, shape: Sequence[int | None], model: str) -> onnx.ValueInfoProto:
    changed = type(value)()
    changed.CopyFrom(value)
    extents = changed.type.tensor_type.shape.dim
    if len(extents) != len(shape):
        raise UsageError(
            f"shape_dict gives the input {value.name!r} of {model} {len(shape)} extents; "
            f"it has {len(extents)}, of which None leaves one as it is"
        )
    for extent, number in zip(extents, shape, strict=True):
        if number is not None:
            extent.dim_value = number
    return changed
