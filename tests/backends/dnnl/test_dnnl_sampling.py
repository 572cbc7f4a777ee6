"""Samples of images and volumes at computed places, beside NumPy, TVM on the host and ONNX Runtime."""

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
from kits.backends.relax_kit import module, op_views, var
from kits.grid_samples import sampled
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.targets.rules import rules_of

pytestmark = needs_onednn

METHODS = ("nearest", "bilinear", "bicubic")
OUTSIDE = ("zeros", "border", "reflection")
WAYS = list(itertools.product(METHODS, OUTSIDE, (False, True)))
IMAGE, PLACES = (2, 3, 5, 7), (2, 2, 4, 17)
VOLUME, SPOTS = (2, 3, 4, 3, 5), (2, 3, 2, 3, 7)
SAMPLED = [
    *((IMAGE, PLACES, way) for way in WAYS),
    *((VOLUME, SPOTS, way) for way in WAYS if way[0] != "bicubic"),  # TVM and ONNX have no cubic volumes
]
HUGE = (np.nan, np.inf, -np.inf, 3.0e9, -3.0e9, 1e20, -1e20, 3e37, -3e37, 3.4e38, -3.4e38)


def numbers(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def places_in(shape, extents, seed=1, reach=3.2):
    """Coordinates within and around an image, none of them halfway between two of its pixels."""
    grid = np.random.default_rng(seed).uniform(-reach, reach, shape)
    for axis, extent in enumerate(reversed(extents)):
        for whole in (extent, extent - 1):
            place = (grid[:, axis] + 1) * whole / 2
            near = np.abs(place * 2 - np.rint(place * 2)) < 0.01
            grid[:, axis] += np.where(near, 0.03 / max(whole, 1), 0)
    return grid.astype("float32")


def sampling(image, grid, **attrs):
    """A module of one call for arrays of these shapes."""
    layout = "NCHW" if len(image) == 4 else "NCDHW"
    x, places = var("x", image), var("grid", grid)
    return module([x, places], lambda _: op.image.grid_sample(x, places, layout=layout, **attrs))


def named(method, outside, aligned):
    return {"method": method, "padding_mode": outside, "align_corners": aligned}


def on_onednn(mod: tvm.IRModule) -> Offloaded:
    made = offload(mod)
    assert not any(ops_on_host(made.module, str(each.name_hint)) for each in mod.functions)
    return made


@cache
def all_sampled() -> Offloaded:
    """A function for each of `SAMPLED`."""
    return on_onednn(joined([sampling(shape, grid, **named(*way)) for shape, grid, way in SAMPLED]))


@pytest.mark.sweep
@pytest.mark.parametrize("case", range(len(SAMPLED)), ids=[str(each) for each in SAMPLED])
def test_samples_are_those_of_numpy_and_tvm(case):
    shape, grid, way = SAMPLED[case]
    given = numbers(shape), places_in(grid, shape[2:])
    (found,) = all_sampled().call(f"case{case}", *given)
    np.testing.assert_allclose(found, sampled(*given, *way), 1e-4, 1e-5)
    by_tvm = tvm_alone(sampling(shape, grid, **named(*way)))
    np.testing.assert_allclose(found, run(by_tvm, "main", given)[0], 1e-4, 1e-5)


def onnx_model(shape, grid, way):
    """A model, and what it is given."""
    method, outside, aligned = way
    given = {"x": numbers(shape), "grid": np.moveaxis(places_in(grid, shape[2:]), 1, -1).copy()}
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(method, method)
    node = Node("GridSample", "x grid", mode=mode, padding_mode=outside, align_corners=int(aligned))
    return model_of_nodes([node], given, {}, opset=20), given


@cache
def all_sampled_of_onnx() -> Offloaded:
    """A function for each of `SAMPLED`."""
    return on_onednn(joined([ar.from_onnx(onnx_model(*each)[0]) for each in SAMPLED]))


@pytest.mark.parametrize("case", range(len(SAMPLED)), ids=[str(each) for each in SAMPLED])
def test_a_model_of_onnx_samples_as_onnx_runtime_does(case):
    model, given = onnx_model(*SAMPLED[case])
    (found,) = all_sampled_of_onnx().call(f"case{case}", *given.values())
    np.testing.assert_allclose(found, by_onnx_runtime(model, given)[0], 1e-4, 1e-5)


@cache
def all_ways(shape, grid) -> Offloaded:
    """A function for each of `WAYS`."""
    return on_onednn(joined([sampling(shape, grid, **named(*way)) for way in WAYS]))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("case", range(len(WAYS)), ids=[str(way) for way in WAYS])
def test_no_coordinate_reads_outside_of_the_image(case, axis):
    """The images before and behind the one in question are infinite; the answers are those of PyTorch."""
    method, outside, _aligned = WAYS[case]
    image = np.full((3, 1, 3, 4), np.inf, "float32")
    image[1] = 2.0
    grid = np.zeros((3, 2, 1, len(HUGE)), "float32")
    grid[1, axis, 0] = HUGE
    (found,) = all_ways(image.shape, grid.shape).call(f"case{case}", image, grid)
    is_a_place = np.abs(np.array(HUGE)) < 1e38  # the others are infinite when they are counted in pixels
    inner = 0.0 if outside == "zeros" else 2.0
    has_weights = method == "bicubic" or (method == "bilinear" and outside == "zeros")
    expected = np.where(is_a_place, inner, np.nan if has_weights else inner)
    np.testing.assert_allclose(found[1, 0, 0], expected, 1e-6)


@pytest.mark.parametrize("case", range(len(WAYS)), ids=[str(way) for way in WAYS])
def test_an_image_of_one_pixel_has_no_place_to_be_mirrored(case):
    """TVM 0.27 divides by zero where the corners are aligned and reflects."""
    image, grid = np.full((1, 2, 1, 1), 3.0, "float32"), places_in((1, 2, 1, 9), (1, 1))
    (found,) = all_ways(image.shape, grid.shape).call(f"case{case}", image, grid)
    np.testing.assert_allclose(found, sampled(image, grid, *WAYS[case]), 1e-5, 1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_sample_at_the_center_of_a_pixel_keeps_the_sign_of_zero(method):
    image, grid = np.full((1, 1, 6, 6), -0.0, "float32"), np.zeros((1, 2, 1, 1), "float32")
    attrs = named(method, "border", False)
    (found,) = on_onednn(sampling(image.shape, grid.shape, **attrs)).call("main", image, grid)
    assert np.signbit(found).all() == (method != "bicubic"), "cubic weights have both signs"


@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_a_convolution_hands_its_channels_over_as_it_left_them(method):
    """The result of the convolution has its channels last, and so has the result of the samples."""
    x, kernel, grid = var("x", (2, 16, 6, 5)), relax.const(numbers((32, 16, 3, 3), 4) / 12), var("g", PLACES)

    def make(builder):
        y = builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(x, kernel, padding=1))))
        return op.image.grid_sample(y, grid, method, padding_mode="zeros", align_corners=True)

    mod = module([x, grid], make)
    given = numbers((2, 16, 6, 5)), places_in(PLACES, (6, 5), reach=1.4)
    made = on_onednn(mod)
    (found,) = made.call("main", *given)
    np.testing.assert_allclose(found, run(tvm_alone(mod), "main", given)[0], 1e-3, 1e-4)
    assert any(step.startswith("grid_sample") for step in made.plan("dnnl_main_0"))


def test_places_that_are_computed_and_moved_are_read_where_they_lie():
    """As in RAFT: channels last, halved, shifted; a slice of a wider tensor."""
    flow, x = var("flow", (2, 4, 17, 3)), var("x", IMAGE)

    def make(builder):
        part = builder.emit(op.strided_slice(flow, [3], [0], [2]))
        moved = builder.emit(op.add(op.multiply(part, relax.const(0.5)), relax.const(0.1)))
        return op.image.grid_sample(x, builder.emit(op.permute_dims(moved, [0, 3, 1, 2])), align_corners=True)

    mod = module([flow, x], make)
    given = np.random.default_rng(3).uniform(-2, 2, (2, 4, 17, 3)).astype("float32"), numbers(IMAGE)
    (found,) = on_onednn(mod).call("main", *given)
    grid = np.moveaxis(given[0][..., :2] * np.float32(0.5) + np.float32(0.1), -1, 1)
    np.testing.assert_allclose(found, sampled(given[1], grid, "bilinear", "zeros", True), 1e-4, 1e-5)


def test_all_extents_but_the_coordinates_may_be_symbols():
    names = (tirx.Var(name, "int64") for name in "bchwkl")
    b, c, h, w, k, m = names
    mod = sampling((b, c, h, w), (b, 2, k, m), **named("bilinear", "reflection", False))
    made = on_onednn(mod)
    for image, grid in (
        ((2, 3, 5, 7), (2, 2, 4, 3)),
        ((1, 1, 1, 2), (1, 2, 1, 70)),
        ((3, 2, 9, 1), (3, 2, 2, 2)),
    ):
        given = numbers(image), places_in(grid, image[2:])
        (found,) = made.call("main", *given)
        np.testing.assert_allclose(found, sampled(*given, "bilinear", "reflection", False), 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_sampled_in_float32(dtype):
    x, grid = var("x", IMAGE), var("grid", PLACES)

    def make(builder):
        halves = [builder.emit(op.astype(each, dtype)) for each in (x, grid)]
        return op.astype(builder.emit(op.image.grid_sample(*halves, align_corners=True)), "float32")

    given = numbers(IMAGE), np.round(places_in(PLACES, IMAGE[2:], reach=1.5) * 16) / np.float32(16)
    (found,) = on_onednn(module([x, grid], make)).call("main", *given)
    np.testing.assert_allclose(found, sampled(*given, "bilinear", "zeros", True), 3e-2, 3e-2)


DECLINED = {
    "the layout NHWC": ((1, 4, 5, 2), (1, 2, 3, 3), {"layout": "NHWC"}),
    "another batch": ((1, 2, 4, 5), (2, 2, 3, 3), {}),
    "2 coordinates along axis 1": ((1, 2, 4, 5), (1, 3, 3, 3), {}),
    "cubic interpolation of volumes": (VOLUME, SPOTS, {"layout": "NCDHW", "method": "bicubic"}),
}


@pytest.mark.parametrize("reason", DECLINED)
def test_what_tvm_computes_otherwise_or_not_is_declined(reason):
    image, grid, attrs = DECLINED[reason]
    x, places = var("x", image), var("grid", grid)
    (view,) = op_views(module([x, places], lambda _: op.image.grid_sample(x, places, **attrs)))
    assert reason in str(rules_of("dnnl")["relax.image.grid_sample"](view))
