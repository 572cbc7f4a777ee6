"""Boxes of images of other scales than that of their coordinates, pooled as ONNX Runtime does it."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from kits.onnx_nodes import Node, by_onnx_runtime, by_tvm, model_of_nodes

import annotated_region as ar

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 3, 12, 14)).astype("float32")
CORNERS = RNG.uniform(0, 20, (6, 2))
BOXES = np.concatenate([CORNERS, CORNERS + RNG.uniform(0, 9, (6, 2))], 1).astype("float32")
NUMBERS = np.array([0, 1, 0, 1, 1, 0])
INPUTS = {"x": IMAGES, "boxes": BOXES, "numbers": NUMBERS}
SCALES = (1.0, 0.5, 0.125, 1.5)


def pooling(**attributes):
    """A model that pools boxes into parts of 3 rows and 4 columns."""
    opset = attributes.pop("opset", 16)
    node = Node("RoiAlign", "x boxes numbers", output_height=3, output_width=4, **attributes)
    return model_of_nodes([node], INPUTS, {}, opset=opset)


@pytest.mark.sweep
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "placing",
    [
        {},
        {"opset": 13},
        {"coordinate_transformation_mode": "half_pixel"},
        {"coordinate_transformation_mode": "output_half_pixel"},
    ],
    ids=str,
)
def test_boxes_from_onnx_are_pooled_as_by_onnx_runtime(placing, scale, samples):
    model = pooling(spatial_scale=scale, sampling_ratio=samples, **placing)
    (expected,), (found,) = by_onnx_runtime(model, INPUTS), by_tvm(ar.from_onnx(model), INPUTS)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("samples", [-1, 2])
@pytest.mark.parametrize("scale", SCALES)
def test_boxes_from_pytorch_are_pooled_as_by_onnx_runtime(with_torch, scale, samples, aligned):
    kit = importlib.import_module("kits.importing.torch_boxes")
    rows = np.concatenate([NUMBERS[:, None], BOXES], 1).astype("float32")
    program = kit.exported_pooling(IMAGES, rows, scale, 3, 4, samples, aligned)
    (found,) = by_tvm(ar.from_exported_program(program), {"x": IMAGES, "rows": rows})
    mode = "half_pixel" if aligned else "output_half_pixel"
    model = pooling(spatial_scale=scale, sampling_ratio=max(samples, 0), coordinate_transformation_mode=mode)
    np.testing.assert_allclose(found, by_onnx_runtime(model, INPUTS)[0], 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"spatial_scale": 0.0}, "has a 'spatial_scale' of 0, which leaves no box"),
        ({"coordinate_transformation_mode": "corner"}, "'coordinate_transformation_mode' of 'corner', which"),
        ({"sampling_ratio": -1}, "the attribute 'sampling_ratio' of -1, which is not supported"),
    ],
)
def test_pooling_without_meaning_is_refused(attributes, why):
    with pytest.raises(ar.ModelError, match=why):
        ar.from_onnx(pooling(**attributes))


def test_a_scale_of_zero_from_pytorch_is_refused(with_torch):
    kit = importlib.import_module("kits.importing.torch_boxes")
    rows = np.concatenate([NUMBERS[:, None], BOXES], 1).astype("float32")
    with pytest.raises(ar.ModelError, match=r"roi_align\.default \(.*\): spatial_scale=0 is not supported"):
        ar.from_exported_program(kit.exported_pooling(IMAGES, rows, 0.0, 3, 4, 2, True))
