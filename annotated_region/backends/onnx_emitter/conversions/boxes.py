"""Pooling of boxes in images; a box is a row with the index of its image and two corners."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []

ALIGN_OPSET = 16


@converter("relax.vision.roi_align")
def _roi_align(emission: Emission, op: OpView) -> str:
    """TVM's ``aligned`` allows boxes smaller than a pixel; the corners are used as they are, without a shift.

    ONNX's ``half_pixel`` also shifts by half a pixel, so the corners are shifted back first.
    """
    attrs, scale = op.attrs, float(op.attrs["spatial_scale"])
    require(emission.opset >= ALIGN_OPSET, f"RoiAlign of opset {emission.opset} has no coordinate mode")
    require(attrs["layout"] == "NCHW", f"the layout {attrs['layout']}")
    mode = attrs["mode"] if isinstance(attrs["mode"], str) else str(attrs["mode"])
    require(mode == "avg", f"pooling mode {mode}")
    data, rows = (emission.operand(argument) for argument in op.args)
    image = emission.node("Gather", rows, emission.number(0, "int64"), axis=1)
    corners = emission.node("Slice", rows, *(emission.ints([value]) for value in (1, 5, 1)))
    if attrs["aligned"]:
        corners = emission.node("Add", corners, emission.like(0.5 / scale, corners))
    height, width = attrs["pooled_size"]
    return emission.node(
        "RoiAlign",
        data,
        corners,
        emission.cast(image, "int64"),
        coordinate_transformation_mode="half_pixel" if attrs["aligned"] else "output_half_pixel",
        mode="avg",
        output_height=int(height),
        output_width=int(width),
        sampling_ratio=max(int(attrs["sample_ratio"]), 0),
        spatial_scale=scale,
    )
