"""LeastCost on modules: against every assignment and Priority, with composites, pins and minimum work."""

import itertools
import math

import pytest
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.cost_units import CostUnit
from annotated_region.costs import HOST, UnitCost
from annotated_region.costs.model import PlacementTimes
from annotated_region.testing.graphs import SIX_OPS, TWO_RESOLUTIONS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


class TableCost:
    """A model whose every answer stands in a table, so that a test can make each way the cheapest."""

    def __init__(self, compute, launch, crossing):
        self._compute, self._launch, self._crossing = compute, launch, crossing

    def launch(self, target):
        return self._launch[target]

    def compute(self, target, unit):
        return math.fsum(self._compute[target][op.name] for op in unit.ops)

    def transfer(self, size, source, destination):
        return self._crossing


MODELS = {
    "launches dominate": TableCost(
        {
            "a": {"relax.nn.relu": 1, "relax.add": 2, "relax.tanh": 9},
            "b": {"relax.nn.relu": 3, "relax.add": 1, "relax.tanh": 1},
            HOST: {"relax.nn.relu": 5, "relax.add": 5, "relax.tanh": 5},
        },
        {"a": 6.0, "b": 7.0},
        0.125,
    ),
    "crossings dominate": TableCost(
        {
            "a": {"relax.nn.relu": 1, "relax.add": 4, "relax.tanh": 3},
            "b": {"relax.nn.relu": 4, "relax.add": 1, "relax.tanh": 2},
            HOST: {"relax.nn.relu": 3, "relax.add": 3, "relax.tanh": 3},
        },
        {"a": 0.5, "b": 0.25},
        2.0,
    ),
}


def cost_of(func, regions, model):
    """The objective, written down from its definition."""
    bindings = {b.var: b.value for block in func.body.blocks for b in block.bindings if b.var.name != "gv"}
    at = {var: region for region in regions for var in region.nodes}
    graph = regions.dataflow
    total = math.fsum(model.launch(region.target) for region in regions)
    crossings = set()
    for var, value in bindings.items():
        where = at[var].target if var in at else HOST
        total += model.compute(where, CostUnit.of(graph, (graph.number_of(var),)))
        for argument in value.args:
            if var in at and at.get(argument) is not at[var]:
                crossings.add((argument, at[var].target))
            elif var not in at and argument in at:
                crossings.add((argument, HOST))
    outputs = {var for var in bindings if not any(var in value.args for value in bindings.values())}
    crossings |= {(var, HOST) for var in outputs if var in at}
    return total + math.fsum(model.transfer(24, "", "") for _crossing in crossings)


def resolved(mod, targets, policy, **options):
    mod = ar.passes.MergeCompilerRegions()(ar.passes.AnnotateTarget(targets)(mod))
    mod = ar.passes.ResolveConflicts(policy, **options)(mod)
    regions = ar.AnnotatedRegionSet(mod["main"])
    ar.check_certificate(mod["main"], regions, regions.verify())
    assert regions.is_disjoint()
    return regions


def placed(regions):
    return {var.name: region.target for region in regions for var in region.nodes if var.name != "gv"}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_no_assignment_of_the_six_ops_is_cheaper(model):
    claim_ops("a", "relax.nn.relu", "relax.add", "relax.tanh")
    claim_ops("b", "relax.nn.relu", "relax.add", "relax.tanh")
    mod = module_of(SIX_OPS)
    func = mod["main"]
    regions = resolved(mod, ["a", "b"], ar.LeastCost(model))
    report = ar.explain(mod, ["a", "b"], ar.LeastCost(model), prepare=False).to_dict()
    found = cost_of(func, ar.AnnotatedRegionSet.from_claims(func, claims_of(func, regions)), model)
    assert report["cost"] == pytest.approx(found)
    assert report["gap"] == 0.0
    assert report["lower_bound"] == pytest.approx(found)
    variables = {b.var.name: b.var for block in func.body.blocks for b in block.bindings}
    for choice in itertools.product(("a", "b", None), repeat=len(SIX_OPS)):
        claims = {"a": [], "b": []}
        for name, target in zip(SIX_OPS, choice, strict=True):
            if target is not None:
                claims[target].append(variables[name])
        single = ar.AnnotatedRegionSet.from_claims(func, claims)
        mod.update_func(mod.get_global_var("main"), single.annotate())
        merged = ar.AnnotatedRegionSet(ar.passes.MergeCompilerRegions()(mod)["main"])
        assert cost_of(func, merged, model) >= found - 1e-9, choice


def claims_of(func, regions):
    """The regions without the tuple that collects the results, which costs nothing."""
    variables = {b.var.name: b.var for block in func.body.blocks for b in block.bindings}
    claims = {}
    for region in regions:
        names = [var.name for var in region.nodes if var.name != "gv"]
        claims.setdefault(region.target, []).append(tuple(variables[name] for name in names))
    return claims


@pytest.mark.parametrize("graph", [SIX_OPS, TWO_RESOLUTIONS], ids=["six ops", "two resolutions"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_never_worse_than_priority_or_one_target_or_the_host(model, graph):
    claim_ops("a", "relax.nn.relu", "relax.add")
    claim_ops("b", "relax.tanh", "relax.add")
    func = module_of(graph)["main"]

    def cost(targets, policy):
        regions = resolved(module_of(graph), targets, policy)
        own = module_of(graph)["main"]
        return cost_of(own, ar.AnnotatedRegionSet.from_claims(own, claims_of(own, regions)), model)

    found = cost(["a", "b"], ar.LeastCost(model))
    for order in (["a", "b"], ["b", "a"], ["a"], ["b"]):
        assert found <= cost(order, ar.Priority(order)) + 1e-9
    assert found <= cost_of(func, ar.AnnotatedRegionSet(func), model) + 1e-9


def test_the_choice_among_composites_is_part_of_the_objective():
    """The smaller composite leaves an op that is cheap alone, so it wins over the larger one."""
    add_relu = is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard()))
    claim_ops("a", "relax.add", "relax.nn.relu", "relax.tanh")
    ar.register_pattern("a", "a.add_relu_tanh", is_op("relax.tanh")(add_relu))
    ar.register_pattern("a", "a.add_relu", add_relu)
    graph = {
        "s": ("relax.add", ("x", "y")),
        "r": ("relax.nn.relu", ("s",)),
        "t": ("relax.tanh", ("r",)),
    }

    class Model(UnitCost):
        def compute(self, target, unit):
            return {"a.add_relu_tanh": 9.0, "a.add_relu": 1.0}.get(
                unit.composite, 2.0 if target == "a" else 20.0
            )

    regions = resolved(module_of(graph), ["a"], ar.LeastCost(Model()))
    assert [[c.name for c in region.composites] for region in regions] == [["a.add_relu"]]
    assert placed(regions) == {"s": "a", "r": "a", "t": "a"}


CHAIN = {
    "a": ("relax.nn.relu", ("x",)),
    "b": ("relax.add", ("a", "a")),
    "c": ("relax.tanh", ("b",)),
}

POLICIES = {"priority": ar.Priority(["one", "two"]), "least cost": ar.LeastCost(UnitCost())}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
class TestPinsAndBans:
    def claims(self):
        claim_ops("one", "relax.nn.relu", "relax.add", "relax.tanh")
        claim_ops("two", "relax.nn.relu", "relax.add")
        claim_ops("two", "relax.tanh", answer="tanh is not exact enough")

    def test_a_binding_can_be_pinned_to_a_target(self, policy):
        self.claims()
        assert placed(resolved(module_of(CHAIN), ["one", "two"], policy, pins={"b": "two"}))["b"] == "two"

    def test_an_op_can_be_pinned_to_the_host_and_one_binding_of_it_elsewhere(self, policy):
        self.claims()
        graph = {**CHAIN, "d": ("relax.add", ("c", "c"))}
        found = placed(
            resolved(module_of(graph), ["one", "two"], policy, pins={"relax.add": "host", "d": "two"})
        )
        assert "b" not in found
        assert found["d"] == "two"

    def test_a_ban_leaves_the_other_target(self, policy):
        self.claims()
        found = placed(resolved(module_of(CHAIN), ["one", "two"], policy, bans={"relax.nn.relu": ["one"]}))
        assert found["a"] != "one"

    def test_an_impossible_pin_names_the_rule_that_declines(self, policy):
        self.claims()
        with pytest.raises(ar.PinError, match="'c' is pinned to 'two', which declines it: tanh is not exact"):
            resolved(module_of(CHAIN), ["one", "two"], policy, pins={"c": "two"})

    def test_a_pin_of_nothing_is_an_error(self, policy):
        self.claims()
        with pytest.raises(ar.PinError, match="no op to pin matches 'missing'"):
            resolved(module_of(CHAIN), ["one", "two"], policy, pins={"missing": "two"})


def test_regions_with_too_little_work_go_to_the_next_target_then_to_the_host():
    claim_ops("one", "relax.nn.relu", "relax.tanh")
    claim_ops("two", "relax.nn.relu")
    graph = {**CHAIN, "d": ("relax.exp", ("c",))}
    options = {"min_work": {"one": 2}}
    found = placed(resolved(module_of(graph), ["one", "two"], ar.Priority(["one", "two"]), **options))
    assert found == {"a": "two"}


def test_a_function_that_one_target_takes_whole_is_never_too_small():
    claim_ops("one", "relax.nn.relu")
    graph = {"a": ("relax.nn.relu", ("x",))}
    found = placed(resolved(module_of(graph), ["one"], ar.Priority(["one"]), min_work={"one": 100}))
    assert found == {"a": "one"}


class WholeRegions:
    """An op costs `scale` on "near", twice that on "far", `host` times on the host; placements as given."""

    def __init__(self, wholes, host=3.0, scale=1.0):
        self.wholes = wholes
        self.host = host
        self.scale = scale

    def launch(self, _target):
        return 0.0

    def compute(self, target, unit):
        return {"near": 1.0, "far": 2.0}.get(target, self.host) * self.scale * len(unit.ops)

    def transfer(self, _size, _source, _destination):
        return 0.0

    def doubt(self, _target, _unit):
        return 0.0

    def first_of_fastest(self, _graph, placements):
        seconds = tuple(
            sum(self.wholes[member.target] for member in members) if members else self.wholes["host"]
            for members in placements
        )
        return PlacementTimes(seconds.index(min(seconds)), seconds)


def confirmed_by(model):
    """The report of a function under a model that times whole placements."""
    with temporary_registrations():
        for target in ("near", "far"):
            claim_ops(target, "relax.nn.relu", "relax.add", "relax.tanh")
        policy = ar.LeastCost(model)
        report = ar.explain(module_of(SIX_OPS), ["near", "far"], policy, prepare=False).to_dict()
    (function,) = report["functions"]
    return function


@pytest.mark.parametrize(
    ("wholes", "winner", "taken"),
    [
        ({"near": 6.0, "far": 7.0, "host": 8.0}, "near", "least cost"),
        ({"near": 6.0, "far": 5.0, "host": 8.0}, "far", "far first"),
        ({"near": 90.0, "far": 90.0, "host": 99.0}, "far", "far first"),
        ({"near": 6.0, "far": 7.0, "host": 5.0}, "host", "host alone"),
    ],
)
def test_a_model_that_times_whole_regions_has_the_last_word(wholes, winner, taken):
    function = confirmed_by(WholeRegions(wholes))
    assert {op["placed"] or "host" for op in function["ops"]} == {winner}
    assert function["measured"]["taken"] == taken
    assert function["measured"]["seconds"]["least cost"] == wholes["near"]
    assert set(function["measured"]["seconds"]) == {
        "least cost",
        "least cost beyond doubt",
        "near first",
        "near alone",
        "far first",
        "far alone",
        "host alone",
    }


@pytest.mark.parametrize(
    ("host", "scale", "is_run"),
    [(4.0, 1.0, True), (4.1, 1.0, False), (90.0, 1e-5, True), (90.0, 1e-3, False)],
)
def test_the_host_alone_is_not_run_where_its_ops_take_far_longer(host, scale, is_run):
    """Six ops that take milliseconds in all are run whatever the targets take."""
    wholes = {"near": 6.0, "far": 7.0, "host": 8.0}
    function = confirmed_by(WholeRegions(wholes, host, scale))
    assert ("host alone" in function["measured"]["seconds"]) == is_run
