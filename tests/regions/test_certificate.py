"""Certificates: `verify` finds one exactly if one exists, and the checker accepts no other."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
from collections.abc import Iterator

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from kits.regions import region_oracles as oracle
from kits.regions.region_tables import function_of
from tvm import relax

import annotated_region as ar
from annotated_region import certificates
from annotated_region.regions import certificate as certificate_module
from annotated_region.testing import Ingredients, functions, region_sets
from annotated_region.testing.registry import claim_ops, temporary_registrations


def conflict(left: ar.AnnotatedRegion, right: ar.AnnotatedRegion) -> bool:
    return not set(left.nodes).isdisjoint(right.nodes)


def has_an_order(func: relax.Function, regions: list[ar.AnnotatedRegion]) -> bool:
    return oracle.quotient_is_acyclic(func, [region.nodes for region in regions])


def is_valid(func: relax.Function, regions: list[ar.AnnotatedRegion]) -> bool:
    """By definition: a common order for a disjoint set, else for what is disjoint within a target."""
    if not any(conflict(left, right) for left, right in itertools.combinations(regions, 2)):
        return has_an_order(func, regions)
    crowded = [
        region
        for region in regions
        if any(
            conflict(region, other)
            for other in regions
            if other is not region and other.target == region.target
        )
    ]
    families = [[region] for region in crowded]
    for target in dict.fromkeys(region.target for region in regions):
        families.append([region for region in regions if region.target == target and region not in crowded])
    return all(has_an_order(func, family) for family in families)


@pytest.mark.campaign
@given(region_sets())
def test_a_set_has_a_certificate_exactly_if_it_is_valid(regions: ar.AnnotatedRegionSet) -> None:
    check_verify(regions)


@pytest.mark.campaign
@given(region_sets(overlapping=False))
def test_a_disjoint_set_has_one_order_exactly_if_its_quotient_is_acyclic(
    regions: ar.AnnotatedRegionSet,
) -> None:
    check_verify(regions)


def check_verify(regions: ar.AnnotatedRegionSet) -> None:
    func = regions.func
    if not is_valid(func, list(regions)):
        with pytest.raises(ar.RegionCycleError, match=r"^main: these regions depend on each other: .+ -> "):
            regions.verify()
        return
    certificate = regions.verify()
    ar.check_certificate(func, regions, certificate)
    ar.check_certificate(regions.annotate(), regions, certificate)
    ar.check_certificate(regions.annotate(), ar.AnnotatedRegionSet(regions.annotate()), certificate)
    if regions.is_disjoint():
        assert certificate.orders == (certificate.order,)
    # An order holds effects and casts in their places too, of which the checker knows nothing.
    for order in certificate.orders:
        place = {
            var: index
            for index, item in enumerate(order)
            for var in (regions[item].nodes if isinstance(item, int) else (item,))
        }
        assert all(place[before] <= place[after] for before, after in oracle.needs(func))


@pytest.mark.campaign
@given(region_sets(), st.data())
def test_the_checker_takes_no_tampered_certificate(
    regions: ar.AnnotatedRegionSet, data: st.DataObject
) -> None:
    try:
        certificate = regions.verify()
    except ar.RegionCycleError:
        return
    which = data.draw(st.integers(0, len(certificate.orders) - 1))
    order = list(certificate.orders[which])
    if not order:
        return
    at = data.draw(st.integers(0, len(order) - 1))
    item = order[at]

    def refused(changed: list[int | relax.Var], match: str) -> None:
        orders = (*certificate.orders[:which], tuple(changed), *certificate.orders[which + 1 :])
        with pytest.raises(ar.RegionCycleError, match=match):
            ar.check_certificate(regions.func, regions, dataclasses.replace(certificate, orders=orders))

    refused([*order[:at], *order[at + 1 :]], "is missing from the certificate|appear in no order")
    refused([*order, item], "appears twice")
    refused([*order, len(regions)], "appear in no order, or in an order but not in the set")
    users = list(users_of(regions, order, at))
    if users:
        behind = data.draw(st.sampled_from(users))
        refused([*order[:at], *order[at + 1 : behind + 1], item, *order[behind + 1 :]], "which comes later")


def users_of(regions: ar.AnnotatedRegionSet, order: list[int | relax.Var], at: int) -> Iterator[int]:
    """The places in an order of what uses a value made at a place."""
    nodes = [regions[item].nodes if isinstance(item, int) else (item,) for item in order]
    values = {(use.producer, use.consumer) for use in oracle.listing_of(regions.func).uses}
    for place in range(at + 1, len(order)):
        direct = itertools.product(nodes[at], nodes[place])
        # Conditionals and local functions use results of their bodies, which the checker sees only inside.
        if any(pair in values and not has_bodies(value_of(regions, pair[1])) for pair in direct):
            yield place


def has_bodies(value: relax.Expr) -> bool:
    return isinstance(value, relax.If | relax.Function)


def value_of(regions: ar.AnnotatedRegionSet, var: relax.Var) -> relax.Expr:
    return oracle.listing_of(regions.func).value[var]


CROSSED = """
    a1 = R.nn.relu(x)
    a2 = R.nn.relu(y)
    t1 = R.tanh(a1)
    t2 = R.tanh(a2)
    b1 = R.add(a1, t2)
    b2 = R.add(a2, t1)
    return b1, b2
"""


def crossed(*groups: str) -> ar.AnnotatedRegionSet:
    func = function_of(CROSSED)
    known = {var.name: var for var in oracle.listing_of(func).value}
    claims = [tuple(known[name] for name in group.split()) for group in groups]
    return ar.AnnotatedRegionSet.from_claims(func, {"t": claims})


def test_two_regions_that_need_each_other() -> None:
    regions = crossed("a1 b1", "a2 b2")
    said = (
        r"^main: these regions depend on each other: region 0 of 't' \(a1, b1\) -> 't1' -> "
        r"region 1 of 't' \(a2, b2\) -> 't2' -> region 0 of 't' \(a1, b1\); split one of them, or build them "
        "with MergeCompilerRegions and ResolveConflicts$"
    )
    with pytest.raises(ar.RegionCycleError, match=said):
        regions.verify()


def test_a_region_that_a_path_leaves_and_enters_again() -> None:
    regions = crossed("a1 t1 b1 a2 b2")
    with pytest.raises(
        ar.RegionCycleError, match=r"each other: region 0 of 't' \(.*\) -> 't2' -> region 0 of 't'"
    ):
        regions.verify()


def test_the_order_of_a_disjoint_set_is_the_program_where_that_is_possible() -> None:
    regions = crossed("a1 a2", "b1 b2")
    order = [item if isinstance(item, int) else item.name for item in regions.verify().order]
    assert order == [0, "t1", "t2", 1]


def test_overlapping_regions_have_no_one_order() -> None:
    regions = crossed("a1 t1", "t1 b2", "t2")
    certificate = regions.verify()
    held = [[item for item in order if isinstance(item, int)] for order in certificate.orders]
    assert held == [[2], [0], [1]]
    with pytest.raises(
        ar.OverlappingRegionsError,
        match=r"^overlapping regions have 3 orders, not one; run ResolveConflicts first, or read ",
    ):
        _ = certificate.order


def test_regions_that_overlap_have_few_orders() -> None:
    # 30 composites, each of three ops of a chain of 32: an order for each would name 900 nodes.
    func = function_of(
        "\n".join(["v0 = R.nn.relu(x)", *(f"v{i} = R.nn.relu(v{i - 1})" for i in range(1, 32)), "return v31"])
    )
    chain = list(oracle.listing_of(func).value)
    claims = [ar.Composite("three", tuple(chain[start : start + 3])) for start in range(30)]
    regions = ar.AnnotatedRegionSet.from_claims(func, {"t": claims})
    certificate = regions.verify()
    assert len(certificate.orders) == 3
    ar.check_certificate(func, regions, certificate)


def test_overlapping_regions_without_a_common_order_are_certified_apart() -> None:
    # {a1, b1} and {a2, b2} are each convex but need each other; each overlaps a third one, so that neither
    # must stand in an order with the other.
    func = function_of(CROSSED)
    known = {var.name: var for var in oracle.listing_of(func).value}
    regions = ar.AnnotatedRegionSet.from_claims(
        func,
        {"t": [(known["a1"], known["b1"]), (known["a2"], known["b2"]), (known["b1"], known["b2"])]},
    )
    certificate = regions.verify()
    ar.check_certificate(func, regions, certificate)
    assert len(certificate.orders) == 3


def test_what_an_if_uses_inside_comes_before_it() -> None:
    func = function_of(
        """
        a = R.nn.relu(x)
        if c:
            p = R.tanh(a)
            r = p
        else:
            r = y
        b = R.nn.relu(r)
        return b
        """
    )
    known = {var.name: var for var in oracle.listing_of(func).value}
    regions = ar.AnnotatedRegionSet.from_claims(func, {"t": [(known["a"], known["b"])]})
    with pytest.raises(ar.RegionCycleError, match=r"region 0 of 't' \(a, b\) -> 'p' -> "):
        regions.verify()


def test_effects_and_casts_keep_their_places() -> None:
    func = function_of(
        """
        a = R.nn.relu(x)
        first = R.call_packed("some.function", a, ty_args=[R.Tensor((2, 4), "float32")])
        second = R.call_packed("some.function", y, ty_args=[R.Tensor((2, 4), "float32")])
        b = R.nn.relu(second)
        return b, first
        """,
        pure=False,
    )
    known = {var.name: var for var in oracle.listing_of(func).value}
    regions = ar.AnnotatedRegionSet.from_claims(func, {"t": [(known["a"], known["b"])]})
    with pytest.raises(ar.RegionCycleError, match=r"\(a, b\) -> 'first' -> 'second' -> region 0"):
        regions.verify()


# -- the checker itself --------------------------------------------------------------------------------


def imported_from_the_package(module) -> set[str]:
    """What a module imports; `tvm_adapter` is TVM's own under a name that lasts, and `ids` holds types."""
    return {
        name.name
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("annotated_region")
        if not str(node.module).startswith(("annotated_region.tvm_adapter", "annotated_region.ids"))
        for name in node.names
    }


def test_the_checker_is_short_and_shares_no_code() -> None:
    checkers = {"check_orders", "_check_definition", "check_certificate", "_definitions"}
    parts = [
        node
        for module in (certificates, certificate_module)
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.FunctionDef) and node.name in checkers
    ]
    lines = [
        line
        for part in parts
        for statement in part.body[1:]
        for line in range(statement.lineno, (statement.end_lineno or 0) + 1)
    ]
    assert {part.name for part in parts} == checkers
    assert len(lines) < 45
    assert imported_from_the_package(certificates) == {"OverlappingRegionsError", "RegionCycleError"}
    assert imported_from_the_package(certificate_module) == {
        "AnnotatedRegion",
        "Certificate",
        "Definition",
        "check_orders",
        "checked",  # of the arguments, before the checker runs
    }


def test_the_checker_sees_a_shape_variable_used_before_its_cast() -> None:
    func = function_of(
        """
        m = T.int64()
        a = R.nn.relu(x)
        k = R.match_cast(a, R.Tensor((m, 4), "float32"))
        z = R.zeros(R.shape([m, 4]), dtype="float32")
        return k, z
        """
    )
    regions = ar.AnnotatedRegionSet(func)
    a, k, z = oracle.listing_of(func).value
    ar.check_certificate(func, regions, ar.Certificate(((a, k, z),)))
    with pytest.raises(ar.RegionCycleError, match=r"^'z' uses 'm', which comes later$"):
        ar.check_certificate(func, regions, ar.Certificate(((a, z, k),)))


# -- every pass ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def _targets() -> Iterator[None]:
    with temporary_registrations():
        claim_ops("alpha", "relax.nn.relu", "relax.add", "relax.concat", "relax.split", "relax.zeros")
        claim_ops("beta", "relax.tanh", "relax.add", "relax.multiply", "relax.negative", "relax.reshape")
        for target in ("alpha", "beta"):
            pattern = relax.dpl.is_op("relax.nn.relu")(
                relax.dpl.is_op("relax.add")(relax.dpl.wildcard(), relax.dpl.wildcard())
            )
            ar.register_pattern(target, f"{target}.add_relu", pattern)
        yield


@pytest.mark.campaign
@pytest.mark.usefixtures("_targets")
@given(functions(Ingredients(casts=False)), st.sampled_from([["alpha"], ["beta", "alpha"]]), st.booleans())
def test_every_pass_leaves_regions_with_a_certificate(
    func: relax.Function, targets: list[str], siblings: bool
) -> None:
    mod = tvm.IRModule({"main": func})
    steps = [
        ar.passes.AnnotateTarget(targets),
        ar.passes.MergeCompilerRegions(siblings=siblings),
        ar.passes.ResolveConflicts(ar.Priority(targets), cross_compile=True),
        ar.passes.MergeCompilerRegions(siblings=siblings),
    ]
    for step in steps:
        mod = step(mod)
        relax.analysis.well_formed(mod)
        regions = ar.AnnotatedRegionSet(mod["main"])
        ar.check_certificate(mod["main"], regions, regions.verify())
        tvm.ir.assert_structural_equal(regions.func, func)
    assert regions.is_disjoint()
