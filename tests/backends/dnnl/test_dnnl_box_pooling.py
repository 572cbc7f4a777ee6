"""Means of boxes of images, beside TVM on the host and ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload, ops_on_host, run, tvm_alone
from kits.backends.relax_kit import module, op_views, var
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.targets.rules import rules_of

pytestmark = needs_onednn

IMAGE = (2, 3, 9, 11)
WAYS = list(itertools.product((-1, 2, 3), (1.0, 0.5, 0.3), (False, True)))


def numbers(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def boxes_of(count, images, scale=1.0, seed=1):
    """Within, around and across images; the second is smaller than a pixel, the third larger than one."""
    random = np.random.default_rng(seed)
    first = random.uniform(-3, 9, (count, 2))
    last = first + random.uniform(0, 7, (count, 2))
    rows = np.concatenate([random.integers(0, images, (count, 1)), first, last], 1)
    rows[1, 3:] = rows[1, 1:3] + 0.2
    rows[2, 1:] = -31.3, -40.2, 50.1, 30.7
    rows[:, 1:] /= scale
    return rows.astype("float32")


def pooling(image, rows, samples=-1, scale=1.0, aligned=False, **attrs):
    """A module of one call for arrays of these shapes, with parts of 3 rows and 4 columns."""
    x, boxes = var("x", image), var("boxes", rows)
    return module(
        [x, boxes], lambda _: op.vision.roi_align(x, boxes, (3, 4), scale, samples, aligned, **attrs)
    )


def on_onednn(mod: tvm.IRModule, **options) -> Offloaded:
    made = offload(mod, **options)
    assert not ops_on_host(made.module)
    return made


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_boxes_are_pooled_as_tvm_does(way):
    given = numbers(IMAGE), boxes_of(7, 2, way[1])
    mod = pooling(IMAGE, (7, 5), *way)
    (found,) = on_onednn(mod).call("main", *given)
    assert np.abs(found).max() > 0.5
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-5, 1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_model_of_onnx_pools_as_onnx_runtime_does(way):
    samples, scale, aligned = way
    rows = boxes_of(7, 2, scale)
    given = {"x": numbers(IMAGE), "boxes": rows[:, 1:].copy(), "numbers": rows[:, 0].astype("int64")}
    mode = "half_pixel" if aligned else "output_half_pixel"
    node = Node(
        "RoiAlign", "x boxes numbers", output_height=3, output_width=4, sampling_ratio=max(samples, 0),
        spatial_scale=scale, coordinate_transformation_mode=mode,
    )  # fmt: skip
    model = model_of_nodes([node], given, {}, opset=16)
    (found,) = on_onednn(ar.from_onnx(model)).call("main", *given.values())
    np.testing.assert_allclose(found, by_onnx_runtime(model, given)[0], 1e-5, 1e-5)


def test_boxes_have_as_many_samples_as_on_the_host():
    """Their sizes are whole multiples of the parts, but for what is lost where the corners are scaled."""
    first = np.random.default_rng(5).uniform(0, 3, (400, 2))
    rows = np.concatenate([np.zeros((400, 1)), first, first + np.array([4, 3]) / 0.3], 1).astype("float32")
    given = numbers((1, 1, 9, 9)), rows
    mod = pooling((1, 1, 9, 9), rows.shape, -1, 0.3, True)
    (found,) = on_onednn(mod).call("main", *given)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-5, 1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e9, -1e9, 3e38])
@pytest.mark.parametrize("place", range(1, 5))
def test_no_corner_reads_outside_of_the_image(place, value, aligned):
    """The images before and behind are NaN; a box as large as it may be ends as quickly as any other."""
    image = np.full((3, 2, 5, 6), np.nan, "float32")
    image[1] = 2.0
    rows = np.array([[1, 1, 1, 4, 4]] * 3, "float32")
    rows[1, place] = value
    (found,) = on_onednn(pooling(image.shape, rows.shape, -1, 1.0, aligned)).call("main", image, rows)
    assert np.isfinite(found).all()
    assert (np.abs(found - 1.0) <= 1.0).all()
    np.testing.assert_allclose(found[[0, 2]], 2.0, 1e-6)


@pytest.mark.parametrize("number", [-1.0, 2.0, 1e10, -1e10, np.nan, np.inf])
def test_a_box_of_no_image_is_nan(number):
    rows = np.array([[number, 1, 1, 4, 4], [1, 1, 1, 4, 4]], "float32")
    (found,) = on_onednn(pooling(IMAGE, rows.shape)).call("main", numbers(IMAGE), rows)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_a_convolution_hands_its_channels_over_as_it_left_them():
    """The result of the convolution has its channels last, and so have the boxes."""
    x, kernel, rows = (
        var("x", (2, 16, 9, 8)),
        relax.const(numbers((32, 16, 3, 3), 4) / 12),
        var("rows", (6, 5)),
    )

    def make(builder):
        y = builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(x, kernel, padding=1))))
        pooled = builder.emit(op.vision.roi_align(y, rows, (3, 3), 0.5, 2, True))
        return op.nn.conv2d(pooled, relax.const(numbers((4, 32, 3, 3), 5) / 20), padding=1)

    mod = module([x, rows], make)
    given = numbers((2, 16, 9, 8)), boxes_of(6, 2, 0.5)
    made = on_onednn(mod)
    (found,) = made.call("main", *given)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-3, 1e-4)
    assert any(step.startswith("roi_align") for step in made.plan("dnnl_main_0"))


def test_boxes_images_and_channels_may_be_symbols():
    b, c, h, w, k = (tirx.Var(name, "int64") for name in "bchwk")
    mod = pooling((b, c, h, w), (k, 5), 2, 0.5)
    made, alone = on_onednn(mod), tvm_alone(mod)
    for image, count in (((2, 3, 9, 11), 7), ((1, 1, 1, 2), 4), ((3, 2, 9, 1), 70)):
        given = numbers(image), boxes_of(count, image[0], 0.5)
        (found,) = made.call("main", *given)
        np.testing.assert_allclose(found, run(alone, "main", given)[0], 1e-5, 1e-6)
    assert made.call("main", numbers((1, 2, 3, 3)), np.zeros((0, 5), "float32"))[0].shape == (0, 2, 3, 4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_pooled_in_float32(dtype):
    x, rows = var("x", IMAGE), var("rows", (7, 5))

    def make(builder):
        halves = [builder.emit(op.astype(each, dtype)) for each in (x, rows)]
        return op.astype(builder.emit(op.vision.roi_align(*halves, (3, 4), 1.0, 2, True)), "float32")

    given = numbers(IMAGE), np.round(boxes_of(7, 2) * 4) / np.float32(4)
    (found,) = on_onednn(module([x, rows], make)).call("main", *given)
    expected = run(tvm_alone(pooling(IMAGE, (7, 5), 2, 1.0, True)), "main", given)[0]
    np.testing.assert_allclose(found, expected, 3e-2, 3e-2)


DECLINED: dict[str, dict[str, Any]] = {
    "the layout NHWC": {"layout": "NHWC"},
    "the pooling mode max": {"mode": "max"},
    "more than 1024 samples": {"samples": 1025},
}


@pytest.mark.parametrize("reason", DECLINED)
def test_other_poolings_are_declined(reason):
    (view,) = op_views(pooling(IMAGE, (7, 5), **DECLINED[reason]))
    assert reason in str(rules_of("dnnl")["relax.vision.roi_align"](view))
