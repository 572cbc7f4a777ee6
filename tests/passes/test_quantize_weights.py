"""QuantizeWeights: packed weights have the values that numpy rounds to; invalid arguments are errors."""

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from kits.host_machines import host_machine
from tvm import relax

import annotated_region as ar
from annotated_region.tvm_adapter.nodes import Constant

OPTIONS = [
    (bits, group, zero_points) for bits in (4, 8) for group in (16, 32, None) for zero_points in (False, True)
]


def weight(rows, columns, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(0.1, 0.5, (rows, columns)).astype(dtype)


def product(array, *, transposed=False):
    """``x @ array``, by way of the transposed constant if asked for."""

    def make(builder):
        if not transposed:
            return builder.emit(relax.op.matmul(x, relax.const(array)))
        return builder.emit(relax.op.matmul(x, builder.emit(relax.op.permute_dims(relax.const(array.T)))))

    x = var("x", (3, array.shape[0]), array.dtype.name)
    return module([x], make)


def nearest(array, bits, group, zero_points):
    """What the rounded weight stands for, one group after the other, by the definition."""
    result = np.empty(array.shape)
    for column, numbers in enumerate(array.astype("float32").T):
        size = group or len(numbers)
        for first in range(0, len(numbers), size):
            result[first : first + size, column] = nearest_group(
                numbers[first : first + size], 2**bits - 1, zero_points, array.dtype
            )
    return result


def nearest_group(numbers, top, zero_points, dtype):
    low, high = min(numbers.min(), np.float32(0)), max(numbers.max(), np.float32(0))
    if zero_points:
        scale = least_half(dtype.type((high - low) / np.float32(top)))
        zero = np.rint(-low / scale)
    else:
        scale, zero = least_half(dtype.type(abs(numbers).max() / np.float32(top // 2))), top // 2 + 1
    return (np.clip(np.rint(numbers / scale) + zero, 0, top) - zero).astype("float64") * scale


def least_half(scale):
    """The least number of float16 that is not below a normal one: eleven bits of it, rounded up."""
    fraction, exponent = np.frexp(np.float64(scale))
    return np.float32(np.ldexp(np.ceil(fraction * 2**11), exponent - 11))


def run(mod, x):
    machine = host_machine(mod)
    return machine["main"](tvm.runtime.tensor(x)).numpy()


def names_of(mod):
    values = (binding.value for block in mod["main"].body.blocks for binding in block.bindings)
    return [value.op.name for value in values if isinstance(value, relax.Call)]


def dequantized(mod):
    """The call that makes floats of the words."""
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    (call,) = (
        value for value in values if isinstance(value, relax.Call) and value.op.name == "relax.dequantize"
    )
    return call


@pytest.mark.parametrize(("bits", "group", "zero_points"), OPTIONS)
def test_the_host_multiplies_with_the_nearest_numbers(bits, group, zero_points):
    array = weight(96, 20)
    mod = ar.passes.QuantizeWeights(bits, group, zero_points)(product(array))
    x = np.random.default_rng(1).normal(size=(3, 96)).astype("float32")
    expected = x.astype("float64") @ nearest(array, bits, group, zero_points)
    np.testing.assert_allclose(run(mod, x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_transposed_constant_is_the_same_weight(dtype):
    array = weight(32, 6, dtype)
    quantize = ar.passes.QuantizeWeights(8, 32)
    plain, transposed = (quantize(product(array, transposed=each)) for each in (False, True))
    tvm.ir.assert_structural_equal(plain, transposed)
    x = np.eye(3, 32, dtype=dtype)
    np.testing.assert_allclose(run(plain, x), nearest(array, 8, 32, False)[:3], rtol=2e-3, atol=2e-3)


def test_every_weight_of_four_bits_takes_half_a_byte():
    mod = ar.passes.QuantizeWeights(4, 32)(product(weight(64, 10)))
    calls = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    args = [arg for call in calls if isinstance(call, relax.Call) for arg in call.args]
    constants = [arg for arg in args if isinstance(arg, Constant)]
    assert max(each.value.numpy().nbytes for each in constants) == 64 * 10 // 2


def test_a_column_of_an_odd_number_of_weights_is_one_group():
    array = weight(33, 4)
    x = np.eye(3, 33, dtype="float32")
    for zero_points in (False, True):
        quantized = run(ar.passes.QuantizeWeights(4, None, zero_points)(product(array)), x)
        np.testing.assert_allclose(quantized, nearest(array, 4, None, zero_points)[:3], rtol=1e-6)


@pytest.mark.parametrize(
    ("size", "holds"), [(1.0, True), (2.0**-4, True), (2.0**-8, False), (2.0**24, False)]
)
def test_float16_holds_the_scales_if_all_are_among_its_normal_numbers(size, holds):
    array = weight(64, 10) * np.float32(size)
    scales = dequantized(ar.passes.QuantizeWeights(8, 32)(product(array))).args[1].value.numpy()
    assert scales.dtype == np.float32
    with np.errstate(over="ignore"):
        assert np.array_equal(scales, scales.astype("float16").astype("float32")) == holds
    largest = np.abs(array.T.reshape(-1, 32)).max(axis=1) / 127
    np.testing.assert_allclose(scales, largest, rtol=2**-10)
    assert (scales >= largest * (1 - 2.0**-23)).all()


def test_a_group_of_zeros_stays_zero():
    array = np.zeros((32, 4), "float32")
    for zero_points in (False, True):
        mod = ar.passes.QuantizeWeights(4, 16, zero_points)(product(array))
        assert not run(mod, np.ones((3, 32), "float32")).any()


def test_preparation_leaves_the_packed_numbers_packed():
    mod = ar.passes.QuantizeWeights(4, 32)(product(weight(64, 10)))
    prepared = ar.passes.PrepareForInference()(mod)
    assert names_of(prepared) == names_of(mod)


@pytest.mark.parametrize("is_needed", [False, True])
def test_a_weight_that_is_broadcast_to_each_text_of_a_batch_is_one_weight(is_needed):
    """Not if the product would have fewer texts without it."""
    array, x = weight(32, 6), var("x", (2, 5, 32))

    def make(builder):
        turned = builder.emit(relax.op.permute_dims(relax.const(array.T)))
        wide = builder.emit(relax.op.broadcast_to(turned, (2, 32, 6)))
        rows = builder.emit(relax.op.strided_slice(x, [0], [0], [1])) if is_needed else x
        return builder.emit(relax.op.matmul(rows, wide))

    mod = module([x], make)
    quantized = ar.passes.QuantizeWeights(8, 32)(mod)
    if is_needed:
        assert quantized.same_as(mod)
        return
    data = np.random.default_rng(1).normal(size=(2, 5, 32)).astype("float32")
    expected = data.astype("float64") @ nearest(array, 8, 32, False)
    np.testing.assert_allclose(run(quantized, data), expected, rtol=1e-5, atol=1e-5)
    assert names_of(quantized).count("relax.dequantize") == 1


def test_what_is_no_constant_matrix_of_finite_floats_stays():
    stack = np.ones((2, 32, 4), "float32")
    wrong = np.full((32, 4), np.inf, "float32")
    x = var("x", (2, 3, 32))
    w = var("w", (32, 4))
    for right in (relax.const(stack), relax.const(wrong), w):
        mod = module([x, w], lambda builder, right=right: builder.emit(relax.op.matmul(x, right)))
        assert ar.passes.QuantizeWeights()(mod).same_as(mod)


def test_a_group_that_does_not_divide_is_named():
    with pytest.raises(ar.InvalidModuleError, match=r"weight of 'lv' has 48 rows, which is not a multiple"):
        ar.passes.QuantizeWeights(4, 32)(product(weight(48, 4)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 3}, "weights of 3 bits are not supported"),
        ({"bits": "4"}, "the argument bits is '4'"),
        ({"group": 0}, "groups of 0 weights"),
        ({"group": 7}, "groups of 7 weights"),
        ({"group": "row"}, "the argument group is 'row'"),
    ],
)
def test_unknown_options_are_refused(options, message):
    with pytest.raises(ar.UsageError, match=message):
        ar.passes.QuantizeWeights(**options)
