"""ResolveConflicts: assigns every node that several regions hold to one target, or to the host.

It runs after MergeCompilerRegions, whose regions overlap wherever two targets claim the same nodes:

    x -> conv -> relu -> topk -> add             tensorrt: {conv, relu} {add}
         [-- dnnl ---]                           dnnl:     {conv, relu} {add}
         [-- tensorrt ]          [both]          after Priority(["dnnl", "tensorrt"]): all to dnnl

Postconditions: regions are disjoint, the quotient graph of all regions is acyclic, and no composite is
split. The choice is made by the policy: `Priority` or `LeastCost`.
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
from annotated_region.errors import PinError, UsageError
from annotated_region.ids import NodeId
from annotated_region.locking.held import LockedNodes
from annotated_region.locking.lock import Lock
from annotated_region.locking.replay import Replay, require_same_model
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
from annotated_region.policies.answers import require_acyclic, resolution_of
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
    """Resolve the conflicts between the targets of an annotated module.

    Regions whose work is below the minimum of their target are dissolved: their nodes are offered to the
    other targets again, and fall back to the host only if none takes them. A region that holds every op of
    its function is exempt. The limits of a backend (`Backend.max_ops` and the like) and its
    `Backend.accepts_region` are enforced after the policy: regions that violate them are cut into the largest
    parts that the target accepts, and the rest is offered to the other targets.

    Parameters
    ----------
    policy
        `Priority`, `LeastCost`, or any object with their method ``resolve``.
    cross_compile
        Whether regions may be assigned to targets that cannot run on this machine. By default they are
        not, because the result could not run; the report shows what these targets would take.
    pins, bans
        The targets that ops must or must not use, by binding name or op name (see `Pins`).
    min_work
        By target, the minimum work of a region; the default is `Backend.min_work`. The work of an op is 1,
        that of a convolution, matrix product or attention 10, unless the backend measures it
        (`Backend.work`).
    lock
        Ops that the lock covers keep their placement; see `annotated_region.locking.replay`. Pins, bans and
        unavailable targets take precedence over it.

    Raises
    ------
    DocumentError
        The lock was written for another model.
    UsageError
        An argument has the wrong type, or a minimum is negative.
    MalformedAnnotationError
        The annotations do not describe regions.
    RegionCycleError
        Regions of the input module depend on each other's results.
    PinError
        A pin or a ban matches nothing or is ambiguous, or a pin names a target that declines the op.
    PolicyError
        The policy does not return a valid resolution, or a cost is negative or not a number.
    UnknownTargetError
        A region is annotated for a target that is not registered.
    """

    policy: Policy
    cross_compile: bool = False
    pins: Mapping[str, str] | None = field(default=None, kw_only=True)
    bans: Mapping[str, str | Sequence[str]] | None = field(default=None, kw_only=True)
    min_work: Mapping[str, float] | None = field(default=None, kw_only=True)
    lock: Lock | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Validate the minimum work.

        Raises
        ------
        UsageError
            It is negative, or not a number.
        """
        for target, least in (self.min_work or {}).items():
            if not least >= 0:
                raise UsageError(f"the least work for {target!r} is {least}; give a number of 0 or more")

    def require_applicable(self, regions: Iterable[AnnotatedRegionSet]) -> None:
        """Check that pins and bans match ops of the module, and that the lock belongs to this model."""
        graphs = [each.dataflow for each in regions]
        if self.pins or self.bans:
            self._constraints.require_known(graphs)
        if self.lock is not None:
            require_same_model(self.lock, graphs)

    @property
    def _constraints(self) -> Pins:
        return Pins(self.pins or {}, self.bans or {})

    def transform_regions(self, regions: AnnotatedRegionSet, _mod: tvm.IRModule) -> RegionsAndNotes:
        """Resolve the conflicts in one function."""
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
        require_acyclic(self.policy, resolved)
        prices = _prices(regions, self.policy.model) if hasattr(self.policy, "model") else ()
        noted: list[Note] = [*unavailable, *allowed.notes, *dissolved, PolicyNote(dict(resolution.details))]
        return RegionsAndNotes(resolved, chain(noted, prices))

    def _resolve_above_minimum(
        self, asked: RegionLimits, offered: AnnotatedRegionSet, pinned: AbstractSet[NodeId]
    ) -> tuple[Resolution, list[DissolveNote]]:
        """Iterate: resolve, withdraw claims that their target refuses or that are too small, resolve again.

        Each iteration withdraws at least one claim, so the loop terminates.
        """
        graph = offered.dataflow
        whole = [node.kind for node in graph.nodes].count(NodeKind.OPERATION)
        dissolved: list[DissolveNote] = []
        policy = self._policy_for(graph)
        while True:
            answer = resolution_of(policy, offered, pinned)
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
        """The policy, wrapped in a replay of the lock if the lock covers this function."""
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
        """Whether a region has too little work; False if it holds all `whole` operations of the function."""
        minimum = self._minimum(region.target)
        if minimum <= 0:
            return False
        held = [node for node in region.nodes if graph.nodes[node].kind is NodeKind.OPERATION]
        measure = backend_of(region.target).work
        return len(held) < whole and sum(_work(graph, node, measure) for node in held) < minimum


def _require_pins(offered: AnnotatedRegionSet, kept: KeptRegions, pinned: AbstractSet[NodeId]) -> None:
    """Check that every pinned node is still in a region of its target.

    Raises
    ------
    PinError
        A pinned node was withdrawn, and its target does not claim it as a single op either.
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
            why = each.note.answer or f"its limit of {each.note.limit:g} regions is reached"
            raise PinError(
                f"{graph.name}: {graph.nodes[lost[0]].var.name!r} is pinned to {target!r}, which does not "
                f"accept it: {why}; remove the pin or raise the limit"
            )


def _unavailable(regions: AnnotatedRegionSet) -> Iterator[UnavailableNote]:
    """The targets with regions that cannot run on this machine."""
    for target in regions.targets:
        why = unavailability(backend_of(target))
        if why:
            yield UnavailableNote(target, why)


def _prices(regions: AnnotatedRegionSet, model: CostModel) -> Iterator[PriceNote]:
    """The cost of each op in a region, on the host and on the targets that claim it as a single op."""
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
    """The work of an op: measured by its backend, or the default of 10 for heavy ops and 1 for others."""
    value = graph.nodes[node].value
    view = None if measure is None else OpView.of(value)
    if measure is not None and view is not None:
        return measure(view)
    name = op_name_of(value)
    return 10.0 if any(word in name for word in _HEAVY) else 1.0
