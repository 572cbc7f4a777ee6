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
from collections.abc import Iterable, Mapping, Sequence

from tvm import relax

from annotated_region.costs.model import HOST, CostModel, CostUnit
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.passes.module_pass import module_pass
from annotated_region.passes.region_pass import RegionPass
from annotated_region.policies.pins import Pins
from annotated_region.policies.policy import Policy, Resolution
from annotated_region.regions.claims import without
from annotated_region.regions.members import Members
from annotated_region.regions.networks import op_name_of
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.reports.record import FunctionRecord, is_recording, note
from annotated_region.targets.backend import backend_of, unavailability

__all__ = ["ResolveConflicts"]


@module_pass
class ResolveConflicts(RegionPass):
    """Settle the conflicts between the targets of an annotated module.

    Regions whose work is below their target's minimum dissolve: their nodes are offered to the other
    targets again, and go to the host only if none takes them. A function that one target takes whole
    is exempt.

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
        given. An op's work is 1, that of a convolution or a product 10.

    Raises
    ------
    MalformedAnnotationError
        The annotations do not describe regions.
    RegionCycleError
        Regions that were handed in whole need each other's results.
    PinError
        A pin names nothing, or asks for a target that declines the op.
    UnknownTargetError
        A region is annotated for a target that nobody registered.
    """

    def __init__(
        self,
        policy: Policy,
        cross_compile: bool = False,
        *,
        pins: Mapping[str, str] | None = None,
        bans: Mapping[str, Sequence[str]] | None = None,
        min_work: Mapping[str, float] | None = None,
    ) -> None:
        self.policy = policy
        self.cross_compile = cross_compile
        self.pins = Pins(pins or {}, bans or {})
        self.min_work = dict(min_work or {})

    def transform_regions(self, regions: AnnotatedRegionSet) -> AnnotatedRegionSet:
        """Settle the conflicts in one function."""
        if not len(regions):
            return regions
        # Policies look at operands, so they want the function as it is without annotations.
        regions = regions.plain()
        offered, pinned = self.pins.apply(regions.dataflow, self._runnable(regions))
        resolution = self._resolve_above_minimum(regions.replaced_by(offered), pinned)
        resolved = regions.replaced_by(resolution.regions)
        resolved.require_disjoint()
        resolved.verify()
        record = note(regions.dataflow.name)
        record.regions = resolved
        record.resolution = dict(resolution.details)
        if is_recording() and hasattr(self.policy, "model"):
            record.costs = _costs(regions.dataflow, record, self.policy.model)
        return resolved

    def _runnable(self, regions: AnnotatedRegionSet) -> list[Members]:
        """The regions of the targets that can win."""
        unavailable = {
            target: reason for target in regions.targets if (reason := unavailability(backend_of(target)))
        }
        note(regions.dataflow.name).unavailable.update(unavailable)
        if self.cross_compile:
            return list(regions.members.values())
        return [member for member in regions.members.values() if member.target not in unavailable]

    def _resolve_above_minimum(self, offered: AnnotatedRegionSet, pinned: set[int]) -> Resolution:
        """Resolve, take back the claims behind regions with too little work, and resolve what is left.

        Every round takes claims back, so this ends.
        """
        kinds = [node.kind for node in offered.dataflow.nodes]
        whole = kinds.count(NodeKind.OPERATION)
        while True:
            resolution = self.policy.resolve(offered, pinned)
            small = [
                region
                for region in resolution.regions
                if pinned.isdisjoint(region.nodes) and self._is_small(offered.dataflow, region, whole)
            ]
            if not small:
                return resolution
            offered = offered.replaced_by(_taken_back(offered.members.values(), small))
            for region in small:
                names = tuple(offered.dataflow.nodes[node].var.name for node in region.nodes)
                reason = f"less work than the minimum of {self._minimum(region.target):g}"
                note(offered.dataflow.name).dissolved.append((region.target, names, reason))

    def _minimum(self, target: str) -> float:
        return self.min_work.get(target, backend_of(target).min_work)

    def _is_small(self, graph: DataflowGraph, region: Members, whole: int) -> bool:
        """Whether a region has too little work; not if it holds all `whole` operations of the function."""
        minimum = self._minimum(region.target)
        if minimum <= 0:
            return False
        held = [node for node in region.nodes if graph.nodes[node].kind is NodeKind.OPERATION]
        return len(held) < whole and sum(_work(graph, node) for node in held) < minimum


def _costs(
    graph: DataflowGraph, record: FunctionRecord, model: CostModel
) -> dict[relax.Var, dict[str, float]]:
    """What each claimed op costs by itself, on the host and on the targets that claim it alone."""
    costs: dict[relax.Var, dict[str, float]] = {}
    for number, node in enumerate(graph.nodes):
        claims = record.claims.get(node.var, {})
        if claims:
            alone = [target for target, by in claims.items() if op_name_of(node.value) in by]
            unit = CostUnit.of(graph, (number,))
            asked = {target: model.compute(target, unit) for target in (HOST, *alone)}
            costs[node.var] = {target: cost for target, cost in asked.items() if math.isfinite(cost)}
    return costs


_HEAVY = ("conv", "matmul", "attention")


def _work(graph: DataflowGraph, node: int) -> float:
    name = op_name_of(graph.nodes[node].value)
    return 10.0 if any(word in name for word in _HEAVY) else 1.0


def _taken_back(offered: Iterable[Members], small: Sequence[Members]) -> list[Members]:
    """The offers without those nodes of each small region that its target claimed."""
    lost: dict[str, set[int]] = {}
    for region in small:
        lost.setdefault(region.target, set()).update(region.nodes)
    kept = (without(member, lost.get(member.target, set())) for member in offered)
    return [member for member in kept if member is not None]
