"""Whole numbers on OpenVINO: exact in all bits where they are claimed, and declined where they are not."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.engine_kit import built, call
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

RNG = np.random.default_rng(1)
FULL = np.iinfo("int32")
# Neighbours far above what float32 tells apart, and numbers of the whole range.
NEAR = 2**30 + RNG.integers(-2, 3, 64).astype("int32")
WIDE = RNG.integers(FULL.min, FULL.max, 64, dtype="int32", endpoint=True)

EXACT = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "bitwise_and": np.bitwise_and,
    "bitwise_xor": np.bitwise_xor,
}
EXACT_ALONE = {"abs": np.abs, "negative": np.negative, "sign": np.sign, "bitwise_not": np.invert}
DECLINED = ("divide", "equal", "less", "greater_equal", "floor_mod", "mod")


def placed(mod):
    (function,) = ar.explain(mod, ["openvino"], prepare=False).functions
    return {entry.placed for entry in function.ops}


def answer(mod, *arrays):
    assert placed(mod) == {"openvino"}
    machine = relax.VirtualMachine(ar.build(ar.partition(mod, ["openvino"], prepare=False)), tvm.cpu())
    return machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory):
    """No models that another version compiled; the runtime is compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8"])
def test_arithmetic_of_whole_numbers_is_exact_and_wraps(dtype):
    x, y = var("x", (64,), dtype), var("y", (64,), dtype)
    names = [*EXACT, *(name for name in EXACT_ALONE if dtype == "int32")]

    def make(_builder):
        results = [getattr(op, name)(x, y) if name in EXACT else getattr(op, name)(x) for name in names]
        return op.stack(results, 0)

    left, right = NEAR.astype(dtype), WIDE.astype(dtype)
    for one, other in ((left, right), (right, left), (left, left[::-1].copy())):
        found = answer(module([x, y], make), one, other)
        for name, row in zip(names, found, strict=True):
            wanted = EXACT[name](one, other) if name in EXACT else EXACT_ALONE[name](one)
            np.testing.assert_array_equal(row, wanted, err_msg=name)


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_computed_in_float32_is_declined_for_int32(name):
    x, y = var("x", (64,), "int32"), var("y", (64,), "int32")
    assert placed(module([x, y], lambda _: getattr(op, name)(x, y))) == {"host"}


def test_remainders_of_floats_are_declined_because_their_quotients_are_rounded():
    """OpenVINO 2026.4 returns 0 for 2.1 and 0.7 in float32, where the remainder is 0.69999987."""
    x, y = var("x", (3,)), var("y", (3,))
    mod = module([x, y], lambda _: op.mod(x, y))
    assert placed(mod) == {"host"}
    left, right = np.array([[2.1, -2.1, 0.9], [0.7, -0.7, 0.1]], "float32")
    machine = relax.VirtualMachine(ar.build(ar.partition(mod, ["openvino"], prepare=False)), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(left), tvm.runtime.tensor(right)).numpy()
    np.testing.assert_array_equal(found, np.fmod(left, right))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_int64_is_converted_from_all_its_bits(dtype):
    x = var("x", (4,), "int64")
    data = np.array([2**40 + 1, -(2**33) - 1, 3, 2**31])
    np.testing.assert_array_equal(
        answer(module([x], lambda _: op.astype(x, dtype)), data), data.astype(dtype)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda x: op.add(x, relax.const(1, "int64")),
        lambda x: op.reshape(x, (2, 2)),
        lambda x: op.maximum(x, relax.const(0, "int64")),
        lambda x: op.astype(x, "bool"),
        lambda x: op.take(relax.const(np.ones(4, "float32")), x, 0, "clip"),
    ],
)
def test_int64_that_may_not_fit_is_declined(make):
    x = var("x", (4,), "int64")
    assert placed(module([x], lambda _: make(x))) == {"host"}


def test_places_and_indices_are_claimed():
    x, places = var("x", (4, 3)), var("places", (2,), "int64")

    def make(builder):
        rows = builder.emit(op.take(x, places, 0, "fast"))
        return op.argmax(rows, 1), op.argmin(rows, 0)

    assert placed(module([x, places], make)) == {"openvino"}


@pytest.mark.parametrize(
    "make", [lambda x: op.topk(x, 2), lambda x: op.argsort(x, 1), lambda x: op.sort(x, 1)]
)
def test_orders_are_declined_because_equal_elements_come_in_any(make):
    x = var("x", (3, 50))
    report = ar.explain(module([x], lambda _: make(x)), ["openvino"], prepare=False)
    assert "openvino has no operator TopK" in str(report)


@pytest.mark.parametrize("extents", [(3, 50), (tirx.Var("n", "int64"), tirx.Var("m", "int64"))])
def test_of_equal_elements_the_first_is_the_largest_or_the_least(extents):
    x = var("x", extents)
    data = RNG.integers(0, 3, (3, 50)).astype("float32")
    for name in ("argmax", "argmin"):
        found = answer(module([x], lambda _, f=name: getattr(op, f)(x, 1)), data)
        np.testing.assert_array_equal(found, getattr(np, name)(data, 1))


def test_a_quotient_is_rounded_once():
    x = var("x", (199,))
    data = np.arange(1, 200, dtype="float32")
    mod = module([x], lambda _: op.floor(op.divide(x, relax.const(np.float32(41)))))
    np.testing.assert_array_equal(answer(mod, data * 41), data)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 1, 2), (2, 1, 1), (1, 2, 1, 1)])
@pytest.mark.parametrize("name", ["multiply", "divide"])
def test_factors_in_front_of_a_convolution_stay_there(name, shape):
    """OpenVINO puts them into the kernel, those that differ from place to place as well."""
    x = var("x", (1, 2, 2, 2))
    factor, kernel = RNG.uniform(0.5, 2, shape).astype("float32"), RNG.standard_normal((1, 2, 2, 2))

    def make(_builder):
        scaled = op.multiply(getattr(op, name)(x, relax.const(factor)), relax.const(np.float32(3)))
        return op.nn.conv2d(scaled, relax.const(kernel.astype("float32")), padding=[1, 1, 0, 0])

    data = RNG.standard_normal((1, 2, 2, 2)).astype("float32")
    scaled = 3 * (data * factor if name == "multiply" else data / factor)
    padded = np.pad(scaled, [(0, 0), (0, 0), (1, 0), (1, 0)])
    wanted = [(padded[0, :, i : i + 2, j : j + 2] * kernel[0]).sum() for i in range(2) for j in range(2)]
    np.testing.assert_allclose(answer(module([x], make), data).reshape(4), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["add", "divide", "multiply"])
@pytest.mark.parametrize(
    ("left", "right", "constant", "known"),
    [
        ((1, 3, 2, 4), (4, 3), (3, 1, 1), True),
        ((2, 2, 3, 2), (2, 5), (1, 2, 1, 1), True),
        ((1, 2), (2, 2), (2,), False),
        ((2, 1, 1, 2), (2, 1, 2, 2), (1, 2), True),
    ],
)
def test_constants_behind_a_product_are_along_their_axis(left, right, constant, known, name):
    """The plugin takes them for one number a column, or refuses them; of two columns it reads one number."""
    x, y = var("x", left), var("y", right)
    arrays = [RNG.standard_normal(shape).astype("float32") for shape in (left, right)]
    scale = RNG.uniform(0.5, 2, constant).astype("float32")

    def make(builder):
        product = builder.emit(op.matmul(x, relax.const(arrays[1]) if known else y))
        return getattr(op, name)(builder.emit(op.nn.relu(product)), relax.const(scale))

    found = answer(module([x] if known else [x, y], make), *arrays[: 1 if known else 2])
    wanted = getattr(np, name)(np.maximum(arrays[0] @ arrays[1], 0), scale)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_result_that_is_a_view_of_what_is_read_elsewhere_is_copied():
    """OpenVINO's convolution reads something else otherwise."""
    x = var("x", (3, 3, 2))
    kernel = RNG.standard_normal((4, 1, 1)).astype("float32")

    def make(builder):
        powers = builder.emit(op.exp(x))
        moved = builder.emit(op.permute_dims(powers, [0, 2, 1]))
        return op.reshape(powers, (3, 3, 1, 2)), op.nn.conv1d(moved, relax.const(kernel), groups=2)

    mod = module([x], make)
    assert placed(mod) == {"openvino"}
    machine = relax.VirtualMachine(ar.build(ar.partition(mod, ["openvino"], prepare=False)), tvm.cpu())
    data = RNG.standard_normal((3, 3, 2)).astype("float32")
    view, convolved = (part.numpy() for part in machine["main"](tvm.runtime.tensor(data)))
    np.testing.assert_allclose(view, np.exp(data).reshape(3, 3, 1, 2), rtol=1e-5)
    wanted = np.repeat(np.exp(data).transpose(0, 2, 1), 2, 1) * kernel.reshape(4, 1)
    np.testing.assert_allclose(convolved, wanted, rtol=1e-5, atol=1e-6)


def test_a_result_that_is_a_permutation_of_axes_of_one_element_is_copied_as_well():
    x, w = var("x", (1, 2, 2)), var("w", (1, 2, 2))

    def make(builder):
        powers = builder.emit(op.exp(x))
        moved = builder.emit(op.permute_dims(powers, [0, 2, 1]))
        return op.nn.conv1d(moved, w, padding=[0, 1]), op.permute_dims(powers, [1, 0, 2])

    mod = module([x, w], make)
    assert placed(mod) == {"openvino"}
    machine = relax.VirtualMachine(ar.build(ar.partition(mod, ["openvino"], prepare=False)), tvm.cpu())
    data, weight = (RNG.standard_normal((1, 2, 2)).astype("float32") for _ in range(2))
    convolved, view = (part.numpy() for part in machine["main"](*map(tvm.runtime.tensor, (data, weight))))
    np.testing.assert_allclose(view, np.exp(data).transpose(1, 0, 2), rtol=1e-5)
    rows = np.concatenate([np.exp(data)[0], np.zeros((1, 2))])  # (position, channel)
    wanted = [(rows[first : first + 2].T * weight[0]).sum() for first in (0, 1)]
    np.testing.assert_allclose(convolved[0, 0], wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ["multiply", "divide"])
def test_what_was_joined_is_not_overwritten_by_its_absolute_value(name):
    x, y = var("x", (18,)), var("y", (2,))

    def make(builder):
        both = builder.emit(op.concat([x, y], 0))
        return getattr(op, name)(both, builder.emit(op.abs(both)))

    arrays = [RNG.standard_normal(count).astype("float32") for count in (18, 2)]
    both = np.concatenate(arrays)
    np.testing.assert_allclose(
        answer(module([x, y], make), *arrays), getattr(np, name)(both, np.abs(both)), rtol=1e-6
    )


@pytest.mark.parametrize("view", [False, True])
def test_a_result_that_was_joined_is_not_its_absolute_value(view):
    x, y = var("x", (3,)), var("y", (3,))

    def make(builder):
        both = builder.emit(op.concat([x, x, y], 0))
        flat = builder.emit(op.reshape(both, (3, 3))) if view else both
        return relax.Tuple([builder.emit(op.abs(flat)), both])

    arrays = [np.array([-0.5, 1.5, -2], "float32"), np.array([3, -0.25, -4], "float32")]
    machine = relax.VirtualMachine(
        ar.build(ar.partition(module([x, y], make), ["openvino"], prepare=False)), tvm.cpu()
    )
    sizes, found = call(machine, *arrays)
    right = np.concatenate([arrays[0], *arrays])
    np.testing.assert_array_equal(found, right)
    np.testing.assert_array_equal(sizes, np.abs(right.reshape(3, 3) if view else right))


@pytest.mark.parametrize(
    ("shape", "repeats"),
    [((1, 2, 1, 2), (1, 2, 1, 2, 1)), ((1, 2, 2, 2), (1, 2, 1, 2, 1)), ((3, 1, 2), (2, 1, 3, 2))],
)
def test_repetitions_along_several_axes_are_in_their_order(shape, repeats):
    x = var("x", (tirx.Var("n", "int64"), *shape))
    mod = module([x], lambda _: op.tile(x, repeats))
    assert placed(mod) == {"openvino"}
    main = relax.VirtualMachine(ar.build(ar.partition(mod, ["openvino"])), tvm.cpu())["main"]
    for rows in (1, 3, 0):
        data = RNG.standard_normal((rows, *shape)).astype("float32")
        np.testing.assert_array_equal(main(tvm.runtime.tensor(data)).numpy(), np.tile(data, repeats))


@pytest.mark.parametrize("repeats", [(1, 2, 1, 1), (1, 1, 1, 3), (1, 2, 1, 2)])
@pytest.mark.parametrize(("shape", "axis"), [((1, 4, 6), 3), ((3, 1, 1), 1)])
def test_what_a_softmax_makes_is_repeated(shape, axis, repeats):
    """OpenVINO 2026.4 repeats it along another axis if there is one channel, or one pixel."""
    x = var("x", (tirx.Var("n", "int64"), *shape))
    mod = module([x], lambda builder: op.tile(builder.emit(op.nn.softmax(x, axis)), repeats))
    main = relax.VirtualMachine(ar.build(ar.partition(mod, ["openvino"])), tvm.cpu())["main"]
    for rows in (1, 3):
        data = RNG.standard_normal((rows, *shape)).astype("float32")
        wanted = np.exp(data) / np.exp(data).sum(axis, keepdims=True)
        found = main(tvm.runtime.tensor(data)).numpy()
        np.testing.assert_allclose(found, np.tile(wanted, repeats), rtol=1e-5)


@pytest.mark.parametrize("function", ["exp", "add"])
@pytest.mark.parametrize("repeats", [(1, 2, 1, 1), (1, 3, 1, 1), (1, 2, 1, 2)])
def test_what_a_softmax_makes_of_one_channel_of_a_known_size_is_repeated(repeats, function):
    """OpenVINO 2026.4 repeats pixels instead of the channel, if what the softmax reads is computed, too."""
    x = var("x", (1, 1, 2, 3))

    def made(builder):
        scores = builder.emit(op.exp(x) if function == "exp" else op.add(x, x))
        return op.tile(builder.emit(op.nn.softmax(scores, -1)), repeats)

    main = relax.VirtualMachine(ar.build(ar.partition(module([x], made), ["openvino"])), tvm.cpu())["main"]
    data = RNG.standard_normal((1, 1, 2, 3)).astype("float32")
    scores = np.exp(np.exp(data) if function == "exp" else data + data)
    found = main(tvm.runtime.tensor(data)).numpy()
    np.testing.assert_allclose(found, np.tile(scores / scores.sum(-1, keepdims=True), repeats), rtol=1e-5)


def test_a_difference_of_a_convolution_from_its_input_is_not_fused():
    x, w = var("x", (tirx.Var("n", "int64"), 1, 2, 1)), var("w", (1, 1, 2, 1))

    def make(builder):
        return op.subtract(builder.emit(op.nn.conv2d(x, w, padding=[0, 0, 1, 0])), x)

    main = relax.VirtualMachine(ar.build(ar.partition(module([x, w], make), ["openvino"])), tvm.cpu())["main"]
    weight = RNG.standard_normal((1, 1, 2, 1)).astype("float32")
    for rows in (1, 3):
        data = RNG.standard_normal((rows, 1, 2, 1)).astype("float32")
        below = np.concatenate([data[:, :, 1:], np.zeros((rows, 1, 1, 1), "float32")], 2)
        wanted = data * weight[0, 0, 0, 0] + below * weight[0, 0, 1, 0] - data
        found = main(*map(tvm.runtime.tensor, (data, weight))).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", [[3, 0, 1, 2], [1, 3, 0, 2], [0, 2, 1, 3]])
def test_a_permutation_of_axes_of_one_element_of_no_rows(axes):
    """OpenVINO makes a reshape of it, in which 0 stands for an extent that is copied."""
    x = var("x", (tirx.Var("m", "int64"), 1, tirx.Var("n", "int64"), 1))
    mod = module([x], lambda builder: op.permute_dims(builder.emit(op.exp(x)), axes))
    assert placed(mod) == {"openvino"}
    main = relax.VirtualMachine(ar.build(ar.partition(mod, ["openvino"])), tvm.cpu())["main"]
    for shape in ((2, 1, 3, 1), (0, 1, 3, 1), (2, 1, 0, 1), (1, 1, 2, 1)):
        data = RNG.standard_normal(shape).astype("float32")
        found = main(tvm.runtime.tensor(data)).numpy()
        assert found.shape == tuple(shape[axis] for axis in axes)
        np.testing.assert_allclose(found, np.exp(data).transpose(axes), rtol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((1, 3, 1, 3), 3), ((1, 3, 1, 3), 1), ((3, 3), 0), ((3,), 0)])
def test_slopes_are_along_their_axis(shape, axis):
    x = var("x", shape)
    slopes, data = (RNG.standard_normal(each).astype("float32") for each in ((3,), shape))
    found = answer(module([x], lambda _: op.nn.prelu(x, relax.const(slopes), axis)), data)
    along = slopes.reshape([3 if each == axis else 1 for each in range(len(shape))])
    np.testing.assert_allclose(found, np.where(data < 0, data * along, data), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_ties_of_float32_go_to_the_even_number_where_the_scale_is_computed(dtype):
    x, largest, zero = var("x", (510,)), var("largest", ()), var("zero", (), dtype)
    scale = op.divide(largest, relax.const(255.0))
    mod = module([x, largest, zero], lambda _: op.quantize(x, scale, zero, axis=0, out_dtype=dtype))
    for whole in (5.0, 0.7):
        step = np.float32(whole) / np.float32(255)
        data = np.arange(-255, 255).astype("float32") / 2 * step
        expected = np.rint(data / step) + 3
        assert (np.abs(data / step % 1 - 0.5) == 0).sum() > 100
        found = answer(mod, data, np.float32(whole).reshape(()), np.array(3, dtype))
        limits = np.iinfo(dtype)
        np.testing.assert_array_equal(found, np.clip(expected, limits.min, limits.max).astype(dtype))


@pytest.mark.parametrize("zero", [0, 3, 255])
def test_quantizations_whose_limits_are_infinite_divide_by_their_scale(zero):
    """As calibration makes them of masks that hold the least float32."""
    x, least = var("x", (4,)), np.finfo("float32").min
    scale = np.float32(1.4e36)
    data = np.array([0, 1, 100 * scale, least], "float32")
    zeros = relax.const(np.array(zero, "uint8"))
    mod = module([x], lambda _: op.quantize(x, relax.const(scale), zeros, axis=0, out_dtype="uint8"))
    expected = np.clip(np.rint(data / scale) + zero, 0, 255).astype("uint8")
    np.testing.assert_array_equal(answer(mod, data), expected)


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_extreme_of_infinities_is_infinite(name):
    x = var("x", (2, 3, 4, 5))
    bound = -np.inf if name == "max" else np.inf
    data = np.full((2, 3, 4, 5), bound, "float32")
    data[0, :2] = np.linspace(-1, 1, 5)
    data[1, 2, 3] = np.clip(bound, *np.finfo("float32").max * np.array([-1, 1], "float32"))
    axes = [1], [-1], [0, 3], [1, 2, 3]
    mod = module([x], lambda _: tuple(getattr(op, name)(x, each) for each in axes))
    for found, each in zip(call(built("openvino", mod), data), axes, strict=True):
        np.testing.assert_array_equal(found, getattr(data, name)(tuple(each)))


def test_infinities_are_found_behind_functions():
    """OpenVINO fuses such a test with the function in front, and then found no infinity."""
    x, y = var("x", (2, 3)), var("y", (2, 3))
    data = np.array([[np.inf, -np.inf, 1], [np.nan, 0, 2]], "float32")

    def make(builder):
        size, whole, total = (builder.emit(each) for each in (op.abs(x), op.floor(x), op.add(x, y)))
        return op.isinf(size), op.isfinite(whole), op.isnan(total)

    found = call(built("openvino", module([x, y], make)), data, np.ones((2, 3), "float32"))
    for answer_, wanted in zip(found, (np.isinf(data), np.isfinite(data), np.isnan(data)), strict=True):
        np.testing.assert_array_equal(answer_, wanted)
