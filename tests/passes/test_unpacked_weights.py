"""Weights that ops unpack from words: products with them take the form of `QuantizeWeights`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from kits.passes.unpacked_chains import Chain, module_with
from tvm import relax
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import annotated_region as ar
from annotated_region.backends.dnnl.quantized_product import QuantizedProduct, read_product

NAMES = ("gptq", "awq", "mlc")


def prepared(module: tvm.IRModule, *targets: str) -> tvm.IRModule:
    return ar.passes.PrepareForInference(targets=targets)(module)


def product_of(module: tvm.IRModule) -> QuantizedProduct:
    values = {binding.var: binding.value for binding in module["main"].body.blocks[0].bindings}
    calls = (value for value in values.values() if isinstance(value, relax.Call))
    return read_product(next(call for call in calls if call.op.name == "relax.matmul"), values)


def floats_of(product: QuantizedProduct) -> np.ndarray:
    """The weight [depth, columns] in double precision."""
    numbers = product.words.constant.value.numpy()
    if product.words.in_pairs:
        numbers = np.stack([numbers & 15, numbers >> 4], -1)
    numbers = numbers.reshape(-1, product.group).astype("float64")
    zeros = product.zeros if isinstance(product.zeros, int) else product.zeros.constant.value.numpy()[:, None]
    scales = product.scales.value.numpy().astype("float64")[:, None]
    floats: np.ndarray = ((numbers - zeros) * scales).reshape(product.columns, -1)[:, : product.depth].T
    return floats


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("group", "dtype"), [(32, "float32"), (64, "float16")])
def test_a_weight_is_that_of_its_words(name, group, dtype):
    chain = Chain.random(128, 24, group, dtype)
    given = module_with(chain, name)
    before = given.script()
    found = product_of(prepared(given, "dnnl"))
    assert given.script() == before
    assert (found.words.in_pairs, found.group, found.columns) == (True, group, 24)
    np.testing.assert_array_equal(floats_of(found), chain.floats(7 if name.startswith("mlc") else None))


def test_targets_that_are_not_known_may_have_the_pattern_and_others_do_not():
    module = module_with(Chain.random(64, 8, 32), "gptq")
    assert product_of(prepared(module)).group == 32
    without = prepared(module, "tensorrt")
    assert "dequantize" not in without.script()


def test_words_of_more_numbers_need_8_bits():
    chain = Chain.random(64, 8, 32)
    x = relax.Var("x", relax.TensorType((1, 64), "float32"))
    words = np.random.default_rng(0).integers(0, 256, (64, 8)).astype("int32")
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            masked = builder.emit(op.bitwise_and(relax.const(words), relax.const(255, "int32")))
            cast = builder.emit(op.astype(masked, "float32"))
            scales = relax.const(np.repeat(chain.scales, 32, axis=0))
            shifted = builder.emit(op.add(cast, relax.const(-128.0, "float32")))
            weight = builder.emit(op.multiply(shifted, scales))
            output = builder.emit_output(op.matmul(x, weight))
        builder.emit_func_output(output)
    found = product_of(prepared(builder.finalize(), "dnnl"))
    assert (found.words.in_pairs, found.zeros) == (False, 128)
    np.testing.assert_array_equal(floats_of(found), replace(chain, words=words).floats(128))


def test_groups_in_the_order_of_activations_stay():
    """Rows that are sorted by their activations have scales that change from row to row."""
    chain = Chain.random(64, 8, 32)
    x = relax.Var("x", relax.TensorType((1, 64), "float32"))
    of_rows = np.random.default_rng(0).permutation(64) // 32
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            words = relax.const(chain.words.astype("int32"))
            masked = builder.emit(op.bitwise_and(words, relax.const(15, "int32")))
            scales = builder.emit(op.take(relax.const(chain.scales), relax.const(of_rows), axis=0))
            weight = builder.emit(op.multiply(builder.emit(op.astype(masked, "float32")), scales))
            output = builder.emit_output(op.matmul(x, weight))
        builder.emit_func_output(output)
    found = prepared(builder.finalize(), "dnnl")
    assert "dequantize" not in found.script()


def test_no_code_of_a_model_runs_in_preparation():
    """A loop that would never end, in the place of the ops."""

    @I.ir_module
    class Endless:
        @T.prim_func(private=True)
        def dequantize(words: T.Buffer((8, 8), "uint32"), result: T.Buffer((8, 64), "float32")):
            while words[0, 0] == words[0, 0]:
                result[0, 0] = T.float32(0)

        @R.function
        def main(x: R.Tensor((1, 8), "float32")):
            cls = Endless
            with R.dataflow():
                words = R.zeros(R.shape([8, 8]), "uint32")
                weight = R.call_tir(cls.dequantize, (words,), out_ty=R.Tensor((8, 64), "float32"))
                lv = R.matmul(x, weight)
                R.output(lv)
            return lv

    assert "call_tir" in prepared(Endless, "dnnl").script()


def test_scales_that_are_not_finite_stay():
    chain = Chain.random(64, 8, 32)
    chain.scales[1, 3] = np.inf
    assert "dequantize" not in prepared(module_with(chain, "gptq"), "dnnl").script()
