"""Checks regions against the limits and predicates of backends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.dataflow.leaves import Leaf, readers_of_leaves
from annotated_region.errors import RuleError
from annotated_region.grouping import ColourLimits
from annotated_region.ids import NodeId
from annotated_region.policies.constants import constants_of_nodes
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion, largest_composites
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.targets.backend import Backend, backend_of
from annotated_region.targets.extents import size_of

__all__ = ["RegionLimits", "RegionSize", "joining_limits", "readers_of_values"]


def readers_of_values(graph: DataflowGraph) -> dict[Leaf, list[NodeId]]:
    """The nodes that compute with each single value (or RESULT)."""

    def computes(consumer: NodeId) -> bool:
        return consumer < 0 or graph.nodes[consumer].kind is not NodeKind.STRUCTURE

    return readers_of_leaves(graph, computes)


class RegionSize(NamedTuple):
    """The size of a region: its ops, and the bytes of its constants and of its intermediate tensors."""

    ops: int
    constant_bytes: int
    workspace_bytes: int


@dataclass(frozen=True, slots=True)
class _MadeValue:
    """A value that a node produces: its readers and its size in bytes."""

    readers: frozenset[NodeId]
    size: int


class RegionLimits:
    """Evaluates limits and predicates of backends on regions of a function.

    Parameters
    ----------
    regions
        The function, and the regions with the composites that tested regions may contain.
    """

    def __init__(self, regions: AnnotatedRegionSet) -> None:
        self._regions = regions
        self._graph = regions.dataflow

    def refusal(self, member: NodeRegion) -> str | None:
        """Why the target of a region rejects it; None if it accepts it.

        Raises
        ------
        RuleError
            The predicate of the backend raised.
        """
        backend = backend_of(member.target)
        return self._too_large(backend, member) or self.declined(member)

    def with_composites(self, target: str, nodes: Iterable[NodeId]) -> NodeRegion:
        """A region of some nodes, with the composites of its target inside it."""
        inside = set(nodes)
        known = self._composites.get(target, {})
        units = [unit for node in inside for unit in known.get(node, ()) if inside.issuperset(unit.nodes)]
        return NodeRegion(target, tuple(sorted(inside)), tuple(sorted(units)))

    def size(self, member: NodeRegion) -> RegionSize:
        """The size of a region. O(its edges)."""
        inside = frozenset(member.nodes)
        ops = [node for node in member.nodes if self._graph.nodes[node].kind is NodeKind.OPERATION]
        constants = dict(constant for node in ops for constant in self._constants.get(node, ()))
        workspace = sum(value.size for value in self._unit_outputs(member) if value.readers <= inside)
        return RegionSize(len(ops), sum(constants.values()), workspace)

    def memory(self, member: NodeRegion) -> int:
        """The memory that a region takes of its target's budget: constants, and what units produce for
        others.
        """
        return self.size(member).constant_bytes + sum(value.size for value in self._unit_outputs(member))

    def _unit_outputs(self, member: NodeRegion) -> Iterator[_MadeValue]:
        """The values that units of a region produce and nodes outside the unit read."""
        unit_of = {node: unit for unit in largest_composites(member) for node in unit.nodes}
        for node in member.nodes:
            own = unit_of[node].nodes if node in unit_of else (node,)
            yield from (value for value in self._made.get(node, ()) if not value.readers.issubset(own))

    def _too_large(self, backend: Backend, member: NodeRegion) -> str | None:
        limits = (backend.max_ops, backend.max_constant_bytes, backend.max_workspace_bytes)
        if limits == (None, None, None):
            return None
        words = ("ops", "bytes of constants", "bytes of intermediate tensors")
        for amount, limit, what in zip(self.size(member), limits, words, strict=True):
            if limit is not None and amount > limit:
                return f"{amount} {what}, and a region of {backend.name!r} may have {limit}"
        return None

    def declined(self, member: NodeRegion) -> str | None:
        """Why the predicate of a backend rejects a region; None if it accepts it.

        Raises
        ------
        RuleError
            The predicate of the backend raised.
        """
        backend = backend_of(member.target)
        if backend.accepts_region is None:
            return None
        try:
            answer = backend.accepts_region(self._regions.region_value(member))
        except Exception as error:
            raise RuleError(
                f"accepts_region of backend {backend.name!r} failed in {self._graph.name}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if answer is True:
            return None
        return answer if isinstance(answer, str) and answer else "refused"

    @cached_property
    def _composites(self) -> Mapping[str, Mapping[NodeId, Sequence[ClaimedUnit]]]:
        """Composites by target and first node."""
        found: dict[str, dict[NodeId, list[ClaimedUnit]]] = {}
        for member in self._regions.node_regions.values():
            known = found.setdefault(member.target, {})
            for unit in member.composites:
                units = known.setdefault(unit.nodes[0], [])
                if unit not in units:
                    units.append(unit)
        return found

    @cached_property
    def _constants(self) -> Mapping[NodeId, Sequence[tuple[int, int]]]:
        """The constants that each node reads, as pairs of number and bytes."""
        found: dict[NodeId, list[tuple[int, int]]] = {}
        for number, constant in enumerate(constants_of_nodes(self._graph)):
            for node in constant.readers:
                found.setdefault(node, []).append((number, constant.size))
        return found

    @cached_property
    def _made(self) -> Mapping[NodeId, Sequence[_MadeValue]]:
        """The values that each node produces."""
        found: dict[NodeId, list[_MadeValue]] = {}
        for leaf, readers in readers_of_values(self._graph).items():
            producer = self._graph.number_of(leaf.root)
            if producer is not None:
                found.setdefault(producer, []).append(_MadeValue(frozenset(readers), size_of(leaf.ty)))
        return found


def joining_limits(
    asked: RegionLimits,
    target: str,
    *,
    siblings: bool | None = None,
    max_nodes: int | None = None,
    max_regions: int | None = None,
    keeps_limits: bool = True,
) -> ColourLimits:
    """The limits on joining regions of a target: the given ones, and those of its backend.

    Raises
    ------
    UnknownTargetError
        The target is not registered.
    """
    backend = backend_of(target)
    connected = backend.regions != "any" if siblings is None else not siblings
    most = 1 if backend.regions == "one composite" else max_nodes
    limited = (backend.max_ops, backend.max_constant_bytes, backend.max_workspace_bytes) != (None, None, None)
    if not keeps_limits or (backend.accepts_region is None and not limited):
        return ColourLimits(connected, most, max_regions)

    def accept(nodes: list[int]) -> bool | str:
        return asked.refusal(asked.with_composites(target, map(NodeId, nodes))) or True

    return ColourLimits(connected, most, max_regions, accept)
