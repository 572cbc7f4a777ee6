"""What a backend refuses is cut for the same target first; policies ask, and the backend sees composites."""

import pytest
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.costs import UnitCost
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

CHAIN: dict[str, tuple[str, tuple[str, ...]]] = {
    f"n{index}": ("relax.nn.relu", (f"n{index - 1}" if index else "x",)) for index in range(6)
}
OFFLOADING = UnitCost(op=1.0, host_op=9.0, region=1.0, crossing=1.0)
POLICIES = {"priority": ar.Priority(["t", "u"]), "least cost": ar.LeastCost(OFFLOADING)}


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("t", "relax.nn.relu")
        yield


def names(region):
    return [var.name for var in region.nodes if var.name != "gv"]


def placed(mod, policy, targets=("t",)):
    report = ar.explain(mod, list(targets), policy, prepare=False).to_dict()
    return [
        (region["target"], [name for name in region["ops"] if name != "gv"])
        for region in report["functions"][0]["regions"]
    ]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_same_target_gets_the_largest_parts_before_others(policy):
    claim_ops("u", "relax.nn.relu")
    ar.register_backend("t", accepts_region=lambda region: len(names(region)) <= 4 or "too long")
    found = placed(module_of(CHAIN), policy, ("t", "u"))
    assert sum(len(ops) for _target, ops in found) == 6
    if policy is POLICIES["priority"]:
        assert [(target, len(ops)) for target, ops in found] == [("t", 4), ("t", 2)]
    else:
        assert len(found) == 1  # one region of u is cheaper than two


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_predicate_need_not_be_monotone(policy):
    """Only pairs are accepted: neither single ops nor longer chains."""
    ar.register_backend("t", accepts_region=lambda region: len(names(region)) == 2 or "no pair")
    assert placed(module_of(CHAIN), policy) == [("t", [f"n{i}", f"n{i + 1}"]) for i in (0, 2, 4)]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_what_a_target_refuses_alone_goes_to_the_next(policy):
    claim_ops("u", "relax.nn.relu")
    ar.register_backend("t", accepts_region=lambda region: "n2" not in names(region) or "not n2")
    ar.register_backend("u", accepts_region=lambda region: names(region) == ["n2"] or "n2 alone")
    assert placed(module_of(CHAIN), policy, ("t", "u")) == [
        ("t", ["n0", "n1"]),
        ("u", ["n2"]),
        ("t", ["n3", "n4", "n5"]),
    ]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_predicate_sees_the_composites(policy):
    seen = set()

    def accepts(region):
        seen.update((each.name, tuple(var.name for var in each.nodes)) for each in region.composites)
        return len(region.composites) <= 1 or "one composite a region"

    ar.register_pattern("t", "t.pair", is_op("relax.nn.relu")(is_op("relax.nn.relu")(wildcard())))
    ar.register_backend("t", accepts_region=accepts)
    found = placed(module_of(dict(list(CHAIN.items())[:4])), policy)
    assert sorted(op for _target, ops in found for op in ops) == ["n0", "n1", "n2", "n3"]
    assert ("t.pair", ("n0", "n1")) in seen


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_ops_of_a_refused_composite_may_still_be_taken(policy):
    ar.register_pattern("t", "t.pair", is_op("relax.tanh")(is_op("relax.nn.relu")(wildcard())))
    ar.register_backend("t", accepts_region=lambda region: not region.composites or "no composites")
    graph = {"a": ("relax.nn.relu", ("x",)), "b": ("relax.tanh", ("a",))}
    assert placed(module_of(graph), policy) == [("t", ["a"])]


def test_the_report_says_why():
    ar.register_backend("t", accepts_region=lambda _region: "it is Sunday")
    report = str(ar.explain(module_of(CHAIN), ["t"], prepare=False))
    assert "refused by its backend: it is Sunday" in report


def test_a_pin_to_a_target_that_refuses_is_an_error():
    ar.register_backend("t", accepts_region=lambda _region: "it is Sunday")
    with pytest.raises(ar.PinError, match="'n1' is pinned to 't', which does not accept it: it is Sunday"):
        ar.partition(module_of(CHAIN), ["t"], pins={"n1": "t"}, prepare=False)


def test_many_refusals_are_bounded():
    """A long chain of which nothing is accepted: the questions grow with the chain, not with its square."""
    asked = []

    def accepts(region):
        asked.append(len(region.nodes))
        return "never"

    ar.register_backend("t", accepts_region=accepts)
    long = {f"n{i}": ("relax.nn.relu", (f"n{i - 1}" if i else "x",)) for i in range(200)}
    assert placed(module_of(long), ar.Priority(["t"])) == []
    assert len(asked) < 40 * len(long)
