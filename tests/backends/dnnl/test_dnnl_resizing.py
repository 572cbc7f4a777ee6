"""Resizing of images in every form, beside TVM on the host and ONNX Runtime."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import (
    Offloaded,
    joined,
    needs_onednn,
    offload,
    ops_on_host,
    run,
    tvm_alone,
)
from kits.backends.relax_kit import module, var
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

pytestmark = needs_onednn

COORDINATES = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "align_corners", "asymmetric")
ROUNDINGS = ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "")
WAYS = [
    *itertools.product(("linear", "cubic"), COORDINATES, ("",)),
    *itertools.product(("nearest_neighbor",), COORDINATES, ROUNDINGS),
]
IMAGE = (2, 3, 6, 7)
SIZES = ((13, 9), (3, 14), (5, 28), (24, 2))


def numbers(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def named(method, coordinates, rounding):
    names = "method", "coordinate_transformation_mode", "rounding_method"
    return dict(zip(names, (method, coordinates, rounding), strict=True))


def resizing(shape, size, layout="NCHW", **attrs):
    x = var("x", shape)
    return module([x], lambda _: op.image.resize2d(x, relax.ShapeExpr(size), layout=layout, **attrs))


def on_onednn(mod: tvm.IRModule, **options) -> Offloaded:
    made = offload(mod, **options)
    assert not any(ops_on_host(made.module, str(each.name_hint)) for each in mod.functions)
    return made


def resized_by(way) -> tvm.IRModule:
    """An image in each of `SIZES`."""
    x = var("x", IMAGE)

    def make(builder):
        return relax.Tuple([builder.emit(op.image.resize2d(x, size, **named(*way))) for size in SIZES])

    return module([x], make)


@cache
def all_ways() -> Offloaded:
    """A function for each of `WAYS`."""
    return on_onednn(joined([resized_by(way) for way in WAYS]))


@pytest.mark.sweep
@pytest.mark.parametrize("case", range(len(WAYS)), ids=[str(way) for way in WAYS])
def test_images_are_resized_as_tvm_does(case):
    given = (numbers(IMAGE),)
    found = all_ways().call(f"case{case}", *given)
    expected = run(tvm_alone(resized_by(WAYS[case])), "main", given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-5)


@pytest.mark.parametrize("alpha", [-0.5, -0.75])
def test_cubic_weights_have_the_coefficient_of_the_op(alpha):
    mod = resizing(IMAGE, (9, 5), method="cubic", cubic_alpha=alpha)
    given = (numbers(IMAGE),)
    (found,) = on_onednn(mod).call("main", *given)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-5, 1e-5)


WAYS_OF_ONNX = [
    (mode, nearest, coordinates, size)
    for mode, nearest in (
        ("linear", ""),
        ("cubic", ""),
        *(("nearest", each) for each in ("round_prefer_floor", "floor", "ceil")),
    )
    for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    for size in ((12, 14), (4, 4), (9, 5))
]
OF_ONNX = {"x": numbers(IMAGE)}


def onnx_model(mode, nearest, coordinates, size):
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if nearest:
        attributes["nearest_mode"] = nearest
    node = Node("Resize", "x none none sizes", **attributes)
    node.input[1] = node.input[2] = ""
    return model_of_nodes([node], OF_ONNX, {"sizes": np.array([*IMAGE[:2], *size], "int64")}, opset=18)


@cache
def all_ways_of_onnx() -> Offloaded:
    """A function for each of `WAYS_OF_ONNX`."""
    return on_onednn(joined([ar.from_onnx(onnx_model(*way)) for way in WAYS_OF_ONNX]))


@pytest.mark.parametrize("case", range(len(WAYS_OF_ONNX)), ids=[str(way) for way in WAYS_OF_ONNX])
def test_a_model_of_onnx_resizes_as_onnx_runtime_does(case):
    (found,) = all_ways_of_onnx().call(f"case{case}", *OF_ONNX.values())
    (expected,) = by_onnx_runtime(onnx_model(*WAYS_OF_ONNX[case]), OF_ONNX)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_an_axis_of_one_pixel_begins_at_the_first_corner():
    """TVM 0.27 divides by zero."""
    for method in ("linear", "cubic", "nearest_neighbor"):
        mod = resizing(IMAGE, (1, 13), **named(method, "align_corners", ""))
        longer = resizing(IMAGE, (2, 13), **named(method, "align_corners", ""))
        (found,), (first,) = (on_onednn(each).call("main", numbers(IMAGE)) for each in (mod, longer))
        np.testing.assert_allclose(found, first[:, :, :1], 1e-6, 1e-6)


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_a_convolution_hands_its_channels_over_as_it_left_them(method):
    x, kernel = var("x", (2, 16, 6, 5)), relax.const(numbers((32, 16, 3, 3), 4) / 12)

    def make(builder):
        y = builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(x, kernel, padding=1))))
        wide = builder.emit(op.image.resize2d(y, (11, 10), **named(method, "align_corners", "")))
        return op.nn.conv2d(wide, relax.const(numbers((4, 32, 3, 3), 5) / 17), padding=1)

    mod = module([x], make)
    made, given = on_onednn(mod), (numbers((2, 16, 6, 5)),)
    (found,) = made.call("main", *given)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-3, 1e-4)
    assert any(step.startswith("resize") for step in made.plan("dnnl_main_0"))


@pytest.mark.parametrize("way", [("linear", "half_pixel", ""), ("nearest_neighbor", "asymmetric", "floor")])
def test_images_with_channels_first_need_no_onednn(way):
    """It has the form, and takes three times as long for it."""
    mod, given = resizing((1, 40, 6, 7), (12, 28), **named(*way)), (numbers((1, 40, 6, 7)),)
    made = on_onednn(mod)
    (found,) = made.call("main", *given)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-5, 1e-5)
    assert [step.split()[0] for step in made.plan("dnnl_main_0")] == ["resize"]


@pytest.mark.parametrize("way", [("cubic", "half_pixel", ""), ("nearest_neighbor", "half_pixel", "floor")])
def test_channels_may_be_the_last_axis(way):
    mod = resizing((2, 6, 7, 3), (9, 4), "NHWC", **named(*way))
    given = (numbers((2, 6, 7, 3)),)
    (found,) = on_onednn(mod).call("main", *given)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-5, 1e-5)


@pytest.mark.parametrize("way", [("cubic", "half_pixel", ""), ("linear", "align_corners", "")])
def test_all_extents_may_be_symbols(way):
    b, c, h, w = (tirx.Var(name, "int64") for name in "bchw")
    made = on_onednn(resizing((b, c, h, w), (3 * h, w + 2), **named(*way)))
    for shape in ((2, 3, 6, 7), (1, 1, 1, 2), (3, 2, 9, 1)):
        given, size = (numbers(shape),), (3 * shape[2], shape[3] + 2)
        (found,) = made.call("main", *given)
        expected = run(tvm_alone(resizing(shape, size, **named(*way))), "main", given)[0]
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("way", [("linear", "asymmetric", ""), ("nearest_neighbor", "half_pixel", "ceil")])
def test_pixels_at_whole_places_keep_the_sign_of_zero(way):
    mod = resizing(IMAGE, IMAGE[2:], **named(*way))
    (found,) = on_onednn(mod).call("main", np.full(IMAGE, -0.0, "float32"))
    assert np.signbit(found).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_resized_in_float32(dtype):
    x = var("x", IMAGE)

    def make(builder):
        half = builder.emit(op.astype(x, dtype))
        return op.astype(builder.emit(op.image.resize2d(half, (9, 13), method="cubic")), "float32")

    given = (numbers(IMAGE),)
    (found,) = on_onednn(module([x], make)).call("main", *given)
    expected = run(tvm_alone(resizing(IMAGE, (9, 13), method="cubic")), "main", given)[0]
    np.testing.assert_allclose(found, expected, 3e-2, 3e-2)
