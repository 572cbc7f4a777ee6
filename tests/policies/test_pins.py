"""Pins and bans: the meaning of names, in one function and in several, and errors for unknown ones."""

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.costs import UnitCost
from annotated_region.testing.graphs import SIX_OPS, TWO_RESOLUTIONS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

TARGETS = ["one", "two"]
POLICIES = {"priority": ar.Priority(TARGETS), "least cost": ar.LeastCost(UnitCost())}


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        register()
        yield


def register():
    for target in TARGETS:
        claim_ops(target, "relax.nn.relu", "relax.add", "relax.tanh", "relax.exp")


def placed(mod, policy=None, function=0, **options):
    """By name, where each op of a function went; names may repeat."""
    report = ar.explain(mod, TARGETS, policy, prepare=False, **options)
    return [(each.name, each.placed) for each in report.functions[function].ops]


def named(**functions):
    """A module of functions that are chains of relu; a name may stand for several bindings."""
    made = {}
    for name, names in functions.items():
        x = relax.Var("x", relax.TensorType((4,), "float32"))
        bindings, value = [], x
        for each in names:
            variable = relax.DataflowVar(each, x.ty)
            bindings.append(relax.VarBinding(variable, op.nn.relu(value)))
            value = variable
        result = relax.Var("result", x.ty)
        bindings.append(relax.VarBinding(result, value))
        body = relax.SeqExpr([relax.DataflowBlock(bindings)], result)
        made[name] = relax.Function([x], body, x.ty).with_attr("global_symbol", name)
    return relax.transform.Normalize()(tvm.IRModule(made))


def test_a_binding_of_a_name_that_only_one_has():
    assert placed(named(main=["a", "b"]), pins={"b": "two"}) == [("a", "one"), ("b", "two")]


def test_one_of_several_bindings_of_a_name():
    mod = named(main=["a", "a", "b"])
    with pytest.raises(
        ar.PinError, match=r"'a' is the name of 2 bindings; pin one of 'main/a#1' .*'main/a#2'"
    ):
        placed(mod, pins={"a": "host"})
    assert placed(mod, pins={"a#2": "host"}) == [("a", "one"), ("a", "host"), ("b", "one")]
    assert placed(mod, bans={"main/a#1": TARGETS}) == [("a", "host"), ("a", "one"), ("b", "one")]


def test_a_name_in_several_functions():
    mod = named(first=["a"], second=["a", "b"])
    with pytest.raises(ar.PinError, match=r"ban one of 'first/a' .*'second/a'"):
        placed(mod, bans={"a": "one"})
    pins = {"second/a": "host", "b": "two"}
    assert placed(mod, pins=pins) == [("a", "one")]
    assert placed(mod, pins=pins, function=1) == [("a", "host"), ("b", "two")]


def test_the_name_of_an_op_means_all_of_its_calls_and_a_binding_goes_before_it():
    mod = named(first=["a"], second=["b", "c"])
    pins = {"relax.nn.relu": "host", "c": "two"}
    assert placed(mod, pins=pins) == [("a", "host")]
    assert placed(mod, pins=pins, function=1) == [("b", "host"), ("c", "two")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pins": {"bb": "one"}}, "no op to pin matches 'bb'.* such as 'b'"),
        ({"bans": {"nn.relu": "one"}}, "no op to ban matches 'nn.relu'.* such as 'relax.nn.relu'"),
        ({"pins": {"b#2": "one"}}, "no op to pin matches 'b#2'"),
        ({"pins": {"b#0": "one"}}, "no op to pin matches 'b#0'"),
        ({"pins": {"other/b": "one"}}, "no op to pin matches 'other/b'"),
        ({"pins": {"x": "one"}}, "no op to pin matches 'x'"),
        ({"pins": {"b": "tow"}}, "'b' is pinned to 'tow', .* did you mean 'two'"),
        ({"bans": {"b": ["two", "on"]}}, "'b' is banned from 'on', .* did you mean 'one'"),
        ({"min_work": {"twoo": 1}}, "least work is given for 'twoo', .* did you mean 'two'"),
        ({"pins": {"b": "zzz"}}, "name one of 'one', 'two'"),
    ],
)
@pytest.mark.parametrize("function", [ar.explain, ar.partition])
def test_a_name_that_means_nothing_is_an_error_with_the_nearest_one(function, options, message):
    with pytest.raises(ar.PinError, match=message):
        function(named(main=["a", "b"]), TARGETS, prepare=False, **options)


def test_a_pin_holds_where_no_target_claims_anything():
    with temporary_registrations():
        claim_ops("one", "relax.tanh")
        claim_ops("three", "relax.exp")
        mod = named(main=["a"])
        with pytest.raises(
            ar.PinError, match=r"'a' is pinned to 'three', which has no rule for relax\.nn\.relu"
        ):
            ar.partition(mod, ["three"], prepare=False, pins={"a": "three"})


def test_a_pin_to_what_cannot_run_here_says_why():
    ar.register_backend("two", unavailable=lambda: "install libtwo")
    with pytest.raises(ar.PinError, match="'a' is pinned to 'two', which cannot run here: install libtwo"):
        placed(named(main=["a"]), pins={"a": "two"})
    assert placed(named(main=["a"]), pins={"a": "two"}, cross_compile=True) == [("a", "two")]


def test_the_report_names_pins_and_bans_as_the_reason():
    mod = named(main=["a", "b"])
    report = ar.explain(mod, TARGETS, prepare=False, pins={"a": "host"}, bans={"b": "one"})
    lost = {each.name: each.lost for each in report.functions[0].ops}
    assert lost == {
        "a": {"one": "to the host, where it is pinned", "two": "to the host, where it is pinned"},
        "b": {"one": "to two: it is banned from one"},
    }
    assert "nn.relu (lost by one to the host, where it is pinned; lost by two" in str(report)


def test_least_work_reaches_the_pass():
    mod = named(main=["a", "b"])
    options = {"min_work": {"one": 5}, "pins": {"a": "two"}}
    assert placed(mod, **options) == [("a", "two"), ("b", "two")]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("graph", [SIX_OPS, TWO_RESOLUTIONS])
@given(data=st.data())
def test_pins_and_bans_hold_under_every_policy(policy, graph, data):
    """What is pinned is where it is pinned, what is banned is elsewhere, and the module is well formed."""
    register()
    mod = module_of(graph)
    names = [each.name for each in ar.explain(mod, TARGETS, prepare=False).functions[0].ops]
    pins = data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from([*TARGETS, "host"])))
    bans = data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from(TARGETS)))
    bans = {name: target for name, target in bans.items() if pins.get(name) != target}
    found = dict(placed(mod, policy, pins=pins, bans=bans))
    assert {name: found[name] for name in pins} == pins
    assert all(found[name] != target for name, target in bans.items())
    partitioned = ar.partition(mod, TARGETS, policy, prepare=False, pins=pins, bans=bans)
    relax.analysis.well_formed(partitioned)  # raises otherwise
