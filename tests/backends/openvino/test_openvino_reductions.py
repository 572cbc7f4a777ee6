"""Functions of reductions, which OpenVINO fuses with them and computes wrongly."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.engine_kit import call
from kits.backends.openvino_kit import needs_openvino
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter.graph import Graph
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.repairs.repairing import repair


def answer(mod, *arrays):
    """The result of a module on OpenVINO."""
    partitioned = ar.partition(mod, ["openvino"], prepare=False)
    return call(relax.VirtualMachine(ar.build(partitioned), tvm.cpu()), *arrays)[0]


def added(graph, kind, *inputs):
    (name,) = graph.add(kind, inputs, 1, {})
    return name


CHANNELS = np.array([1.5, -2.0, 0.25], "float32")
CHANNEL_FUNCTIONS = {
    "sum": (lambda x: op.add(x, relax.const(CHANNELS)), lambda x: x + CHANNELS),
    "difference": (lambda x: op.subtract(relax.const(CHANNELS), x), lambda x: CHANNELS - x),
    "product": (lambda x: op.multiply(x, relax.const(CHANNELS)), lambda x: x * CHANNELS),
    "maximum": (lambda x: op.maximum(x, relax.const(CHANNELS)), lambda x: np.maximum(x, CHANNELS)),
    "slopes": (
        lambda x: op.nn.prelu(x, relax.const(CHANNELS), axis=1),
        lambda x: np.where(x > 0, x, x * CHANNELS),
    ),
}


@pytest.mark.sweep
@needs_openvino
@pytest.mark.parametrize("behind", ["nothing", "half"])
@pytest.mark.parametrize("function", CHANNEL_FUNCTIONS)
@pytest.mark.parametrize("reduction", ["mean", "max", "sum"])
def test_a_function_by_channels_behind_a_reduction_is_written(reduction, function, behind):
    """OpenVINO 2026.4 fuses it, and writes the first image of a batch only."""
    batch = tirx.Var("n", "int64")
    x = var("x", (batch, 3, 8))
    by_relax, by_numpy = CHANNEL_FUNCTIONS[function]

    def made(builder):
        reduced = builder.emit(getattr(op, reduction)(x, axis=[2]))
        if behind == "half":
            reduced = builder.emit(op.multiply(reduced, relax.const(0.5)))
        return by_relax(reduced)

    run = relax.VirtualMachine(ar.build(ar.partition(module([x], made), ["openvino"])), tvm.cpu())["main"]
    for count in (1, 2, 50):
        data = np.random.default_rng(count).standard_normal((count, 3, 8), "float32")
        right = by_numpy(getattr(data, reduction)(axis=2) * np.float32(0.5 if behind == "half" else 1))
        found = run(tvm.runtime.tensor(data)).numpy()
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


def test_a_function_by_channels_of_a_product_of_a_mean_reads_no_copy():
    """What OpenVINO fuses with the product, and a constant of one number, stay."""
    graph = Graph("graph", DIALECT)
    graph.constants |= {"w": np.ones((3, 3), "float32"), "b": CHANNELS, "h": np.array(0.5, "float32")}
    for name in ("w", "b", "h", "x"):
        graph.declare(name, "float32")
    mean = added(graph, "Mul", added(graph, "ReduceMean", "x"), "h")
    added(graph, "Add", added(graph, "MatMul", mean, "w"), "b")
    repair(graph)
    assert [each.kind for each in graph.operators] == ["ReduceMean", "Mul", "MatMul", "Add"]


@needs_openvino
@pytest.mark.parametrize("reduction", ["mean", "max"])
def test_a_quotient_behind_a_reduction_to_one_channel_is_written(reduction):
    """OpenVINO 2026.4 fuses the division, which stays one, and writes the first image of a batch only."""
    x = var("x", (3, 1, 4))

    def made(builder):
        return op.divide(builder.emit(getattr(op, reduction)(x, axis=[2])), relax.const(2.0))

    data = np.random.default_rng(0).standard_normal((3, 1, 4), "float32")
    np.testing.assert_allclose(answer(module([x], made), data), getattr(data, reduction)(2) / 2, rtol=1e-6)


GATED = {
    "silu": (op.nn.silu, lambda x: x / (1 + np.exp(-x))),
    "mish": (
        lambda x: op.multiply(x, op.tanh(op.log(op.add(op.exp(x), relax.const(1.0))))),
        lambda x: x * np.tanh(np.log1p(np.exp(x))),
    ),
    "gelu_tanh": (
        op.nn.gelu_tanh,
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
}


@needs_openvino
@pytest.mark.parametrize("gated", GATED)
def test_a_quotient_of_a_function_that_multiplies_a_reduction_by_itself_is_written(gated):
    """OpenVINO finds one operator in the several of the function, and fuses it with the division."""
    by_relax, by_numpy = GATED[gated]
    x = var("x", (3, 1, 4))

    def made(builder):
        mean = builder.emit(op.mean(x, axis=[2]))
        return op.divide(builder.emit(by_relax(mean)), relax.const(2.0))

    data = np.random.default_rng(0).standard_normal((3, 1, 4), "float32")
    right = by_numpy(data.astype("float64").mean(2)) / 2
    np.testing.assert_allclose(answer(module([x], made), data), right, rtol=1e-5, atol=1e-6)


@needs_openvino
def test_a_batch_norm_with_computed_parameters_behind_a_reduction():
    """OpenVINO fuses it as it does a function with constants."""
    x, scale, bias, variance = (
        var(name, shape) for name, shape in zip("xsbv", ((1, 2, 2), *[(2,)] * 3), strict=True)
    )
    shift = np.array([0.25, -0.5], "float32")

    def made(builder):
        mean = builder.emit(op.mean(x, axis=[0], keepdims=True))
        parameters = scale, bias, relax.const(shift), variance
        norm = op.nn.batch_norm(mean, *parameters, axis=1, epsilon=0.01, training=False)
        return relax.TupleGetItem(builder.emit(norm), 0)

    rng = np.random.default_rng(0)
    data, factors, summands = (rng.standard_normal(each, "float32") for each in ((1, 2, 2), 2, 2))
    squares = rng.uniform(0.5, 2, 2).astype("float32")
    right = (data - shift[:, None]) * (factors / np.sqrt(squares + 0.01))[:, None] + summands[:, None]
    found = answer(module([x, scale, bias, variance], made), data, factors, summands, squares)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
