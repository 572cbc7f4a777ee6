"""Regions by node numbers, the form that passes work on, in canonical order.

A label ``"<name>#<k>"`` with a number `k` marks a composite of the pattern `name`; a label ``"#<k>"`` without
a name marks a node that its target also claims alone, beside the composites that contain it.
``annotated_region.regions.normal_form`` decides which regions contain which composites.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import relax

from annotated_region.arguments import require_kind
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.errors import InvalidClaimError
from annotated_region.ids import NodeId
from annotated_region.regions.region import Composite

__all__ = ["Claim", "ClaimedUnit", "NodeRegion", "largest_composites", "regions_from_claims"]

Nodes = tuple[NodeId, ...]
Claim: TypeAlias = relax.Var | Sequence[relax.Var] | Composite


@dataclass(frozen=True, slots=True)
class ClaimedUnit:
    """A unit that a target runs as a whole: a composite, or a node that it claims alone.

    Attributes
    ----------
    nodes
        The numbers of the nodes, in program order.
    composite
        The name of the composite's pattern; None for a node that is claimed alone.
    """

    nodes: Nodes
    composite: str | None

    @classmethod
    def of_node(cls, node: NodeId) -> ClaimedUnit:
        """A node that is claimed alone."""
        return cls((node,), None)

    @property
    def is_composite(self) -> bool:
        """Whether the unit is a composite; a composite may consist of a single node, too."""
        return self.composite is not None

    @property
    def name(self) -> str:
        """The name of the pattern of a composite."""
        assert self.composite is not None, f"{self} is claimed alone and has no name"
        return self.composite

    def __lt__(self, other: ClaimedUnit) -> bool:
        """The canonical order: by nodes, a node alone before its composites, these by name."""
        return self._order < other._order

    @property
    def _order(self) -> tuple[Nodes, tuple[str, ...]]:
        return self.nodes, () if self.composite is None else (self.composite,)


@dataclass(frozen=True, slots=True)
class NodeRegion:
    """A region by node numbers.

    Attributes
    ----------
    target
        The target that runs it.
    nodes
        Its nodes, in program order.
    units
        The composites inside, and the nodes of composites that the target also claims alone; sorted.
    label
        The label of its annotations; empty if they have none.
    """

    target: str
    nodes: Nodes
    units: tuple[ClaimedUnit, ...] = ()
    label: str = ""

    @property
    def is_composite(self) -> bool:
        """Whether the region consists of exactly one composite."""
        return len(self.units) == 1 and self.units[0].nodes == self.nodes and self.units[0].is_composite

    @property
    def composites(self) -> list[ClaimedUnit]:
        """The composites inside."""
        return [unit for unit in self.units if unit.is_composite]

    @property
    def alone(self) -> list[NodeId]:
        """The nodes that the target claims alone, inside a composite or not."""
        covered = {node for unit in self.composites for node in unit.nodes}
        marked = {node for unit in self.units if not unit.is_composite for node in unit.nodes}
        return [node for node in self.nodes if node not in covered or node in marked]

    @property
    def sort_key(self) -> tuple[Nodes, str, tuple[ClaimedUnit, ...]]:
        """The canonical order: by nodes, then target, then composites."""
        return (self.nodes, self.target, self.units)

    def renumbered(self, numbers: Sequence[NodeId | None]) -> NodeRegion:
        """The same region with node `i` renumbered to ``numbers[i]``, or dropped where that is None."""

        def moved(nodes: Nodes) -> Nodes:
            return tuple(number for node in nodes if (number := numbers[node]) is not None)

        units = tuple(replace(unit, nodes=moved(unit.nodes)) for unit in self.units)
        return NodeRegion(self.target, moved(self.nodes), units, self.label)

    def expanded(self, places: Sequence[Sequence[NodeId]]) -> NodeRegion:
        """The same region with node `i` replaced by the nodes ``places[i]``."""

        def moved(nodes: Nodes) -> Nodes:
            return tuple(sorted(number for node in nodes for number in places[node]))

        units = tuple(sorted(replace(unit, nodes=moved(unit.nodes)) for unit in self.units))
        return NodeRegion(self.target, moved(self.nodes), units, self.label)

    def joined(self, other: NodeRegion) -> NodeRegion:
        """The union of both regions; a node claimed alone in one of them is claimed alone in the union."""
        composites = {*self.composites, *other.composites}
        covered = {node for unit in composites for node in unit.nodes}
        marks = {ClaimedUnit.of_node(node) for node in (*self.alone, *other.alone) if node in covered}
        return NodeRegion(
            self.target,
            tuple(sorted({*self.nodes, *other.nodes})),
            tuple(sorted(composites | marks)),
            self.label,
        )


def largest_composites(member: NodeRegion) -> list[ClaimedUnit]:
    """Disjoint composites of a region: of those that share nodes the largest wins, then the first."""
    chosen: list[ClaimedUnit] = []
    taken: set[NodeId] = set()
    for unit in sorted(member.composites, key=lambda unit: (-len(unit.nodes), unit)):
        if taken.isdisjoint(unit.nodes):
            chosen.append(unit)
            taken.update(unit.nodes)
    return chosen


def regions_from_claims(graph: DataflowGraph, claims: Mapping[str, Iterable[Claim]]) -> list[NodeRegion]:
    """One region for each claim.

    Raises
    ------
    InvalidClaimError
        A claim is empty, names a variable that the function does not bind or a node that no region may
        contain, or spans two scopes.
    UsageError
        The claims are not a mapping.
    """
    require_kind(claims, Mapping, "the argument claims", 'a dict of lists, such as {"dnnl": [var]}')
    return [
        _member(graph, target, claim)
        for target, offered in claims.items()
        for claim in _claims_of(graph, target, offered)
    ]


def _claims_of(graph: DataflowGraph, target: str, offered: Iterable[Claim]) -> list[Claim]:
    if not isinstance(target, str) or not target:
        raise InvalidClaimError(
            f"{graph.name}: the target of claims is a non-empty string, not {target!r}; pass a name"
        )
    if isinstance(offered, relax.Var | Composite):
        raise InvalidClaimError(f"{graph.name}: the claims of target {target!r} are a list, not one claim")
    return list(offered)


def _member(graph: DataflowGraph, target: str, claim: Claim) -> NodeRegion:
    if not isinstance(claim, Composite):
        variables = [claim] if isinstance(claim, relax.Var) else list(claim)
        return NodeRegion(target, _claimed_nodes(graph, target, variables))
    if not claim.name:
        raise InvalidClaimError(
            f"{graph.name}: a composite of target {target!r} has no name; give it one, or claim its nodes "
            "as a tuple"
        )
    nodes = _claimed_nodes(graph, target, claim.nodes)
    return NodeRegion(target, nodes, (ClaimedUnit(nodes, claim.name),))


def _claimed_nodes(graph: DataflowGraph, target: str, variables: Iterable[relax.Var]) -> Nodes:
    where = f"{graph.name}: a claim of target {target!r}"
    nodes = set()
    for var in variables:
        node = graph.number_of(var) if isinstance(var, relax.Var) else None
        if node is None:
            raise InvalidClaimError(
                f"{where} names {var}, which is not a node: no binding of the function defines it, or an "
                "annotation does; name a variable of the function as it is without annotations"
            )
        kind = graph.nodes[node].kind
        if kind is NodeKind.LITERAL:
            raise InvalidClaimError(f"{where} names {var}, a constant: it belongs to its users; leave it out")
        if kind is NodeKind.BOUNDARY:
            raise InvalidClaimError(
                f"{where} names {var}: no region may hold an If, an impure call, a MatchCast or a local "
                "function; leave it out"
            )
        nodes.add(node)
    if not nodes:
        raise InvalidClaimError(f"{where} names no node; leave it out")
    if len({graph.nodes[node].scope for node in nodes}) > 1:
        raise InvalidClaimError(f"{where} names nodes of two blocks; a region stays in one: split the claim")
    return tuple(sorted(nodes))
