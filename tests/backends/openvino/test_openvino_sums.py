"""Sums with convolutions, views beside them, and quotients of reductions, which OpenVINO computes wrongly."""

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
from annotated_region.backends.onnx_emitter import emit
from annotated_region.backends.onnx_emitter.graph import Graph
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.repairs.repairing import repair
from annotated_region.compilation.code_generation import external_functions
from annotated_region.host_targets import UNOPTIMIZED


def answers(mod, *arrays):
    """The results of a module whose ops are all in one region."""
    partitioned = ar.partition(mod, ["openvino"], prepare=False)
    assert len(external_functions(partitioned)) == 1
    return call(relax.VirtualMachine(ar.build(partitioned, UNOPTIMIZED), tvm.cpu()), *arrays)


def windows(data, kernel):
    """A convolution of (n, channels, rows, columns) without strides and padding."""
    rows, columns = (data.shape[axis] - kernel.shape[axis] + 1 for axis in (2, 3))
    parts = [
        np.einsum(
            "nchw,oc->nohw",
            data[:, :, row : row + rows, column : column + columns],
            kernel[:, :, row, column],
        )
        for row in range(kernel.shape[2])
        for column in range(kernel.shape[3])
    ]
    return np.sum(parts, axis=0)


@needs_openvino
@pytest.mark.parametrize("between", [None, "negative"])
@pytest.mark.parametrize("kind", ["add", "subtract"])
@pytest.mark.parametrize("shape", [(1, 4, 2, 5), (2, 3, 4, 3)])
def test_a_sum_with_a_convolution_of_few_channels(shape, kind, between):
    channels, rows, columns = shape[0], shape[1], shape[2]
    count = tirx.Var("n", "int64")
    kernel = np.random.default_rng(0).standard_normal((3, channels, 1, 2), "float32")
    x, z = var("x", (count, channels, rows, columns)), var("z", (count, 3, rows, columns - 1))

    def made(builder):
        image = builder.emit(op.nn.conv2d(x, relax.const(kernel)))
        if between is not None:
            image = builder.emit(getattr(op, between)(image))
        return getattr(op, kind)(image, z)

    mod = module([x, z], made)
    rng = np.random.default_rng(1)
    for images in (1, 3):
        data = rng.standard_normal((images, channels, rows, columns), "float32")
        other = rng.standard_normal((images, 3, rows, columns - 1), "float32")
        image = windows(data, kernel) * (1 if between is None else -1)
        right = image + other if kind == "add" else image - other
        np.testing.assert_allclose(answers(mod, data, other)[0], right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("channels", "copies"), [(1, 1), (3, 1), (4, 0), (64, 0)])
def test_a_sum_reads_a_copy_of_a_convolution_of_few_channels_alone(channels, copies):
    graph = Graph("sum", DIALECT)
    for name in ("x", "z"):
        graph.declare(name, "float32")
    kernel = graph.constant(np.ones((8, channels, 2, 2), "float32"))
    (image,) = graph.add("Conv", ("x", kernel), 1, {"strides": [1, 1]})
    graph.add("Add", ("z", image), 1, {})
    repair(graph)
    assert [each.kind for each in graph.operators].count("Max") == copies


@pytest.mark.parametrize("kind", ["add", "subtract"])
@pytest.mark.parametrize(("count", "images", "copies"), [("n", 1, 1), ("n", "n", 0), (2, 1, 0), (1, 1, 0)])
def test_a_sum_with_one_image_for_any_number_reads_a_copy_of_a_convolution(count, images, copies, kind):
    """Without images, OpenVINO writes the other operand into the memory of a result that has none."""
    n = tirx.Var("n", "int64")
    x, z = (
        var(name, (n if extent == "n" else extent, 8, 5, 4)) for name, extent in (("x", count), ("z", images))
    )
    kernel = relax.const(np.ones((8, 8, 1, 1), "float32"))
    mod = module([x, z], lambda builder: getattr(op, kind)(z, builder.emit(op.nn.conv2d(x, kernel))))
    graph = emit(mod["main"], DIALECT).graph
    repair(graph)
    assert [each.kind for each in graph.operators].count("Max") == copies


@needs_openvino
def test_a_convolution_of_few_channels_in_front_of_a_norm_with_a_computed_bias():
    x, w, bias = var("x", (tirx.Var("n", "int64"), 1, 2)), var("w", (2, 1, 2)), var("bias", (2,))
    numbers = ([-0.02, 0.51], [1.4, 0.9], [0.3, 2.2])
    mean, scale, variance = (np.array(each, "float32") for each in numbers)

    def made(builder):
        image = builder.emit(op.nn.conv1d(x, w))
        parameters = relax.const(scale), bias, relax.const(mean), relax.const(variance)
        norm = op.nn.batch_norm(image, *parameters, axis=1, epsilon=0.01, training=False)
        return relax.TupleGetItem(builder.emit(norm), 0)

    rng = np.random.default_rng(1)
    data, kernel, shift = (rng.standard_normal(shape, "float32") for shape in ((1, 1, 2), (2, 1, 2), (2,)))
    image = (data * kernel[:, 0]).sum(-1)[0]
    right = (image - mean) / np.sqrt(variance + np.float32(0.01)) * scale + shift
    found = answers(module([x, w, bias], made), data, kernel, shift)[0]
    np.testing.assert_allclose(found[0, :, 0], right, rtol=1e-5, atol=1e-5)


@needs_openvino
@pytest.mark.parametrize("views", [1, 2])
def test_a_convolution_of_a_permutation_beside_views(views):
    x = var("x", (1, 2, 3, 8))
    kernel = np.random.default_rng(0).standard_normal((2, 8, 1, 2), "float32")

    def made(builder):
        data = builder.emit(op.exp(x))
        image = builder.emit(
            op.nn.conv2d(data, relax.const(kernel), data_layout="NHWC", kernel_layout="OIHW")
        )
        wide = builder.emit(op.expand_dims(data, [0, 2]))
        other = builder.emit(op.reshape(data, (1, 1, 1, 2, 3, 8))) if views == 2 else wide
        return relax.Tuple([image, builder.emit(op.sum(wide)), builder.emit(op.maximum(other, other))])

    data = np.random.default_rng(1).standard_normal((1, 2, 3, 8), "float32")
    found = answers(module([x], made), data)
    image = windows(np.exp(data).transpose(0, 3, 1, 2), kernel).transpose(0, 2, 3, 1)
    for each, right in zip(found, (image, np.exp(data).sum(), np.exp(data)[None, :, None]), strict=True):
        np.testing.assert_allclose(each, right, rtol=1e-4, atol=1e-4)


@needs_openvino
@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "prod"])
def test_a_quotient_of_a_reduction_behind_a_view_of_computed_extents(reduction):
    x = var("x", (tirx.Var("n", "int64"), 1, 3))

    def made(builder):
        reduced = builder.emit(getattr(op, reduction)(x, axis=[1, 2], keepdims=True))
        return op.divide(builder.emit(op.permute_dims(reduced, [2, 1, 0])), relax.const(np.float32(-0.1)))

    mod = module([x], made)
    data = np.random.default_rng(0).standard_normal((4, 1, 3), "float32")
    right = getattr(data, reduction)(axis=(1, 2)) / np.float32(-0.1)
    np.testing.assert_allclose(answers(mod, data)[0].reshape(-1), right, rtol=1e-5)


@needs_openvino
@pytest.mark.parametrize("shape", [(1, "n", 2), ("n", 2)])
def test_one_matrix_of_symbolic_extents_times_each_of_a_stack(shape):
    """OpenVINO computes a result of one matrix, and does not write it, or refuses the product."""
    x = var("x", [tirx.Var("n", "int64") if extent == "n" else extent for extent in shape])
    stack = np.random.default_rng(0).standard_normal((3, 2, 5), "float32")
    partitioned = ar.partition(
        module([x], lambda builder: op.tanh(builder.emit(op.matmul(x, relax.const(stack))))), ["openvino"]
    )
    run = relax.VirtualMachine(ar.build(partitioned, UNOPTIMIZED), tvm.cpu())
    for count in (3, 0, 1):
        extents = [count if extent == "n" else extent for extent in shape]
        data = np.random.default_rng(1).standard_normal(extents, "float32")
        np.testing.assert_allclose(call(run, data)[0], np.tanh(data @ stack), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("extents", "axes"),
    [
        ((1, "n", 4), 4),
        (("n", 4), 4),
        ((3, "n", 4), 3),
        ((1, 2, 4), 3),
        ((1, 1, "n", 4), 3),
    ],
)
def test_a_stack_of_constant_matrices_has_a_further_axis_where_one_matrix_is_repeated(extents, axes):
    shape = [tirx.Var(extent, "int64") if isinstance(extent, str) else extent for extent in extents]
    x, stack = var("x", shape), relax.const(np.ones((3, 4, 5), "float32"))
    graph = emit(module([x], lambda _: op.matmul(x, stack))["main"], DIALECT).graph
    repair(graph)
    kinds = [each.kind for each in graph.operators]
    assert kinds == (["Unsqueeze", "MatMul", "Squeeze"] if axes == 4 else ["MatMul"])


@needs_openvino
@pytest.mark.parametrize("letters", ["ijk->ij", "ijk->ik", "ijk->ki"])
def test_a_quotient_of_a_sum_in_einstein_notation(letters):
    """OpenVINO computes the first image only, if it fuses the two, as with other reductions."""
    x = var("x", (3, 1, 1))

    def made(builder):
        return op.divide(builder.emit(op.einsum((x,), letters)), relax.const(np.float32(-0.1)))

    data = np.random.default_rng(0).standard_normal((3, 1, 1), "float32")
    right = np.einsum(letters, data) / np.float32(-0.1)
    np.testing.assert_allclose(answers(module([x], made), data)[0], right, rtol=1e-5)
