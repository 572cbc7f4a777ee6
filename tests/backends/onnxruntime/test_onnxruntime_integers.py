"""Integers on ONNX Runtime: sums and products that leave their type, or the 53 bits of float64."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from kits.backends import engine_kit
from kits.backends.engine_kit import call
from kits.backends.relax_kit import module, op_views, var
from kits.integer_convolutions import integer_convolutions
from kits.onnx_nodes import by_onnx_runtime
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

built = partial(engine_kit.built, "onnxruntime")

WIDE = {
    "int64": np.array([[np.iinfo("int64").max, 2**53 + 1, 1], [5, 2**53 + 1, -7]]),
    "int32": np.array([[2**31 - 1, 2**16 + 1, 5], [1, 2**16 + 1, -7]], "int32"),
    "uint8": np.array([[255, 254, 16], [255, 3, 17]], "uint8"),
}


def claimed(mod):
    partitioned = ar.partition(mod, ["onnxruntime"], prepare=False)
    return all(view.name == "relax.call_dps_packed" for view in op_views(partitioned))


@pytest.mark.parametrize("dtype", WIDE)
def test_sums_and_products_of_integers_wrap_around(dtype):
    data, x = WIDE[dtype], var("x", (2, 3), dtype)

    def make(_):
        sums = op.sum(x), op.sum(x, 0), op.sum(x, [-1], keepdims=True)
        return *sums, op.prod(x), op.prod(x, [0], keepdims=True), op.prod(x, 1)

    mod = module([x], make)
    assert claimed(mod)
    sums = data.sum(dtype=dtype), data.sum(0, dtype), data.sum(1, dtype, keepdims=True)
    products = data.prod(dtype=dtype), data.prod(0, dtype, keepdims=True), data.prod(1, dtype)
    for found, wanted in zip(call(built(mod), data), (*sums, *products), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


def test_a_sum_over_a_symbolic_extent_may_have_no_terms():
    x = var("x", (tirx.Var("n", "int64"), 3), "int64")
    machine = built(module([x], lambda _: (op.sum(x, 0), op.sum(x, [0, 1], keepdims=True))))
    for rows in (2, 0):
        data = np.full((rows, 3), 2**53 + 1)
        found = call(machine, data)
        np.testing.assert_array_equal(found[0], data.sum(0), strict=True)
        np.testing.assert_array_equal(found[1], data.sum(keepdims=True), strict=True)


def test_a_product_of_many_integers_is_left_to_others():
    x = var("x", (33,), "int64")
    assert not claimed(module([x], lambda _: op.prod(x, 0)))


def test_a_split_into_one_part_is_left_to_others():
    x = var("x", (4, 6))
    mod = module([x], lambda _: op.split(x, 1, 1))
    for target in ("dnnl", "onnxruntime"):
        (view,) = op_views(ar.partition(mod, [target], prepare=False))
        assert view.name == "relax.split"


def test_a_relu_in_front_of_a_quantization_with_a_negative_scale_counts():
    x, scale, zero = var("x", (4,)), relax.const(np.float32(-0.5)), relax.const(np.int8(-128))
    data = np.array([-3, -1, 0, 2], "float32")

    def make(_):
        return op.quantize(op.nn.relu(x), scale, zero, axis=0)

    np.testing.assert_array_equal(call(built(module([x], make)), data)[0], np.full(4, -128, "int8"))


@pytest.mark.parametrize(("middle", "scaled"), [(128, True), (100, False)])
def test_convolutions_of_bytes_are_those_of_the_model(middle, scaled):
    model, images = integer_convolutions(middle, scaled)
    mod = ar.passes.PrepareForInference()(ar.from_onnx(model))
    assert claimed(mod)
    found = call(built(mod), *images.values())
    for answer, wanted in zip(found, by_onnx_runtime(model, images), strict=True):
        np.testing.assert_array_equal(answer, wanted, strict=True)


def shifted_convolution(dtype, kernel, zero_shape=()):
    """Of bytes minus a zero point."""
    x, zero = var("x", (1, 1, 3, 3), dtype), var("zero", zero_shape, dtype)

    def make(builder):
        wide = [builder.emit(op.astype(each, "int32")) for each in (x, zero)]
        data = builder.emit(op.subtract(*wide))
        return op.nn.conv2d(data, relax.const(np.array(kernel, "int32").reshape(1, 1, 1, -1)))

    return module([x, zero], make)


@pytest.mark.parametrize("kernel", [[-255, 0], [3, 255], [-100, 155], [2, 7]])
def test_kernels_of_256_numbers_in_a_row_are_bytes(kernel):
    mod = shifted_convolution("uint8", kernel)
    assert claimed(mod)
    data = np.arange(9, dtype="uint8").reshape(1, 1, 3, 3) * 29
    (found,) = call(built(mod), data, np.array(200, "uint8"))
    wide = data.astype("int32") - 200
    np.testing.assert_array_equal(found, wide[..., :-1] * kernel[0] + wide[..., 1:] * kernel[1])


@pytest.mark.parametrize(
    "mod",
    [
        shifted_convolution("int8", [1, 2]),
        shifted_convolution("uint8", [-1, 255]),
        shifted_convolution("uint8", [1, 2], (3, 3)),
    ],
)
def test_convolutions_that_are_not_of_bytes_stay_on_the_host(mod):
    assert not claimed(mod)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("is_turned", [False, True])
def test_constant_rows_with_scales_of_their_own_are_multiplied(axis, is_turned):
    """The operator that ONNX Runtime fuses a product into takes one scale for the left side."""
    random = np.random.default_rng(axis)
    numbers = random.integers(0, 255, (3, 4)).astype("uint8")
    scales = random.uniform(0.01, 0.1, numbers.shape[axis]).astype("float32")
    weight = random.integers(-9, 9, (3 if is_turned else 4, 5)).astype("int8")
    x = var("x", (5,))

    def make(_):
        zeros = relax.const(np.full(scales.shape, 128, "uint8"))
        rows = op.dequantize(relax.const(numbers), relax.const(scales), zeros, axis)
        columns = op.dequantize(
            relax.const(weight), relax.const(np.float32(0.1)), relax.const(np.int8(0)), -1
        )
        return op.matmul(op.permute_dims(rows) if is_turned else rows, columns), op.negative(x)

    by = scales.reshape((-1, 1) if axis == 0 else (1, -1))
    left = (numbers.astype("float64") - 128) * by
    found, _ = call(built(module([x], make)), np.ones(5, "float32"))
    np.testing.assert_allclose(found, (left.T if is_turned else left) @ (weight * 0.1), 1e-5, 1e-5)
