"""Quantized models on ONNX Runtime and OpenVINO: one region, and the answer of TVM to a quantum."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.openvino_kit import needs_openvino
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

import annotated_region as ar

SCALE = 0.05
WEIGHT = np.random.default_rng(4).integers(-127, 128, (64, 48)).astype("int8")
SQUARE = np.random.default_rng(8).integers(-127, 128, (48, 48)).astype("int8")


def quantized(x, dtype="uint8", zero=128, scale=SCALE):
    scale, zero = relax.const(np.float32(scale)), relax.const(zero, dtype)
    return op.dequantize(op.quantize(x, scale, zero, out_dtype=dtype), scale, zero)


def weights():
    scales = np.random.default_rng(5).uniform(0.01, 0.02, 48).astype("float32")
    return op.dequantize(relax.const(WEIGHT), relax.const(scales), relax.const(np.zeros(48, "int8")), axis=1)


def static():
    """What a quantizer makes of a product: all of its operands and its result are bytes in between."""
    x = var("x", (5, 64))
    return module([x], lambda _: quantized(op.matmul(quantized(x), weights()), scale=0.5))


def twice():
    """Two products in a row, whose weights have equal zero points."""
    x = var("x", (5, 64))
    zero = relax.const(0, "int8")
    scale = relax.const(np.float32(0.002))

    def make(_builder):
        taken = (
            op.dequantize(relax.const(WEIGHT), scale, zero),
            op.dequantize(relax.const(SQUARE), scale, zero),
        )
        first = quantized(op.matmul(quantized(x), taken[0]))
        return quantized(op.matmul(first, taken[1]))

    return module([x], make)


def dynamic():
    """The scale is found when the model runs, in the range of the numbers and zero."""
    x = var("x", (5, 64))

    def make(builder):
        zero = relax.const(np.float32(0))
        high, low = op.maximum(op.max(x), zero), op.minimum(op.min(x), zero)
        scale = builder.emit(op.divide(op.subtract(high, low), relax.const(np.float32(255))))
        point = op.round(op.clip(op.divide(op.negative(low), scale), 0, 255))
        point = builder.emit(op.astype(point, "uint8"))
        taken = op.quantize(x, scale, point, axis=0, out_dtype="uint8")
        return op.matmul(op.dequantize(taken, scale, point, axis=0), weights())

    return module([x], make)


def weights_alone():
    """Only the weights are bytes; the numbers that they are multiplied by must not become bytes, too."""
    x = var("x", (5, 64))
    return module([x], lambda _: op.matmul(x, weights()))


def scales_of_rows():
    """What stands left in a product has a scale for each row, which ONNX Runtime's fused product refuses."""
    x = var("x", (5, 64))
    scales = relax.const(np.random.default_rng(9).uniform(0.04, 0.06, 5).astype("float32"))
    zeros = relax.const(np.zeros(5, "int8"))

    def make(_builder):
        taken = op.quantize(x, scales, zeros, axis=0, out_dtype="int8")
        return op.matmul(op.dequantize(taken, scales, zeros, axis=0), weights())

    return module([x], make)


def results_of_channels():
    """A convolution of quantized numbers whose result has several zero points."""
    x = var("x", (5, 64))
    scales = relax.const(np.array([0.5, 0.25, 0.5], "float32"))
    zeros = relax.const(np.array([7, 0, 3], "uint8"))
    kernel = relax.const(WEIGHT[:3, :4].reshape(3, 1, 4))

    def make(_builder):
        image = op.reshape(quantized(x, "int8", 1), (5, 1, 64))
        weight = op.dequantize(kernel, relax.const(np.float32(SCALE)), relax.const(0, "int8"))
        made = op.quantize(op.nn.conv1d(image, weight), scales, zeros, axis=1, out_dtype="uint8")
        return op.dequantize(made, scales, zeros, axis=1)

    return module([x], make)


def regions(mod):
    return sum("Codegen" in (each.attrs or {}) for each in mod.functions.values())


def answer(mod, data):
    return relax.VirtualMachine(ar.build(mod), tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["onnxruntime", pytest.param("openvino", marks=needs_openvino)])
@pytest.mark.parametrize(
    ("make", "quantum"),
    [
        (static, 0.5),
        (twice, SCALE),
        (dynamic, 1e-3),
        (weights_alone, 1e-3),
        (scales_of_rows, 1e-3),
        (results_of_channels, 0.5),
    ],
)
def test_a_quantized_product_is_one_region_and_what_tvm_computes(make, quantum, target):
    mod, data = make(), np.random.default_rng(6).uniform(-6, 6, (5, 64)).astype("float32")
    partitioned = ar.partition(mod, [target], prepare=False)
    assert regions(partitioned) == 1
    found, wanted = answer(partitioned, data), answer(mod, data)
    assert np.ptp(wanted) > 100 * quantum
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1.01 * quantum)
