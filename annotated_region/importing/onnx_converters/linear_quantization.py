"""`QuantizeLinear` and `DequantizeLinear`: TVM's conversion, after a check of the scale."""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_converters.node import OnnxNode
from annotated_region.importing.onnx_converters.registry import converts

__all__: list[str] = []


@converts("", "QuantizeLinear", (2, 3), "axis block_size output_dtype precision saturate")
@converts("", "DequantizeLinear", (2, 3), "axis block_size output_dtype")
def _with_finite_scale(node: OnnxNode) -> relax.Expr:
    """Calibration over a masked tensor makes scales of infinity, with which every number is NaN.

    ONNX leaves the conversion of NaN to integers undefined, so that each runtime computes something else.
    """
    scale = node.constant(node.tensor(1))
    is_finite = scale is None or bool(np.isfinite(scale.astype("float64")).all())
    advice = "exclude the tensor from quantization, or calibrate it anew"
    node.require(is_finite, f"has a scale that is not finite; {advice}")
    return node.by_tvm()
