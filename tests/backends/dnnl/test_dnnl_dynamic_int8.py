"""Dynamically quantized networks: one region, with the answers of ONNX Runtime."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import (
    Offloaded,
    external_functions,
    needs_onednn,
    offload,
    ops_on_host,
)
from kits.family_models import family_model, inputs_of
from kits.integer_convolutions import integer_convolutions
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes
from kits.quantized_models import dynamically_quantized_model
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl.rewriting.rewriter import verification
from annotated_region.testing.dnnl_verifier import verify

NETWORKS = [("bert", "int8"), ("bert", "uint8"), ("llama", "int8")]


@cache
def quantized(name: str, weights: str) -> onnx.ModelProto:
    return dynamically_quantized_model(family_model(name, "small"), weights=weights)


@cache
def offloaded(name: str, weights: str) -> Offloaded:
    module = ar.partition(ar.from_onnx(quantized(name, weights)), ["dnnl"])
    with verification(verify):
        library = ar.build(module).jit()
    return Offloaded(module, library, relax.VirtualMachine(library, tvm.cpu()))


@needs_onednn
@pytest.mark.parametrize(("name", "weights"), NETWORKS)
def test_the_answer_is_that_of_onnx_runtime(name: str, weights: str) -> None:
    """Sums of whole numbers are exact, so nothing but the last bits of floats may differ."""
    model = quantized(name, weights)
    given = inputs_of(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, given)[0]
    assert len(np.unique(expected)) > 30, "a saturated answer hides errors"
    (found,) = offloaded(name, weights).call("main", *given.values())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@needs_onednn
@pytest.mark.parametrize(("name", "weights"), NETWORKS)
def test_scales_and_products_are_one_region(name: str, weights: str) -> None:
    module = offloaded(name, weights).module
    assert len(external_functions(module)) == 1
    assert not ops_on_host(module)


@needs_onednn
@pytest.mark.parametrize(("name", "count"), [("bert", 12), ("llama", 14)])
def test_products_of_bytes_are_those_of_onednn(name: str, count: int) -> None:
    """Six or seven a layer; weights of uint8 whose zero is not in the middle get another one."""
    machine = offloaded(name, "int8")
    machine.call("main", *inputs_of(quantized(name, "int8")).values())
    (symbol,) = external_functions(machine.module)
    products = [step for step in machine.plan(symbol) if "matmul" in step]
    assert len([step for step in products if " int8" in step]) >= count
    assert not [step for step in products if "whole" in step or " ref" in step]


@needs_onednn
@pytest.mark.parametrize(("middle", "scaled"), [(128, True), (100, True), (128, False)])
def test_integer_convolutions_are_those_of_onnx_runtime(middle: int, scaled: bool) -> None:
    """Sums that are read as integers are our own; of others, those of kernels beyond int8 are of floats."""
    model, images = integer_convolutions(middle, scaled)
    machine = offload(ar.passes.PrepareForInference()(ar.from_onnx(model)))
    (symbol,) = machine.symbols_of("main")
    found = machine.call("main", *images.values())
    for answer, expected in zip(found, by_onnx_runtime(model, images), strict=True):
        np.testing.assert_allclose(answer, expected, rtol=1e-6)
    plan = machine.plan(symbol)
    own = [step for step in plan if step.startswith("whole convolution")]
    assert len(own) == (0 if scaled else len(images))
    in_bytes = [step for step in plan if step.startswith("convolution") and " int8" in step]
    assert len(in_bytes) == (len(images) if scaled and middle == 128 else 0)


def product_of_rows(middle: int | list[int]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A product of all rows of all texts, whose number is a product of two extents, as in GPT-2."""
    rng = np.random.default_rng(middle)
    weights = rng.integers(0, 256, (48, 24)).astype("uint8")
    is_signed = middle == 0
    constants = {
        "rows": np.array([-1, 48], "int64"),
        "w": weights.view("int8") if is_signed else weights,
        "wz": np.array(middle, "int8" if is_signed else "uint8"),
    }
    nodes = [
        Node("Reshape", "x rows", "r"),
        Node("DynamicQuantizeLinear", "r", "q s z"),
        Node("MatMulInteger", "q w z wz", "c"),
        Node("Cast", "c", "f", to=onnx.TensorProto.FLOAT),
        Node("Mul", "f s", "y"),
    ]
    given = {"x": rng.standard_normal((3, 5, 48)).astype("float32")}
    model = model_of_nodes(nodes, given, constants)
    for axis, name in enumerate(("texts", "words")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    return model, given


@needs_onednn
@pytest.mark.parametrize("middle", [0, 131, 3, list(range(100, 124))], ids=str)
def test_products_of_all_rows_are_those_of_onednn(middle: int | list[int]) -> None:
    """Weights without signs fit int8 with another zero point, unless each column has its own."""
    model, given = product_of_rows(middle)
    machine = offload(ar.passes.PrepareForInference()(ar.from_onnx(model)))
    (found,), (expected,) = machine.call("main", *given.values()), by_onnx_runtime(model, given)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)
    (symbol,) = machine.symbols_of("main")
    (product,) = (step for step in machine.plan(symbol) if "matmul" in step)
    assert (" int8" in product) == isinstance(middle, int)
    assert not {"whole", "ref"} & {*product.replace(":", " ").split()}
