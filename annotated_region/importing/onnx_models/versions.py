"""Converts models of old operator sets to the oldest one that TVM's importer supports.

ONNX's version converter gives a `Resize` of operator set 10, and the earlier `Upsample`, the defaults of
later sets: ``half_pixel`` coordinates. The old coordinates are ``asymmetric``, and the nearest element is the
lower one for an axis that grows; for one that shrinks, ONNX Runtime uses the upper one, which the standard
leaves open.

It also leaves `Hardmax` as it is, which until operator set 13 looked for the largest number of all axes from
one on, as `Softmax` did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from annotated_region.errors import ModelError
from annotated_region.importing.onnx_models.functions import bodies_of, nodes_of
from annotated_region.printable import first_line

if TYPE_CHECKING:
    import onnx

__all__ = ["OLDEST_OPSET", "modern_model"]

OLDEST_OPSET = 13
_COORDINATES_SINCE = 11
_SCAN_SINCE = 9  # the inputs of the one before are others, and the converter leaves them
_FREE_WEIGHTS_SINCE = 4  # the version of the file format, not of the operators


def modern_model(model: onnx.ModelProto, opset: int, name: str) -> onnx.ModelProto:
    """The model in an operator set that TVM's importer supports; the model itself if it already is.

    Parameters
    ----------
    model
        A model with a graph; it is not changed.
    opset
        The operator set of the model; 0 if it has none, because it uses none of its operators.
    name
        The name of the model for errors.

    Raises
    ------
    ModelError
        A `Resize` before operator set 11 has nearest neighbours with scales that are not constant, or of
        which some are above and others below one; it has a `Scan` of operator set 8; or ONNX cannot convert
        the model.
    """
    from onnx import version_converter  # noqa: PLC0415 - an extra

    if not 0 < opset < OLDEST_OPSET:
        return model
    if opset < _SCAN_SINCE and any(each.op_type == "Scan" for each in nodes_of(model.graph.node)):
        raise ModelError(
            f"{name} cannot be imported: it has a Scan of operator set 8, which reads batches of lengths of "
            "their own; export it with a newer one"
        )
    try:
        converted = version_converter.convert_version(_with_free_weights(model), OLDEST_OPSET)
    except (RuntimeError, version_converter.ConvertError) as error:
        raise ModelError(
            f"{name} cannot be imported: it is of operator set {opset}, and ONNX cannot convert it to "
            f"{OLDEST_OPSET}, the oldest that TVM reads; export it with a newer one: {first_line(error)}"
        ) from error
    if opset < _COORDINATES_SINCE:
        _restore_coordinates(converted, name)
    _flatten_hardmax(converted.graph)
    return converted


def _flatten_hardmax(graph: onnx.GraphProto) -> None:
    """Let each `Hardmax` of a graph, and of the graphs in it, look at all axes from its own on."""
    for node in graph.node:
        for body in bodies_of(node):
            _flatten_hardmax(body)
    if any(node.op_type == "Hardmax" and not node.domain for node in graph.node):
        nodes = [part for node in graph.node for part in _over_flat_axes(node)]
        del graph.node[:]
        graph.node.extend(nodes)


def _over_flat_axes(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    from onnx import helper  # noqa: PLC0415 - an extra

    if node.op_type != "Hardmax" or node.domain:
        return [node]
    axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
    (source,), (result,) = node.input, node.output
    shape, rows, largest = (f"{result}_{part}" for part in ("shape", "rows", "largest"))
    return [
        helper.make_node("Shape", [source], [shape]),
        helper.make_node("Flatten", [source], [rows], axis=axis),
        helper.make_node("Hardmax", [rows], [largest], name=node.name, axis=-1),
        helper.make_node("Reshape", [largest, shape], [result]),
    ]


def _with_free_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in a format in which weights need not be inputs, if some of its are not.

    The converter finds no such weights in the format before, though tools have written them.
    """
    inputs = {each.name for each in model.graph.input}
    if model.ir_version >= _FREE_WEIGHTS_SINCE or all(
        each.name in inputs for each in model.graph.initializer
    ):
        return model
    changed = type(model)()
    changed.CopyFrom(model)
    changed.ir_version = _FREE_WEIGHTS_SINCE
    return changed


def _restore_coordinates(model: onnx.ModelProto, name: str) -> None:
    """Set the attributes of `Resize` nodes to their meaning before operator set 11."""
    from onnx import helper  # noqa: PLC0415 - an extra

    resizes = [each for each in nodes_of(model.graph.node) if each.op_type == "Resize" and not each.domain]
    scales = _constants(model, {each.input[2] for each in resizes if len(each.input) > 2})
    for node in resizes:
        kept = [each for each in node.attribute if each.name == "mode"]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
        if not kept or kept[0].s == b"nearest":
            rounding = _rounding(scales.get(node.input[2]), name, node)
            node.attribute.append(helper.make_attribute("nearest_mode", rounding))


def _rounding(scales: np.ndarray | None, name: str, node: onnx.NodeProto) -> str:
    if scales is not None and (scales >= 1).all():
        return "floor"
    if scales is not None and (scales <= 1).all():
        return "ceil"
    raise ModelError(
        f"{name} cannot be imported: node {node.name or node.output[0]!r} (Resize before operator set 11) "
        "has nearest neighbours with scales that are not constant, or on both sides of 1"
    )


def _constants(model: onnx.ModelProto, names: set[str]) -> dict[str, np.ndarray]:
    from onnx import numpy_helper  # noqa: PLC0415 - an extra

    known = {each.name: each for each in model.graph.initializer if each.name in names}
    for node in nodes_of(model.graph.node):
        if node.op_type == "Constant" and node.output[0] in names and node.attribute[0].name == "value":
            known[node.output[0]] = node.attribute[0].t
    return {name: numpy_helper.to_array(tensor) for name, tensor in known.items()}
