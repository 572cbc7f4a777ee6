"""Locks replayed: literal edits on literal graphs, locks edited by hand, targets that are gone."""

import re

import pytest
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.testing.generated import layered
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

CHAIN = {
    "a": ("relax.nn.relu", ("x",)),
    "b": ("relax.add", ("a", "a")),
    "c": ("relax.sin", ("b",)),
    "d": ("relax.nn.relu", ("c",)),
    "e": ("relax.add", ("d", "d")),
}


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        claim_ops("sketch", "relax.sin", answer="no sine")
        claim_ops("pencil", "relax.tanh", "relax.add")
        yield


def explained(graph, targets=("sketch",), lock=None, policy=None):
    return ar.explain(module_of(graph), list(targets), policy, prepare=False, lock=lock)


def places(report):
    (function,) = report.to_lock().functions
    return {op.key: op.where for op in function.ops}


def inserted(graph, behind, name, op):
    """The graph with one more op behind a node, whose readers read the op."""
    found = {}
    for node, (what, operands) in graph.items():
        found[node] = (what, tuple(name if each == behind and node != name else each for each in operands))
        if node == behind:
            found[name] = (op, (behind,))
    return found


def test_an_unchanged_model_is_placed_as_before_to_the_byte():
    for targets in (["sketch"], ["pencil", "sketch"]):
        before = explained(SIX_OPS, targets)
        after = explained(SIX_OPS, targets, before.to_lock())
        assert str(after.to_lock()) == str(before.to_lock())
        assert not before.to_lock().diff(after.to_lock())


def test_an_unchanged_model_asks_no_policy():
    class Asked:
        def resolve(self, regions, pinned):
            raise AssertionError("the policy was asked")

    before = explained(SIX_OPS, ["pencil", "sketch"], policy=ar.LeastCost(ar.UnitCost()))
    after = explained(SIX_OPS, ["pencil", "sketch"], before.to_lock(), Asked())
    assert places(after) == places(before)
    assert after.to_dict()["cost"] == before.to_dict()["cost"]
    with pytest.raises(AssertionError, match="was asked"):
        explained(inserted(SIX_OPS, "a1", "n", "relax.nn.relu"), ["sketch"], before.to_lock(), Asked())


def test_what_is_new_inside_a_region_joins_it():
    before = explained(CHAIN)
    after = explained(inserted(CHAIN, "a", "n", "relax.nn.relu"), lock=before.to_lock())
    assert places(after) == {**places(before), "n": places(before)["a"]}
    assert str(before.to_lock().diff(after.to_lock())) == "main: 1 op new, placed on sketch/0: n"


def test_a_region_falls_in_two_around_what_its_target_declines_and_the_larger_keeps_its_id():
    longer = {**CHAIN, "f": ("relax.nn.relu", ("e",))}
    before = explained(longer)
    assert places(before) == {
        "a": "sketch/0", "b": "sketch/0", "c": "host", "d": "sketch/1", "e": "sketch/1", "f": "sketch/1",
    }  # fmt: skip
    after = explained(inserted(longer, "d", "n", "relax.sin"), lock=before.to_lock())
    assert places(after) == {
        "a": "sketch/0", "b": "sketch/0", "c": "host",
        "d": "sketch/2", "n": "host", "e": "sketch/1", "f": "sketch/1",
    }  # fmt: skip
    told = str(before.to_lock().diff(after.to_lock()))
    assert "1 op moved from sketch/1 to sketch/2: d" in told
    assert "1 op new, placed on host: n (declined by sketch: no sine)" in told


def test_only_what_is_before_or_behind_a_new_op_leaves_a_region():
    graph = {
        "a": ("relax.nn.relu", ("x",)),
        **{f"z{step}": ("relax.nn.relu", (f"z{step - 1}" if step else "a",)) for step in range(3)},
        **{f"b{step}": ("relax.nn.relu", (f"b{step - 1}" if step else "x",)) for step in range(3)},
    }
    before = explained(graph)
    assert set(places(before).values()) == {"sketch/0"}
    after = explained(inserted(graph, "a", "n", "relax.sin"), lock=before.to_lock())
    # Either a or z0, z1 and z2 must leave; b0, b1 and b2 need not.
    assert places(after) == {**places(before), "a": "sketch/1", "n": "host"}


def test_an_op_stays_with_its_target_when_another_comes_that_would_win():
    before = explained(SIX_OPS, ["sketch"])
    lock = before.to_lock()
    after = explained(SIX_OPS, ["pencil", "sketch"], lock)
    # Priority would give pencil the adds; the lock says otherwise.
    assert places(after) == places(before)
    assert places(explained(SIX_OPS, ["pencil", "sketch"])) != places(before)


def test_an_op_stays_on_the_host_when_a_rule_comes_that_would_claim_it():
    lock = explained(CHAIN).to_lock()
    claim_ops("sketch", "relax.sin")
    assert places(explained(CHAIN, lock=lock))["c"] == "host"
    # With its neighbourhood edited, it is placed anew.
    edited = inserted(CHAIN, "b", "n", "relax.nn.relu")
    assert places(explained(edited, lock=lock))["c"] == "sketch/0"


def test_a_rule_that_declines_now_is_told():
    before = explained(CHAIN)
    claim_ops("sketch", "relax.add", answer="no more sums")
    after = explained(CHAIN, lock=before.to_lock())
    assert places(after) == {"a": "sketch/0", "b": "host", "c": "host", "d": "sketch/1", "e": "host"}
    assert str(before.to_lock().diff(after.to_lock())).splitlines() == [
        "main: 1 op moved from sketch/0 to host: b (declined by sketch: no more sums)",
        "main: 1 op moved from sketch/1 to host: e (declined by sketch: no more sums)",
    ]


def test_a_target_that_is_not_here_any_more_is_told():
    lock = explained(SIX_OPS, ["pencil", "sketch"]).to_lock()
    ar.register_backend("pencil", unavailable=lambda: "install libpencil")
    after = explained(SIX_OPS, ["pencil", "sketch"], lock)
    assert not [place for place in places(after).values() if place.startswith("pencil")]
    assert "lost by pencil to the host: it cannot run here" in str(lock.diff(after.to_lock()))
    without = explained(SIX_OPS, ["sketch"], lock)
    assert "the target pencil takes no part" in str(lock.diff(without.to_lock()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("host", "sketch/0"),  # an op that its target declines
        ("sketch/1", "sketch/0"),  # a region that would need its own results
        ("sketch/0", "nowhere/0"),  # a target that is not known
    ],
)
def test_a_lock_edited_by_hand_never_places_wrongly(old, new):
    text = re.sub('host ".*"', "host", str(explained(SIX_OPS).to_lock()))
    lock = ar.Lock.from_text(text.replace(f" {old}", f" {new}"))
    mod = module_of(SIX_OPS)
    after = explained(SIX_OPS, lock=lock)
    assert lock.diff(after.to_lock())
    ar.partition(mod, ["sketch"], prepare=False, lock=lock)
    claims = {op.name: op.claims for op in after.functions[0].ops}
    assert all(
        place == "host" or place.partition("/")[0] in claims[key] for key, place in places(after).items()
    )


def test_an_op_sent_to_the_host_by_hand_stays_there():
    text = str(explained(CHAIN).to_lock())
    lock = ar.Lock.from_text("\n".join(line.replace("sketch/0", "host") for line in text.split("\n")))
    assert places(explained(CHAIN, lock=lock)) == {
        "a": "host", "b": "host", "c": "host", "d": "sketch/1", "e": "sketch/1",
    }  # fmt: skip


def test_a_lock_of_another_model_is_refused():
    lock = ar.explain(layered(8, 8, seed=1), ["sketch"], prepare=False).to_lock()
    with pytest.raises(ar.DocumentError, match="belongs to another model"):
        explained({"q": ("relax.sin", ("z",)), "r": ("relax.sin", ("q",))}, lock=lock)


def test_a_path_is_read_and_anything_else_refused(tmp_path):
    before = explained(CHAIN)
    before.to_lock().write(tmp_path / "placement.lock")
    assert places(explained(CHAIN, lock=tmp_path / "placement.lock")) == places(before)
    assert places(explained(CHAIN, lock=str(tmp_path / "placement.lock"))) == places(before)
    with pytest.raises(ar.UsageError, match="the argument lock is 7"):
        explained(CHAIN, lock=7)


def test_pins_go_before_the_lock():
    lock = explained(CHAIN).to_lock()
    after = ar.explain(module_of(CHAIN), ["sketch"], prepare=False, lock=lock, pins={"b": "host"})
    assert places(after)["b"] == "host"
    assert places(after)["a"] == "sketch/0"


def test_a_composite_stays_the_composite_that_it_was():
    ar.register_pattern(
        "sketch", "sketch.two", is_op("relax.add")(is_op("relax.nn.relu")(wildcard()), wildcard())
    )
    before = explained(CHAIN)
    (function,) = before.functions
    signs = [op.composite for op in function.ops]
    assert signs[0] == signs[1] != signs[3] == signs[4]
    assert signs[0].startswith("sketch.two#")
    after = explained(CHAIN, lock=before.to_lock())
    assert str(after.to_lock()) == str(before.to_lock())
    edited = explained(inserted(CHAIN, "a", "n", "relax.nn.relu"), lock=before.to_lock())
    assert {op.key: op.pattern for op in edited.to_lock().functions[0].ops}["e"] == "sketch.two"
