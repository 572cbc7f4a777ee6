"""Quantized factors, clips and views, and results that are views, which OpenVINO computes wrongly."""

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
from annotated_region.backends.onnx_emitter.graph import Graph, Port
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.repairs.repairing import repair
from annotated_region.host_targets import UNOPTIMIZED

FACTORS = np.array([2.156, 0.492, 0.516], "float32").reshape(3, 1, 1)


def answers(mod, *arrays):
    partitioned = ar.partition(mod, ["openvino"], prepare=False)
    return call(relax.VirtualMachine(ar.build(partitioned, UNOPTIMIZED), tvm.cpu()), *arrays)


def const(values, dtype="float32"):
    return relax.const(np.asarray(values, dtype))


def rounded(builder, data, scale, zero, dtype="uint8"):
    """Numbers as bytes, and back."""
    parameters = const(scale), const(zero, dtype)
    bytes_ = builder.emit(op.quantize(data, *parameters, axis=0, out_dtype=dtype))
    return builder.emit(op.dequantize(bytes_, *parameters, axis=0))


def in_bytes(data, scale, zero, dtype="uint8"):
    """The same by numpy."""
    limits = np.iinfo(dtype)
    whole = np.clip(np.rint(data / np.float32(scale)) + zero, limits.min, limits.max)
    return ((whole - zero) * np.float32(scale)).astype("float32")


@needs_openvino
def test_a_quotient_by_channels_of_what_has_another_reader_is_quantized():
    x, w = var("x", (1, 3, 4, 4)), var("w", (3, 1, 1, 1))

    def made(builder):
        image = builder.emit(op.nn.conv2d(x, w, groups=3))
        quotient = builder.emit(op.divide(image, relax.const(FACTORS)))
        return relax.Tuple([rounded(builder, quotient, 0.05, 9), builder.emit(op.exp(image))])

    rng = np.random.default_rng(0)
    data, kernel = rng.standard_normal((1, 3, 4, 4), "float32"), rng.standard_normal((3, 1, 1, 1), "float32")
    image = data * kernel.reshape(3, 1, 1)
    found = answers(module([x, w], made), data, kernel)
    np.testing.assert_allclose(found[0], in_bytes(image / FACTORS, 0.05, 9), atol=1e-5)
    np.testing.assert_allclose(found[1], np.exp(image), rtol=1e-5)


@needs_openvino
@pytest.mark.parametrize(
    ("bounds", "dtype", "is_convolved"),
    [
        ((-1.0, -0.5), "uint8", True),
        ((-1.0, -0.5), "uint8", False),
        ((20.0, 30.0), "int8", False),
        ((0.0, 6.0), "uint8", True),
    ],
)
def test_a_clip_beyond_the_numbers_of_the_bytes_behind_it(bounds, dtype, is_convolved):
    x = var("x", (1, 3, 4, 4))
    kernel = np.full((3, 1, 1, 1), 1.5, "float32")

    def made(builder):
        data = builder.emit(op.nn.conv2d(x, relax.const(kernel), groups=3)) if is_convolved else x
        return rounded(builder, builder.emit(op.clip(data, *bounds)), 0.05, 0, dtype)

    data = np.random.default_rng(0).standard_normal((1, 3, 4, 4), "float32")
    clipped = np.clip(data * np.float32(1.5 if is_convolved else 1.0), *bounds)
    found = answers(module([x], made), data)
    np.testing.assert_allclose(found[0], in_bytes(clipped, 0.05, 0, dtype), atol=1e-5)


SIGNED = np.array([0.5, -1.25], "float32").reshape(2, 1, 1)
PARTS = {
    "factors": lambda b, x: op.multiply(x, relax.const(SIGNED)),
    "divisors": lambda b, x: op.divide(x, relax.const(SIGNED)),
    "factors behind a sign": lambda b, x: op.multiply(b.emit(op.negative(x)), relax.const(np.abs(SIGNED))),
    "a clip": lambda b, x: op.clip(b.emit(op.multiply(x, relax.const(np.abs(SIGNED)))), -0.5, 0.75),
}


@needs_openvino
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_what_is_joined_and_quantized_has_its_factors(name, axis):
    """OpenVINO quantizes each part by itself, and makes the factors of one those of the quantization."""
    x, y = var("x", (1, 2, 3, 2)), var("y", (1, 2, 3, 2))

    def made(builder):
        joined = builder.emit(op.concat([builder.emit(PARTS[name](builder, x)), y], axis=axis))
        return rounded(builder, joined, 0.0625, 20)

    data, other = np.random.default_rng(0).standard_normal((2, 1, 2, 3, 2), "float32")
    part = {
        "factors": data * SIGNED,
        "divisors": data / SIGNED,
        "factors behind a sign": -data * np.abs(SIGNED),
        "a clip": np.clip(data * np.abs(SIGNED), -0.5, 0.75),
    }[name]
    right = in_bytes(np.concatenate([part, other], axis), 0.0625, 20)
    np.testing.assert_allclose(answers(module([x, y], made), data, other)[0], right, atol=1e-5)


@pytest.mark.parametrize(("first", "copies"), [("Conv", 0), ("Exp", 1), ("Concat", 1)])
def test_a_part_that_a_product_makes_is_joined_without_a_copy(first, copies):
    """As in quantized networks of several branches; there OpenVINO fuses the factors with the product."""
    graph = Graph("graph", DIALECT)
    for name in ("x", "w", "y"):
        graph.declare(name, "float32")
    attrs = {"strides": [1, 1]} if first == "Conv" else {}
    (made,) = graph.add(first, ("x",) if first == "Exp" else ("x", "w"), 1, attrs)
    (part,) = graph.add("Mul", (made, graph.constant(SIGNED)), 1, {})
    (joined,) = graph.add("Concat", (part, "y"), 1, {"axis": 1})
    scale, zero = graph.constant(np.array(0.5, "float32")), graph.constant(np.array(20, "uint8"))
    graph.add("QuantizeLinear", (joined, scale, zero), 1, {})
    repair(graph)
    assert [each.kind for each in graph.operators].count("Max") == copies


@needs_openvino
@pytest.mark.parametrize("function", ["add", "multiply"])
def test_a_clip_of_a_linear_function_of_bytes_has_its_bounds(function):
    x = var("x", (3, 4))

    def made(builder):
        numbers = rounded(builder, x, 0.0625, 0)
        return op.clip(builder.emit(getattr(op, function)(numbers, const([[0.97]]))), 0.0, 1.5)

    data = np.random.default_rng(0).uniform(0, 3, (3, 4)).astype("float32")
    numbers = in_bytes(data, 0.0625, 0)
    right = numbers + np.float32(0.97) if function == "add" else numbers * np.float32(0.97)
    np.testing.assert_allclose(answers(module([x], made), data)[0], np.clip(right, 0, 1.5), atol=1e-6)


@needs_openvino
@pytest.mark.parametrize("function", ["nothing", "relu", "bias"])
@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("int8", 3), ("uint8", 128)])
def test_what_is_joined_and_quantized_for_a_convolution(dtype, zero, function):
    x = var("x", (1, 2, 1, 6))
    weights = np.random.default_rng(0).integers(-60, 60, (3, 4, 1, 1), "int8")

    def made(builder):
        joined = builder.emit(op.concat([builder.emit(op.exp(x)), builder.emit(op.negative(x))], axis=1))
        if function == "relu":
            joined = builder.emit(op.nn.relu(joined))
        if function == "bias":
            joined = builder.emit(op.add(joined, const(np.full((4, 1, 1), 0.3))))
        kernel = builder.emit(op.dequantize(const(weights, "int8"), const(0.0625), const(0, "int8"), axis=0))
        return op.nn.conv2d(rounded(builder, joined, 0.1, zero, dtype), kernel)

    data = np.random.default_rng(1).standard_normal((1, 2, 1, 6), "float32")
    joined = np.concatenate([np.exp(data), -data], axis=1)
    joined = {"nothing": joined, "relu": np.maximum(joined, 0), "bias": joined + np.float32(0.3)}[function]
    right = np.einsum("nchw,oc->nohw", in_bytes(joined, 0.1, zero, dtype), weights[:, :, 0, 0] * 0.0625)
    np.testing.assert_allclose(answers(module([x], made), data)[0], right, rtol=1e-4, atol=1e-4)


@needs_openvino
@pytest.mark.parametrize("others", ["none", "bytes"])
@pytest.mark.parametrize("function", [None, "relu", "max_pool2d"])
def test_joined_bytes_in_front_of_a_convolution(function, others):
    """Bytes that are results as well keep their signs."""
    x, z = var("x", (1, 8, 2, 6)), var("z", (1, 8, 2, 6))
    weights = np.random.default_rng(0).integers(-60, 60, (3, 16, 1, 1), "int8")

    def made(builder):
        parameters = const(0.05), const(5, "int8")
        bytes_ = [builder.emit(op.quantize(each, *parameters, axis=0, out_dtype="int8")) for each in (x, z)]
        numbers = [builder.emit(op.dequantize(each, *parameters, axis=0)) for each in bytes_]
        joined = builder.emit(op.concat(numbers, axis=1))
        if function is not None:
            joined = builder.emit(getattr(op.nn, function)(joined))
        kernel = builder.emit(op.dequantize(const(weights, "int8"), const(0.0625), const(0, "int8"), axis=0))
        image = builder.emit(op.nn.conv2d(joined, kernel))
        return relax.Tuple([image, *(bytes_ if others == "bytes" else [])])

    data, more = np.random.default_rng(1).standard_normal((2, 1, 8, 2, 6), "float32")
    joined = np.concatenate([in_bytes(each, 0.05, 5, "int8") for each in (data, more)], axis=1)
    joined = np.maximum(joined, 0) if function == "relu" else joined
    right = np.einsum("nchw,oc->nohw", joined, weights[:, :, 0, 0] * 0.0625)
    found = answers(module([x, z], made), data, more)
    np.testing.assert_allclose(found[0], right, rtol=1e-4, atol=1e-3)
    for bytes_, numbers in zip(found[1:], (data, more), strict=False):
        np.testing.assert_allclose((bytes_ - 5.0) * 0.05, in_bytes(numbers, 0.05, 5, "int8"), atol=1e-6)


@needs_openvino
@pytest.mark.parametrize("scale", [0.05, 0.07])
def test_joined_rows_of_several_scales_in_front_of_a_product(scale):
    x, z = var("x", (2, 3, 4)), var("z", (2, 5, 4))
    weights = np.random.default_rng(0).integers(-60, 60, (4, 5), "int8")

    def made(builder):
        joined = op.concat([rounded(builder, x, 0.05, 0), rounded(builder, z, scale, 0)], axis=1)
        kernel = builder.emit(op.dequantize(const(weights, "int8"), const(0.0625), const(0, "int8"), axis=0))
        return op.matmul(builder.emit(joined), kernel)

    data, more = (np.random.default_rng(1).uniform(0, 3, (2, rows, 4)).astype("float32") for rows in (3, 5))
    joined = np.concatenate([in_bytes(data, 0.05, 0), in_bytes(more, scale, 0)], axis=1)
    right = joined @ (weights * np.float32(0.0625))
    np.testing.assert_allclose(answers(module([x, z], made), data, more)[0], right, rtol=1e-4, atol=1e-3)


@needs_openvino
@pytest.mark.parametrize("zero", [0, 128])
@pytest.mark.parametrize("function", [None, "relu", "exp"])
def test_joined_rows_that_are_quantized_for_a_product(function, zero):
    """OpenVINO 2026.4 rejects them with a zero point, behind nothing or a linear function."""
    x, z = var("x", (2, 3, 4)), var("z", (2, 5, 4))
    weights = np.random.default_rng(0).integers(-60, 60, (4, 5), "int8")

    def made(builder):
        joined = builder.emit(op.concat([x, z], axis=1))
        if function is not None:
            joined = builder.emit(op.exp(joined) if function == "exp" else op.nn.relu(joined))
        kernel = builder.emit(op.dequantize(const(weights, "int8"), const(0.0625), const(0, "int8"), axis=0))
        return op.matmul(rounded(builder, joined, 0.05, zero), kernel)

    data, more = (np.random.default_rng(1).standard_normal((2, rows, 4), "float32") for rows in (3, 5))
    joined = np.concatenate([data, more], axis=1)
    joined = {None: joined, "relu": np.maximum(joined, 0), "exp": np.exp(joined)}[function]
    right = in_bytes(joined, 0.05, zero) @ (weights * np.float32(0.0625))
    np.testing.assert_allclose(answers(module([x, z], made), data, more)[0], right, rtol=1e-4, atol=1e-3)


@needs_openvino
@pytest.mark.parametrize("counts_padding", [True, False])
@pytest.mark.parametrize("zero", [0, 128])
def test_means_of_windows_of_bytes_are_exact(zero, counts_padding):
    x = var("x", (1, 2, 1, 8))

    def made(builder):
        numbers = rounded(builder, x, 0.0625, zero)
        means = op.nn.avg_pool2d(numbers, (1, 2), padding=(0, 1, 0, 0), count_include_pad=counts_padding)
        return op.multiply(builder.emit(means), const(3.0))

    data = np.random.default_rng(0).uniform(0, 3, (1, 2, 1, 8)).astype("float32")
    padded = np.pad(in_bytes(data, 0.0625, zero), ((0, 0), (0, 0), (0, 0), (1, 0)))
    sums = padded[..., 1:] + padded[..., :-1]
    counts = np.full(8, 2.0)
    counts[0] = 2.0 if counts_padding else 1.0
    found = answers(module([x], made), data)[0]
    np.testing.assert_allclose(found, 3 * sums / counts, rtol=1e-6)


@needs_openvino
def test_a_line_that_a_constant_gives_an_axis_is_quantized():
    x = var("x", (tirx.Var("n", "int64"), 3, 1))

    def made(builder):
        line = builder.emit(op.reshape(x, (-1,)))
        return rounded(builder, builder.emit(op.add(line, const([[0.25]]))), 0.0625, 0)

    mod = module([x], made)
    for count in (3, 2):
        data = np.random.default_rng(count).uniform(0, 3, (count, 3, 1)).astype("float32")
        right = in_bytes(data.reshape(1, -1) + np.float32(0.25), 0.0625, 0)
        np.testing.assert_allclose(answers(mod, data)[0], right, atol=1e-6)


@pytest.mark.parametrize(("extent", "axes", "is_claimed"), [("n", 6, True), ("n", 7, False), (2, 7, True)])
def test_tensors_of_many_axes_and_symbolic_extents_are_declined(extent, axes, is_claimed):
    """OpenVINO keeps kernels by their shapes, and takes one of fewer axes for them."""
    x = var("x", (tirx.Var("n", "int64") if extent == "n" else extent, *(1,) * (axes - 1)))
    mod = module([x], lambda _builder: op.maximum(x, x))
    report = ar.explain(mod, ["openvino"], prepare=False)
    (function,) = report.functions
    assert [entry.placed for entry in function.ops] == ["openvino" if is_claimed else "host"]
    assert ("more than 6 axes" in str(report)) != is_claimed


def test_a_result_that_is_a_view_of_another_one_is_copied():
    graph = Graph("views", DIALECT)
    graph.declare("x", "float32")
    shape = graph.constant(np.array([2, 3]))
    (first,) = graph.add("Reshape", ("x", shape), 1, {})
    (second,) = graph.add("Reshape", (first, shape), 1, {})
    graph.outputs = [Port(name, "float32", (2, 3)) for name in (second, first)]
    repair(graph)
    makers = {name: each.kind for each in graph.operators for name in each.outputs}
    assert makers[graph.outputs[0].name] == "Max"


TWO, SUMMANDS = np.array([0.8, 1.7], "float32"), np.array([-0.6, 0.5], "float32")
SCALINGS = {
    "a factor": lambda builder, x: builder.emit(op.multiply(x, const(TWO.reshape(2, 1, 1)))),
    "a quotient": lambda builder, x: builder.emit(op.divide(x, const(TWO.reshape(2, 1, 1)))),
    "a factor and a function": lambda builder, x: builder.emit(
        op.nn.relu(builder.emit(op.multiply(x, const(TWO.reshape(2, 1, 1)))))
    ),
}


@needs_openvino
@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_summands_along_another_axis_than_as_many_factors(scaling, axis):
    x, q = var("x", (1, 2, 2, 2)), var("q", (1, 3))
    summands = SUMMANDS.reshape((2, 1) if axis == -2 else 2)

    def made(builder):
        y = SCALINGS[scaling](builder, x)
        z = builder.emit(op.multiply(builder.emit(op.add(y, const(summands))), x))
        return relax.Tuple([z, rounded(builder, q, 0.05, 9)])

    data = np.abs(np.random.default_rng(4).standard_normal((1, 2, 2, 2), "float32"))
    given = np.array([[0.1, 0.2, 0.3]], "float32")
    found, _ = answers(module([x, q], made), data, given)
    factors = TWO.reshape(2, 1, 1) if scaling != "a quotient" else 1 / TWO.reshape(2, 1, 1)
    np.testing.assert_allclose(found, (data * factors + summands) * data, rtol=1e-5)


@pytest.mark.parametrize(("shape", "copies"), [((2, 1, 1), 0), ((2,), 1), ((2, 1), 1), ((), 0), ((3,), 0)])
def test_only_summands_along_another_axis_read_a_copy(shape, copies):
    graph = Graph("main", DIALECT)
    for name, dtype in (("x", "float32"), ("q", "float32"), ("s", "float32"), ("z", "uint8")):
        graph.declare(name, dtype)
    factors, summands = graph.constant(TWO.reshape(2, 1, 1)), graph.constant(np.ones(shape, "float32") * 0.5)
    (scaled,) = graph.add("Mul", ("x", factors), 1, {})
    (summed,) = graph.add("Add", (scaled, summands), 1, {})
    graph.add("QuantizeLinear", ("q", "s", "z"), 1, {})
    graph.outputs.append(Port(summed, "float32", (1, 2, 2, 2)))
    repair(graph)
    assert [each.kind for each in graph.operators].count("Max") == copies


def test_a_part_that_many_joins_read_is_looked_at_once():
    """Two ways through each of forty joins are a million million ways in all."""
    graph = Graph("main", DIALECT)
    for name, dtype in (("x", "float32"), ("s", "float32"), ("z", "uint8")):
        graph.declare(name, dtype)
    data, half = "x", graph.constant(np.asarray(0.5, "float32"))
    for _ in range(40):
        parts = [graph.add(kind, (data, half), 1, {})[0] for kind in ("Mul", "Add")]
        (data,) = graph.add("Concat", parts, 1, {"axis": 0})
    (rounded_data,) = graph.add(
        "QuantizeLinear", (data, graph.constant(np.asarray(0.1, "float32")), "z"), 1, {}
    )
    graph.outputs.append(Port(rounded_data, "uint8", (None,)))
    repair(graph)
    assert [each.kind for each in graph.operators].count("Concat") == 40


@needs_openvino
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("between", [False, True], ids=["behind it", "behind functions"])
def test_zero_points_by_channels_of_one_pixel_of_one_image(dtype, rank, between):
    """Of any number of images; OpenVINO lost the zero points where there was one."""
    rng = np.random.default_rng(5)
    steps, zeros = np.array([0.053, 0.1, 0.127, 0.091], "float32"), np.array([7, 3, 0, 9])
    kernel = rng.integers(-120, 120, (4, 3, *[1] * rank)).astype("int8")
    factors, shifts = (rng.uniform(0.5, 1.5, (4, *[1] * rank)).astype("float32") for _ in range(2))
    x = var("x", (tirx.Var("n", "int64"), 3, *[1] * rank))

    def made(builder):
        bytes_ = rounded(builder, x, 0.0313, 0, dtype)
        weight = builder.emit(op.dequantize(const(kernel, "int8"), const(0.0071), const(0, "int8"), axis=0))
        convolve = {1: op.nn.conv1d, 2: op.nn.conv2d}[rank]
        image = builder.emit(convolve(bytes_, weight))
        if between:
            scaled = builder.emit(op.multiply(image, relax.const(factors)))
            image = builder.emit(op.nn.relu(builder.emit(op.add(scaled, relax.const(shifts)))))
        return op.quantize(image, const(steps), const(zeros, dtype), axis=1, out_dtype=dtype)

    limits = np.iinfo(dtype)
    for count in (1, 2, 1):
        data = rng.standard_normal((count, 3, *[1] * rank), "float32") * 3
        image = np.einsum(
            "nc...,oc->no...", in_bytes(data, 0.0313, 0, dtype), kernel.reshape(4, 3) * np.float32(0.0071)
        )
        if between:
            image = np.maximum(image * factors + shifts, 0)
        along = (4, *[1] * rank)
        whole = np.clip(np.rint(image / steps.reshape(along)) + zeros.reshape(along), limits.min, limits.max)
        (found,) = answers(module([x], made), data)
        np.testing.assert_array_equal(found, whole.astype(dtype))


@needs_openvino
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("factor", [False, True], ids=["taken", "scaled and taken"])
def test_elements_of_joined_bytes_are_taken(dtype, factor):
    """OpenVINO ended the process."""
    x, places = var("x", (tirx.Var("n", "int64"), 4)), var("places", (3,), "int64")

    def made(builder):
        bytes_ = rounded(builder, x, 0.125, 5, dtype)
        joined = builder.emit(op.concat([bytes_, builder.emit(op.nn.relu(x))], 1))
        whole = builder.emit(op.multiply(joined, const(0.5))) if factor else joined
        return op.take(whole, places, axis=1)

    data, chosen = np.random.default_rng(0).standard_normal((2, 4), "float32"), np.array([6, 0, 3], "int64")
    joined = np.concatenate([in_bytes(data, 0.125, 5, dtype), np.maximum(data, 0)], 1)
    (found,) = answers(module([x, places], made), data, chosen)
    np.testing.assert_allclose(found, joined[:, chosen] * (0.5 if factor else 1), rtol=1e-6)
