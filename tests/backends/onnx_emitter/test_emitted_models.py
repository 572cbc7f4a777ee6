"""The walk and the model: ports, results, symbols, composites, large weights, declines, text goldens."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.backends.emitted_models import array, run
from kits.backends.relax_kit import module, op_views, var
from tvm import relax, tirx
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import annotated_region as ar
from annotated_region.backends.onnx_emitter import emit, trial
from annotated_region.backends.onnxruntime.rules import DIALECT
from annotated_region.backends.openvino.kernels import DIALECT as FOR_OPENVINO
from annotated_region.errors import BackendUnavailableError, CodegenError
from annotated_region.testing.light_models import input_of, light_model, light_module

GOLDENS = Path(__file__).parent / "goldens"


def const(*shape):
    return relax.const(array(*shape))


def function(params, make):
    """The function alone."""
    return module(params, make)["main"]


def reason(make, *params):
    return [trial(view, DIALECT) for view in op_views(module(params, make))][-1]


# --- ports


def test_ports_are_named_and_typed_after_parameters_and_results():
    x, y = var("image", (2, 3)), var("mask", (2, 3), "bool")
    model = emit(function([x, y], lambda _: (op.where(y, x, op.exp(x)), op.logical_not(y))), DIALECT)
    assert [(port.name, port.dtype, port.shape) for port in model.inputs] == [
        ("image", "float32", (2, 3)),
        ("mask", "bool", (2, 3)),
    ]
    assert [(port.name, port.dtype) for port in model.outputs] == [
        ("result_0", "float32"),
        ("result_1", "bool"),
    ]
    image, mask = array(2, 3), array(2, 3) > 0
    first, second = run(model, image, mask)
    np.testing.assert_allclose(first, np.where(mask, image, np.exp(image)), rtol=1e-6)
    np.testing.assert_array_equal(second, ~mask)


def test_a_value_that_is_two_results_or_a_parameter_gets_an_operator_of_its_own():
    x = var("x", (3,))

    def make(builder):
        same = builder.emit(op.astype(x, "float32"))
        return same, op.nn.relu(x)

    model = emit(function([x], make), DIALECT)
    model.check()
    values = np.array([-1, 0, 2], "float32")
    first, second = run(model, values)
    np.testing.assert_array_equal(first, values)
    np.testing.assert_array_equal(second, [0, 0, 2])


# --- symbols


def test_symbolic_extents_become_named_dimensions_and_shapes_are_computed():
    n, s = tirx.Var("n", "int64"), tirx.Var("s", "int64")
    x = var("x", (n, s, 6))

    def make(builder):
        heads = builder.emit(op.permute_dims(op.reshape(x, (n, s, 2, 3)), [0, 2, 1, 3]))
        return (
            op.reshape(heads, (n * 2, s, 3)),
            op.broadcast_to(op.sum(x, axis=[2], keepdims=True), (n, s, 5)),
            op.add(op.arange(s, dtype="int64"), relax.const(1, "int64")),
            op.shape_to_tensor(relax.ShapeExpr([s, n * 3, 5])),
        )

    model = emit(function([x], make), DIALECT)
    model.check()
    assert model.inputs[0].shape == ("n", "s", 6)
    for extents in ((1, 4, 6), (3, 1, 6)):
        data = array(*extents)
        heads, sums, count, numbers = run(model, data)
        batch, length, _ = extents
        expected = data.reshape(batch, length, 2, 3).transpose(0, 2, 1, 3).reshape(batch * 2, length, 3)
        np.testing.assert_array_equal(heads, expected)
        np.testing.assert_allclose(sums, np.repeat(data.sum(2, keepdims=True), 5, 2), rtol=1e-5)
        np.testing.assert_array_equal(count, np.arange(length) + 1)
        np.testing.assert_array_equal(numbers, [length, batch * 3, 5])


@pytest.mark.parametrize(
    ("after", "constant"),
    [
        (lambda n, s: (n, s, 3, 2), [0, 0, 3, 2]),  # case 1 of `reshaped`
        (lambda n, s: (n * s, 6), [-1, 6]),  # case 2
        (lambda n, s: (s, n, 6), None),  # case 3
        (lambda n, s: (n, s * 6), None),  # case 3: nothing can be inferred beside an extent that may be 0
    ],
)
def test_a_reshape_copies_infers_or_computes_symbolic_extents(after, constant):
    n, s = tirx.Var("n", "int64"), tirx.Var("s", "int64")
    x = var("x", (n, s, 6))
    model = emit(function([x], lambda _: op.reshape(x, after(n, s))), DIALECT)
    vectors = [list(value) for value in model.graph.constants.values() if value.ndim == 1]
    assert (constant in vectors) == (constant is not None)
    for data in (array(2, 5, 6), array(0, 5, 6)):
        np.testing.assert_array_equal(run(model, data)[0], data.reshape(after(len(data), 5)))


@pytest.mark.parametrize(
    "equation",
    ["bhid,bhjd->bhij", "bij,bkj->bik", "ij,jk->ik", "bshd,hdm->bsm", "abc,cd->dab", "i,j->ij", "ij,ij->i"],
)
def test_a_sum_of_products_along_a_symbolic_axis_is_a_product_of_matrices(equation):
    """ONNX Runtime's Einsum ends the process where some axes are empty."""
    given, _ = equation.split("->")
    for symbol in sorted(set(given) - {","}):
        n = tirx.Var("n", "int64")
        shapes = [
            [n if letter == symbol else ord(letter) % 2 + 2 for letter in term] for term in given.split(",")
        ]
        operands = [var(f"x{place}", shape) for place, shape in enumerate(shapes)]
        model = emit(function(operands, lambda _, x=operands: op.einsum(x, equation)), DIALECT)
        assert "Einsum" not in {each.kind for each in model.graph.operators}
        for extent in (0, 3):
            data = [array(*(extent if each is n else each for each in shape)) for shape in shapes]
            np.testing.assert_allclose(run(model, *data)[0], np.einsum(equation, *data), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("equation", ["ijk->ik", "ijk -> kj", "ijk->", "i,j->ji"])
def test_a_sum_along_axes_in_einstein_notation_is_one(equation):
    """So repairs of sums apply to it."""
    shapes = [[ord(letter) % 3 + 2 for letter in term.strip()] for term in equation.split("->")[0].split(",")]
    operands = [var(f"x{place}", shape) for place, shape in enumerate(shapes)]
    model = emit(function(operands, lambda _: op.einsum(operands, equation)), DIALECT)
    kinds = [each.kind for each in model.graph.operators]
    assert kinds[0] == ("Einsum" if len(shapes) == 2 else "ReduceSum")
    data = [array(*shape) for shape in shapes]
    np.testing.assert_allclose(run(model, *data)[0], np.einsum(equation, *data), rtol=1e-5, atol=1e-5)


def test_a_sum_that_is_no_product_of_matrices_is_declined_along_a_symbolic_axis():
    x, y = var("x", (tirx.Var("n", "int64"), 2, 2)), var("y", (2,))
    with pytest.raises(CodegenError, match="the subscripts bii,i->b with symbolic extents"):
        emit(function([x, y], lambda _: op.einsum([x, y], "bii,i->b")), DIALECT)


@pytest.mark.parametrize(
    ("left", "right", "equation"),
    [
        ((1, 4), (2, 4), "ij, ij -> i"),
        ((1, 4), (tirx.Var("n", "int64"), 4), "ij,ij->i"),
        ((2, 1), (2, 3, 4), "...i,...ji->...j"),
    ],
)
def test_a_sum_of_products_that_spreads_an_extent_of_one_is_declined(left, right, equation):
    """TVM's einsum spreads it, as numpy's does; ONNX's shape inference refuses the model."""
    x, y = var("x", left), var("y", right)
    with pytest.raises(CodegenError, match="spread an extent of 1"):
        emit(function([x, y], lambda _: op.einsum([x, y], equation)), DIALECT)


@pytest.mark.parametrize(
    ("dialect", "transposed", "kernel", "settings", "is_declined"),
    [
        (FOR_OPENVINO, False, 3, {"padding": 2}, True),
        (FOR_OPENVINO, False, 3, {"padding": 1}, False),
        (FOR_OPENVINO, False, 2, {"padding": 1, "dilation": 2}, False),
        (FOR_OPENVINO, False, 4, {"padding": 2, "strides": 2}, True),
        (FOR_OPENVINO, True, 3, {}, True),
        (FOR_OPENVINO, True, 2, {"strides": 2}, False),
        (FOR_OPENVINO, True, 4, {"strides": 2, "padding": 1}, False),
        (FOR_OPENVINO, True, 3, {"strides": 2, "padding": 1, "output_padding": 1}, False),
        (DIALECT, False, 3, {"padding": 2}, False),
        (DIALECT, True, 3, {}, True),
    ],
)
def test_a_convolution_of_no_pixels_whose_result_has_some_is_declined(
    dialect, transposed, kernel, settings, is_declined
):
    """OpenVINO does not write that result, and transposed ones of three axes end ONNX Runtime's process."""
    convolution = op.nn.conv1d_transpose if transposed else op.nn.conv1d
    weights = const(*((3, 2) if transposed else (2, 3)), kernel)
    length = tirx.Var("n", "int64")
    for extents in ((2, 3, length), (2, 3, length + 1), (length, 3, 5)):
        x = var("x", extents)
        (view,) = op_views(module([x], lambda _, x=x: convolution(x, weights, **settings)))
        found = trial(view, dialect)
        if is_declined and extents[2] is length:
            assert found == (
                f"an image without pixels has a result here, which {dialect.target} does not compute"
            )
        else:
            assert found is None


def test_a_quotient_that_a_tensor_has_as_its_extent_is_read_from_its_shape():
    """OpenVINO divides integers in float32."""
    n, s = tirx.Var("n", "int64"), tirx.Var("s", "int64")
    x = var("x", (n, 4, s))

    def make(builder):
        shorter = builder.emit(op.nn.max_pool1d(x, 2, 2))
        rows = builder.emit(op.permute_dims(shorter, [0, 2, 1]))
        return op.reshape(rows, (n * (s // 2), 2, 2)), op.reshape(rows, (n * 2, s // 2, 2))

    model = emit(function([x], make), DIALECT)
    assert "Div" not in {each.kind for each in model.graph.operators}
    for extents in ((1, 4, 5), (3, 4, 6)):
        found = run(model, array(*extents))
        rows = array(*extents)[:, :, : extents[2] // 2 * 2].reshape(extents[0], 4, -1, 2).max(3)
        for each in found:
            np.testing.assert_array_equal(each, rows.transpose(0, 2, 1).reshape(each.shape))


def test_two_symbols_of_one_name_are_two_dimensions():
    x, y = var("x", (tirx.Var("n", "int64"),)), var("y", (tirx.Var("n", "int64"),))
    model = emit(function([x, y], lambda _: (op.exp(x), op.exp(y))), DIALECT)
    assert [port.shape for port in model.outputs] == [("n",), ("n_1",)]


def test_a_shape_that_is_passed_reveals_its_symbols():
    n = tirx.Var("n", "int64")
    x, shape = var("x", (1, 3)), relax.Var("extents", relax.ShapeType([n]))
    model = emit(function([x, shape], lambda _: op.broadcast_to(x, (n, 3))), DIALECT)
    model.check()
    assert [port.dtype for port in model.inputs] == ["float32", "int64"]
    np.testing.assert_array_equal(run(model, array(1, 3), np.array([4]))[0], np.repeat(array(1, 3), 4, 0))


# --- composites


@I.ir_module
class Composite:
    @R.function
    def region(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        R.func_attr({"global_symbol": "region"})
        with R.dataflow():

            @R.function
            def joined(a: R.Tensor(("m", 4), "float32"), b: R.Tensor(("m", 4), "float32")):
                m = T.int64()
                R.func_attr({"Composite": "some.add_relu"})
                with R.dataflow():
                    c: R.Tensor((m, 4), "float32") = R.add(a, b)
                    d: R.Tensor((m, 2, 2), "float32") = R.reshape(R.nn.relu(c), R.shape([m, 2, 2]))
                    R.output(d)
                return d

            first: R.Tensor((n, 2, 2), "float32") = joined(x, y)
            second: R.Tensor((n, 2, 2), "float32") = joined(y, y)
            out: R.Tensor((n, 2, 2), "float32") = R.subtract(first, second)
            R.output(out)
        return out


def test_composites_are_emitted_in_place_with_the_extents_of_their_callers():
    model = emit(Composite["region"], DIALECT)
    model.check()
    assert model.symbol == "region"
    x, y = array(3, 4), array(3, 4, seed=4)
    expected = (np.maximum(x + y, 0) - np.maximum(y + y, 0)).reshape(3, 2, 2)
    np.testing.assert_allclose(run(model, x, y)[0], expected, rtol=1e-6, atol=1e-6)


# --- weights


def linear():
    x = var("x", (2, 40))
    return function([x], lambda _: op.add(op.matmul(x, const(40, 30)), const(30)))


def test_a_skeleton_names_its_weights_and_holds_none():
    model = emit(linear(), DIALECT)
    assert len(model.weights) == 1
    assert model.weight_bytes == 40 * 30 * 4
    assert len(model.skeleton().SerializeToString()) < 1000
    assert len(model.complete().SerializeToString()) > model.weight_bytes


@pytest.mark.parametrize("largest", [0, 1 << 30])
def test_a_saved_model_runs_with_its_weights_inside_or_beside(tmp_path, largest):
    model, path = emit(linear(), DIALECT), tmp_path / "linear.onnx"
    model.save(path, largest_message=largest)
    assert (tmp_path / "linear.onnx.data").exists() == (largest == 0)
    found = onnxruntime.InferenceSession(str(path)).run(None, {"x": array(2, 40)})[0]
    np.testing.assert_allclose(found, array(2, 40) @ array(40, 30) + array(30), rtol=1e-4, atol=1e-5)


def test_weights_of_more_than_two_gigabytes_stay_where_they_lie():
    """The numbers are never touched here, so the pages behind them are never made."""
    rows, columns = 1 << 15, (1 << 14) + 1
    x, space = var("x", (1, rows)), np.zeros(rows * columns + 16, "float32")
    start = -space.ctypes.data % 64 // 4  # TVM wants a multiple of 64 bytes
    weight = space[start : start + rows * columns].reshape(rows, columns)
    constant = relax.const(tvm.runtime.from_dlpack(weight))
    model = emit(function([x], lambda _: op.matmul(x, constant)), DIALECT)
    model.check()
    assert model.weight_bytes == weight.nbytes > 1 << 31
    assert len(model.skeleton().SerializeToString()) < 1000
    (kept,) = model.graph.weights.values()
    assert kept.data_ptr() == weight.ctypes.data
    with pytest.raises(CodegenError, match="do not fit into one ONNX message; save the model"):
        model.complete()


def test_weights_have_the_names_that_they_are_given():
    emitted = linear()
    constants = {}

    def collect(expr):
        if isinstance(expr, tvm.ir.GenericConst):
            constants[expr] = f"weight_{len(constants)}_of_tvm"

    relax.analysis.post_order_visit(emitted, collect)
    assert emit(emitted, DIALECT, constants).weights == ("weight_0_of_tvm",)


def test_without_onnx_models_are_claimed_but_not_written(monkeypatch):
    monkeypatch.setattr("annotated_region.backends.onnx_emitter.packages.find_spec", lambda _name: None)
    model = emit(linear(), DIALECT)
    with pytest.raises(BackendUnavailableError, match="pip install onnx"):
        model.skeleton()


def test_equal_functions_become_equal_bytes():
    texts = [emit(linear(), DIALECT).skeleton().SerializeToString(deterministic=True) for _ in range(2)]
    assert texts[0] == texts[1]


# --- declines


def test_every_decline_has_a_reason():
    x, n = var("x", (1, 4, 8, 8)), tirx.Var("n", "int64")
    free, counts = var("free", (1, n, n, 4)), var("counts", (4,), "int32")
    assert reason(lambda _: op.nonzero(counts), counts) is not None
    assert reason(lambda _: op.cumprod(x, 0), x) == "ONNX has no cumulative product"
    assert reason(lambda _: op.nn.max_pool2d(x, (2, 2), padding=(2, 2)), x).startswith(
        "the padding is as wide"
    )
    assert "symbolic extent" in reason(
        lambda _: op.nn.max_pool2d(free, (2, 2), (2, 2), ceil_mode=True, layout="NHWC"), free
    )
    assert reason(lambda _: op.nn.adaptive_avg_pool2d(x, (3, 3)), x) == (
        "windows of different sizes: 8 divided into 3"
    )
    cropped = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    assert reason(lambda _: op.image.resize2d(x, (9, 9), **cropped), x) == "coordinates tf_crop_and_resize"
    assert reason(lambda _: op.nn.softmax(op.astype(x, "float64")), x) is None
    assert reason(lambda _: op.erf(op.astype(x, "float64")), x) == (
        "onnxruntime supports Erf for float16, float32, not float64"
    )
    assert "data type uint64 is none of" in reason(lambda _: op.astype(x, "uint64"), x)
    assert reason(lambda _: op.greater(x, op.astype(x, "float64")), x) == "float32 compared with float64"
    assert reason(lambda _: op.not_equal(x, op.astype(x, "float16")), x) == "float32 compared with float16"
    assert reason(lambda _: op.zeros((0, 3), "float32")) == "a tensor is empty"
    assert "mode nan" in reason(lambda _: op.take(x, counts, 1, "nan"), x, counts)


def test_a_function_with_an_op_that_no_rule_lets_pass_is_a_codegen_error():
    x = var("x", (2, 3))
    with pytest.raises(
        CodegenError, match="main: target 'onnxruntime' cannot translate it: ONNX has no cumulative product"
    ):
        emit(function([x], lambda _: op.cumprod(x, 0)), DIALECT)


def test_an_extent_that_nothing_reveals_is_a_codegen_error():
    n, x = tirx.Var("n", "int64"), var("x", (1, 3))
    with pytest.raises(CodegenError, match="no input determines the extent n"):
        emit(function([x], lambda _: op.broadcast_to(x, (n, 3))), DIALECT)


def test_an_invalid_model_is_reported_under_the_name_of_its_function():
    model = emit(linear(), DIALECT)
    model.graph.operators[0] = replace(model.graph.operators[0], kind="NoSuchOperator")
    with pytest.raises(CodegenError, match=r"main: the emitted ONNX model is invalid.*NoSuchOperator"):
        model.check()


# --- goldens


def conv_block():
    x = var("x", (1, 3, 8, 8))

    def make(builder):
        conv = builder.emit(op.nn.conv2d(x, const(16, 3, 3, 3), strides=2, padding=1))
        return op.nn.relu(op.add(conv, const(1, 16, 1, 1)))

    return function([x], make)


def attention():
    s = tirx.Var("s", "int64")
    x, bias = var("x", (1, s, 16)), var("mask", (1, 1, 1, s))

    def make(builder):
        heads = []
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            projected = builder.emit(op.matmul(x, const(16, 16)))
            heads.append(builder.emit(op.permute_dims(op.reshape(projected, (1, s, 4, 4)), order)))
        scores = op.add(op.multiply(op.matmul(heads[0], heads[1]), relax.const(0.5, "float32")), bias)
        mixed = builder.emit(op.matmul(op.nn.softmax(scores, -1), heads[2]))
        joined = op.reshape(op.permute_dims(mixed, [0, 2, 1, 3]), (1, s, 16))
        return op.nn.layer_norm(op.add(joined, x), const(16), const(16), axes=[-1])

    return function([x, bias], make)


def feed_forward():
    x = var("x", (2, 16))

    def make(builder):
        hidden = builder.emit(op.nn.silu(op.matmul(op.nn.rms_norm(x, const(16), axes=[-1]), const(16, 32))))
        return op.add(op.matmul(op.nn.gelu(hidden), const(32, 16)), x)

    return function([x], make)


@pytest.mark.parametrize("make", [conv_block, attention, feed_forward])
@pytest.mark.parametrize("opset", [17, 20])
def test_the_text_of_the_main_composites_is_that_of_the_golden(make, opset):
    text = emit(make(), replace(DIALECT, opset=opset)).text()
    file = GOLDENS / f"{make.__name__}_{opset}.txt"
    if "AR_WRITE_GOLDENS" in os.environ:
        file.write_text(text)
    assert text == file.read_text()


def test_a_golden_is_a_valid_model():
    for file in sorted(GOLDENS.iterdir()):
        model = onnx.parser.parse_model(file.read_text())
        assert model.graph.node, file.name


# --- models


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_light_model_comes_out_as_one_model_that_computes_the_same(name):
    original = light_model(name)
    inputs = input_of(original)
    model = emit(ar.passes.PrepareForInference()(light_module(name))["main"], DIALECT)
    model.check()
    session = onnxruntime.InferenceSession(original.SerializeToString())
    np.testing.assert_allclose(
        run(model, *inputs.values())[0], session.run(None, inputs)[0], rtol=1e-4, atol=1e-6
    )
