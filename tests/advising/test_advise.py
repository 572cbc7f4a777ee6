"""Advice equals the result of claiming the ops: rules are switched off and on, on models and graphs."""

import math

import pytest
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.testing.generated import inception, layered
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

OFF = "switched off"


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


def counted(mod, targets, policy=None):
    """Regions and host ops, by the report."""
    (function,) = ar.explain(mod, targets, policy).functions
    return len(function.regions), sum(op.placed == "host" for op in function.ops)


def ops_of(mod):
    (function,) = ar.explain(mod, ["sketch"]).functions
    return list(dict.fromkeys(op.op for op in function.ops))


MODELS = {
    "six ops": lambda: module_of(SIX_OPS),
    "layered": lambda: layered(6, 6, seed=3),
    "wide": lambda: layered(4, 8, seed=5),
    "inception": lambda: inception(30),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("policy", [None, ar.LeastCost(ar.UnitCost())], ids=["priority", "least cost"])
def test_rules_switched_off_and_on_give_the_regions_that_were_predicted(name, policy):
    claim_ops("sketch", "relax.nothing")
    claim_ops("pencil", "relax.tanh", "relax.add")
    mod = ar.passes.PrepareForInference()(MODELS[name]())
    ops = ops_of(mod)
    claim_ops("sketch", *ops)
    targets = ["sketch", "pencil"]
    for op in ops:
        claim_ops("sketch", op, answer=OFF)
        advice = ar.advise(mod, targets, policy)
        about = [each for each in advice if (each.target, each.op, each.reason) == ("sketch", op, OFF)]
        found = max(about, key=lambda each: len(each.ops))
        assert (found.regions_before, found.host_before) == counted(mod, targets, policy)
        claim_ops("sketch", op)
        assert (found.regions_after, found.host_after) == counted(mod, targets, policy), op


def test_the_cost_is_that_of_the_policy():
    claim_ops("sketch", "relax.nn.relu", "relax.add")
    claim_ops("sketch", "relax.tanh", answer=OFF)
    mod = module_of(SIX_OPS)
    policy = ar.LeastCost(ar.UnitCost())
    (first, *_rest) = ar.advise(mod, ["sketch"], policy)
    before = ar.explain(mod, ["sketch"], policy).to_dict()["cost"]
    claim_ops("sketch", "relax.tanh")
    after = ar.explain(mod, ["sketch"], policy).to_dict()["cost"]
    assert math.isclose(first.seconds_saved, before - after)
    assert (first.op, first.ops) == ("relax.tanh", ("main/x1", "main/y1"))
    assert (first.regions_before, first.regions_after, first.host_after) == (1, 1, 0)
    assert str(first).startswith(
        "sketch: if it claimed tanh (2 ops, switched off): regions 1 -> 1, host ops "
    )


def test_the_best_comes_first_and_models_add_up():
    claim_ops("sketch", "relax.nn.relu", "relax.add")
    mods = [module_of(SIX_OPS), module_of({"a": ("relax.nn.relu", ("x",)), "b": ("relax.sin", ("a",))})]
    advice = ar.advise(mods, ["sketch"])
    saved = [each.seconds_saved for each in advice]
    assert saved == sorted(saved, reverse=True)
    by_op = {each.op: each for each in advice if len(each.ops) > 1 or each.op == "relax.sin"}
    assert by_op["relax.tanh"].ops == ("0/main/x1", "0/main/y1")
    assert by_op["relax.sin"].ops == ("1/main/gv",)
    assert (by_op["relax.tanh"].regions_before, by_op["relax.tanh"].regions_after) == (3, 2)


def test_an_op_that_keeps_two_regions_apart_is_advice_of_its_own():
    claim_ops("sketch", "relax.nn.relu", "relax.add")
    ops = [each.ops for each in ar.advise(module_of(SIX_OPS), ["sketch"])]
    assert ("main/x1",) in ops
    assert ("main/x1", "main/y1") in ops


def test_a_rule_and_a_pattern_that_decline_for_one_reason_are_one_piece_of_advice():
    claim_ops("sketch", "relax.nn.relu", "relax.tanh")
    claim_ops("sketch", "relax.add", answer=OFF)
    ar.register_pattern(
        "sketch",
        "sketch.two",
        is_op("relax.add")(is_op("relax.nn.relu")(wildcard()), wildcard()),
        lambda _: OFF,
    )
    graph = {
        "a": ("relax.nn.relu", ("x",)),
        "b": ("relax.add", ("a", "a")),
        "c": ("relax.tanh", ("b",)),
        "d": ("relax.add", ("c", "c")),
        # Here the pattern does not even fit, because `e` is used outside of it.
        "e": ("relax.nn.relu", ("d",)),
        "f": ("relax.add", ("e", "e")),
        "g": ("relax.tanh", ("e",)),
    }
    found = [each for each in ar.advise(module_of(graph), ["sketch"]) if len(each.ops) > 1]
    assert [(each.reason, len(each.ops), each.host_after) for each in found] == [(OFF, 3, 0)]


def test_nothing_is_declined_and_there_is_no_advice():
    claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.tanh")
    assert ar.advise(module_of(SIX_OPS), ["sketch"]) == []
    assert ar.advise([], ["sketch"]) == []


def test_what_is_no_module_is_refused():
    with pytest.raises(ar.UsageError, match="an entry of the argument mods is 7"):
        ar.advise([7], ["dnnl"])
    with pytest.raises(ar.UsageError, match="the argument mods is 7"):
        ar.advise(7, ["dnnl"])
    with pytest.raises(ar.UnknownTargetError):
        ar.advise(module_of(SIX_OPS), ["nowhere"])
