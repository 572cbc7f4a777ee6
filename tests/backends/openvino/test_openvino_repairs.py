"""The operators that are inserted into graphs for OpenVINO; most results are tested elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from kits.backends.openvino_kit import needs_openvino
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter import emit
from annotated_region.backends.onnx_emitter.graph import Graph
from annotated_region.backends.openvino import installation
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.repairs.repairing import repair
from annotated_region.compilation.code_generation import external_functions

COLUMN = np.ones((3, 1, 1), "float32")
README = Path(installation.__file__).with_name("README.md").read_text(encoding="utf-8")


def _added(graph: Graph, kind: str, *inputs: str) -> str:
    for name in inputs:
        if name not in graph.dtypes:
            graph.declare(name, "float32")
    return graph.add(kind, inputs, 1, {})[0]


@pytest.mark.parametrize("first", ["MatMul", "Add"])
def test_only_what_stems_from_a_product_is_copied_however_long_the_way(first):
    graph = Graph("chain", DIALECT)
    value = _added(graph, first, "x", "y")
    for _ in range(800):
        value = _added(graph, "Exp", _added(graph, "Mul", value, graph.constant(np.full(1, 0.5, "float32"))))
    result = _added(graph, "Add", value, graph.constant(COLUMN))
    repair(graph)
    (last,) = (each for each in graph.operators if each.outputs == (result,))
    assert (last.inputs[0] != value) == (first == "MatMul")


@pytest.mark.parametrize("first", ["Mul", "Relu"])
def test_a_convolution_reads_a_copy_of_scaled_data_however_long_the_way(first):
    graph = Graph("chain", DIALECT)
    constant = graph.constant(np.ones((3, 1), "float32"))
    value = _added(graph, first, "x", constant) if first == "Mul" else _added(graph, first, "x")
    for _ in range(1200):
        value = _added(graph, "Identity", value)
    _convolved(graph, value)
    repair(graph)
    assert (graph.operators[-1].inputs[0] != value) == (first == "Mul")


@pytest.mark.parametrize("kind", ["Add", "Mul"])
@pytest.mark.parametrize(
    ("shape", "view", "is_copied"),
    [
        ((3, 1, 1), None, False),
        ((1, 3, 1, 1), None, False),
        ((1,), None, False),
        ((3,), None, True),
        ((3, 1), None, True),
        ((2, 3, 1, 1), None, True),
        ((3, 1, 1), "Unsqueeze", True),
    ],
)
def test_a_convolution_reads_a_copy_of_what_is_scaled_by_more_than_channels(kind, shape, view, is_copied):
    graph = Graph("scaled", DIALECT)
    value = _added(graph, kind, "x", graph.constant(np.ones(shape, "float32")))
    if view is not None:
        value = _added(graph, view, value, graph.constant(np.array([0])))
    _convolved(graph, value)
    repair(graph)
    assert (graph.operators[-1].inputs[0] != value) == is_copied


def _convolved(graph: Graph, value: str) -> None:
    graph.declare("w", "float32")
    graph.add("Conv", (value, "w"), 1, {"strides": [1, 1]})


@pytest.mark.parametrize("count", ["n", 3])
def test_a_function_reads_a_copy_of_a_product_that_may_have_no_summands(count):
    """OpenVINO 2026.4 leaves the result of both unwritten where there are none."""
    inner = tirx.Var("n", "int64") if count == "n" else count
    x, y = var("x", (2, inner)), var("y", (inner, 2))
    mod = module([x, y], lambda builder: op.nn.relu(builder.emit(op.matmul(x, y))))
    (region,) = external_functions(ar.partition(mod, ["openvino"]))["openvino"].values()
    graph = emit(region, DIALECT).graph
    repair(graph)
    assert [each.kind for each in graph.operators] == ["MatMul", *(["Max"] if count == "n" else []), "Relu"]


@needs_openvino
def test_a_function_of_a_product_without_summands_is_written():
    n = tirx.Var("n", "int64")
    x, y = var("x", (2, n)), var("y", (n, 2))
    mod = module([x, y], lambda builder: op.sigmoid(builder.emit(op.matmul(x, y))))
    run = relax.VirtualMachine(ar.build(ar.partition(mod, ["openvino"])), tvm.cpu())["main"]
    for count in (0, 3, 0):
        pair = [np.full(shape, 2, "float32") for shape in ((2, count), (count, 2))]
        found = run(*map(tvm.runtime.tensor, pair)).numpy()
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-(pair[0] @ pair[1]))), rtol=1e-5)


@needs_openvino
@pytest.mark.parametrize("is_turned", [(True, False), (False, True), (True, True)])
def test_a_product_of_constants_that_were_quantized_is_computed_of_those_that_are_permuted(is_turned):
    """OpenVINO 2026.4 reads a dequantized constant as it lies, not as it is permuted."""
    rng = np.random.default_rng(0)
    x = var("x", (3, 4))
    bytes_ = [rng.integers(-127, 127, shape).astype("int8") for shape in ((3, 5), (5, 4))]

    def made(builder):
        factors = []
        for each, turned in zip(bytes_, is_turned, strict=True):
            data = relax.const(each.T.copy() if turned else each)
            floats = op.dequantize(data, relax.const(0.05, "float32"), relax.const(np.int8(3)), axis=0)
            floats = builder.emit(floats)
            factors.append(builder.emit(op.permute_dims(floats, [1, 0])) if turned else floats)
        return op.add(builder.emit(op.matmul(*factors)), x)

    mod = ar.partition(module([x], made), ["openvino"], prepare=False)
    run = relax.VirtualMachine(ar.build(mod), tvm.cpu())["main"]
    left, right = ((each.astype("float32") - 3) * np.float32(0.05) for each in bytes_)
    given = rng.standard_normal((3, 4), "float32")
    found = run(tvm.runtime.tensor(given)).numpy()
    np.testing.assert_allclose(found, left @ right + given, rtol=1e-5, atol=1e-5)


@needs_openvino
@pytest.mark.parametrize("behind", ["nothing", "twice"])
@pytest.mark.parametrize("extreme", ["max", "min"])
def test_a_quantized_extreme_is_not_rounded_before(extreme, behind):
    """OpenVINO 2026.4 rounds it to a whole number where the reduction quantizes."""
    x = var("x", (2, 3, 4))

    def made(builder):
        found = builder.emit(getattr(op, extreme)(x, axis=[2]))
        if behind == "twice":
            found = builder.emit(op.multiply(found, relax.const(2.0)))
        return op.quantize(found, relax.const(0.0625), relax.const(np.uint8(3)), axis=0, out_dtype="uint8")

    run = relax.VirtualMachine(ar.build(ar.partition(module([x], made), ["openvino"])), tvm.cpu())["main"]
    given = (np.random.default_rng(0).integers(1, 90, (2, 3, 4)) / 16).astype("float32")
    right = getattr(given, extreme)(axis=2) * (2 if behind == "twice" else 1) * 16 + 3
    np.testing.assert_array_equal(run(tvm.runtime.tensor(given)).numpy(), right.astype("uint8"))


@needs_openvino
@pytest.mark.parametrize("count", ["n", 3])
@pytest.mark.parametrize("reduction", ["mean", "max", "sum", "prod"])
def test_a_permutation_behind_a_reduction_is_not_lost(reduction, count):
    """OpenVINO 2026.4 forgets one that only moves an axis of extent 1, and what reads it is broadcast."""
    extent = tirx.Var("n", "int64") if count == "n" else count
    x, y = var("x", (2, extent, 1)), var("y", (1, extent))

    def made(builder):
        reduced = builder.emit(getattr(op, reduction)(x, axis=[0]))
        return op.add(builder.emit(op.permute_dims(reduced, [1, 0])), y)

    run = relax.VirtualMachine(ar.build(ar.partition(module([x, y], made), ["openvino"])), tvm.cpu())["main"]
    data, term = (np.random.default_rng(1).standard_normal(shape, "float32") for shape in ((2, 3, 1), (1, 3)))
    found = run(tvm.runtime.tensor(data), tvm.runtime.tensor(term)).numpy()
    np.testing.assert_allclose(found, getattr(data, reduction)(axis=0).T + term, rtol=1e-5)


@needs_openvino
@pytest.mark.parametrize(
    ("extents", "layout"), [((4, 2), "NC"), ((4, "n"), "NC"), ((2, 4, 2), "NC"), ((4, 2), "NHWC")]
)
def test_a_convolution_of_one_channel_to_a_single_column_has_all_rows(extents, layout):
    """OpenVINO 2026.4 computes the first row only, if the processor has AVX-512."""
    width = tirx.Var("n", "int64")
    shape = [width if extent == "n" else extent for extent in extents]
    kernel = np.random.default_rng(0).standard_normal((32, 1, *[1] * (len(shape) - 2), 2, 2), "float32")
    x = var("x", (2, 1, *shape) if layout == "NC" else (2, *shape, 1))
    convolution = op.nn.conv2d if len(shape) == 2 else op.nn.conv3d
    padding = [0] * (len(shape) - 2) + [1] + [0] * (len(shape) + 1)
    more = {"data_layout": "NHWC"} if layout == "NHWC" else {}
    strides = [1] * (len(shape) - 1) + [3]
    mod = module([x], lambda _: convolution(x, relax.const(kernel), strides=strides, padding=padding, **more))
    data = np.random.default_rng(1).standard_normal((2, 1, *(2 if each == "n" else each for each in extents)))
    data = data.astype("float32")
    above = np.pad(data[:, 0], [(0, 0)] * (len(shape) - 1) + [(1, 0), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(above, (2, 2), (-2, -1))[..., :1, :, :]
    right = np.moveaxis(np.einsum("...ij,oij->o...", windows, kernel.reshape(32, 2, 2)), 0, 1)
    given, right = (each if layout == "NC" else np.moveaxis(each, 1, -1) for each in (data, right))
    found = _answer(mod, np.ascontiguousarray(given))
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


@needs_openvino
@pytest.mark.parametrize("behind", ["nothing", "tanh"])
@pytest.mark.parametrize("function", ["multiply", "add"])
@pytest.mark.parametrize("extents", [("n", 1, 1), (1, "h", "w"), ("n", "h", "w")])
def test_a_difference_from_a_convolution_to_one_pixel_is_right(extents, function, behind):
    """OpenVINO 2026.4 fuses the three, and computes something else for one pixel of one image."""
    kernel, bias, scale = (
        np.random.default_rng(seed).standard_normal(shape, "float32")
        for seed, shape in enumerate([(8, 1, 3, 3), (8, 1, 1), (8, 1, 1)])
    )
    batch, *space = (tirx.Var(each, "int64") if isinstance(each, str) else each for each in extents)
    x = var("x", (batch, 8, *space))

    def made(builder):
        convolved = builder.emit(op.nn.conv2d(x, relax.const(kernel), padding=(1, 1), groups=8))
        difference = builder.emit(op.subtract(builder.emit(op.add(convolved, relax.const(bias))), x))
        value = builder.emit(op.tanh(difference)) if behind == "tanh" else difference
        return getattr(op, function)(value, relax.const(scale))

    data = np.random.default_rng(3).standard_normal((1, 8, 1, 1), "float32")
    right = data * kernel[None, :, 0, 1:2, 1:2] + bias - data
    right = np.tanh(right) if behind == "tanh" else right
    found = _answer(module([x], made), data)
    np.testing.assert_allclose(found, getattr(np, function)(right, scale), rtol=1e-5, atol=1e-6)


@needs_openvino
def test_means_of_windows_that_count_padding_beside_a_quantization():
    """OpenVINO moves the summand behind the means, where padding has it as well."""
    x = var("x", (2, 1, 4, 4))

    def made(builder):
        data = builder.emit(op.add(builder.emit(op.multiply(x, _const(1.5))), _const(0.75)))
        means = builder.emit(op.nn.avg_pool2d(data, (2, 2), padding=(0, 0, 1, 1), count_include_pad=True))
        return relax.Tuple([means, _quantized(builder, data)])

    data = np.random.default_rng(0).standard_normal((2, 1, 4, 4), "float32")
    wide = np.pad(data * np.float32(1.5) + np.float32(0.75), ((0, 0), (0, 0), (0, 1), (0, 1)))
    right = np.mean([wide[..., i : i + 4, j : j + 4] for i in (0, 1) for j in (0, 1)], axis=0)
    partitioned = ar.partition(module([x], made), ["openvino"], prepare=False)
    run = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())["main"]
    np.testing.assert_allclose(run(tvm.runtime.tensor(data))[0].numpy(), right, rtol=1e-5, atol=1e-5)


def _answer(mod, *arrays):
    partitioned = ar.partition(mod, ["openvino"], prepare=False)
    run = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())["main"]
    return run(*map(tvm.runtime.tensor, arrays)).numpy()


def _const(values):
    return relax.const(np.asarray(values, "float32"))


def _quantized(builder, data, scale=0.0625, axis=1):
    zero = np.zeros(np.shape(scale), "int8")
    data = builder.emit(data)
    return builder.emit(op.quantize(data, _const(scale), relax.const(zero), axis=axis, out_dtype="int8"))


def _rounded(builder, data):
    """Data that were quantized, in float32."""
    quantized = _quantized(builder, data)
    return builder.emit(op.dequantize(quantized, _const(0.0625), relax.const(np.int8(0)), axis=1))


def _by_rows(builder, data):
    """Bytes with a scale for each row of (4, ...)."""
    scales = np.linspace(0.01, 0.03, 4)
    bytes_ = np.clip(np.rint(data.T / scales).T, -127, 127).astype("int8")
    zeros = relax.const(np.zeros(4, "int8"))
    return builder.emit(op.dequantize(relax.const(bytes_), _const(scales), zeros, axis=0))


def _product(builder, x):
    kernel = _by_rows(builder, np.random.default_rng(1).standard_normal((4, 3)))
    return builder.emit(op.matmul(_rounded(builder, x), builder.emit(op.permute_dims(kernel, [1, 0]))))


def _convolution(builder, x):
    kernel = _by_rows(builder, np.random.default_rng(1).standard_normal((4, 4, 1)))
    return builder.emit(op.nn.conv1d(_rounded(builder, x), kernel))


SIGNED = np.array([[1], [-2], [0.5], [-1.5]])
POSITIVE = np.abs(SIGNED)
TABLE = np.random.default_rng(2).uniform(0.3, 2, (4, 4))
QUANTIZED = {
    "a factor with signs": lambda b, x: op.multiply(x, _const(SIGNED)),
    "a divisor with signs": lambda b, x: op.divide(x, _const(SIGNED)),
    "a negative factor of a factor": lambda b, x: op.negative(b.emit(op.multiply(x, _const(POSITIVE)))),
    "a factor that is moved": lambda b, x: op.permute_dims(
        b.emit(op.multiply(x, _const(POSITIVE))), [0, 2, 1]
    ),
    "a factor that is clipped": lambda b, x: op.clip(b.emit(op.multiply(x, _const(POSITIVE))), -1, 1.5),
    "a factor of bytes": lambda b, x: op.reshape(
        b.emit(op.multiply(_rounded(b, x), _const(SIGNED))), (5, 4, 3, 1)
    ),
    "a sum of bytes": lambda b, x: op.sin(b.emit(op.sum(_rounded(b, x), axis=[1]))),
    "a sum of a convolution": lambda b, x: op.abs(b.emit(op.sum(_convolution(b, x), axis=[2]))),
    "two readers of a convolution in float16": lambda b, x: op.add(
        whole := b.emit(op.astype(b.emit(op.astype(_convolution(b, x), "float16")), "float32")),
        b.emit(op.cos(whole)),
    ),
    "two readers of a multiple of a convolution": lambda b, x: op.add(
        scaled := b.emit(op.multiply(_convolution(b, x), _const(SIGNED))), b.emit(op.cos(scaled))
    ),
    "the square of a convolution": lambda b, x: op.multiply(whole := _convolution(b, x), whole),
    "the double of a convolution": lambda b, x: op.add(whole := _convolution(b, x), whole),
    "a pool of columns of a product": lambda b, x: op.nn.avg_pool1d(_product(b, x), 2),
    "a table of factors of a product": lambda b, x: op.multiply(_product(b, x), _const(TABLE)),
    "a factor of a function of a product": lambda b, x: op.multiply(
        b.emit(op.nn.leakyrelu(_product(b, x), 0.25)), _const(-POSITIVE.ravel())
    ),
}


@needs_openvino
def test_a_quantized_convolution_in_a_sum_is_rounded_with_the_sum():
    """A limit of OpenVINO 2026.4 that README.md has: the sum is one step away at most."""
    x, y = var("x", (5, 4, 3)), var("y", (5, 4, 3))

    def made(builder):
        return _quantized(builder, op.add(_rounded(builder, _convolution(builder, x)), y), scale=0.03125)

    mod = module([x, y], made)
    arrays = np.random.default_rng(0).standard_normal((2, 5, 4, 3), "float32")
    machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    right = machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    steps = np.abs(_answer(mod, *arrays).astype(int) - right)
    assert steps.max() == 1
    assert all(word in README for word in ("A convolution of bytes", "is not rounded before the"))


@needs_openvino
@pytest.mark.parametrize("name", QUANTIZED)
def test_factors_and_scales_of_quantized_values_stay_where_they_are(name):
    """OpenVINO 2026.4 fuses them with the quantization, or moves them to where others are read."""
    x = var("x", (5, 4, 3))
    mod = module([x], lambda builder: _quantized(builder, QUANTIZED[name](builder, x)))
    data = np.random.default_rng(0).standard_normal((5, 4, 3), "float32") * np.float32(2)
    machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    right = machine["main"](tvm.runtime.tensor(data)).numpy()
    # What is almost a tie is rounded to either side.
    np.testing.assert_allclose(_answer(mod, data), right, atol=1)


@pytest.mark.parametrize("is_quantized", [True, False])
def test_the_difference_from_a_constant_is_copied_in_quantized_models(is_quantized):
    """The compilation of one that is gathered ends the process otherwise."""
    graph = Graph("graph", DIALECT)
    graph.constants |= {
        "c": np.ones((1, 4), "float32"),
        "s": np.array(0.5, "float32"),
        "z": np.array(0, "int8"),
    }
    graph.declare("s", "float32")
    graph.declare("z", "int8")
    difference = _added(graph, "Sub", "c", "x")
    gathered = graph.add("Gather", (difference, graph.constant(np.array([0, 2]))), 1, {"axis": 1})[0]
    if is_quantized:
        graph.add("QuantizeLinear", (gathered, "s", "z"), 1, {})
    repair(graph)
    assert [each.kind for each in graph.operators][:3] == (
        ["Sub", "Max", "Gather"] if is_quantized else ["Sub", "Gather"]
    )


@pytest.mark.parametrize("axes", [3, 4])
@pytest.mark.parametrize("between", ["Relu", "Reshape"])
def test_a_mean_of_lines_of_a_convolution_of_bytes_reads_a_copy(between, axes):
    """OpenVINO 2026.4 moves scales by channels behind the mean, where only the first image has them."""
    graph = Graph("graph", DIALECT)
    graph.constants |= {
        "s": np.array(0.5, "float32"),
        "z": np.array(0, "int8"),
        "w": np.ones((4, 4, 1, 1)[:axes]),
    }
    for name, dtype in (("s", "float32"), ("z", "int8"), ("x", "int8"), ("w", "float32")):
        graph.declare(name, dtype)
    values = graph.add("DequantizeLinear", ("x", "s", "z"), 1, {})[0]
    convolution = graph.add("Conv", (values, "w"), 1, {"strides": [1] * (axes - 2)})[0]
    shape = (graph.constant(np.array([0, 0, -1])),) if between == "Reshape" else ()
    _added(graph, "GlobalAveragePool", graph.add(between, (convolution, *shape), 1, {})[0])
    repair(graph)
    is_copied = [each.kind for each in graph.operators][-2] == "Max"
    assert is_copied == (axes == 3 or between == "Reshape")


@pytest.mark.parametrize(("shape", "count"), [((3,), 0), ((1, 3), 0), ((3, 1), 1)])
def test_a_bias_of_columns_of_dequantized_values_reads_no_copy(shape, count):
    """As in quantized transformers; so the sum stays fused with what it is added to."""
    graph = Graph("graph", DIALECT)
    graph.constants |= {"s": np.array(0.5, "float32"), "z": np.array(0, "int8")}
    for name, dtype in (("s", "float32"), ("z", "int8"), ("x", "int8")):
        graph.declare(name, dtype)
    values = graph.add("DequantizeLinear", ("x", "s", "z"), 1, {})[0]
    _added(graph, "Add", values, graph.constant(np.ones(shape, "float32")))
    repair(graph)
    assert [each.kind for each in graph.operators].count("Max") == count


@needs_openvino
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_quantized_convolution_of_one_plane_that_is_padded(dtype):
    """OpenVINO 2026.4 computes zeros, or numbers beyond all, of one channel."""
    x = var("x", (3, 1, 1, 2, 4))
    weights = np.random.default_rng(0).integers(-100, 100, (8, 1, 2, 2, 2), "int8")
    scale, zero = _const(0.03125), relax.const(np.zeros((), dtype))

    def made(builder):
        data = builder.emit(op.quantize(x, scale, zero, axis=1, out_dtype=dtype))
        kernel = builder.emit(
            op.dequantize(relax.const(weights), _const(0.05), relax.const(np.int8(0)), axis=0)
        )
        floats = builder.emit(op.dequantize(data, scale, zero, axis=1))
        return op.nn.conv3d(floats, kernel, padding=[1, 0, 0, 1, 0, 0])

    mod = module([x], made)
    data = np.random.default_rng(1).standard_normal((3, 1, 1, 2, 4), "float32")
    right = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())["main"](
        tvm.runtime.tensor(data)
    ).numpy()
    np.testing.assert_allclose(_answer(mod, data), right, rtol=1e-5, atol=1e-5)


@needs_openvino
@pytest.mark.parametrize("between", [None, "negative", "sigmoid"])
@pytest.mark.parametrize("shape", [(1, 2, 1, 7, 2), (3, 2, 1, 7, 2), (2, 1, 7, 2)])
def test_an_image_of_a_transposed_convolution_is_repeated(between, shape):
    """OpenVINO 2026.4 repeats it along another axis, if it has one channel."""
    x, w = var("x", (1, 2, 3, 1)), var("w", (2, 1, 3, 2))

    def made(builder):
        image = builder.emit(op.nn.conv2d_transpose(x, w, strides=[2, 2]))
        if between is not None:
            image = builder.emit(getattr(op, between)(image))
        return op.broadcast_to(image, shape)

    rng = np.random.default_rng(0)
    data, kernel = (rng.standard_normal(extents, "float32") for extents in ((2, 3, 1), (2, 3, 2)))
    image = np.zeros((7, 2), "float32")
    for row in range(3):
        image[2 * row : 2 * row + 3] += np.einsum("c,chw->hw", data[:, row, 0], kernel)
    values = {None: image, "negative": -image, "sigmoid": 1 / (1 + np.exp(-image))}[between]
    found = _answer(module([x, w], made), data[None], kernel[:, None])
    np.testing.assert_allclose(found, np.broadcast_to(values, shape), rtol=1e-5, atol=1e-5)
