"""Convolutions of bytes and bfloat16 in patches, of which oneDNN 3.2 has some wrong in tiles of AMX.

They have strides between columns, an even number of taps along them, no padding in front of them, and
channels that are no multiple of those in a row of a tile (64 bytes, or 32 numbers). On processors without AMX
these tests hold without a mend.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.importing.onnx_texts import HEAD
from tvm import relax

import annotated_region as ar

pytestmark = needs_onednn


@dataclass(frozen=True)
class Patches:
    """The shapes of a convolution, and its stride."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int


PATCHES = (
    Patches((1, 96, 14, 12), (80, 96, 2, 2), 2),  # ConvNeXt
    Patches((1, 80, 4, 12), (96, 80, 2, 2), 2),  # ConvNeXt-Atto
    Patches((1, 112, 20, 28), (64, 112, 4, 4), 4),
    Patches((1, 112, 20, 2), (24, 112, 2, 2), 2),
    Patches((2, 96, 12, 28), (128, 96, 1, 6), 2),
    Patches((1, 144, 20, 20), (33, 144, 4, 4), 2),
    Patches((1, 24, 4, 20, 4), (24, 24, 4, 4, 4), 4),
)
ROUNDED = """s = Constant<value = float {{0.03}}>() z = Constant<value = int8 {{0}}>()
    c = QuantizeLinear(x, s, z) d = DequantizeLinear(c, s, z) v = DequantizeLinear(q, t)"""


def _model(patches: Patches, weights: str, of: str) -> onnx.ModelProto:
    """A convolution of `of`, which nodes make of the image `x` and the kernel `q`."""
    rank = len(patches.image)
    strides, extents = _list((patches.stride,) * (rank - 2)), ", ".join("abcde"[:rank])
    head = f"(float[{_list(patches.image)}] x) => (float[{extents}] y)"
    return onnx.parser.parse_model(
        f"{HEAD}{head} <{weights}> {{ {of} y = Conv<strides = [{strides}]>(d, v) }}"
    )


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _error(model: onnx.ModelProto, image: np.ndarray, options: dict[str, dict[str, object]]) -> float:
    """The largest difference from ONNX Runtime, in parts of the largest number."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    (expected,) = session.run(None, {"x": image})
    partitioned = ar.partition(ar.from_onnx(model), ["dnnl"])
    machine = relax.VirtualMachine(ar.build(partitioned, options=options), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(image)).numpy()
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("patches", PATCHES, ids=str)
def test_patches_of_bytes_are_right(patches: Patches) -> None:
    rng = np.random.default_rng(1)
    kernel = rng.integers(-127, 128, patches.kernel)
    numbers = _list(tuple(kernel.reshape(-1).tolist()))
    weights = f"int8[{_list(patches.kernel)}] q = {{{numbers}}}, float t = {{0.002}}"
    image = rng.standard_normal(patches.image).astype("float32")
    assert _error(_model(patches, weights, ROUNDED.format()), image, {}) < 1e-5


@pytest.mark.parametrize("patches", PATCHES, ids=str)
def test_patches_of_bfloat16_are_right(patches: Patches) -> None:
    """Each factor is rounded to eight bits; errors of a sum grow with the root of the number of summands."""
    rng = np.random.default_rng(1)
    kernel = rng.standard_normal(patches.kernel).astype("float32")
    weights = f"float[{_list(patches.kernel)}] v = {{{_list(tuple(kernel.reshape(-1).tolist()))}}}"
    image = rng.standard_normal(patches.image).astype("float32")
    error = _error(_model(patches, weights, "d = Identity(x)"), image, {"dnnl": {"precision": "bf16"}})
    assert error < 2**-7
