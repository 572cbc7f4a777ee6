"""ResolveConflicts: gives every node that several regions hold to one target, or to the host.

It runs after MergeCompilerRegions, whose regions overlap wherever two targets claim the same nodes:

    x -> conv -> relu -> topk -> add             tensorrt: {conv, relu} {add}
         [-- dnnl ---]                           dnnl:     {conv, relu} {add}
         [-- tensorrt ]          [both]          after Priority(["dnnl", "tensorrt"]): all to dnnl

Afterwards regions are disjoint, the quotient graph of all of them together is acyclic, and composites
are whole. What decides is the policy: `Priority` or `LeastCost`.
"""

from __future__ import annotations

import tvm
from tvm import relax

from annotated_region.backend import backend_of
from annotated_region.members import Members
from annotated_region.modules import replace_functions
from annotated_region.policies import Policy
from annotated_region.record import note
from annotated_region.region_set import AnnotatedRegionSet

__all__ = ["ResolveConflicts"]


@tvm.ir.transform.module_pass(opt_level=0, name="ResolveConflicts")
class ResolveConflicts:
    """Settle the conflicts between the targets of an annotated module.

    Parameters
    ----------
    policy
        `Priority`, `LeastCost`, or any object with their method ``resolve``.
    cross_compile
        Whether targets that cannot run on this machine may win. By default they do not, because the
        result could not run; the report shows what they would take.

    Raises
    ------
    MalformedAnnotationError
        The annotations do not describe regions.
    RegionCycleError
        Regions that were handed in whole need each other's results.
    UnknownTargetError
        A region is annotated for a target that nobody registered.
    """

    def __init__(self, policy: Policy, cross_compile: bool = False) -> None:
        self.policy = policy
        self.cross_compile = cross_compile

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        return replace_functions(mod, self._resolve)

    def _resolve(self, name: str, func: relax.Function) -> relax.Function:
        regions = AnnotatedRegionSet(func, name)
        if not len(regions):
            return func
        runnable = self._runnable(regions)
        resolution = self.policy.resolve(regions.replaced_by(runnable))
        resolved = regions.replaced_by(resolution.regions)
        resolved.require_disjoint()
        resolved.verify()
        record = note(name)
        record.regions = resolved
        record.resolution = dict(resolution.details)
        return resolved.annotate()

    def _runnable(self, regions: AnnotatedRegionSet) -> list[Members]:
        """The regions of the targets that can win."""
        unavailable = {
            target: reason for target in regions.targets if (reason := backend_of(target).unavailable())
        }
        note(regions.dataflow.name).unavailable.update(unavailable)
        if self.cross_compile:
            return list(regions.members.values())
        return [member for member in regions.members.values() if member.target not in unavailable]
