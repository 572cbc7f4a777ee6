"""The members of a region set as numbers: what is read or claimed, in canonical order.

A label ``"<name>#<k>"``, `k` being a number, marks a composite of the pattern `name`; one without a
name, ``"#<k>"``, marks a node that its target also claims alone, next to the composites that hold it.
Which regions hold which composites is told by ``annotated_region.regions.normal_form``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm import relax

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.errors import InvalidClaimError
from annotated_region.regions.region import Composite

__all__ = ["Claim", "Members", "Unit", "largest_composites", "members_from_claims"]

Nodes = tuple[int, ...]
Claim: TypeAlias = relax.Var | Sequence[relax.Var] | Composite


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """A composite by number of its nodes; an empty name is the mark "also claimed alone"."""

    nodes: Nodes
    name: str


@dataclass(frozen=True, slots=True)
class Members:
    """One region by numbers: target, nodes in program order, composites inside, label if it has one."""

    target: str
    nodes: Nodes
    units: tuple[Unit, ...] = ()
    label: str = ""

    @property
    def is_composite(self) -> bool:
        """Whether the region is nothing but one composite."""
        return len(self.units) == 1 and self.units[0].nodes == self.nodes and bool(self.units[0].name)

    @property
    def composites(self) -> list[Unit]:
        """The composites inside."""
        return [unit for unit in self.units if unit.name]

    @property
    def alone(self) -> list[int]:
        """The nodes that the target claims without a composite, too or only."""
        covered = {node for unit in self.composites for node in unit.nodes}
        marked = {node for unit in self.units if not unit.name for node in unit.nodes}
        return [node for node in self.nodes if node not in covered or node in marked]

    @property
    def sort_key(self) -> tuple[Nodes, str, tuple[Unit, ...]]:
        """The canonical order: by nodes, then target, then composites."""
        return (self.nodes, self.target, self.units)

    def renumbered(self, numbers: Sequence[int | None]) -> Members:
        """The same region where node `i` has the number ``numbers[i]``."""

        def moved(nodes: Nodes) -> Nodes:
            return tuple(number for node in nodes if (number := numbers[node]) is not None)

        units = tuple(Unit(moved(unit.nodes), unit.name) for unit in self.units)
        return Members(self.target, moved(self.nodes), units, self.label)

    def expanded(self, places: Sequence[Sequence[int]]) -> Members:
        """The same region of a function in which node `i` has become the nodes ``places[i]``."""

        def moved(nodes: Nodes) -> Nodes:
            return tuple(sorted(number for node in nodes for number in places[node]))

        units = tuple(sorted(Unit(moved(unit.nodes), unit.name) for unit in self.units))
        return Members(self.target, moved(self.nodes), units, self.label)

    def joined(self, other: Members) -> Members:
        """Both regions as one; what is claimed alone in one of them stays so."""
        composites = {*self.composites, *other.composites}
        covered = {node for unit in composites for node in unit.nodes}
        marks = {Unit((node,), "") for node in (*self.alone, *other.alone) if node in covered}
        return Members(
            self.target,
            tuple(sorted({*self.nodes, *other.nodes})),
            tuple(sorted(composites | marks)),
            self.label,
        )


def largest_composites(member: Members) -> list[Unit]:
    """The composites of a region, disjoint: of those that share nodes the largest wins, then the first."""
    chosen: list[Unit] = []
    taken: set[int] = set()
    for unit in sorted(member.composites, key=lambda unit: (-len(unit.nodes), unit)):
        if taken.isdisjoint(unit.nodes):
            chosen.append(unit)
            taken.update(unit.nodes)
    return chosen


def members_from_claims(graph: DataflowGraph, claims: Mapping[str, Iterable[Claim]]) -> list[Members]:
    """One region a claim.

    Raises
    ------
    InvalidClaimError
        A claim is empty, names a variable that the function does not bind, something that no region
        may hold, or nodes of two scopes.
    """
    return [
        _member(graph, target, claim)
        for target, offered in claims.items()
        for claim in _claims_of(graph, target, offered)
    ]


def _claims_of(graph: DataflowGraph, target: str, offered: Iterable[Claim]) -> list[Claim]:
    if not isinstance(target, str) or not target:
        raise InvalidClaimError(f"{graph.name}: the target of claims is a non-empty text, not {target!r}")
    if isinstance(offered, relax.Var | Composite):
        raise InvalidClaimError(f"{graph.name}: the claims of target {target!r} are a list, not one claim")
    return list(offered)


def _member(graph: DataflowGraph, target: str, claim: Claim) -> Members:
    if not isinstance(claim, Composite):
        variables = [claim] if isinstance(claim, relax.Var) else list(claim)
        return Members(target, _claimed_nodes(graph, target, variables))
    if not claim.name:
        raise InvalidClaimError(
            f"{graph.name}: a composite of target {target!r} has no name; give it one, or claim its nodes "
            "as a tuple"
        )
    nodes = _claimed_nodes(graph, target, claim.nodes)
    return Members(target, nodes, (Unit(nodes, claim.name),))


def _claimed_nodes(graph: DataflowGraph, target: str, variables: Iterable[relax.Var]) -> Nodes:
    where = f"{graph.name}: a claim of target {target!r}"
    nodes = set()
    for var in variables:
        node = graph.number_of(var) if isinstance(var, relax.Var) else None
        if node is None:
            raise InvalidClaimError(
                f"{where} names {var}, which is no node: no binding of the function defines it, or an "
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
