"""Reports: every op once, every reason, the same as text and as data."""

import json

import pytest
from kits.reports.prices import SecondsAnOp
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.testing.generated import chain
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        claim_ops("sketch", "relax.tanh", answer="no tanh")
        yield


def explained(targets=("sketch",)):
    return ar.explain(module_of(SIX_OPS), list(targets), prepare=False)


def test_the_summary_says_who_got_what_and_why_the_rest_stayed():
    assert str(explained()).splitlines() == [
        "sketch: 4 of 6 ops in 2 regions",
        "host: tanh x2 (declined by sketch: no tanh)",
        "sketch: the regions of a1 and b1 are separate: x1 is on a path between them",
    ]


def test_a_target_that_cannot_run_here_is_named_with_the_remedy():
    claim_ops("absent", "relax.tanh")
    ar.register_backend("absent", unavailable=lambda: "install libabsent")
    assert str(explained(["absent", "sketch"])).splitlines() == [
        "sketch: 4 of 6 ops in 2 regions",
        "absent: 0 of 6 ops in 0 regions (claims 2, but cannot run here: install libabsent)",
        "host: tanh x2 (lost by absent to the host: it cannot run here; declined by sketch: no tanh)",
        "sketch: the regions of a1 and b1 are separate: x1 is on a path between them",
    ]


def test_every_op_is_accounted_for_once():
    (function,) = explained().functions
    assert [op.name for op in function.ops] == list(SIX_OPS)
    assert {op.name: op.placed for op in function.ops} == {
        "a1": "sketch", "a2": "sketch", "x1": "host", "y1": "host", "b1": "sketch", "b2": "sketch",
    }  # fmt: skip


def test_the_data_say_the_same_as_the_report():
    report = explained()
    data = report.to_dict()
    assert data == json.loads(report.to_json(indent=2))
    (function,) = data["functions"]
    assert [region["ops"] for region in function["regions"]] == [["a1", "a2"], ["b1", "b2"]]
    declined = {op["name"]: op["declines"] for op in function["ops"] if op["declines"]}
    assert declined == {"x1": {"sketch": "no tanh"}, "y1": {"sketch": "no tanh"}}


def test_explaining_changes_nothing():
    mod = module_of(SIX_OPS)
    before = mod.script()
    ar.explain(mod, ["sketch"])
    assert mod.script() == before


# -- who lost, and why -----------------------------------------------------------------------------


def lost_of(report):
    return {op.name: op.lost for op in report.functions[0].ops if op.lost}


def test_the_first_target_wins_and_the_other_is_told_so():
    claim_ops("second", "relax.nn.relu")
    assert lost_of(explained(["sketch", "second"])) == {
        "a1": {"second": "to sketch, which comes first"},
        "a2": {"second": "to sketch, which comes first"},
    }


def test_what_was_lost_by_cost_is_told_with_the_costs():
    claim_ops("second", "relax.nn.relu")
    prices = SecondsAnOp(host=1.0, sketch=2e-3, second=5e-6)
    report = ar.explain(module_of(SIX_OPS), ["sketch", "second"], ar.LeastCost(prices), prepare=False)
    assert lost_of(report) == {
        "a1": {"sketch": "to second: alone it takes 5 us there, 2 ms on sketch"},
        "a2": {"sketch": "to second: alone it takes 5 us there, 2 ms on sketch"},
    }
    ops = {op["name"]: op for op in report.to_dict()["functions"][0]["ops"]}
    assert ops["a1"]["costs"] == {"host": 1.0, "sketch": 2e-3, "second": 5e-6}
    assert ops["b1"]["costs"] == {"host": 1.0, "sketch": 2e-3}
    assert ops["x1"]["costs"] == {}


def test_what_is_cheaper_on_the_host_is_told_with_the_costs():
    report = ar.explain(
        module_of(SIX_OPS), ["sketch"], ar.LeastCost(SecondsAnOp(host=0.1, sketch=0.2)), prepare=False
    )
    assert lost_of(report)["b1"] == {"sketch": "to the host: alone it takes 100 ms there, 200 ms on sketch"}


def test_a_region_dissolved_for_its_size_is_told_so():
    ar.register_backend("sketch", min_work=3.0)
    lost = lost_of(explained())
    assert lost["a1"] == {"sketch": "to the host: its region had less work than the minimum of 3"}


def test_what_a_target_loses_that_cannot_run_here():
    ar.register_backend("absent", unavailable=lambda: "install libabsent")
    claim_ops("absent", "relax.nn.relu", "relax.tanh")
    lost = lost_of(explained(["absent", "sketch"]))
    assert lost["a1"] == {"absent": "to sketch: it cannot run here"}
    assert lost["x1"] == {"absent": "to the host: it cannot run here"}


def test_the_summary_names_a_few_pairs_of_regions():
    lines = str(ar.explain(chain(60, 3), ["sketch"], prepare=False)).splitlines()
    assert sum("are separate: " in line for line in lines) == 8
    assert lines[-1] == "and 11 more pairs of regions are kept apart"


def test_a_check_of_extents_is_called_by_its_name():
    """Its value, a variable, calls no op."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([tirx.Var("n", "int64"), 4], "float32"))
    with builder.function("main", [x]):
        checked = builder.match_cast(x, relax.TensorType([3, 4], "float32"))
        builder.emit_func_output(builder.emit(relax.op.nn.relu(checked)))
    report = ar.explain(builder.get(), ["sketch"], prepare=False)
    assert [op.op for op in report.functions[0].ops] == ["relax.match_cast", "relax.nn.relu"]
    assert "host: match_cast (declined by sketch: an If" in str(report)
