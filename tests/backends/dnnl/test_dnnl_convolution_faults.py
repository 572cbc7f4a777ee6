"""Convolutions that oneDNN 3.2 has wrong: patches in tiles of AMX, and images with padded zero points.

Patches have strides between columns, an even number of taps along them, no padding in front of them, and
channels that are no multiple of those in a row of a tile (64 bytes, or 32 numbers). On processors without AMX
their tests hold without a mend, and most of those of zero points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.importing.onnx_texts import HEAD
from kits.onnx_nodes import by_onnx_runtime
from onnx import numpy_helper
from tvm import relax

import annotated_region as ar

pytestmark = needs_onednn


@dataclass(frozen=True)
class Windows:
    """The shapes of a convolution, its stride, and its padding in front of and behind each axis."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int
    padding: tuple[int, ...] = ()


PATCHES = (
    Windows((1, 96, 14, 12), (80, 96, 2, 2), 2),  # ConvNeXt
    Windows((1, 80, 4, 12), (96, 80, 2, 2), 2),  # ConvNeXt-Atto
    Windows((1, 112, 20, 28), (64, 112, 4, 4), 4),
    Windows((1, 112, 20, 2), (24, 112, 2, 2), 2),
    Windows((2, 96, 12, 28), (128, 96, 1, 6), 2),
    Windows((1, 144, 20, 20), (33, 144, 4, 4), 2),
    Windows((1, 24, 4, 20, 4), (24, 24, 4, 4, 4), 4),
)
PADDED = (
    Windows((1, 64, 7, 7), (48, 64, 9, 2), 1, (6, 1)),
    Windows((1, 64, 7, 7), (48, 64, 9, 2), 1, (5, 1)),
    Windows((1, 48, 12, 7, 12), (96, 48, 5, 7, 1), 1, (0, 4, 0)),
    Windows((2, 12, 13, 13, 4), (16, 12, 11, 11, 3), 1, (3, 9, 0)),
    Windows((2, 16, 1, 3, 13), (3, 16, 1, 1, 11), 1, (0, 0, 1)),
    Windows((1, 9, 14, 15, 12), (64, 9, 11, 11, 11), 2, (3, 0, 5)),
    Windows((1, 24, 20), (40, 24, 9), 2, (8,)),
    Windows((1, 3, 40, 33), (16, 3, 7, 7), 2, (3, 3)),
)
BYTES = """s = Constant<value = float {{0.03}}>() z = Constant<value = {zero}>()
    c = QuantizeLinear(x, s, z) d = DequantizeLinear(c, s, z) v = DequantizeLinear(q, t)
    y = Conv<{given}>(d, v)"""
COMPUTED = """c, s, z = DynamicQuantizeLinear(x) i = ConvInteger<{given}>(c, q, z) f = Cast<to = 1>(i)
    y = Mul(f, s)"""
ROUNDED = "y = Conv<{given}>(x, q)"


def _error(windows: Windows, nodes: str, dtype: str, options: dict[str, dict[str, object]]) -> float:
    """The largest difference of a convolution from ONNX Runtime's, in parts of the largest number."""
    rng = np.random.default_rng(1)
    kernel = rng.integers(-127, 128, windows.kernel).astype(dtype)
    image = rng.standard_normal(windows.image).astype("float32")
    model = _model(windows, nodes, kernel)
    (expected,) = by_onnx_runtime(model, {"x": image})
    partitioned = ar.partition(ar.from_onnx(model), ["dnnl"])
    machine = relax.VirtualMachine(ar.build(partitioned, options=options), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(image)).numpy()
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _model(windows: Windows, nodes: str, kernel: np.ndarray) -> onnx.ModelProto:
    rank = len(windows.image) - 2
    padding = (windows.padding or (0,) * rank) * 2
    given = f"strides = [{_list((windows.stride,) * rank)}], pads = [{_list(padding)}]"
    head = f"(float[{_list(windows.image)}] x) => (float[{', '.join('abcde'[: rank + 2])}] y)"
    model = onnx.parser.parse_model(f"{HEAD}{head} <float t = {{0.002}}> {{ {nodes.format(given=given)} }}")
    model.graph.initializer.append(numpy_helper.from_array(kernel, "q"))
    return model


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


@pytest.mark.parametrize("patches", PATCHES, ids=str)
def test_patches_of_bytes_are_right(patches: Windows) -> None:
    assert _error(patches, BYTES.replace("{zero}", "int8 {{0}}"), "int8", {}) < 1e-5


@pytest.mark.parametrize("patches", PATCHES, ids=str)
def test_patches_of_bfloat16_are_right(patches: Windows) -> None:
    """Each factor is rounded to eight bits; errors of a sum grow with the root of the number of summands."""
    assert _error(patches, ROUNDED, "float32", {"dnnl": {"precision": "bf16"}}) < 2**-7


@pytest.mark.parametrize(
    "nodes", [BYTES.replace("{zero}", "uint8 {{128}}"), COMPUTED], ids=["known", "computed"]
)
@pytest.mark.parametrize("padded", PADDED, ids=str)
def test_padding_has_the_zero_point(padded: Windows, nodes: str) -> None:
    assert _error(padded, nodes, "int8", {}) < 1e-5
