"""Bytes with a scale for each channel, as NNCF makes them for depthwise convolutions: against TVM alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, add_function, needs_onednn, offload, run, tvm_alone
from tvm import relax
from tvm.relax import op

CHANNELS = 24
IMAGE = (2, CHANNELS, 9, 7)
SCALES = np.linspace(0.011, 0.047, CHANNELS).astype("float32")
NO_ZEROS = np.zeros(CHANNELS)
ZEROS = np.arange(CHANNELS) * 5 - 60


def kernel(*shape: int, scales: object, seed: int = 3) -> relax.Expr:
    values = relax.const(np.random.default_rng(seed).integers(-128, 128, shape).astype("int8"))
    factors = np.asarray(scales, "float32")
    return op.dequantize(values, relax.const(factors), relax.const(np.zeros(factors.shape, "int8")), 0)


def by_channel(x: relax.Expr, zeros: np.ndarray, dtype: str) -> relax.Expr:
    """Rounded to bytes and back."""
    scales, zero = relax.const(SCALES), relax.const(zeros.astype(dtype))
    return op.dequantize(op.quantize(x, scales, zero, 1, dtype), scales, zero, 1)


def depthwise(x: relax.Expr, scales: object) -> relax.Expr:
    weights = kernel(CHANNELS, 1, 3, 3, scales=scales)
    y = op.nn.relu(op.nn.conv2d(x, weights, padding=1, groups=CHANNELS))
    return op.quantize(y, relax.const(0.331, "float32"), relax.const(0, "uint8"), 1, "uint8")


def rounded_in_place(zeros: np.ndarray, dtype: str) -> Callable[[relax.Expr], relax.Expr]:
    """Between a convolution, whose channels are last, and a sum."""

    def make(x: relax.Expr) -> relax.Expr:
        y = op.nn.conv2d(x, relax.const(np.eye(CHANNELS, dtype="float32")[:, :, None, None]))
        return op.add(by_channel(op.nn.max_pool2d(y, (2, 2)), zeros, dtype), relax.const(0.5, "float32"))

    return make


FUNCTIONS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "by channels": lambda x: depthwise(by_channel(x, NO_ZEROS, "int8"), SCALES[::-1] * 0.5),
    "by one number": lambda x: depthwise(by_channel(x, NO_ZEROS, "int8"), 0.02),
    "with zero points": lambda x: depthwise(by_channel(x, ZEROS, "int8"), SCALES),
    "int8": rounded_in_place(NO_ZEROS, "int8"),
    "int8 with zero points": rounded_in_place(ZEROS, "int8"),
    "uint8 with zero points": rounded_in_place(ZEROS + 128, "uint8"),
}


@cache
def module() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    for name, make in FUNCTIONS.items():
        x = relax.Var("x", relax.TensorType(IMAGE, "float32"))
        add_function(builder, name.replace(" ", "_"), [x], make)
    return builder.finalize()


@cache
def offloaded() -> Offloaded:
    return offload(module())


@cache
def host() -> relax.VirtualMachine:
    return tvm_alone(module())


def computed(name: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """What oneDNN and TVM compute, and the steps of the plan."""
    function = name.replace(" ", "_")
    x = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    (found,), (expected,) = offloaded().call(function, x), run(host(), function, [x])
    (symbol,) = offloaded().symbols_of(function)
    return found, expected, offloaded().plan(symbol)


@needs_onednn
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "int8" not in name])
def test_scales_of_channels_are_those_of_a_depthwise_product(name: str) -> None:
    """With zero points it is of floats: padding stands for zero, which is another byte in each channel."""
    found, expected, plan = computed(name)
    off = np.abs(found.astype("int32") - expected.astype("int32"))
    assert off.max() <= 1
    assert np.mean(off > 0) < 0.01
    assert len(np.unique(expected)) > 30
    (product,) = (step for step in plan if step.startswith("convolution"))
    assert (" int8" in product) == ("zero" not in name)


@needs_onednn
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "int8" in name])
def test_channels_that_are_last_are_rounded_where_they_are(name: str) -> None:
    found, expected, plan = computed(name)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    rounding = [step for step in plan if "quantize" in step]
    assert len(rounding) == 2
    assert all("acdb" in step for step in rounding), plan


def dynamic(x: relax.Expr, scales: object) -> relax.Expr:
    """As PyTorch quantizes dynamically: what a call rounds is viewed as rows and multiplied as floats."""
    largest, least = op.maximum(op.max(x), number(0)), op.minimum(op.min(x), number(0))
    scale = op.divide(op.subtract(largest, least), number(255))
    zero = op.astype(op.clip(op.round(op.divide(op.negative(least), scale)), 0, 255), "uint8")
    rounded = op.dequantize(op.quantize(x, scale, zero, 0, "uint8"), scale, zero, 0)
    rows = op.reshape(rounded, (2 * CHANNELS * 9, 7))
    weights = op.permute_dims(kernel(16, 7, scales=scales))
    return op.add(op.matmul(rows, weights), relax.const(np.linspace(-1, 1, 16).astype("float32")))


def number(value: float) -> relax.Expr:
    return relax.const(np.asarray(value, "float32"))


@needs_onednn
@pytest.mark.parametrize("scales", [0.02, np.linspace(0.01, 0.03, 16)], ids=["one", "many"])
def test_products_of_what_a_call_rounds_are_of_int8(scales: object) -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(IMAGE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(dynamic(x, scales)))
        builder.emit_func_output(result)
    machine = offload(builder.get())
    given = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    (found,), (expected,) = machine.call("main", given), run(tvm_alone(builder.get()), "main", [given])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    (symbol,) = machine.symbols_of("main")
    (product,) = (step for step in machine.plan(symbol) if step.startswith("matmul"))
    assert " int8" in product
