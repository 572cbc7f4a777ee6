"""Views and copies against numpy: whatever was permuted and reshaped, the stored elements are the same."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from annotated_region.layout_plan.copies import conversions
from annotated_region.layout_plan.views import MisfitError, Root, TensorView
from annotated_region.layouts.layout import Layout, Piece

shapes = st.lists(st.sampled_from([1, 1, 2, 3, 4, 6, 8]), min_size=1, max_size=4).map(tuple)


@st.composite
def factored(draw, size):
    """Extents whose product is `size`."""
    extents = []
    while size > 1:
        extents.append(draw(st.sampled_from([d for d in range(2, size + 1) if size % d == 0])))
        size //= extents[-1]
    for _ in range(draw(st.integers(0, 2))):
        extents.insert(draw(st.integers(0, len(extents))), 1)
    return tuple(extents) or (1,)


@st.composite
def views(draw):
    """A root, one of its views, and the array that the view is of the root's elements 0, 1, 2, ..."""
    shape = draw(shapes)
    view, array = TensorView.of(Root(0, shape, "float32")), np.arange(math.prod(shape)).reshape(shape)
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(array.ndim)))
            view, array = view.permuted(order), array.transpose(order)
        else:
            extents = draw(factored(array.size))
            reshaped = view.reshaped(extents)
            if reshaped is not None:
                view, array = reshaped, array.reshape(extents)
    return view, array


def moved(root, new):
    """The root's elements 0, 1, 2, ... in another storage, flat."""
    array = np.arange(math.prod(root.extents))
    for step in conversions(root, TensorView.of(root).storage(), new):
        array = array.reshape(step.parts).transpose(step.axes)
    return array.reshape(-1)


@pytest.mark.campaign
@given(views())
def test_a_view_as_it_is_stores_what_numpy_has(case):
    view, array = case
    assert view.extents == array.shape
    np.testing.assert_array_equal(moved(view.root, view.storage()), array.reshape(-1))


@pytest.mark.campaign
@given(views(), st.data())
def test_a_layout_of_a_view_stores_what_numpy_has(case, data):
    view, array = case
    order = data.draw(st.permutations(range(array.ndim)))
    layout = Layout.of_order(order)
    assert view.shape(layout) == array.transpose(order).shape
    np.testing.assert_array_equal(moved(view.root, view.storage(layout)), array.transpose(order).reshape(-1))


@pytest.mark.campaign
@given(views(), st.data())
def test_the_storage_of_one_view_is_a_layout_of_the_other(case, data):
    view, _ = case
    root = TensorView.of(view.root)
    order = data.draw(st.permutations(range(len(view.axes))))
    storage = view.storage(Layout.of_order(order))
    try:
        layout = root.layout(storage)
    except MisfitError:
        return  # such as pieces of 4 and of 6
    assert root.storage(layout) == storage
    assert math.prod(root.shape(layout) or ()) == math.prod(view.extents)
    assert view.layout(storage).pieces
    assert view.storage(view.layout(storage)) == storage


def test_storages_whose_cuts_do_not_fit_are_reached_in_two_steps():
    root = Root(0, (24, 5), "float32")
    fours, sixes = (
        TensorView.of(root).storage(Layout((Piece(0, size), Piece(1), Piece(0, 1, size)))) for size in (4, 6)
    )
    array = np.arange(120).reshape(6, 4, 5).transpose(0, 2, 1)
    steps = conversions(root, fours, sixes)
    assert len(steps) == 2
    for step in steps:
        array = array.reshape(step.parts).transpose(step.axes)
    expected = np.arange(120).reshape(4, 6, 5).transpose(0, 2, 1)
    np.testing.assert_array_equal(array.reshape(-1), expected.reshape(-1))


def reshaped(view, extents):
    """What numpy's reshape would give, which is a view."""
    result = view.reshaped(extents)
    assert result is not None
    return result


def test_axes_of_extent_one_take_no_part():
    view = TensorView.of(Root(0, (1, 8, 1, 1), "float32"))
    assert view.storage() == view.storage(Layout.of_order((0, 2, 3, 1))) == reshaped(view, (8,)).storage()


def test_a_channel_shuffle_is_a_view():
    view = TensorView.of(Root(0, (2, 12, 5), "float32"))
    shuffled = reshaped(reshaped(view, (2, 3, 4, 5)).permuted((0, 2, 1, 3)), (2, 12, 5))
    assert shuffled.axes[1] == (Piece(1, 1, 4), Piece(1, 4))


@pytest.mark.parametrize("extents", [(5, 7), (3, 4, 2), (2, 2)])
def test_what_cuts_an_axis_apart_or_has_another_size_is_no_view(extents):
    assert TensorView.of(Root(0, (7, 5), "float32")).reshaped(extents) is None


def test_a_symbolic_axis_cannot_be_cut_into_blocks():
    view = TensorView.of(Root(0, (2, relax.Var("n", "int64")), "float32"))
    blocked = Layout((Piece(0), Piece(1, 4), Piece(1, 1, 4)))
    assert view.shape(blocked) is None
    with pytest.raises(MisfitError):
        view.storage(blocked)
