"""Every policy keeps the limits of backends; limits that cannot be kept are errors."""

import numpy as np
import pytest
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.costs import UnitCost
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

CHAIN: dict[str, tuple[str, tuple[str, ...]]] = {
    f"n{index}": ("relax.nn.relu", (f"n{index - 1}" if index else "x",)) for index in range(7)
}
GAPS = {
    "a": ("relax.nn.relu", ("x",)),
    "b": ("relax.tanh", ("a",)),
    "c": ("relax.nn.relu", ("b",)),
    "d": ("relax.nn.relu", ("c",)),
    "e": ("relax.tanh", ("d",)),
    "f": ("relax.nn.relu", ("e",)),
}
OFFLOADING = UnitCost(op=1.0, host_op=9.0, region=1.0, crossing=1.0)
POLICIES: dict[str, ar.Policy] = {"priority": ar.Priority(["t"]), "least cost": ar.LeastCost(OFFLOADING)}
BYTES = 24
"""Of each value in the graphs here: 2 x 3 x float32."""


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("t", "relax.nn.relu", "relax.matmul")
        yield


def regions_of(mod, policy, targets=("t",)):
    """Target and nodes of each region that `partition` leaves to the code generators."""
    report = ar.explain(mod, list(targets), policy, prepare=False).to_dict()
    return [
        (region["target"], sum(name != "gv" for name in region["ops"]))
        for region in report["functions"][0]["regions"]
    ]


def sizes(mod, policy, targets=("t",)):
    return [ops for _target, ops in regions_of(mod, policy, targets)]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [7]),
        ({"max_ops": 3}, [3, 3, 1]),
        ({"max_ops": 3, "max_regions": 2}, [3, 3]),
        ({"max_regions": 0}, []),
        ({"max_ops": 0}, []),
        ({"max_workspace_bytes": 2 * BYTES}, [3, 3, 1]),
        ({"max_workspace_bytes": 3 * BYTES - 1, "max_regions": 1}, [3]),
        ({"max_workspace_bytes": 0}, [1] * 7),
        ({"max_constant_bytes": 0}, [7]),
    ],
)
def test_a_chain_in_parts(policy, limits, expected):
    ar.register_backend("t", **limits)
    assert sorted(sizes(module_of(CHAIN), policy), reverse=True) == expected


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_where_there_are_too_many_regions_the_largest_stay(policy):
    ar.register_backend("t", max_regions=1)
    assert regions_of(module_of(GAPS), policy) == [("t", 2)]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_what_one_target_has_no_room_for_goes_to_the_next(policy):
    claim_ops("u", "relax.nn.relu")
    ar.register_backend("t", max_ops=2, max_regions=1)
    policy = ar.Priority(["t", "u"]) if policy is POLICIES["priority"] else policy
    found = regions_of(module_of(CHAIN), policy, ("t", "u"))
    assert sum(ops for _target, ops in found) == 7
    assert [ops for target, ops in found if target == "t"] in ([], [2])
    if isinstance(policy, ar.Priority):
        assert ("t", 2) in found


def dense_chain(shared: bool):
    """Four products of x with 4 x 4 weights: 64 bytes each, or the same 64 bytes for all."""
    weights = [np.full((4, 4), 1.0 + (0 if shared else index), "float32") for index in range(4)]
    constants = [relax.const(weights[0])] * 4 if shared else [relax.const(weight) for weight in weights]
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for constant in constants:
                value = builder.emit(relax.op.matmul(value, constant))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_constants_of_a_region_count_once(policy):
    ar.register_backend("t", max_constant_bytes=128)
    assert sizes(dense_chain(shared=False), policy) == [2, 2]
    assert sizes(dense_chain(shared=True), policy) == [4]
    ar.register_backend("t", max_constant_bytes=63)
    assert sizes(dense_chain(shared=True), policy) == []


@pytest.mark.parametrize(
    ("budget", "expected"), [(0, []), (95, []), (96, [1]), (2 * 96, [2]), (4 * 96 - 1, [3]), (4 * 96, [4])]
)
def test_a_budget_is_of_constants_and_of_what_ops_make(budget, expected):
    """Each product has 64 bytes of weights and makes 32."""
    policy = ar.LeastCost(OFFLOADING, budget_bytes={"t": budget})
    assert sizes(dense_chain(shared=False), policy) == expected


def test_constants_that_regions_share_are_in_the_budget_of_each():
    policy = ar.LeastCost(OFFLOADING, budget_bytes={"t": 64 + 4 * 32})
    assert sizes(dense_chain(shared=True), policy) == [4]
    ar.register_backend("t", max_ops=2)
    assert sizes(dense_chain(shared=True), policy) == [2]  # two regions would take 2 * (64 + 2 * 32)
    more = ar.LeastCost(OFFLOADING, budget_bytes={"t": 2 * (64 + 2 * 32)})
    assert sizes(dense_chain(shared=True), more) == [2, 2]


def test_composites_count_their_ops_and_hide_their_insides():
    ar.register_pattern("t", "t.pair", is_op("relax.tanh")(is_op("relax.nn.relu")(wildcard())))
    graph = {"a": ("relax.nn.relu", ("x",)), "b": ("relax.tanh", ("a",))}
    ar.register_backend("t", max_ops=2, max_workspace_bytes=0)
    for policy in POLICIES.values():
        assert sizes(module_of(graph), policy) == [2]
    ar.register_backend("t", max_ops=1)
    for policy in POLICIES.values():
        assert sizes(module_of(graph), policy) == [1]


def test_the_report_says_what_the_limits_took():
    ar.register_backend("t", max_ops=3, max_regions=1)
    report = str(ar.explain(module_of(CHAIN), ["t"], prepare=False))
    assert "t: 3 of 7 ops in 1 region" in report
    assert "smaller than the 1 region that its target may have" in report


def test_the_gap_is_told():
    ar.register_backend("t", max_ops=3, max_regions=2)
    answer = ar.explain(module_of(CHAIN), ["t"], POLICIES["least cost"], prepare=False).to_dict()
    assert answer["gap"] == 0.0
    # Six ops on the target in two regions, the last one on the host, and three crossings.
    assert answer["cost"] == 6 * 1.0 + 9.0 + 2 * 1.0 + 3 * 1.0


def test_a_pin_that_a_limit_excludes_is_an_error():
    ar.register_backend("t", max_ops=0)
    with pytest.raises(
        ar.PinError, match=r"'n3' is pinned to 't', which does not accept it: 1 ops, and a region"
    ):
        ar.partition(module_of(CHAIN), ["t"], pins={"n3": "t"}, prepare=False)


@pytest.mark.parametrize("name", ["max_ops", "max_regions", "max_constant_bytes", "max_workspace_bytes"])
@pytest.mark.parametrize("limit", [-1, 2.0, "3", True])
def test_impossible_limits_are_refused(name, limit):
    with pytest.raises(ar.InvalidBackendError, match=f"backend 't': {name}={limit!r} is not a limit"):
        ar.register_backend("t", **{name: limit})


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (8 << 20, "the argument budget_bytes"),
        ({"t": 1.5}, "the entry 't' of the argument budget_bytes is 1.5"),
        ({"t": -1}, "the budget of 't' is -1; give a number of bytes, 0 or more"),
        ({"t": True}, "the entry 't' of the argument budget_bytes is True"),
        ({3: 5}, "a key of the argument budget_bytes is 3"),
    ],
)
def test_impossible_budgets_are_refused(budget, said):
    with pytest.raises(ar.UsageError, match=said):
        ar.LeastCost(OFFLOADING, budget_bytes=budget)


def test_a_budget_of_an_unknown_target_is_an_error():
    policy = ar.LeastCost(OFFLOADING, budget_bytes={"npv": 1})
    with pytest.raises(ar.UnknownTargetError, match="unknown target 'npv'"):
        ar.partition(module_of(CHAIN), ["t"], policy, prepare=False)
