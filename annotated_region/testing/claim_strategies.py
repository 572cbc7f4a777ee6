"""Hypothesis strategies for claims, which may overlap, and for region sets of such claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st
from tvm import relax

from annotated_region.checked import checked
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.ids import NodeId
from annotated_region.regions.node_region import Claim
from annotated_region.regions.region import Composite
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.testing.function_strategies import Ingredients, functions

__all__ = ["TARGETS", "annotated_functions", "claimable", "claims", "region_sets"]

TARGETS = ("alpha", "beta", "gamma")
"""The targets that claim; they are not registered."""

_CLAIMABLE = (NodeKind.OPERATION, NodeKind.STRUCTURE)


@checked
def claimable(func: relax.Function) -> list[list[relax.Var]]:
    """For each block with claimable nodes, the variables that a claim may name, in program order."""
    graph = read_dataflow(func)
    return [[graph.nodes[node].var for node in nodes] for nodes in _claimable_nodes(graph)]


@checked
def claims(
    func: relax.Function, targets: Sequence[str] = TARGETS, overlapping: bool = True
) -> st.SearchStrategy[dict[str, list[Claim]]]:
    """Claims on a function, as `AnnotatedRegionSet.from_claims` takes them.

    Parameters
    ----------
    func
        The function; annotations in it are ignored.
    targets
        The targets of the claims.
    overlapping
        Whether claims may share nodes, of one target or of several.

    Notes
    -----
    A claim is a single node, a connected set of nodes, any set of nodes of one block, or a composite.
    Claims need not be convex, and several of them may form a cycle.
    """
    return _claims(read_dataflow(func), targets, overlapping)


@st.composite
def _claims(
    draw: st.DrawFn, graph: DataflowGraph, targets: Sequence[str], overlapping: bool
) -> dict[str, list[Claim]]:
    scopes = list(_claimable_nodes(graph))
    made: dict[str, list[Claim]] = {}
    for _ in range(draw(st.integers(0, 8)) if scopes else 0):
        free = draw(st.sampled_from(scopes))
        if not free:
            continue
        nodes = draw(_node_sets(graph, free))
        variables = tuple(graph.nodes[node].var for node in sorted(nodes))
        made.setdefault(draw(st.sampled_from(targets)), []).append(draw(_as_claim(variables)))
        if not overlapping:
            free[:] = [node for node in free if node not in nodes]
    return made


@checked
def region_sets(
    ingredients: Ingredients | None = None, targets: Sequence[str] = TARGETS, overlapping: bool = True
) -> st.SearchStrategy[AnnotatedRegionSet]:
    """Region sets over generated functions, valid or not; parameters as for `functions` and `claims`."""
    return functions(ingredients).flatmap(
        lambda func: claims(func, targets, overlapping).map(
            lambda made: AnnotatedRegionSet.from_claims(func, made)
        )
    )


@checked
def annotated_functions(
    ingredients: Ingredients | None = None, targets: Sequence[str] = TARGETS
) -> st.SearchStrategy[relax.Function]:
    """Functions annotated with the regions of such a set."""
    return region_sets(ingredients, targets).map(AnnotatedRegionSet.annotate)


def _claimable_nodes(graph: DataflowGraph) -> Iterator[list[NodeId]]:
    for scope in graph.scopes:
        nodes = [node for node in scope.nodes if graph.nodes[node].kind in _CLAIMABLE]
        if nodes:
            yield nodes


def _as_claim(variables: tuple[relax.Var, ...]) -> st.SearchStrategy[Claim]:
    """The same nodes as a variable, a tuple, or a composite."""
    plain: Claim = variables[0] if len(variables) == 1 else variables
    names = st.sampled_from(["pattern", "odd # name"])
    return st.one_of(st.just(plain), names.map(lambda name: Composite(name, variables)))


def _node_sets(graph: DataflowGraph, free: Sequence[int]) -> st.SearchStrategy[set[int]]:
    single = st.sampled_from(free).map(lambda node: {node})
    return st.one_of(single, _connected_sets(graph, free), st.sets(st.sampled_from(free), min_size=1))


@st.composite
def _connected_sets(draw: st.DrawFn, graph: DataflowGraph, free: Sequence[int]) -> set[int]:
    allowed = set(free)
    inside = {draw(st.sampled_from(free))}
    for _ in range(draw(st.integers(1, 6))):
        around = sorted(
            {neighbour for node in inside for neighbour in _neighbours(graph, node)} & allowed - inside
        )
        if not around:
            break
        inside.add(draw(st.sampled_from(around)))
    return inside


def _neighbours(graph: DataflowGraph, node: int) -> Iterator[int]:
    yield from (edge.producer for edge in graph.into[node])
    yield from (edge.consumer for edge in graph.out_of[node])
