"""What TensorRT gets of quantized networks, run on ONNX Runtime; and what it has no kernel for."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, op_views, var
from kits.host_machines import host_machine
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter import emit_all
from annotated_region.backends.onnx_emitter.assembly import array_of
from annotated_region.backends.onnxruntime.session import SessionSettings, make_session
from annotated_region.backends.tensorrt import rules
from annotated_region.targets.rules import rule_of

STEP = 0.25
"""What an element of the result is worth."""


def const(values: object, dtype: str) -> relax.Expr:
    return relax.const(np.asarray(values, dtype))


def quantize(x: relax.Expr, scale: float, zero: int = 0, dtype: str = "int8") -> relax.Expr:
    return op.quantize(x, const(scale, "float32"), const(zero, dtype), 1, dtype)


def dequantize(x: relax.Expr, scale: object, axis: int = 1, dtype: str = "int8") -> relax.Expr:
    zeros = const(np.zeros(np.shape(scale)), dtype)
    return op.dequantize(x, const(scale, "float32"), zeros, axis)


def network() -> tvm.IRModule:
    """A convolution with a bias, a join of bytes, and a product; all between quantizations."""
    rng = np.random.default_rng(3)
    x = var("x", (2, 8, 6, 6))
    scales = np.linspace(0.01, 0.02, 16).astype("float32")
    kernel = dequantize(const(rng.integers(-127, 128, (16, 8, 3, 3)), "int8"), scales, 0)
    bias = dequantize(const(rng.integers(-900, 900, 16), "int32"), scales * 0.03, 0, "int32")
    matrix = dequantize(const(rng.integers(-127, 128, (16 * 36, 5)), "int8"), 0.002)

    def make(builder: relax.BlockBuilder) -> relax.Expr:
        y = op.nn.conv2d(dequantize(quantize(x, 0.03), 0.03), kernel, padding=(1, 1))
        y = op.nn.relu(op.add(y, op.reshape(bias, (1, 16, 1, 1))))
        bytes_of_y = builder.emit(op.reshape(quantize(y, 0.1), (2, 16 * 36)))
        y = op.matmul(dequantize(bytes_of_y, 0.1), matrix)
        return dequantize(quantize(y, STEP), STEP)

    return module([x], make)


def test_the_model_of_a_quantized_network_computes_the_same() -> None:
    """One region, nothing on the host; the last rounding may differ by one."""
    x = np.random.default_rng(5).standard_normal((2, 8, 6, 6)).astype("float32")
    host = host_machine(network())
    expected = host["main"](tvm.runtime.tensor(x)).numpy()
    placed = ar.partition(network(), ["tensorrt"], cross_compile=True)
    (region,) = (each for each in placed.functions.values() if each.attrs and "Codegen" in each.attrs)
    report = ar.explain(network(), ["tensorrt"], cross_compile=True)
    assert {each.placed for each in report.functions[0].ops} == {"tensorrt"}
    (emitted,) = emit_all([region], rules.DIALECT)
    kinds = [node.op_type for node in emitted.skeleton().graph.node]
    assert kinds.count("QuantizeLinear") == 3
    assert kinds.count("DequantizeLinear") >= 3
    weights = {name: array_of(emitted.graph.weights[name]) for name in emitted.weights}
    session = make_session(emitted.skeleton().SerializeToString(), weights, SessionSettings())
    (found,) = session.run(None, {emitted.inputs[0].name: x})
    assert len(np.unique(expected)) > 5, "a saturated result hides errors"
    assert np.abs(found - expected).max() <= STEP * 1.001
    assert (found != expected).mean() < 0.2


def reason(make, *params) -> bool | str:
    view = op_views(module(params, make))[-1]
    return rule_of("tensorrt", view.name)(view)


def test_quantization_that_is_not_symmetric_is_declined() -> None:
    x, scale = var("x", (1, 4, 8)), var("scale", ())
    zero = const(0, "int8")
    assert reason(lambda _: quantize(x, 0.1), x) is True
    assert "zero points of zero" in str(reason(lambda _: quantize(x, 0.1, 3), x))
    assert "data type uint8" in str(reason(lambda _: quantize(x, 0.1, 0, "uint8"), x))
    computed = reason(lambda _: op.quantize(x, scale, zero, 1, "int8"), x, scale)
    assert "constant, positive scales" in str(computed)
    by_channel = op.quantize(x, const([0.1] * 4, "float32"), const([0] * 4, "int8"), 1, "int8")
    assert "several scales only for weights" in str(reason(lambda _: by_channel, x))


@pytest.mark.parametrize(
    "make", [op.negative, op.abs, lambda y: op.add(y, y), lambda y: op.astype(y, "int32")]
)
def test_bytes_are_moved_and_no_more(make) -> None:
    y = var("y", (1, 4, 8), "int8")
    assert "only moves int8 data" in str(reason(lambda _: make(y), y))
    assert reason(lambda _: op.permute_dims(y, (0, 2, 1)), y) is True
