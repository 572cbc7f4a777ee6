"""The checker of orders on literal definitions; it needs no TVM."""

from dataclasses import dataclass

import pytest

from annotated_region.certificates import Certificate, Definition, check_orders
from annotated_region.errors import OverlappingRegionsError, RegionCycleError


@dataclass(frozen=True)
class Name:
    name: str


A, B, C, N = map(Name, "abcn")
# a = f(); b = g(a), whose shape holds n; c = h(b, n)
CHAIN = [Definition(A, ()), Definition(B, (A,), (N,)), Definition(C, (B, N))]


def check(order, nodes_of, definitions=CHAIN, given=()):
    check_orders(nodes_of, given, definitions, Certificate((order,)))


def test_an_order_that_follows_the_values_is_right():
    check((A, B, C), {})
    check((0, C), {0: (A, B)})
    check((A, 7), {7: (B, C)})


@pytest.mark.parametrize(
    ("order", "nodes_of", "message"),
    [
        ((A, C, B), {}, "'c' uses 'b', which comes later"),
        ((B, 0), {0: (A, C)}, "'b' uses 'a', which comes later"),
        ((A, B), {}, "'c' is missing from the certificate"),
        ((A, B, C, A), {}, "'a' appears twice in the certificate"),
        ((A, B, C), {3: (A, B)}, r"regions \[3\] appear in no order"),
        ((A, B, C, 3), {}, r"regions \[3\] appear in no order, or in an order but not in the set"),
    ],
)
def test_any_other_order_is_refused(order, nodes_of, message):
    with pytest.raises(RegionCycleError, match=message):
        check(order, nodes_of)


def test_a_shape_variable_is_defined_by_its_first_binding_unless_it_was_given():
    definitions = [Definition(B, (), (N,)), Definition(A, (N,), (N,))]
    with pytest.raises(RegionCycleError, match="'a' uses 'n', which comes later"):
        check((A, B), {}, definitions)
    check((A, B), {}, definitions, given=(N,))


def test_an_annotation_stands_where_its_value_does():
    begin = Definition(N, (A,), is_annotation=True)
    definitions = [Definition(A, ()), begin, Definition(B, (N,))]
    check((A, B), {}, definitions)
    with pytest.raises(RegionCycleError, match="'b' uses 'n', which comes later"):
        check((B, A), {}, definitions)


def test_several_orders_are_not_one():
    with pytest.raises(OverlappingRegionsError, match="2 orders, not one"):
        Certificate(((A,), (B,))).order  # noqa: B018
