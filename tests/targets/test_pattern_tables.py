"""TVM's pattern tables as they are: the composites that TVM's passes make with them, in no more regions."""

from collections import Counter

import pytest
from kits.targets.pattern_tables import (
    FEW_MODELS,
    TABLES,
    calls_of_generated,
    fused_by_tvm,
    merged_by_tvm,
    prepared,
    table_of,
)
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.costs import UnitCost
from annotated_region.targets.backend import backend_of
from annotated_region.targets.rules import patterns_of
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


@pytest.fixture(scope="module")
def models():
    return {name: prepared(name) for name in FEW_MODELS}


@pytest.mark.sweep
@pytest.mark.parametrize("target", TABLES)
@pytest.mark.parametrize("model", FEW_MODELS)
def test_composites_are_those_of_tvm(target, model, models):
    table = table_of(target)
    expected, _fused = fused_by_tvm(models[model], table)
    ar.register_patterns(target, table)
    regions = ar.AnnotatedRegionSet(ar.passes.AnnotateTarget([target])(models[model])["main"])
    own = [composite.name for region in regions for composite in region.composites]
    assert Counter(name for name in own if name in {entry.name for entry in table}) == expected


@pytest.mark.parametrize("target", ["nnapi", "coreml", "openclml"])
@pytest.mark.parametrize("model", FEW_MODELS)
def test_regions_are_no_more_than_those_of_tvm(target, model, models):
    table = table_of(target)
    _composites, fused = fused_by_tvm(models[model], table)
    expected = merged_by_tvm(fused)
    ar.register_patterns(target, table)
    partitioned = ar.partition(models[model], [target], prepare=False, cross_compile=True)
    assert calls_of_generated(partitioned) <= expected


@pytest.mark.parametrize("target", ["cublas", "cudnn", "cutlass", "hipblas"])
@pytest.mark.parametrize("policy", [None, ar.LeastCost(UnitCost(host_op=9.0))], ids=["priority", "cost"])
def test_generators_that_take_one_composite_get_one(target, policy, models):
    table = table_of(target)
    ar.register_patterns(target, table)
    assert backend_of(target).regions == "one composite"
    for mod in models.values():
        expected, _fused = fused_by_tvm(mod, table)
        partitioned = ar.partition(mod, [target], policy, prepare=False, cross_compile=True)
        assert calls_of_generated(partitioned) == expected.total()
        for func in partitioned.functions.values():
            if isinstance(func, relax.Function) and func.attrs and "Codegen" in func.attrs:
                assert len(calls_inside(func)) == 1


def calls_inside(func):
    """What an external function calls; bodies of composites are not entered."""
    bindings = [binding for block in func.body.blocks for binding in block.bindings]
    return [each for each in bindings if isinstance(each.value, relax.Call)]


TWO = {"a": ("relax.nn.relu", ("x",)), "b": ("relax.tanh", ("a",)), "c": ("relax.nn.relu", ("b",))}


def chain(*ops):
    pattern = wildcard()
    for name in ops:
        pattern = is_op(f"relax.{name}")(pattern)
    return pattern


def claimed(table):
    ar.register_patterns("t", table)
    regions = ar.AnnotatedRegionSet(ar.passes.AnnotateTarget(["t"])(module_of(TWO))["main"])
    return [
        (composite.name, [var.name for var in composite.nodes])
        for region in regions
        for composite in region.composites
    ]


def test_the_first_entry_wins_whatever_the_size():
    large, small = ("t.large", chain("nn.relu", "tanh", "nn.relu")), ("t.small", chain("tanh"))
    assert claimed([small, large]) == [("t.small", ["b"])]
    with temporary_registrations():
        ar.register_patterns("t", [large, small])
    assert [name for name, _pattern in [large, small]] == ["t.large", "t.small"]


def test_of_one_entry_the_first_match_wins():
    both = ("t.pair", chain("nn.relu") | chain("nn.relu", "tanh"))
    assert claimed([both])[0] == ("t.pair", ["a"])


def test_a_match_that_the_check_refuses_is_in_no_way():
    pair, single = ("t.pair", chain("nn.relu", "tanh"), {}, lambda _context: False), ("t.tanh", chain("tanh"))
    assert claimed([pair, single]) == [("t.tanh", ["b"])]


def test_a_second_table_comes_behind_the_first():
    first, second = chain("tanh"), chain("nn.relu", "tanh")
    ar.register_patterns("t", [("t.first", first)])
    ar.register_patterns("t", [("t.second", second)])
    assert [(each.name, each.rank) for each in patterns_of("t")] == [("t.first", 0), ("t.second", 1)]
    ar.register_patterns("t", [("t.first", first)])
    assert {each.name: each.rank for each in patterns_of("t")} == {"t.first": 2, "t.second": 1}


def test_what_is_no_entry_is_an_error():
    with pytest.raises(ar.RuleError, match="'conv2d' is not an entry of a pattern table"):
        ar.register_patterns("t", ["conv2d"])
    assert patterns_of("t") == ()
