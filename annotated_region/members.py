"""The members of a region set as numbers: what is read or claimed, in canonical order.

A label ``"<name>#<k>"`` marks a composite of the pattern `name`; one without a name, ``"#<k>"``,
marks a node that its target also claims alone, next to the composites that hold it. A composite that
lies inside a plain region of its target belongs to that region; otherwise it is a region itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import relax

from annotated_region.annotations import Key
from annotated_region.dataflow import DataflowGraph, NodeKind
from annotated_region.errors import InvalidClaimError
from annotated_region.region import Composite

__all__ = ["Claim", "Members", "Unit", "members_from_claims", "members_from_reading"]

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
        """Whether the region is nothing but one composite, or one node that is also claimed alone."""
        return len(self.units) == 1 and self.units[0].nodes == self.nodes

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

    def joined(self, other: Members) -> Members:
        """Both regions as one."""
        return Members(
            self.target,
            tuple(sorted({*self.nodes, *other.nodes})),
            tuple(sorted({*self.units, *other.units})),
            self.label,
        )


def members_from_reading(found: Iterable[tuple[Key, Nodes]]) -> list[Members]:
    """The regions that reading found, composites put into the regions that hold them."""
    members = []
    for key, nodes in found:
        name, mark, _count = key.label.rpartition("#")
        units = (Unit(nodes, name),) if mark else ()
        members.append(Members(key.target, nodes, units, "" if mark else key.label))
    return list(absorb_composites(dict(enumerate(members))).values())


def absorb_composites(members: Mapping[int, Members]) -> dict[int, Members]:
    """Put each composite that stands alone into the plain regions of its target that hold all its nodes.

    O(nodes of all regions, times the number of regions of one target that share a node).
    """
    composites = {index: member for index, member in members.items() if member.is_composite}
    if not composites:
        return dict(members)
    holders = _holders((index, member) for index, member in members.items() if index not in composites)
    units: dict[int, list[Unit]] = {}
    absorbed = set()
    for index, member in composites.items():
        for holder in _holding(holders, member):
            units.setdefault(holder, []).append(member.units[0])
            absorbed.add(index)
    return {
        index: replace(member, units=tuple(sorted({*member.units, *units.get(index, ())})))
        for index, member in members.items()
        if index not in absorbed
    }


def _holders(regions: Iterable[tuple[int, Members]]) -> dict[tuple[str, int], list[int]]:
    holders: dict[tuple[str, int], list[int]] = {}
    for index, member in regions:
        for node in member.nodes:
            holders.setdefault((member.target, node), []).append(index)
    return holders


def _holding(holders: Mapping[tuple[str, int], list[int]], member: Members) -> list[int]:
    first, *rest = (holders.get((member.target, node), []) for node in member.nodes)
    return [index for index in first if all(index in other for other in rest)]


def members_from_claims(graph: DataflowGraph, claims: Mapping[str, Iterable[Claim]]) -> list[Members]:
    """One region a claim; equal claims are one.

    Raises
    ------
    InvalidClaimError
        A claim is empty, names a variable that the function does not bind, something that no region
        may hold, or nodes of two scopes.
    """
    members = {_member(graph, target, claim): None for target, offered in claims.items() for claim in offered}
    return in_canonical_order(members)


def in_canonical_order(members: Iterable[Members]) -> list[Members]:
    """Sorted, so that ids do not depend on where the regions came from."""
    return sorted(members, key=lambda member: member.sort_key)


def _member(graph: DataflowGraph, target: str, claim: Claim) -> Members:
    if isinstance(claim, Composite):
        nodes = _claimed_nodes(graph, target, claim.nodes)
        return Members(target, nodes, (Unit(nodes, claim.name),))
    variables = [claim] if isinstance(claim, relax.Var) else list(claim)
    return Members(target, _claimed_nodes(graph, target, variables))


def _claimed_nodes(graph: DataflowGraph, target: str, variables: Iterable[relax.Var]) -> Nodes:
    where = f"{graph.name}: a claim of target {target!r}"
    nodes = set()
    for var in variables:
        node = graph.number_of(var)
        if node is None:
            raise InvalidClaimError(f"{where} names {var}, which no binding of the function defines")
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
