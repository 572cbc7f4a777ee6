"""Numbers that depend on extents: where a range begins, extents as exporters write them, folded constants."""

from __future__ import annotations

from collections.abc import Callable

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
@pytest.mark.parametrize("divide", [tirx.floordiv, tirx.floormod])
def test_an_extent_that_is_divided_by_zero_is_an_error(divide: Callable[..., tirx.Expr]) -> None:
    """The processor ends the process for such a division."""
    x, other = var("x", N), var("other", M, 2)
    positions = op.astype(op.arange(0, divide(N, M), 1, "int64"), "float32")
    machine = whole(single([x, other], op.add(op.sum(positions), op.add(op.sum(x), op.sum(other)))))
    ones = np.ones(7, "float32")
    expected = 7 + 4 + sum(range(3 if divide is tirx.floordiv else 1))
    assert machine.call("main", ones, np.ones((2, 2), "float32"))[0] == expected
    with pytest.raises(ValueError, match="an extent of a region is divided by one that is 0"):
        machine.call("main", ones, np.ones((0, 2), "float32"))


@needs_onednn
def test_a_range_may_begin_below_zero() -> None:
    x = var("x", N)
    positions = op.astype(op.arange(-3, N - 3, 1, "int64"), "float32")
    machine = whole(single([x], op.add(op.sin(x), positions)))
    for rows in (2, 5):
        (found,) = machine.call("main", np.zeros(rows, "float32"))
        np.testing.assert_array_equal(found, np.arange(-3, rows - 3))


@needs_onednn
def test_extents_are_numbers_of_a_region() -> None:
    """As an index that counts from the end of a symbolic axis needs them."""
    x, y = var("x", N, 4), var("y", M, dtype="int64")
    extents = op.shape_to_tensor(relax.ShapeExpr([N, M - N, 7]))
    machine = whole(single([x, y], relax.Tuple([op.sin(x), op.add(extents, op.sum(y, [0], True))])))
    for rows, others in ((2, 5), (3, 1)):
        given = np.zeros((rows, 4), "float32"), np.full(others, 10, "int64")
        found = machine.call("main", *given)[1]
        np.testing.assert_array_equal(found, np.array([rows, others - rows, 7]) + 10 * others)


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


def attended(past: relax.Var, rows: relax.Var, queries: relax.Var) -> relax.Expr:
    """Attention to the rows of a cache and to new ones, which serve as keys and as values."""
    keys = op.concat([past, rows], 2)
    scores = op.multiply(op.matmul(queries, op.permute_dims(keys, [0, 1, 3, 2])), relax.const(0.25))
    return op.matmul(op.nn.softmax(scores, -1), keys)


@needs_onednn
@pytest.mark.parametrize("count", [1, 12])
def test_a_cache_may_be_empty_yet(count: int) -> None:
    """Few queries read both parts where they lie, more queries a copy of both."""
    past, rows, queries = (
        var(name, 2, 3, extent, 16) for name, extent in zip("abc", (N, M, count), strict=True)
    )
    machine = whole(single([past, rows, queries], attended(past, rows, queries)))
    (symbol,) = machine.symbols_of("main")
    random = np.random.default_rng(8)
    for before, fresh in ((0, 1), (3, 2), (0, 5), (4, 0), (0, 1)):
        shapes = (2, 3, before, 16), (2, 3, fresh, 16), (2, 3, count, 16)
        given = [random.standard_normal(shape).astype("float32") for shape in shapes]
        keys = np.concatenate(given[:2], 2).astype("float64")
        weights = np.exp(given[2] @ keys.swapaxes(2, 3) / 4)
        expected = weights / weights.sum(-1, keepdims=True) @ keys
        np.testing.assert_allclose(machine.call("main", *given)[0], expected, rtol=1e-5, atol=1e-6)
    assert any("attention" in line for line in machine.plan(symbol))
    with pytest.raises(ValueError, match=r"extent of the inputs is 0, .* of shape \(2, 3, 16, 0\)"):
        machine.call("main", *(np.ones((2, 3, extent, 16), "float32") for extent in (0, 0, count)))


@needs_onednn
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parts_of_a_whole_may_be_empty(axis: int, dtype: str) -> None:
    """What is computed of an empty part is empty, too; one part alone is the whole."""
    shape, other = [2, 3, 4], [2, 3, 4]
    shape[axis], other[axis] = N, M
    first, last = var("first", *shape, dtype=dtype), var("last", *other, dtype=dtype)
    middle = relax.const(np.full((2, 3, 4), 7), dtype)
    joined = op.concat(
        [op.add(first, first), op.permute_dims(op.multiply(last, last), [0, 1, 2]), middle], axis
    )
    machine = whole(single([first, last], relax.Tuple([op.negative(joined), op.add(first, first)])))
    for extents in ((0, 2), (1, 0), (0, 0), (2, 3)):
        given = []
        for extent in extents:
            shape[axis] = extent
            given.append(np.arange(np.prod(shape)).reshape(shape).astype(dtype))
        expected = -np.concatenate([2 * given[0], given[1] ** 2, np.full((2, 3, 4), 7, dtype)], axis)
        found = machine.call("main", *given)
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], 2 * given[0])


@needs_onednn
def test_what_needs_elements_and_gets_none_says_so() -> None:
    x = var("x", N, 4)
    machine = whole(single([x], op.sum(op.nn.relu(x), [0])))
    for rows in (0, 2, 0):
        given = np.ones((rows, 4), "float32")
        if rows:
            np.testing.assert_array_equal(machine.call("main", given)[0], np.full(4, rows, "float32"))
            continue
        with pytest.raises(
            ValueError, match=r"extent of the inputs is 0, .*\(0, 4\).* result of shape \(1, 4\)"
        ):
            machine.call("main", given)
