"""The difference of two reports and the values between ops, as text and as data, and their documentation."""

import json
import re
from pathlib import Path

import pytest

import annotated_region as ar
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

DOCUMENT = Path(__file__).parents[2] / "docs" / "reports.md"


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        claim_ops("pencil", "relax.tanh", "relax.add")
        yield


def explained(*targets, graph=SIX_OPS):
    return ar.explain(module_of(graph), list(targets), prepare=False)


def test_a_report_does_not_differ_from_itself():
    difference = explained("sketch").diff(explained("sketch"))
    assert not difference
    assert str(difference) == "no difference"
    assert difference.to_dict() == {"changes": [], "regions": {}}


def test_moved_ops_and_new_claims_are_named():
    difference = explained("sketch").diff(explained("sketch", "pencil"))
    assert str(difference).splitlines() == [
        "main: 2 ops moved from host to pencil: x1, y1",
        "main: pencil newly claims 4 ops",
        "main: 2 regions became 3",
    ]
    back = explained("sketch", "pencil").diff(explained("sketch"))
    assert "main: pencil no longer claims 4 ops" in str(back)


def test_one_region_is_one():
    one = explained("sketch", graph={"a": SIX_OPS["a1"]})
    assert str(explained("sketch").diff(one)).splitlines()[-1] == "main: 2 regions became 1"
    assert str(one.diff(explained("sketch"))).splitlines()[-1] == "main: 1 region became 2"


def test_ops_of_one_report_only_are_named():
    fewer = {name: SIX_OPS[name] for name in ("a1", "a2", "x1", "y1", "b1")}
    text = str(explained("sketch", graph=fewer).diff(explained("sketch")))
    assert "main: 1 op new, placed on sketch: b2" in text
    assert "main: 1 op gone from sketch: b2" in str(
        explained("sketch").diff(explained("sketch", graph=fewer))
    )


def test_the_data_say_the_same_as_the_text():
    difference = explained("sketch").diff(explained("sketch", "pencil"))
    data = difference.to_dict()
    assert data == json.loads(difference.to_json(indent=2))
    assert data["regions"] == {"main": [2, 3]}
    assert [change["name"] for change in data["changes"]] == ["x1", "y1", "b1", "b2"]
    assert data["changes"][0] == {
        "function": "main", "name": "x1", "op": "relax.tanh",
        "before": "host", "after": "pencil", "claims": ["+pencil"],
    }  # fmt: skip


def test_values_say_who_makes_and_who_reads_them():
    (function,) = explained("sketch").functions
    names = [op.name for op in function.ops]
    flow = {
        value.name: (value.producer, [names[reader] for reader in value.consumers], value.result, value.bytes)
        for value in function.values
    }
    assert flow["x"] == (None, ["a1"], False, 24)
    assert flow["a1"] == (names.index("a1"), ["x1", "b1"], False, 24)
    assert flow["b2"] == (names.index("b2"), [], True, 24)


def documented(heading):
    """The fields that the table under a heading of the document lists."""
    text = DOCUMENT.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {
        name
        for cell in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }


def test_every_field_is_documented():
    claim_ops("absent", "relax.tanh")
    ar.register_backend("absent", unavailable=lambda: "install libabsent")
    mod = module_of(SIX_OPS)
    data = ar.explain(mod, ["absent", "sketch"], ar.LeastCost(ar.UnitCost()), prepare=False).to_dict()
    assert set(data) == documented("The report")
    (function,) = data["functions"]
    assert set(function) == documented("A function")
    assert set(function["ops"][0]) == documented("An op")
    assert set(function["regions"][0]) == documented("A region")
    assert set(function["values"][0]) == documented("A value")
    changed = explained("sketch").diff(explained("sketch", "pencil")).to_dict()
    assert set(changed) | set(changed["changes"][0]) == documented("A difference")
