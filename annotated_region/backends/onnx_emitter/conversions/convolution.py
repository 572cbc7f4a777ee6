"""Convolutions and their transposes, in every layout that is a permutation of ONNX's."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.conversions.integer_convolution import operands_in_bytes
from annotated_region.backends.onnx_emitter.conversions.layouts import SPATIAL, relayout
from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.backends.onnx_emitter.registry import converter
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
    return relayout(emission, result, "NC" + spatial, attrs["out_layout"] or attrs["data_layout"])
