"""Convolutions and their transposes, in every layout that is a permutation of ONNX's."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.conversions.integer_convolution import operands_in_bytes
from annotated_region.backends.onnx_emitter.conversions.layouts import SPATIAL, relayout
from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []


@converter("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
def _convolution(emission: Emission, op: OpView) -> str:
    return _converted(emission, op, "Conv", "OI", {})


@converter("relax.nn.conv1d_transpose", "relax.nn.conv2d_transpose", "relax.nn.conv3d_transpose")
def _transposed(emission: Emission, op: OpView) -> str:
    padding = {"output_padding": list(op.attrs["output_padding"])}
    return _converted(emission, op, "ConvTranspose", "IO", padding)


def _converted(emission: Emission, op: OpView, kind: str, channels: str, more: dict[str, list[int]]) -> str:
    attrs, spatial = op.attrs, SPATIAL[len(op.attrs["strides"])]
    dialect = emission.graph.dialect
    require(
        kind not in dialect.fails_without_pixels or not _makes_pixels(op),
        f"an image without pixels has a result here, which {dialect.target} does not compute",
    )
    data, kernel = (emission.operand(argument) for argument in op.args)
    require(emission.dtype(data) == str(op.out_tensor.dtype), f"the result has type {op.out_tensor.dtype}")
    data = relayout(emission, data, attrs["data_layout"], "NC" + spatial)
    kernel = relayout(emission, kernel, attrs["kernel_layout"], channels + spatial)
    operands: tuple[str, ...] = (data, kernel)
    if kind == "Conv" and emission.dtype(data) == "int32":
        kind, operands = "ConvInteger", operands_in_bytes(emission, data, kernel)
    result = emission.node(
        kind,
        *operands,
        strides=list(attrs["strides"]),
        pads=list(attrs["padding"]),
        dilations=list(attrs["dilation"]),
        group=attrs["groups"],
        **more,
    )
    if kind == "Conv" and _may_make_a_single_column(op):
        emission.graph.single_columns.add(result)
    if kind == "Conv" and _may_make_a_pixel(op):
        emission.graph.single_pixels.add(result)
    return relayout(emission, result, "NC" + spatial, attrs["out_layout"] or attrs["data_layout"])


def _may_make_a_single_column(op: OpView) -> bool:
    """Whether a convolution with strides between columns may make a single column."""
    attrs = op.attrs
    if len(attrs["strides"]) == 1 or attrs["strides"][-1] == 1:
        return False
    width = extents_of(op.out_tensor)[(attrs["out_layout"] or attrs["data_layout"]).index("W")]
    return width == 1 if isinstance(width, int) else bounds_of(width, least=1)[0] <= 1


def _may_make_a_pixel(op: OpView) -> bool:
    """Whether a convolution of symbolic extents may make a single pixel of a single image."""
    attrs, extents = op.attrs, extents_of(op.out_tensor)
    channels = (attrs["out_layout"] or attrs["data_layout"]).index("C")
    others = [each for axis, each in enumerate(extents) if axis != channels]
    may_be_one = all(
        each == 1 if isinstance(each, int) else bounds_of(each, least=1)[0] <= 1 for each in others
    )
    is_symbolic = not all(isinstance(each, int) for each in others)
    return is_symbolic and may_be_one


def _makes_pixels(op: OpView) -> bool:
    """Whether a call may give an image without pixels, whose result has some."""
    attrs = op.attrs
    image, kernel = (
        [extents_of(type_)[attrs[layout].index(letter)] for letter in SPATIAL[len(attrs["strides"])]]
        for type_, layout in zip(op.arg_types, ("data_layout", "kernel_layout"), strict=True)
    )
    return any(
        _may_be_empty(extent) and _extent_of_nothing(op, axis, kernel[axis]) > 0
        for axis, extent in enumerate(image)
    )


def _may_be_empty(extent: Dim) -> bool:
    return not isinstance(extent, int) and bounds_of(extent, least=0)[0] <= 0


def _extent_of_nothing(op: OpView, axis: int, kernel: Dim) -> int:
    """The extent of the result along an axis without pixels; 1 if the kernel's extent is not known."""
    if not isinstance(kernel, int):
        return 1
    attrs = op.attrs
    stride, reach = attrs["strides"][axis], (kernel - 1) * attrs["dilation"][axis] + 1
    padding = attrs["padding"][axis] + attrs["padding"][axis + len(attrs["strides"])]
    if "output_padding" in attrs:
        return int(reach - padding - stride + attrs["output_padding"][axis])
    return int((padding - reach) // stride + 1)
