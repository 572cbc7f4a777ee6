"""Reports: every op once, every reason, the same as text and as data."""

import json

import pytest

import annotated_region as ar
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
        "sketch: the regions of a1 and b1 are two, because x1 stands between them",
    ]


def test_a_target_that_cannot_run_here_is_named_with_the_remedy():
    claim_ops("absent", "relax.tanh")
    ar.register_backend("absent", unavailable=lambda: "install libabsent")
    assert str(explained(["absent", "sketch"])).splitlines() == [
        "sketch: 4 of 6 ops in 2 regions",
        "absent: 0 of 6 ops in 0 regions (claims 2, but cannot run here: install libabsent)",
        "host: tanh x2 (declined by sketch: no tanh)",
        "sketch: the regions of a1 and b1 are two, because x1 stands between them",
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
