"""AnnotatedRegionSet: construction from claims, queries, and changes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kits.regions import region_oracles as oracle
from kits.regions.region_tables import function_of
from tvm import relax

import annotated_region as ar
from annotated_region.regions.node_region import Claim
from annotated_region.testing import Ingredients, claims, functions, region_sets

DIAMOND = """
    a = R.nn.relu(x)
    b = R.tanh(a)
    k = R.add(a, b)
    d = R.multiply(k, y)
    return d
"""


@pytest.fixture
def diamond() -> relax.Function:
    return function_of(DIAMOND)


def named(func: relax.Function) -> dict[str, relax.Var]:
    return {binding.var.name: binding.var for block in func.body.blocks for binding in block.bindings}


def names(values: Iterator[relax.Var] | tuple[relax.Var, ...]) -> list[str]:
    return [var.name for var in values]


def functions_with_claims() -> st.SearchStrategy[tuple[relax.Function, Mapping[str, list[Claim]]]]:
    return functions().flatmap(lambda func: st.tuples(st.just(func), claims(func)))


# -- what a set holds ----------------------------------------------------------------------------------


@pytest.mark.campaign
@given(functions_with_claims())
def test_a_node_is_in_exactly_the_regions_that_claim_it(
    drawn: tuple[relax.Function, Mapping[str, list[Claim]]],
) -> None:
    func, offered = drawn
    regions = ar.AnnotatedRegionSet.from_claims(func, offered)
    plain = set()
    composites = set()
    for target, each in offered.items():
        for claim in each:
            if isinstance(claim, ar.Composite):
                composites.add((target, claim.name, frozenset(claim.nodes)))
            else:
                nodes = [claim] if isinstance(claim, relax.Var) else list(claim)
                plain.add((target, frozenset(nodes)))
    # A composite is in the plain regions of its target that hold it, else a region of its own.
    at_home = {
        (target, name, nodes)
        for target, name, nodes in composites
        if any(target == other and nodes <= held for other, held in plain)
    }
    bare = sorted((target, sorted(map(hash, nodes)), [name]) for target, name, nodes in composites - at_home)
    filled = sorted(
        (
            target,
            sorted(map(hash, nodes)),
            sorted(name for other, name, inner in at_home if other == target and inner <= nodes),
        )
        for target, nodes in plain
    )
    held = [
        (region.target, sorted(map(hash, region.nodes)), sorted(inner.name for inner in region.composites))
        for region in regions
    ]
    assert sorted(held) == sorted(bare + filled)
    for region in regions:
        for var in region.nodes:
            assert region in regions.regions_of(var)
    for var in oracle.listing_of(func).value:
        assert all(var in region.nodes for region in regions.regions_of(var))


@pytest.mark.campaign
@given(region_sets())
def test_inputs_and_outputs_are_what_crosses_the_border(regions: ar.AnnotatedRegionSet) -> None:
    for region in regions:
        inputs, outputs = oracle.inputs_and_outputs(regions.func, region.nodes)
        assert list(region.inputs) == inputs
        assert list(region.outputs) == outputs


@pytest.mark.campaign
@given(region_sets())
def test_overlaps_are_the_pairs_that_share_nodes(regions: ar.AnnotatedRegionSet) -> None:
    expected = []
    for left, right in itertools.combinations(regions, 2):
        shared = tuple(var for var in left.nodes if var in right.nodes)
        if shared:
            expected.append((left, right, shared))
    assert regions.overlaps() == expected
    assert regions.is_disjoint() is not bool(expected)


@pytest.mark.campaign
@given(region_sets())
def test_regions_come_in_the_order_of_their_first_node_with_stable_ids(
    regions: ar.AnnotatedRegionSet,
) -> None:
    order = list(oracle.listing_of(regions.func).value)
    firsts = [order.index(region.nodes[0]) for region in regions]
    assert firsts == sorted(firsts)
    assert [region.id for region in regions] == list(range(len(regions)))
    assert [regions[index] for index in range(len(regions))] == list(regions)
    assert regions.targets == tuple(dict.fromkeys(region.target for region in regions))


@given(functions_with_claims())
def test_the_order_of_claims_does_not_matter(
    drawn: tuple[relax.Function, Mapping[str, list[Claim]]],
) -> None:
    func, offered = drawn
    turned = {target: offered[target][::-1] for target in list(offered)[::-1]}
    regions = ar.AnnotatedRegionSet.from_claims(func, offered)
    assert list(ar.AnnotatedRegionSet.from_claims(func, turned)) == list(regions)


@given(functions_with_claims())
def test_claims_may_come_in_two_steps(drawn: tuple[relax.Function, Mapping[str, list[Claim]]]) -> None:
    func, offered = drawn
    first = {target: each[::2] for target, each in offered.items()}
    second = {target: each[1::2] for target, each in offered.items()}
    halfway = ar.AnnotatedRegionSet.from_claims(func, first).annotate()
    at_once = ar.AnnotatedRegionSet.from_claims(func, offered)
    assert ar.AnnotatedRegionSet.from_claims(halfway, second) == at_once
    assert ar.AnnotatedRegionSet.from_claims(at_once.annotate(), offered) == at_once


def test_a_set_without_regions(diamond: relax.Function) -> None:
    regions = ar.AnnotatedRegionSet(diamond)
    assert len(regions) == 0
    assert list(regions) == []
    assert regions.targets == ()
    assert regions.annotate() is diamond
    assert regions.func is diamond
    assert names(regions.verify().order) == ["a", "b", "k", "d"]


def test_equal_sets_are_of_one_function(diamond: relax.Function) -> None:
    other = function_of(DIAMOND)
    assert ar.AnnotatedRegionSet(diamond) == ar.AnnotatedRegionSet(diamond)
    assert ar.AnnotatedRegionSet(diamond) != ar.AnnotatedRegionSet(other)
    assert ar.AnnotatedRegionSet(diamond) != "regions"
    with pytest.raises(TypeError, match="unhashable"):
        hash(ar.AnnotatedRegionSet(diamond))


def test_a_set_in_words(diamond: relax.Function) -> None:
    v = named(diamond)
    regions = ar.AnnotatedRegionSet.from_claims(diamond, {"t": [tuple(v.values())], "u": [v["b"]]})
    assert repr(regions) == (
        "AnnotatedRegionSet(main: region 0 of 't' (a, b, k, and 1 more), region 1 of 'u' (b))"
    )


# -- claims that are none ----------------------------------------------------------------------------


BAD_CLAIMS = {
    "unknown variable": ("w", "names w, which is not a node: no binding of the function defines it"),
    "parameter": ("x", "names x, which is not a node: no binding of the function defines it"),
    "constant": ("k", "names k, a constant: it belongs to its users; leave it out"),
    "conditional": (
        "r",
        "names r: no region may hold an If, an impure call, a MatchCast or a local function",
    ),
    "cast": ("m", "names m: no region may hold an If, an impure call, a MatchCast or a local function"),
    "no node": ("", "names no node; leave it out"),
    "two blocks": ("v u", "names nodes of two blocks; a region stays in one: split the claim"),
}


@pytest.mark.parametrize("case", BAD_CLAIMS)
def test_claims_that_are_none(case: str) -> None:
    func = function_of(
        """
        k = R.const(1.0, "float32")
        v = R.add(x, k)
        m = R.match_cast(v, R.Tensor((2, 4), "float32"))
        if c:
            u = R.nn.relu(m)
            r = u
        else:
            r = m
        return r
        """
    )
    known = {var.name: var for var in (*oracle.listing_of(func).value, *func.params)}
    claimed, said = BAD_CLAIMS[case]
    claim = tuple(known.get(name, relax.Var(name, known["x"].ty)) for name in claimed.split())
    with pytest.raises(ar.InvalidClaimError, match=f"^main: a claim of target 't' {re.escape(said)}"):
        ar.AnnotatedRegionSet.from_claims(func, {"t": [claim]})


def test_claims_of_the_wrong_kind(diamond: relax.Function) -> None:
    v = named(diamond)
    with pytest.raises(ar.InvalidClaimError, match="the claims of target 't' are a list, not one claim"):
        ar.AnnotatedRegionSet.from_claims(diamond, {"t": v["a"]})
    with pytest.raises(ar.InvalidClaimError, match="the target of claims is a non-empty string, not ''"):
        ar.AnnotatedRegionSet.from_claims(diamond, {"": [v["a"]]})
    with pytest.raises(ar.InvalidClaimError, match="a composite of target 't' has no name; give it one"):
        ar.AnnotatedRegionSet.from_claims(diamond, {"t": [ar.Composite("", (v["a"],))]})
    with pytest.raises(ar.InvalidClaimError, match=r"names \['a'\], which is not a node"):
        ar.AnnotatedRegionSet.from_claims(diamond, {"t": [(["a"],)]})


def test_an_annotation_is_no_node_to_claim(diamond: relax.Function) -> None:
    annotated = ar.AnnotatedRegionSet.from_claims(diamond, {"t": [named(diamond)["a"]]}).annotate()
    with pytest.raises(ar.InvalidClaimError, match="or an annotation does; name a variable of the function"):
        ar.AnnotatedRegionSet.from_claims(annotated, {"t": [named(annotated)["a_end"]]})


# -- merging -----------------------------------------------------------------------------------------


def is_valid(func: relax.Function, regions: list[ar.AnnotatedRegion]) -> bool:
    """Whether a set has the orders that `verify` promises, by contracting families one by one."""
    if not any(set(a.nodes) & set(b.nodes) for a, b in itertools.combinations(regions, 2)):
        return oracle.quotient_is_acyclic(func, [region.nodes for region in regions])
    families: dict[str, list[ar.AnnotatedRegion]] = {}
    for region in regions:
        rivals = [each for each in regions if each is not region and each.target == region.target]
        if any(set(region.nodes) & set(rival.nodes) for rival in rivals):
            if not oracle.quotient_is_acyclic(func, [region.nodes]):
                return False
        else:
            families.setdefault(region.target, []).append(region)
    return all(
        oracle.quotient_is_acyclic(func, [region.nodes for region in family]) for family in families.values()
    )


@pytest.mark.campaign
@given(region_sets(), st.data())
def test_merge_keeps_a_valid_set_valid_or_leaves_it_as_it_was(
    regions: ar.AnnotatedRegionSet, data: st.DataObject
) -> None:
    pairs = [
        (left, right)
        for left, right in itertools.combinations(regions, 2)
        if left.target == right.target and is_valid(regions.func, list(regions))
    ]
    if not pairs:
        return
    left, right = data.draw(st.sampled_from(pairs))
    before = list(regions)
    scope = oracle.listing_of(regions.func).scope
    if scope[left.nodes[0]] != scope[right.nodes[0]]:
        with pytest.raises(ar.InvalidClaimError, match="lie in two blocks"):
            regions.merge(left, right)
        return
    if not is_valid(regions.func, after_merging(regions, left, right)):
        with pytest.raises(ar.RegionCycleError, match=r"^main: joining region \d+ of"):
            regions.merge(left, right)
        assert list(regions) == before
        return
    joined = regions.merge(right, left)
    assert joined.id == left.id
    assert set(joined.nodes) == {*left.nodes, *right.nodes}
    assert sorted(joined.nodes, key=list(oracle.listing_of(regions.func).value).index) == list(joined.nodes)
    assert is_valid(regions.func, list(regions))
    ar.check_certificate(regions.func, regions, regions.verify())
    again = ar.AnnotatedRegionSet(regions.annotate())
    assert again == regions
    kept = {each.id: each for each in before if each not in (left, right)}
    assert all(kept.get(each.id, each).nodes == each.nodes for each in regions if each.id != left.id)


def after_merging(
    regions: ar.AnnotatedRegionSet, left: ar.AnnotatedRegion, right: ar.AnnotatedRegion
) -> list[ar.AnnotatedRegion]:
    """The regions as they would be: composites of the target inside the joined region belong to it."""
    nodes = {*left.nodes, *right.nodes}
    joined = ar.AnnotatedRegion(left.id, left.target, tuple(nodes), (), ())
    others = [
        each
        for each in regions
        if each not in (left, right)
        and not (each.target == left.target and set(each.nodes) == nodes)
        and not (each.target == left.target and set(each.nodes) < nodes and is_bare(regions, each))
    ]
    return [joined, *others]


def is_bare(regions: ar.AnnotatedRegionSet, region: ar.AnnotatedRegion) -> bool:
    return regions.node_regions[region.id].is_composite


def test_merging_a_diamond(diamond: relax.Function) -> None:
    v = named(diamond)
    regions = ar.AnnotatedRegionSet.from_claims(diamond, {"t": [v["a"], v["b"], v["k"]]})
    with pytest.raises(
        ar.RegionCycleError,
        match=r"^main: joining region 0 of 't' \(a\) and region 2 of 't' \(k\) would put "
        r"region 1 of 't' \(b\) both before and after them; keep them apart, or let ResolveConflicts give "
        "some of these nodes to another target$",
    ):
        regions.merge(0, 2)
    assert [names(region.nodes) for region in regions] == [["a"], ["b"], ["k"]]
    assert regions.merge(0, 1).id == 0
    assert regions.merge(2, 0).id == 0
    (region,) = regions
    assert names(region.nodes) == ["a", "b", "k"]
    assert names(region.inputs) == ["x"]
    assert names(region.outputs) == ["k"]


def test_merging_what_cannot_be_merged(diamond: relax.Function) -> None:
    v = named(diamond)
    regions = ar.AnnotatedRegionSet.from_claims(diamond, {"t": [v["a"], v["b"]], "u": [v["k"]]})
    first, second, third = regions
    with pytest.raises(ar.InvalidClaimError, match="are not two regions of one target"):
        regions.merge(first, third)
    with pytest.raises(ar.InvalidClaimError, match="are not two regions of one target"):
        regions.merge(first, first)
    with pytest.raises(ar.InvalidClaimError, match=r"^main has no region 7; its ids are \[0, 1, 2\]$"):
        regions.merge(first, 7)
    regions.merge(first, second)
    with pytest.raises(
        ar.InvalidClaimError, match=r"region 0 of 't' \(a\) is not in this set: it was merged"
    ):
        regions.merge(first, 2)
    with pytest.raises(ar.InvalidClaimError, match=r"^main has no region 1; its ids are \[0, 2\]$"):
        regions[1]


def test_regions_of_two_blocks_do_not_merge() -> None:
    func = function_of(
        """
        a = R.nn.relu(x)
        with R.dataflow():
            b = R.tanh(a)
            R.output(b)
        return b
        """
    )
    regions = ar.AnnotatedRegionSet.from_claims(func, {"t": list(named(func).values())})
    with pytest.raises(ar.InvalidClaimError, match="lie in two blocks; a region stays in one"):
        regions.merge(0, 1)


def test_a_merge_is_refused_for_a_cycle_that_absorbing_a_composite_lays_open() -> None:
    # The composite {p, q} overlaps the left and the right region, so neither needs a common order with
    # the region {r, s}. Joined, they take the composite in, overlap nothing more, and need one.
    func = function_of(
        """
        p = R.nn.relu(x)
        r = R.tanh(p)
        q = R.add(y, r)
        s = R.tanh(q)
        return s
        """
    )
    v = named(func)
    regions = ar.AnnotatedRegionSet.from_claims(
        func, {"t": [v["p"], v["q"], ar.Composite("both", (v["p"], v["q"])), (v["r"], v["s"])]}
    )
    before = list(regions)
    left, right = (next(each for each in regions if names(each.nodes) == [name]) for name in "pq")
    with pytest.raises(
        ar.RegionCycleError, match=r"would put region . of 't' \(r, s\) both before and after them"
    ):
        regions.merge(left, right)
    assert list(regions) == before


def test_a_merge_is_refused_when_other_regions_would_then_need_a_common_order() -> None:
    # While a1 and a2 overlap, targets are ordered apart; with a single region of "t" the set is disjoint,
    # and all of it needs one order, which {p, s} of "u" and {q, r} of "w" do not have.
    func = function_of(
        """
        p = R.nn.relu(x)
        q = R.tanh(p)
        r = R.nn.relu(y)
        s = R.tanh(r)
        a = R.negative(x)
        b = R.negative(a)
        k = R.negative(b)
        return p, q, r, s, k
        """
    )
    v = named(func)
    regions = ar.AnnotatedRegionSet.from_claims(
        func,
        {"t": [(v["a"], v["b"]), (v["b"], v["k"])], "u": [(v["p"], v["s"])], "w": [(v["q"], v["r"])]},
    )
    regions.verify()
    left, right = (region for region in regions if region.target == "t")
    with pytest.raises(
        ar.RegionCycleError,
        match=r"would leave regions that depend on each other: region \d of '[uw]' .*; split one of",
    ):
        regions.merge(left, right)
    assert len(regions) == 4


def test_a_merge_takes_in_an_equal_region(diamond: relax.Function) -> None:
    v = named(diamond)
    regions = ar.AnnotatedRegionSet.from_claims(diamond, {"t": [(v["a"], v["b"]), v["a"], v["b"]]})
    assert len(regions) == 3
    left, right = (next(each for each in regions if names(each.nodes) == [name]) for name in "ab")
    joined = regions.merge(left, right)
    assert list(regions) == [joined]
    assert ar.AnnotatedRegionSet(regions.annotate()) == regions


# -- networkx views ------------------------------------------------------------------------------------


@pytest.mark.campaign
@given(region_sets(Ingredients(nodes=12)))
def test_the_graph_has_the_nodes_and_the_values(regions: ar.AnnotatedRegionSet) -> None:
    graph = regions.graph()
    listing = oracle.listing_of(regions.func)
    assert set(graph) == set(listing.value)
    assert nx.is_directed_acyclic_graph(graph)
    for var, attributes in graph.nodes(data=True):
        assert attributes["regions"] == tuple(region.id for region in regions.regions_of(var))
        assert attributes["targets"] == tuple(
            dict.fromkeys(regions[each].target for each in attributes["regions"])
        )
    carried = {
        (use.producer, use.consumer)
        for use in listing.uses
        if use.producer in listing.value and use.consumer in listing.value
    }
    assert {(a, b) for a, b, size in graph.edges(data="bytes") if size != 0} <= carried
    assert carried <= set(graph.edges)


@pytest.mark.campaign
@given(region_sets(Ingredients(nodes=12), overlapping=False))
def test_the_quotient_is_acyclic_exactly_if_the_set_verifies(regions: ar.AnnotatedRegionSet) -> None:
    quotient = regions.quotient()
    held = {var for region in regions for var in region.nodes}
    hosts = [var for var in oracle.listing_of(regions.func).value if var not in held]
    assert set(quotient) == {*hosts, *(region.id for region in regions)}
    acyclic = nx.is_directed_acyclic_graph(quotient)
    assert acyclic == oracle.quotient_is_acyclic(regions.func, [region.nodes for region in regions])
    for source, sink, crossing in quotient.edges(data=True):
        made = quotient.nodes[source]["nodes"]
        assert set(crossing["values"]) <= set(made)
        assert source != sink


def test_what_the_graphs_say_of_a_diamond(diamond: relax.Function) -> None:
    v = named(diamond)
    regions = ar.AnnotatedRegionSet.from_claims(diamond, {"t": [(v["a"], v["b"])], "u": [v["d"]]})
    graph = regions.graph()
    assert graph.nodes[v["a"]] == {"op": "relax.nn.relu", "scope": 0, "regions": (0,), "targets": ("t",)}
    assert graph.nodes[v["k"]] == {"op": "relax.add", "scope": 0, "regions": (), "targets": ()}
    assert graph.edges[v["a"], v["b"]] == {"bytes": 32}
    quotient = regions.quotient()
    assert quotient.nodes[0] == {"target": "t", "nodes": (v["a"], v["b"])}
    assert quotient.nodes[v["k"]] == {"target": "host", "op": "relax.add", "nodes": (v["k"],)}
    assert quotient.edges[0, v["k"]] == {"values": (v["a"], v["b"]), "bytes": 64}
    assert quotient.edges[v["k"], 1] == {"values": (v["k"],), "bytes": 32}


def test_a_quotient_needs_a_disjoint_set(diamond: relax.Function) -> None:
    v = named(diamond)
    regions = ar.AnnotatedRegionSet.from_claims(diamond, {"t": [(v["a"], v["b"])], "u": [v["b"]]})
    with pytest.raises(
        ar.OverlappingRegionsError,
        match=r"^main: 'b' lies in region 0 of 't' \(a, b\) and region 1 of 'u' \(b\); run ResolveConflicts",
    ):
        regions.quotient()
