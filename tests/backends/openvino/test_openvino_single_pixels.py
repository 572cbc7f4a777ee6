"""What has numbers by channels behind a convolution of bytes to one pixel, of any number of images."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from kits.backends.engine_kit import call
from kits.backends.openvino_kit import needs_openvino
from kits.onnx_nodes import by_onnx_runtime
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED

BEHIND = {
    "a summand": "e = Relu(c) y = Add(e, k)",
    "a subtrahend": "e = Relu(c) y = Sub(e, k)",
    "a minuend": "e = Relu(c) y = Sub(k, e)",
    "a factor": "e = Sigmoid(c) y = Mul(e, k)",
    "a factor behind a summand": "b = Add(c, k) e = Relu(b) y = Mul(e, k)",
    "slopes": "y = PRelu(c, k)",
    "a batch norm": "e = Relu(c) y = BatchNormalization(e, v, v, v, v)",
    "behind bytes": "e = Relu(c) q = QuantizeLinear(e, s, z) t = DequantizeLinear(q, s, z) y = Add(t, k)",
    "behind a sum": "b = Add(c, r) y = Mul(b, k)",
    "behind a sum and a function": "b = Add(c, r) e = Relu(b) y = Add(e, k)",
    "the convolution again": "e = Relu(c) y = Add(e, c)",
    "itself": "y = Add(c, c)",
    "a quotient behind a summand": "b = Add(c, k) y = Div(b, k)",
    "a summand behind a quotient": "b = Div(c, k) y = Add(b, k)",
    "a quotient alone": "y = Div(c, k)",
    "a minuend alone": "y = Sub(k, c)",
    "summands and factors alone": "b = Mul(c, k) e = Add(b, k) y = Mul(e, k)",
    "one number": "e = Relu(c) y = Mul(e, s)",
    "a summand alone": "y = Add(c, k)",
}


def model(text: str, kernel: np.ndarray, rank: int) -> onnx.ModelProto:
    """The convolution of bytes is `c`; `k` and `v` have a number for each of its channels."""
    image = ", ".join("1" * rank)
    group = 1 if kernel.shape[1] > 1 else len(kernel)
    made, channels = len(kernel), kernel.shape[1] * group
    parsed = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, {channels}, {image}] x, float[n, {made}, {image}] r) => (float[n, {made}, {image}] y)
        <float s = {{0.0313}}, uint8 z = {{7}}, float u = {{0.0071}}, int8 o = {{0}}> {{
          p = QuantizeLinear(x, s, z) d = DequantizeLinear(p, s, z) wd = DequantizeLinear(w, u, o)
          c = Conv<group = {group}>(d, wd) {text} }}""")
    rng = np.random.default_rng(1)
    numbers = rng.uniform(0.5, 2, len(kernel)).astype("float32")
    arrays = {"w": kernel, "k": numbers.reshape(-1, *[1] * rank), "v": numbers}
    parsed.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in arrays.items())
    return parsed


@needs_openvino
@pytest.mark.parametrize("kernel", [(8, 2), (8, 1), (32, 16)], ids=["dense", "each channel alone", "many"])
@pytest.mark.parametrize("behind", BEHIND)
def test_numbers_by_channels_of_one_pixel_of_one_image(behind: str, kernel: tuple[int, int]) -> None:
    """OpenVINO loses them where there is one; where numbers by channels alone follow, it does not."""
    rank = 1 if behind == "a factor" else 2
    rng = np.random.default_rng(0)
    weights = rng.integers(-120, 120, (*kernel, *[1] * rank)).astype("int8")
    made = model(BEHIND[behind], weights, rank)
    partitioned = ar.partition(ar.from_onnx(made), ["openvino"])
    machine = relax.VirtualMachine(ar.build(partitioned, UNOPTIMIZED), tvm.cpu())
    channels = kernel[1] if kernel[1] > 1 else kernel[0]
    for images in (1, 2, 1):
        # Far from the ties of their quantization.
        steps = rng.integers(-90, 90, (images, channels, *[1] * rank)) + 0.25
        data = {"x": (steps * 0.0313).astype("float32")}
        data["r"] = rng.standard_normal((images, len(weights), *[1] * rank)).astype("float32")
        (right,) = by_onnx_runtime(made, data)
        (found,) = call(machine, *data.values())
        # A result between two bytes may be rounded to either.
        bound = 0.0314 if behind == "behind bytes" else 1e-5 * np.abs(right).max()
        np.testing.assert_allclose(found, right, atol=bound)
