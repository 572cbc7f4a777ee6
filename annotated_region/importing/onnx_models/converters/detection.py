"""`RoiAlign`, which TVM's importer converts wrongly.

TVM 0.27.0 shifts the boxes by half a pixel before it scales them; and for the maximum mode it takes the
maximum of interpolated values instead of the maximum of the four weighted values.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.shared_ops.box_pooling import BoxPooling

__all__: list[str] = []

_SHIFTED_SINCE = 16  # the operator set in which `RoiAlign` got its coordinates


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
