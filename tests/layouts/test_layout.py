"""Layout: names, shapes and positions."""

import numpy as np
import pytest
from kits.layouts.layout_kit import between, stored

from annotated_region.layouts import Layout, Piece


@pytest.mark.parametrize(
    ("old", "new", "shape"),
    [
        ("NCHW", "NHWC", (2, 5, 7, 24)),
        ("NHWC", "NCHW", (2, 7, 24, 5)),
        ("NCHW", "NCHW8c", (2, 3, 5, 7, 8)),
        ("OIHW", "OIHW4i2o", (1, 6, 5, 7, 4, 2)),
    ],
)
def test_a_name_tells_what_is_stored(old, new, shape):
    layout = between(old, new)
    assert layout.shape((2, 24, 5, 7)) == shape
    assert layout.letters(old) == new
    assert layout.rank == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("NCHW", "NCW"),
        ("NCHW", "NCHW4d"),
        ("NCHW", "NCHW0c"),
        ("NCHW", "NC4HW"),
        ("NCHW4c", "NCHW"),
        ("NCHW", "nchw"),
    ],
)
def test_what_is_no_layout_of_these_axes(old, new):
    assert Layout.between(old, new) is None


def test_blocks_of_channels_element_by_element():
    array = np.arange(2 * 8 * 3 * 3).reshape(2, 8, 3, 3)
    expected = array.reshape(2, 2, 4, 3, 3).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(stored(array, between("NCHW", "NCHW4c")), expected)


def test_a_block_has_to_fit():
    assert between("NCHW", "NCHW4c").shape((1, 6, 2, 2)) is None
    assert between("NCHW", "NCHW4c").shape((1, 1, 2, 2)) == (1, 1, 2, 2, 1)


def test_where_an_axis_is():
    blocked, moved = between("NCHW", "NCHW4c"), Layout.of_order((0, 2, 3, 1))
    assert [blocked.position(axis) for axis in range(4)] == [0, None, 2, 3]
    assert moved.positions((1, -1)) == (3, 2)
    assert blocked.positions((0, 1)) is None
    assert moved.order == (0, 2, 3, 1)
    assert blocked.order is None


def test_axes_come_and_go():
    layout = Layout.of_order((0, 2, 3, 1))
    assert layout.without((2,)) == Layout.of_order((0, 2, 1))
    assert layout.with_first(1) == Layout((Piece(1), Piece(0), Piece(3), Piece(4), Piece(2)))
