"""Detection ops that TVM's importer converts wrongly.

TVM 0.27.0 replaces a non-constant number of boxes by 0 and an omitted overlap by 0.5; it finds nothing for an
overlap of 0, which is replaced here by the smallest positive number; it drops and confuses negative scores;
its type of the result has a row for each box, where there are only those of the selected ones; it shifts the
boxes of `RoiAlign` by half a pixel before it scales them; and for its maximum mode it takes the maximum of
interpolated values instead of the maximum of the four weighted values.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax, tirx

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.shared_ops.box_pooling import BoxPooling
from annotated_region.tvm_adapter.types import expect

__all__: list[str] = []

_LEAST = float(np.finfo("float32").tiny)
_SHIFTED_SINCE = 16  # the operator set in which `RoiAlign` got its coordinates


@converts("", "NonMaxSuppression", (2, 5), "center_point_box")
def _suppression(node: OnnxNode) -> relax.Expr:
    """Limits must be constants; an omitted number of boxes is 0, and so is an omitted overlap.

    A score threshold of minus infinity, as TensorFlow writes it, is none.
    """
    most = _limit(node, 2, "max_output_boxes_per_class", "int64", 0)
    overlap = _limit(node, 3, "iou_threshold", "float32", 0.0)
    least = _limit(node, 4, "score_threshold", "float32", 0.0)
    is_ranked = not node.has(4) or least == -math.inf
    least = max(least, 0.0) if is_ranked else least
    node.require(least >= 0, f"has a 'score_threshold' of {least}, which is not supported")
    boxes, scores = node.tensor(0, ("float32",), (3,)), node.tensor(1, ("float32",), (3,))
    limits = (_most_boxes(node, int(most), boxes), max(float(overlap), _LEAST), float(least))
    types = ("int64", "float32", "float32")
    inputs = [boxes, _ranked(node, scores) if is_ranked else scores]
    inputs += [relax.const(limit, dtype) for limit, dtype in zip(limits, types, strict=True)]
    attributes = {"center_point_box": node.integer("center_point_box", 0, 0, 1)}
    return _counted(node, node.standard("NonMaxSuppression", inputs, attributes))


def _most_boxes(node: OnnxNode, most: int, boxes: relax.Expr) -> int:
    """The limit, for which TVM reserves memory; exporters write the largest integer where there is none."""
    count = node.shape(boxes)[1]
    if isinstance(count, int):
        return min(most, count)
    node.require(
        most < 2**31, "has no limit of 'max_output_boxes_per_class' for a symbolic number of boxes; give one"
    )
    return most


def _counted(node: OnnxNode, selected: relax.Expr) -> relax.Expr:
    """The selected boxes, as many as there are; TVM's type of its op says that all boxes are selected.

    The slice changes nothing but the type, and runs on the host, as no target claims it.
    """
    field = node.builder.lookup_binding(expect(relax.Var, selected))
    total = node.emit(relax.TupleGetItem(expect(relax.TupleGetItem, field).tuple_value, 1))
    end = node.emit(relax.op.concat([total, relax.const([3], "int64")], 0))
    begin, step = (relax.const([number, number], "int64") for number in (0, 1))
    rows = node.emit(relax.op.dynamic_strided_slice(selected, begin, end, step))
    return node.builder.match_cast(rows, relax.TensorType([tirx.Var("selected", "int64"), 3], "int64"))


def _limit(node: OnnxNode, position: int, name: str, dtype: str, default: float) -> float:
    if not node.has(position):
        return default
    numbers = node.constant(node.tensor(position, (dtype,), (0, 1)))
    if numbers is None or numbers.size != 1:
        raise node.declined(f"has the input {name!r}, which is not constant")
    return float(numbers.item())


def _ranked(node: OnnxNode, scores: relax.Expr) -> relax.Expr:
    """The ranks of the scores as positive numbers, from 1 for the lowest, so that none is dropped.

    Of equal scores the first one ranks highest, because TVM's sort is stable.
    """
    order = node.emit(relax.op.argsort(scores, -1, descending=True, dtype="int64"))
    places = node.emit(relax.op.argsort(order, -1, dtype="int64"))
    count = node.emit(relax.op.shape_to_tensor(relax.ShapeExpr([node.shape(scores)[-1]])))
    return node.emit(relax.op.astype(relax.op.subtract(count, places), "float32"))


@converts(
    "",
    "RoiAlign",
    (3, 3),
    "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale",
)
def _aligned_regions(node: OnnxNode) -> relax.Expr:
    mode = node.text("mode", "avg")
    node.require(mode == "avg", f"has the attribute 'mode' of {mode!r}, which is not supported")
    default = "half_pixel" if node.opset >= _SHIFTED_SINCE else "output_half_pixel"
    place = node.text("coordinate_transformation_mode", default)
    known = ("half_pixel", "output_half_pixel")
    node.require(place in known, f"has a 'coordinate_transformation_mode' of {place!r}, which is unknown")
    scale = node.number("spatial_scale", 1.0)
    node.require(scale != 0, "has a 'spatial_scale' of 0, which leaves no box")
    image, boxes = node.tensor(0, FLOATS, (4,)), node.tensor(1, FLOATS, (2,))
    numbers = node.emit(relax.op.expand_dims(node.tensor(2, ("int64",), (1,)), 1))
    rows = node.emit(relax.op.concat([node.emit(relax.op.astype(numbers, dtype_of(boxes))), boxes], 1))
    size = (node.integer("output_height", 1, 1), node.integer("output_width", 1, 1))
    pooling = BoxPooling(size, scale, node.integer("sampling_ratio", 0, 0), place == "half_pixel")
    return pooling.of(image, rows, node.emit)
