"""Elements at indices that only a call shows to be in range."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, ops_on_host
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

pytestmark = needs_onednn

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
END = 2**62


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


@pytest.mark.parametrize("rows", [[2], [1, 2], [3, 1], [0, 2]], ids=str)
def test_constant_rows_of_a_symbolic_axis_are_taken_or_refused(rows):
    x = var("x", (2, N, 3))
    made = offload(module([x], lambda _: op.take(x, relax.const(np.array(rows)), 1)))
    assert not ops_on_host(made.module)
    for extent in (4, 9):
        given = numbers(2, extent, 3)
        np.testing.assert_array_equal(made.call("main", given)[0], given[:, rows])
    with pytest.raises(RuntimeError, match=r"index [123] is out of range for an axis of 1"):
        made.call("main", numbers(2, 1, 3))


def test_a_constant_row_drops_its_axis():
    x = var("x", (2, N, 3))
    made = offload(module([x], lambda _: op.take(x, relax.const(2, "int64"), 1)))
    assert not ops_on_host(made.module)
    given = numbers(2, 5, 3)
    np.testing.assert_array_equal(made.call("main", given)[0], given[:, 2])


def test_elements_are_gathered_where_the_call_has_enough_of_them():
    x, places = var("x", (N, 5)), var("places", (M, 4), "int64")
    made = offload(module([x, places], lambda _: op.gather_elements(x, places, 1)))
    assert not ops_on_host(made.module)
    indices = np.random.default_rng(1).integers(0, 5, (3, 4))
    for extent in (3, 6):
        given = numbers(extent, 5)
        (found,) = made.call("main", given, indices)
        np.testing.assert_array_equal(found, np.take_along_axis(given[:3], indices, 1))
    with pytest.raises(RuntimeError, match="there are 3 indices for 2 elements along axis 0"):
        made.call("main", numbers(2, 5), indices)


def test_slices_of_symbolic_axes_begin_and_end_inside_of_them():
    x, y = var("x", (2, N, 3)), var("y", (M,))
    begins = [(1, END), (-3, END), (-3, -1), (M, END), (M, M * 2)]
    made = offload(module([x, y], lambda builder: _doubled(builder, x, begins)))
    assert not ops_on_host(made.module)
    for rows, count in ((7, 2), (7, 5), (3, 1), (1, 1), (0, 2), (2, 9)):
        given, m = numbers(2, rows, 3), count
        bounds = [(1, END), (-3, END), (-3, -1), (m, END), (m, m * 2)]
        answers = made.call("main", given, numbers(m))
        for answer, (begin, end) in zip(answers, bounds, strict=True):
            np.testing.assert_array_equal(answer, given[:, begin:end] * 2)


def _doubled(builder, x, bounds):
    parts = [builder.emit(op.strided_slice(x, [1], [begin], [end])) for begin, end in bounds]
    return relax.Tuple([builder.emit(op.multiply(part, relax.const(2.0))) for part in parts])


def test_a_slice_that_leaves_its_axis_is_an_error_of_the_call():
    """Targets are told that it does not; nothing outside is read."""
    x, y = var("x", (2, N, 3)), var("y", (M,))
    part = op.strided_slice(x, [1], [M], [M * 2], assume_inbound=True)
    made = offload(module([x, y], lambda builder: op.multiply(builder.emit(part), relax.const(2.0))))
    assert not ops_on_host(made.module)
    given = numbers(2, 6, 3)
    np.testing.assert_array_equal(made.call("main", given, numbers(3))[0], given[:, 3:] * 2)
    with pytest.raises(ValueError, match=r"a slice would take elements 4 to 7 of axis 1 .* \(2, 6, 3\)"):
        made.call("main", given, numbers(4))


def test_constants_are_put_around_truths_bytes_and_what_has_no_elements():
    x = var("x", (2, N, 4))

    def padded(builder):
        before = builder.emit(op.strided_slice(x, [1], [0], [-1]))
        shifted = builder.emit(op.nn.pad(before, (0, 0, 1, 0, 0, 0)))
        truths = builder.emit(op.nn.pad(op.greater(x, relax.const(0.0)), (0, 0, 1, 1, 0, 1), pad_value=1))
        small = builder.emit(op.astype(builder.emit(op.multiply(x, relax.const(9.0))), "int8"))
        wide = builder.emit(op.nn.pad(small, (0, 0, 0, 0, 2, 0), pad_value=-7))
        endless = builder.emit(op.nn.pad(x, (0, 0, 0, 0, 0, 1), pad_value=-math.inf))
        return relax.Tuple([shifted, truths, wide, endless])

    made = offload(module([x], padded))
    assert not ops_on_host(made.module)
    for rows in (3, 1):
        given = numbers(2, rows, 4)
        shifted, truths, wide, endless = made.call("main", given)
        np.testing.assert_array_equal(shifted, np.pad(given[:, :-1], ((0, 0), (1, 0), (0, 0))))
        ring = ((0, 0), (1, 1), (0, 1))
        np.testing.assert_array_equal(truths, np.pad(given > 0, ring, constant_values=True))
        small = (given * np.float32(9)).astype("int8")
        np.testing.assert_array_equal(wide, np.pad(small, ((0, 0), (0, 0), (2, 0)), constant_values=-7))
        beside = ((0, 0), (0, 0), (0, 1))
        np.testing.assert_array_equal(endless, np.pad(given, beside, constant_values=-np.inf))


def test_a_constant_is_viewed_with_the_extents_of_a_call():
    x, constant = var("x", (N, M)), numbers(6)
    made = offload(module([x], lambda _: op.add(op.nn.relu(x), op.reshape(relax.const(constant), (N, M)))))
    assert not ops_on_host(made.module)
    for shape in ((2, 3), (6, 1)):
        given = numbers(*shape)
        expected = np.maximum(given, 0) + constant.reshape(shape)
        np.testing.assert_array_equal(made.call("main", given)[0], expected)


def test_no_updates_leave_the_data():
    """OneFormer shows all of the image to queries that see nothing, where there are such."""
    x, places, updates = var("x", (4, 3)), var("places", (N, 3), "int64"), var("updates", (N, 3))

    def make(_builder):
        scattered = op.scatter_elements(op.nn.relu(x), places, updates, 0)
        return relax.Tuple(
            [scattered, op.scatter_nd(scattered, op.reshape(places, (N * 3, 1)), op.exp(rows))]
        )

    rows = var("rows", (N * 3, 3))
    made = offload(module([x, places, updates, rows], make))
    assert not ops_on_host(made.module)
    given = numbers(4, 3)
    for found in made.call("main", given, np.zeros((0, 3), "int64"), numbers(0, 3), numbers(0, 3)):
        np.testing.assert_array_equal(found, np.maximum(given, 0))
    first, _ = made.call("main", given, np.full((1, 3), 2), numbers(1, 3), numbers(3, 3))
    np.testing.assert_array_equal(first[2], numbers(1, 3)[0])
