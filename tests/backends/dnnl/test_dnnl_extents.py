"""Numbers that depend on extents: where a range begins, extents as exporters write them, folded constants."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload, ops_on_host, single
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.backends.dnnl.extents import plain_extent

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def var(name: str, *shape: object, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


def whole(module: tvm.IRModule) -> Offloaded:
    """A module none of whose ops stays on the host."""
    machine = offload(module)
    assert not ops_on_host(machine.module)
    return machine


@needs_onednn
def test_what_is_folded_of_extents_is_folded_for_each_shape() -> None:
    """A weight times a sum of positions is constant in a plan, and another one in the next plan."""
    x, weight = var("x", N, 4), np.random.default_rng(2).standard_normal((4, 4)).astype("float32")
    positions = op.astype(op.arange(0, N, 1, "int64"), "float32")
    total = op.reshape(op.sum(positions, [0], True), (1, 1))
    machine = whole(single([x], op.matmul(x, op.multiply(relax.const(weight), total))))
    for rows in (3, 5, 2, 3):
        given = np.random.default_rng(rows).standard_normal((rows, 4)).astype("float32")
        expected = given @ (weight * np.arange(rows).sum())
        np.testing.assert_allclose(machine.call("main", given)[0], expected, rtol=1e-5, atol=1e-4)


@needs_onednn
def test_a_range_may_begin_behind_what_came_before() -> None:
    """The positions of new tokens, as a step of decoding has them."""
    past, x = var("past", N, 4), var("x", M, 4)
    positions = op.astype(op.arange(N, N + M, 1, "int64"), "float32")
    both = op.add(op.multiply(x, op.expand_dims(positions, 1)), op.sum(past, [0]))
    machine = whole(single([past, x], both))
    for rows, fresh in ((3, 1), (7, 1), (1, 2), (3, 1)):
        given = [np.full((each, 4), 0.5, "float32") for each in (rows, fresh)]
        expected = 0.5 * np.arange(rows, rows + fresh)[:, None] + np.full((fresh, 4), 0.5 * rows)
        np.testing.assert_array_equal(machine.call("main", *given)[0], expected)


@needs_onednn
def test_a_range_may_begin_below_zero() -> None:
    x = var("x", N)
    positions = op.astype(op.arange(-3, N - 3, 1, "int64"), "float32")
    machine = whole(single([x], op.add(op.sin(x), positions)))
    for rows in (2, 5):
        (found,) = machine.call("main", np.zeros(rows, "float32"))
        np.testing.assert_array_equal(found, np.arange(-3, rows - 3))


def doubled(extent: relax.Expr, factor: float = 2.0) -> relax.Expr:
    """As ONNX exporters write an extent that a scale makes larger."""
    return tirx.Cast("int64", tirx.Mul(tirx.FloatImm("float32", factor), tirx.Cast("float32", extent)))


@needs_onednn
def test_an_image_may_grow_by_a_factor_that_is_no_whole_number_by_its_type() -> None:
    x = var("x", 1, 2, N, 3)
    sizes = {"layout": "NCHW", "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"}
    size = relax.ShapeExpr([doubled(doubled(N)), tirx.IntImm("int64", 12)])
    grown = op.image.resize2d(x, size, rounding_method="floor", **sizes)
    machine = whole(single([x], op.sin(op.add(grown, grown))))
    for rows in (3, 1):
        given = np.random.default_rng(rows).standard_normal((1, 2, rows, 3)).astype("float32")
        expected = np.sin(2 * given.repeat(4, 2).repeat(4, 3))
        np.testing.assert_allclose(machine.call("main", given)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("extent", [N, N * 2, N + M, doubled(N, 0.5), doubled(N, 1.5), tirx.Cast("int64", N)])
def test_other_extents_stay_as_they_are(extent: relax.Expr) -> None:
    assert plain_extent(extent) is extent


def test_a_whole_factor_of_floats_is_a_whole_factor() -> None:
    found = plain_extent(doubled(N) + M)
    assert tvm_ffi.structural_equal(found, N * 2 + M)
