"""ResolveConflicts: gives every node that several regions hold to one target, or to the host.

It runs after MergeCompilerRegions, whose regions overlap wherever two targets claim the same nodes:

    x -> conv -> relu -> topk -> add             tensorrt: {conv, relu} {add}
         [-- dnnl ---]                           dnnl:     {conv, relu} {add}
         [-- tensorrt ]          [both]          after Priority(["dnnl", "tensorrt"]): all to dnnl

Afterwards regions are disjoint, the quotient graph of all of them together is acyclic, and composites
are whole. What decides is the policy: `Priority` or `LeastCost`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain

import tvm

from annotated_region.checked import checked_class
from annotated_region.cost_units import CostUnit
from annotated_region.costs.model import HOST, CostModel
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.errors import PinError
from annotated_region.ids import NodeId
from annotated_region.locking.lock import Lock
from annotated_region.locking.replay import LockedNodes, Replay, require_same_model
from annotated_region.notes import (
    DissolveNote,
    DissolveReason,
    Note,
    PolicyNote,
    PriceNote,
    UnavailableNote,
)
from annotated_region.passes.merge_compiler_regions import merged_regions
from annotated_region.passes.module_pass import module_pass
from annotated_region.passes.region_pass import RegionPass, RegionsAndNotes
from annotated_region.policies.keeping_limits import (
    GivenBack,
    KeptRegions,
    within_backend_limits,
    without_given_back,
)
from annotated_region.policies.pins import Pins
from annotated_region.policies.policy import Policy, Resolution
from annotated_region.policies.region_forms import in_accepted_form
from annotated_region.policies.region_limits import RegionLimits
from annotated_region.regions.node_region import NodeRegion
from annotated_region.regions.op_names import op_name_of
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.targets.backend import backend_of, unavailability
from annotated_region.targets.op_view import OpView

__all__ = ["ResolveConflicts"]


@module_pass
@checked_class
@dataclass(frozen=True)
class ResolveConflicts(RegionPass):
    """Settle the conflicts between the targets of an annotated module.

    Regions whose work is below their target's minimum dissolve: their nodes are offered to the other
    targets again, and go to the host only if none takes them. A function that one target takes whole
    is exempt. What a backend limits (`Backend.max_ops` and the like) or does not accept
    (`Backend.accepts_region`) is kept whatever the policy answers: its regions are cut into the largest parts
    that the target takes, and only what it does not take goes to others.

    Parameters
    ----------
    policy
        `Priority`, `LeastCost`, or any object with their method ``resolve``.
    cross_compile
        Whether targets that cannot run on this machine may win. By default they do not, because the
        result could not run; the report shows what they would take.
    pins, bans
        Where ops have to go or must not go, by the name of a binding or of an op (see `Pins`).
    min_work
        By target, the least work of a region; what a backend says (`Backend.min_work`) where it is not
        given. An op's work is 1, that of a convolution or a product 10, unless the backend measures it
        (`Backend.work`).
    lock
        What of the module was in it when the lock was written stays where it was; see
        `annotated_region.locking.replay`. Pins, bans and targets that cannot run here go before it.

    Raises
    ------
    DocumentError
        The lock is one of another model.
    UsageError
        The policy is none, or pins, bans or least works are no dicts or hold something else.
    MalformedAnnotationError
        The annotations do not describe regions.
    RegionCycleError
        Regions that were handed in whole need each other's results.
    PinError
        A pin or a ban names nothing or several bindings, or a pin asks for a target that declines the op.
    UnknownTargetError
        A region is annotated for a target that is not registered.
    """

    policy: Policy
    cross_compile: bool = False
    pins: Mapping[str, str] | None = field(default=None, kw_only=True)
    bans: Mapping[str, str | Sequence[str]] | None = field(default=None, kw_only=True)
    min_work: Mapping[str, float] | None = field(default=None, kw_only=True)
    lock: Lock | None = field(default=None, kw_only=True)

    def require_applicable(self, regions: Iterable[AnnotatedRegionSet]) -> None:
        """Check that pins and bans stand for something in the module, and that the lock is one of it."""
        graphs = [each.dataflow for each in regions]
        if self.pins or self.bans:
            self._constraints.require_known(graphs)
        if self.lock is not None:
            require_same_model(self.lock, graphs)

    @property
    def _constraints(self) -> Pins:
        return Pins(self.pins or {}, self.bans or {})

    def transform_regions(self, regions: AnnotatedRegionSet, _mod: tvm.IRModule) -> RegionsAndNotes:
        """Settle the conflicts in one function."""
        unavailable = list(_unavailable(regions))
        absent = {} if self.cross_compile else {note.target: note.why for note in unavailable}
        runnable = [member for member in regions.node_regions.values() if member.target not in absent]
        allowed = self._constraints.apply(regions.dataflow, runnable, absent)
        if not len(regions):
            return RegionsAndNotes(regions)
        asked = RegionLimits(regions)
        offered = regions.replaced_by(allowed.regions)
        resolution, dissolved = self._resolve_above_minimum(asked, offered, allowed.pinned)
        resolved = regions.replaced_by(resolution.regions)
        resolved.require_disjoint()
        resolved.verify()
        prices = _prices(regions, self.policy.model) if hasattr(self.policy, "model") else ()
        noted: list[Note] = [*unavailable, *allowed.notes, *dissolved, PolicyNote(dict(resolution.details))]
        return RegionsAndNotes(resolved, chain(noted, prices))

    def _resolve_above_minimum(
        self, asked: RegionLimits, offered: AnnotatedRegionSet, pinned: AbstractSet[NodeId]
    ) -> tuple[Resolution, list[DissolveNote]]:
        """Resolve, take back what a target refuses or has too little work in, and resolve what is left.

        Every round takes claims back, so this ends.
        """
        graph = offered.dataflow
        whole = [node.kind for node in graph.nodes].count(NodeKind.OPERATION)
        dissolved: list[DissolveNote] = []
        policy = self._policy_for(graph)
        while True:
            answer = policy.resolve(offered, pinned)
            formed = list(in_accepted_form(graph, answer.regions))
            kept = within_backend_limits(graph, asked, formed, pinned)
            _require_pins(offered, kept, pinned)
            resolution = replace(answer, regions=kept.regions)
            small = [
                GivenBack(region, self._dissolved(graph, region))
                for region in resolution.regions
                if pinned.isdisjoint(region.nodes) and self._is_small(graph, region, whole)
            ]
            back = [*kept.given_back, *small]
            if not back:
                return resolution, dissolved
            offered = offered.replaced_by(without_given_back(offered.node_regions.values(), back))
            dissolved += [each.note for each in back]

    def _policy_for(self, graph: DataflowGraph) -> Policy:
        """The policy, behind what the lock says of a function."""
        locked = None if self.lock is None else self.lock.function(graph.name)
        if locked is None:
            return self.policy
        return Replay(self.policy, LockedNodes.of(graph, locked), locked, merged_regions)

    def _dissolved(self, graph: DataflowGraph, region: NodeRegion) -> DissolveNote:
        nodes = tuple(graph.nodes[node].var for node in region.nodes)
        return DissolveNote(region.target, nodes, DissolveReason.LITTLE_WORK, self._minimum(region.target))

    def _minimum(self, target: str) -> float:
        return (self.min_work or {}).get(target, backend_of(target).min_work)

    def _is_small(self, graph: DataflowGraph, region: NodeRegion, whole: int) -> bool:
        """Whether a region has too little work; not if it holds all `whole` operations of the function."""
        minimum = self._minimum(region.target)
        if minimum <= 0:
            return False
        held = [node for node in region.nodes if graph.nodes[node].kind is NodeKind.OPERATION]
        measure = backend_of(region.target).work
        return len(held) < whole and sum(_work(graph, node, measure) for node in held) < minimum


def _require_pins(offered: AnnotatedRegionSet, kept: KeptRegions, pinned: AbstractSet[NodeId]) -> None:
    """Refuse pins to a target that does not take them.

    Raises
    ------
    PinError
        A pinned node was given back; not if its target may have it alone.
    """
    graph = offered.dataflow
    for each in kept.given_back:
        target = each.member.target
        lost = [node for node in each.member.nodes if node in pinned]
        if lost and each.is_composite:
            offers = (member for member in offered.node_regions.values() if member.target == target)
            alone = {node for member in offers for node in member.alone}
            lost = [node for node in lost if node not in alone]
        if lost:
            why = each.note.answer or f"it may have {each.note.limit:g} regions, and they are taken"
            raise PinError(
                f"{graph.name}: {graph.nodes[lost[0]].var.name!r} is pinned to {target!r}, which does not "
                f"take it: {why}; take the pin away or raise the limit"
            )


def _unavailable(regions: AnnotatedRegionSet) -> Iterator[UnavailableNote]:
    """The targets with regions that cannot run on this machine."""
    for target in regions.targets:
        why = unavailability(backend_of(target))
        if why:
            yield UnavailableNote(target, why)


def _prices(regions: AnnotatedRegionSet, model: CostModel) -> Iterator[PriceNote]:
    """What each op in a region costs by itself, on the host and on the targets that claim it alone."""
    graph = regions.dataflow
    claimants: dict[NodeId, dict[str, None]] = {}
    for member in regions.node_regions.values():
        alone = set(member.alone)
        for node in member.nodes:
            targets = claimants.setdefault(node, {})
            if node in alone:
                targets[member.target] = None
    for node, targets in sorted(claimants.items()):
        if graph.nodes[node].kind is NodeKind.OPERATION:
            unit = CostUnit.of(graph, (node,))
            asked = {place: model.compute(place, unit) for place in (HOST, *targets)}
            seconds = {place: cost for place, cost in asked.items() if math.isfinite(cost)}
            yield PriceNote(graph.nodes[node].var, seconds)


_HEAVY = ("conv", "matmul", "attention")


def _work(graph: DataflowGraph, node: NodeId, measure: Callable[[OpView], float] | None) -> float:
    """The work of an op, as its target measures it, if it does."""
    value = graph.nodes[node].value
    view = None if measure is None else OpView.of(value)
    if measure is not None and view is not None:
        return measure(view)
    name = op_name_of(value)
    return 10.0 if any(word in name for word in _HEAVY) else 1.0
