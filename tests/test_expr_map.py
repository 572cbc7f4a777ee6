"""Maps and sets of expressions: keyed by which object they are, and alive as long as the map."""

import gc

import pytest
from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet


def shape(*extents: int) -> relax.ShapeExpr:
    return relax.ShapeExpr(list(extents))


def test_a_node_is_found_through_any_of_its_python_objects() -> None:
    whole = relax.Tuple([shape(1), shape(2)])
    found = ExprMap([(whole.fields[0], "first")])
    assert whole.fields[0] in found
    assert found[whole.fields[0]] == "first"
    assert found.get(whole.fields[1]) is None
    assert found.get(whole.fields[1], "none") == "none"
    with pytest.raises(KeyError):
        found[whole.fields[1]]


def test_equal_nodes_are_different_keys() -> None:
    one, other = shape(1), shape(1)
    found = ExprMap([(one, 1), (other, 2)])
    assert (found[one], found[other], len(found)) == (1, 2, 2)


def test_the_address_of_a_key_is_never_used_again() -> None:
    known, seen = ExprMap[int](), ExprSet()
    for number in range(2000):
        fresh = shape(number)  # nothing but the map and the set holds it
        assert fresh not in known
        assert fresh not in seen
        known[fresh] = number
        seen.add(fresh)
        del fresh
        gc.collect() if number % 500 == 0 else None
    assert list(known.values()) == list(range(2000))
    assert [int(expr.values[0]) for expr in known] == list(range(2000))
    assert len(seen) == 2000


def test_the_first_value_stays_and_what_is_discarded_is_gone() -> None:
    one = shape(1)
    found = ExprMap[str]()
    assert found.setdefault(one, "a") == found.setdefault(one, "b") == "a"
    found.discard(one)
    found.discard(one)
    assert one not in found
    assert list(ExprSet([one])) == [one]
