"""Pooling with paddings that keep extents, and with extents that are rounded up, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar

HEAD = '<ir_version: 10, opset_import: ["" : 22]> g (float[1, 2, 7, 8] x) => (float[a, b, c, d] y) { y = '


DATA = np.random.default_rng(2).standard_normal((1, 2, 7, 8)).astype("float32")


def result_of(model: onnx.ModelProto) -> np.ndarray:
    """What the module computes on the host."""
    machine = relax.VirtualMachine(ar.build(ar.partition(ar.from_onnx(model), [])), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(DATA)).numpy()
    return found


def model_of(op: str, **attributes) -> onnx.ModelProto:
    texts = (
        f"{name} = {list(value) if isinstance(value, tuple) else value}" for name, value in attributes.items()
    )
    return onnx.parser.parse_model(HEAD + f"{op}<{', '.join(texts)}>(x) }}".replace("'", '"'))


@pytest.mark.sweep
@pytest.mark.parametrize("auto_pad", ['"SAME_UPPER"', '"SAME_LOWER"'])
@pytest.mark.parametrize(("window", "strides"), [((2, 2), (2, 2)), ((4, 3), (3, 2)), ((3, 2), (1, 1))])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_extents_are_rounded_up(op, window, strides, auto_pad):
    """Both ways of padding give the extents over the strides, rounded up."""
    model = model_of(op, auto_pad=auto_pad, kernel_shape=window, strides=strides)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": DATA})
    found = result_of(model)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


ROUNDED_UP = [
    ("MaxPool", {"kernel_shape": (3, 3), "strides": (2, 2)}),
    ("MaxPool", {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 0, 0, 1)}),
    ("MaxPool", {"kernel_shape": (2, 2), "strides": (2, 3), "auto_pad": '"VALID"'}),
    ("AveragePool", {"kernel_shape": (3, 3), "strides": (2, 2), "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
]


@needs_onednn
@pytest.mark.parametrize(("op", "attributes"), ROUNDED_UP, ids=str)
def test_extents_of_images_of_any_size_are_rounded_up_in_a_region(op, attributes):
    """Twice in a row, where a comparison in the first extent would be in the second one twice."""
    texts = ", ".join(
        f"{name} = {list(value) if isinstance(value, tuple) else value}"
        for name, value in (attributes | {"ceil_mode": 1}).items()
    )
    head = HEAD.replace("[1, 2, 7, 8]", "[1, 2, h, w]").split("{ y", maxsplit=1)[0]
    model = onnx.parser.parse_model(head + f"{{ t = {op}<{texts}>(x) y = {op}<{texts}>(t) }}")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    module = ar.partition(ar.from_onnx(model), ["dnnl"])
    assert not ops_on_host(module, "main")
    machine = relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())
    for height, width in ((7, 8), (10, 9), (13, 12)):
        data = np.random.default_rng(height).standard_normal((1, 2, height, width)).astype("float32")
        (expected,) = session.run(None, {"x": data})
        found = machine["main"](tvm.runtime.tensor(data)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_windows_below_their_stride_need_no_padding():
    """ONNX Runtime refuses these; each window is one element."""
    model = model_of("MaxPool", auto_pad='"SAME_UPPER"', kernel_shape=(1, 1), strides=(2, 3))
    np.testing.assert_array_equal(result_of(model), DATA[:, :, ::2, ::3])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (model_of("LpPool", kernel_shape=(2, 2), ceil_mode=1), "'ceil_mode' of 1"),
        (
            model_of("MaxPool", auto_pad='"SAME_LOWER"', kernel_shape=(2, 2), dilations=(2, 2)),
            "has dilations",
        ),
        (model_of("AveragePool", auto_pad='"SAME_UPPER"', kernel_shape=(2,)), "windows of other axes"),
    ],
    ids=["a smaller last window", "dilations", "axes"],
)
def test_what_is_refused(model, message):
    with pytest.raises(ar.ModelError, match=message):
        ar.from_onnx(model)


PLACES = [
    {"kernel_shape": (2, 2), "strides": (2, 2)},
    {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)},
    {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1},
    {"kernel_shape": (2, 2), "strides": (2, 3), "dilations": (2, 3)},
    {"kernel_shape": (2, 3), "strides": (2, 2), "storage_order": 1},
    {"kernel_shape": (3, 3), "strides": (2, 2), "auto_pad": '"SAME_UPPER"'},
    {"kernel_shape": (2, 2), "strides": (2, 2), "auto_pad": '"VALID"'},
]


@pytest.mark.parametrize("attributes", PLACES, ids=str)
def test_places_of_maxima(attributes):
    model = model_of("MaxPool", **attributes)
    model.graph.node[0].output.append("places")
    model.graph.output.append(onnx.helper.make_tensor_value_info("places", onnx.TensorProto.INT64, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    machine = relax.VirtualMachine(ar.build(ar.partition(ar.from_onnx(model), [])), tvm.cpu())
    for found, expected in zip(
        machine["main"](tvm.runtime.tensor(DATA)), session.run(None, {"x": DATA}), strict=True
    ):
        np.testing.assert_array_equal(found.numpy(), expected)


def test_places_of_maxima_of_images_of_any_size_are_refused_by_the_name_of_the_node():
    head = HEAD.replace("float[1, 2, 7, 8]", "float[1, 2, h, 8]").split("{ y", maxsplit=1)[0]
    model = onnx.parser.parse_model(head + "{ y, places = MaxPool<kernel_shape = [2, 2]>(x) }")
    with pytest.raises(ar.ModelError, match=r"node 'y' \(MaxPool\) has the output 'Indices', the places of"):
        ar.from_onnx(model)


@pytest.mark.parametrize(
    ("extents", "attributes"),
    [
        ("64, 64", "kernel_shape = [64, 64]"),
        ("2, 2", "kernel_shape = [99999, 99999], pads = [99999, 99999, 0, 0]"),
        ("9999999, 9999999", "kernel_shape = [1, 1]"),
        ("9999999, 9999999", "kernel_shape = [2, 2], strides = [999999, 999999]"),
    ],
)
def test_places_of_maxima_of_windows_that_would_take_too_long_are_refused(extents, attributes):
    head = HEAD.replace("7, 8]", f"{extents}]").split("{ y", maxsplit=1)[0]
    model = onnx.parser.parse_model(head + f"{{ y, places = MaxPool<{attributes}>(x) }}")
    with pytest.raises(ar.ModelError, match=r"'Indices' of too many or too large windows"):
        ar.from_onnx(model)


@pytest.mark.parametrize("rows", [6, 8])
def test_maxima_are_put_back_in_their_places(rows):
    """As ONNX defines it; ONNX Runtime takes the places for those of the result, whatever its extents."""
    body = (
        "{ m, places = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) "
        f"shape = Constant<value_ints = [1, 2, {rows}, 9]>() "
        "y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(m, places, shape) }"
    )
    head = HEAD.replace("float[1, 2, 7, 8]", "float[1, 2, 6, 8]").split("{ y", maxsplit=1)[0]
    data = DATA[:, :, :6]
    machine = relax.VirtualMachine(
        ar.build(ar.partition(ar.from_onnx(onnx.parser.parse_model(head + body)), [])), tvm.cpu()
    )
    windows = data.reshape(1, 2, 3, 2, 4, 2)
    kept = np.where(windows == windows.max((3, 5), keepdims=True), windows, 0).reshape(data.shape)
    expected = np.zeros((1, 2, rows, 9), "float32")
    expected[:, :, :6, :8] = kept
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(data)).numpy(), expected)
