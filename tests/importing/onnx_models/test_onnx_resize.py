"""Resize beside ONNX Runtime: attributes and scales that TVM's importer ignores, and old operator sets."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.importing.onnx_texts import HEAD, run
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import annotated_region as ar

SHAPE = (1, 2, 5, 7)
SCALES = {"shrunk": (1, 1, 0.6, 0.45), "grown": (1, 1, 2, 1.3), "both": (1, 1, 0.8, 3)}
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def model_of(
    inputs: dict[str, np.ndarray], op: str = "Resize", opset: int = 18, **attributes
) -> onnx.ModelProto:
    """One node over an image, with constants as inputs; names that begin with ``no`` are left out."""
    names = ["" if name.startswith("no") else name for name in inputs]
    node = helper.make_node(op, ["image", *names], ["result"], **attributes)
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, [None] * 4)],
        [numpy_helper.from_array(value, name) for name, value in inputs.items() if name in names],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=5 if opset < 13 else 9
    )


def by_scales(scales, opset: int = 18, **attributes) -> onnx.ModelProto:
    return model_of(
        {"no_roi": np.zeros(0), "scales": np.asarray(scales, "float32")}, opset=opset, **attributes
    )


def by_sizes(sizes, **attributes) -> onnx.ModelProto:
    inputs = {"no_roi": np.zeros(0), "no_scales": np.zeros(0), "sizes": np.asarray(sizes, "int64")}
    return model_of(inputs, **attributes)


def compare(model: onnx.ModelProto, targets: tuple[str, ...] = ()) -> None:
    """The result of the module beside that of ONNX Runtime."""
    image = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"image": image})
    machine = relax.VirtualMachine(ar.build(ar.partition(ar.from_onnx(model), list(targets))), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(image)).numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", SCALES)
def test_scales_that_do_not_divide(scales, mode, coordinates):
    """The scale maps coordinates, not the ratio of the extents, which are rounded down."""
    compare(by_scales(SCALES[scales], mode=mode, coordinate_transformation_mode=coordinates))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("scales", SCALES)
def test_nearest_elements_by_scales_that_do_not_divide(scales, rounding):
    compare(by_scales(SCALES[scales], mode="nearest", nearest_mode=rounding))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("attributes", [{}, {"exclude_outside": 1}], ids=["repeated", "excluded"])
def test_antialiasing(mode, attributes):
    if mode == "linear" and attributes:
        attributes = {"coordinate_transformation_mode": "asymmetric"}
    compare(by_scales((1, 1, 0.8, 0.45), mode=mode, antialias=1, **attributes))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "attributes",
    [{}, {"keep_aspect_ratio_policy": "not_larger"}, {"keep_aspect_ratio_policy": "not_smaller"}],
    ids=str,
)
def test_sizes_of_some_axes(mode, attributes):
    compare(by_sizes((9, 4), axes=[3, 2], mode=mode, **attributes))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_corners_of_one_image_are_aligned_by_a_resize(mode):
    """The batch of one is no axis that is resized to one element, for which TVM divides by zero."""
    model = by_scales((1, 1, 2, 2), mode=mode, coordinate_transformation_mode="align_corners")
    assert "image.resize2d" in ar.from_onnx(model).script()
    compare(model)


def test_channels_are_resized():
    compare(by_scales((1, 2, 1, 1), mode="nearest"))


@pytest.mark.parametrize("target", ["dnnl", "onnxruntime", "openvino"])
def test_on_targets(target):
    """What results is matrices and selections, which targets claim."""
    compare(by_scales((1, 1, 0.6, 0.45), mode="linear", antialias=1), (target,))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(
    ("op", "opset", "scales"),
    [("Upsample", 9, (1, 1, 2, 3)), ("Resize", 10, (1, 1, 2, 3)), ("Resize", 10, (1, 1, 0.4, 0.3))],
)
def test_coordinates_of_old_operator_sets(op, opset, scales, mode):
    """They were asymmetric before operator set 11; ONNX's converter of versions drops that."""
    compare(model_of({"scales": np.asarray(scales, "float32")}, op, opset, mode=mode))


def test_nearest_elements_of_old_operator_sets_on_both_sides_of_one_are_refused():
    model = model_of({"scales": np.asarray((1, 1, 0.5, 2), "float32")}, opset=10, mode="nearest")
    with pytest.raises(ar.ModelError, match=r"Resize before operator set 11.*on both sides of 1"):
        ar.from_onnx(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            by_scales((1, 1, 0.6, 0.45), coordinate_transformation_mode="align_corners"),
            "aligns corners by scales",
        ),
        (by_scales((1, 1, 0.4, 1), mode="cubic", antialias=1), "averages more elements than the axis 2 has"),
        (by_sizes((3,), axes=[4]), "'axes' of .4,., and 4 axes"),
        (by_scales((1, 1, -1, 1)), "scales or sizes of"),
        (by_scales((1, 1, 2)), "3 scales or sizes for 4 axes"),
        (by_scales((1, 1, 2, 2), mode="lanczos"), "'mode' of 'lanczos'"),
        (
            by_sizes((3, 3), axes=[2, 3], keep_aspect_ratio_policy="crop"),
            "'keep_aspect_ratio_policy' of 'crop'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(model, message):
    with pytest.raises(ar.ModelError, match=f"'?result'? .Resize.*{message}"):
        ar.from_onnx(model)


CROPPED = """(float[1, 2, 5, 7] x, float[8] region) => (float[1, 2, 3, 4] y)
    <int64[4] s = {1, 2, 3, 4}, float[0] none = {}> {
    y = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize">(x, region, none, s)
    }"""


def test_a_computed_region_is_refused():
    with pytest.raises(ar.ModelError, match=r"a region of interest that is computed.*crop the image before"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + CROPPED))


def test_sizes_may_hold_the_extents_of_the_batch():
    """As PyTorch's exporters write the size of an image in a batch of any length."""
    nodes = [
        helper.make_node("Shape", ["image"], ["shape"]),
        helper.make_node("Slice", ["shape", "first", "last"], ["batch"]),
        helper.make_node("Concat", ["batch", "size"], ["sizes"], axis=0),
        helper.make_node("Resize", ["image", "", "", "sizes"], ["result"], mode="linear"),
    ]
    constants = {"first": [0], "last": [2], "size": [8, 3]}
    graph = helper.make_graph(
        nodes,
        "resize",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", *SHAPE[1:]])],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, [None] * 4)],
        [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    machine = relax.VirtualMachine(ar.build(ar.from_onnx(model)), tvm.cpu())
    for count in (1, 3):
        image = np.random.default_rng(count).standard_normal((count, *SHAPE[1:])).astype("float32")
        found = machine["main"](tvm.runtime.tensor(image)).numpy()
        np.testing.assert_allclose(found, session.run(None, {"image": image})[0], atol=1e-5)


@pytest.mark.parametrize("target", ["dnnl", "onnxruntime", "openvino"])
def test_cubic_weights_outside_of_the_image_are_left_out(target):
    """As TensorFlow resizes; OpenVINO counts them."""
    text = """(float[2, 2, 5, 4] x) => (float[2, 2, 9, 7] y) <int64[4] s = {2, 2, 9, 7}>
        { y = Resize<mode = "cubic", cubic_coeff_a = -0.5, exclude_outside = 1>(x, , , s) }"""
    run(text, [target], (np.random.default_rng(0).standard_normal((2, 2, 5, 4), "float32"),))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_images_of_float64(mode: str) -> None:
    """ONNX Runtime has none, so its images of float32 are compared."""
    model = by_scales(SCALES["both"], mode=mode)
    data = np.random.default_rng(2).standard_normal(SHAPE).astype("float32")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"image": data})
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    machine = relax.VirtualMachine(ar.build(ar.from_onnx(model)), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(data.astype("float64"))).numpy()
    assert found.dtype == "float64"
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
