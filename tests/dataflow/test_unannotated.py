"""The graph without annotations is the one that a walk over the stripped function gives."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from kits.regions.region_tables import function_of
from tvm import relax

from annotated_region.dataflow import unannotated
from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.dataflow.unannotated import without_annotations
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.regions.writing import strip_annotations
from annotated_region.testing import region_sets


def require_equal(found: DataflowGraph, wanted: DataflowGraph) -> None:
    assert not found.is_annotated
    assert len(found.nodes) == len(wanted.nodes)
    for number, (mine, theirs) in enumerate(zip(found.nodes, wanted.nodes, strict=True)):
        assert mine.var.same_as(theirs.var)
        assert mine.binding.same_as(theirs.binding)
        assert mine.value.same_as(theirs.value)
        assert (mine.kind, mine.scope) == (theirs.kind, theirs.scope)
        assert found.number_of(theirs.var) == number
    assert [each.path for each in found.scopes] == [each.path for each in wanted.scopes]
    assert [each.nodes for each in found.scopes] == [each.nodes for each in wanted.scopes]
    assert all(
        mine.block.same_as(theirs.block) and mine.index == theirs.index
        for mine, theirs in zip(found.scopes, wanted.scopes, strict=True)
    )
    assert all(mine.same_as(theirs) for mine, theirs in zip(found.externals, wanted.externals, strict=True))
    assert (found.into, found.out_of) == (wanted.into, wanted.out_of)
    assert (found.external_out, found.result_edges) == (wanted.external_out, wanted.result_edges)
    assert (found.order_edges, found.has_shape_vars) == (wanted.order_edges, wanted.has_shape_vars)


def require_equal_after_stripping(func: relax.Function) -> None:
    graph = read_dataflow(func)
    stripped = strip_annotations(graph)
    require_equal(without_annotations(graph, stripped), read_dataflow(stripped))


@pytest.mark.campaign
@given(region_sets())
def test_any_function_with_regions(regions: AnnotatedRegionSet) -> None:
    require_equal_after_stripping(regions.annotate())


def test_a_value_that_is_read_inside_and_outside_of_a_region_has_one_edge() -> None:
    require_equal_after_stripping(
        function_of("""
            a = R.nn.relu(x)
            b = R.annotation.compiler_begin(a, compiler="t")
            c = R.add(b, a)
            d = R.annotation.compiler_end(c, compiler="t")
            return d
        """)
    )


def test_annotated_constants_are_literals_without_annotations() -> None:
    require_equal_after_stripping(
        function_of("""
            held = R.annotation.compiler_begin(R.const(1.0, "float32"), compiler="t")
            alias = held
            c = R.add(x, alias)
            return c
        """)
    )


def test_most_functions_are_not_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: Counter[str] = Counter()
    monkeypatch.setattr(unannotated, "read_dataflow", lambda *_: walks.update(["walk"]))
    func = function_of("""
        a = R.annotation.compiler_begin(x, compiler="t")
        b = R.nn.relu(a)
        c = R.annotation.compiler_end(b, compiler="t")
        return c
    """)
    regions = AnnotatedRegionSet(func)
    assert len(regions) == 1
    assert not walks
