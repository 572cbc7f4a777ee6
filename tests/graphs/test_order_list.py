"""The order list against a plain list."""

from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_region.graphs.order_list import OrderList


def assert_same(order: OrderList, model: list[int]) -> None:
    assert order.items() == model
    labels = [order.label[item] for item in model]
    assert labels == sorted(set(labels))


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(8)), st.data())
def test_moves_agree_with_a_plain_list(model: list[int], data: st.DataObject) -> None:
    order = OrderList(model)
    model = list(model)
    for _ in range(data.draw(st.integers(0, 30))):
        place = data.draw(st.sampled_from(model))
        items = data.draw(st.lists(st.sampled_from([x for x in model if x != place]), unique=True))
        behind = data.draw(st.booleans())
        (order.move_after if behind else order.move_before)(place, items)
        model = [item for item in model if item not in items]
        at = model.index(place) + behind
        model[at:at] = items
        assert_same(order, model)


def test_labels_survive_thousands_of_moves_to_one_spot() -> None:
    size = 300
    order, model = OrderList(range(size)), list(range(size))
    for round_ in range(5000):
        item = 2 + round_ * 7 % (size - 2)
        order.move_after(0, [item])
        model.remove(item)
        model.insert(1, item)
    assert_same(order, model)


def test_an_item_taken_out_leaves_the_others_in_order() -> None:
    order = OrderList([2, 0, 1])
    order.remove(0)
    assert order.items() == [2, 1]
