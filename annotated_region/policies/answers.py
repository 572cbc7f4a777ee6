"""Asks a policy, which may be a user's, and checks its answer against the claims.

What a policy raises is left as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from annotated_region.arguments import brief_repr
from annotated_region.errors import PolicyError, RegionCycleError
from annotated_region.ids import NodeId
from annotated_region.policies.policy import Policy, Resolution
from annotated_region.regions.node_region import NodeRegion
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["require_acyclic", "resolution_of"]


def resolution_of(policy: Policy, offered: AnnotatedRegionSet, pinned: Collection[NodeId]) -> Resolution:
    """The answer of a policy. Linear in the nodes of the regions, beside the policy itself.

    Cycles are left to `require_acyclic`, because regions may still be cut to the limits of their targets.

    Raises
    ------
    PolicyError
        The answer is not a `Resolution` of disjoint regions, made of what their targets claim, with all
        pinned nodes.
    """
    answer = policy.resolve(offered, pinned)
    objection = (
        _objection(answer, offered, pinned)
        if isinstance(answer, Resolution)
        else f"answered {brief_repr(answer)}; return an annotated_region.Resolution"
    )
    if objection:
        raise PolicyError(f"{offered.dataflow.name}: the policy {type(policy).__name__} {objection}")
    return answer


def require_acyclic(policy: Policy, resolved: AnnotatedRegionSet) -> None:
    """Check that the regions of a policy do not need each other's results.

    Raises
    ------
    PolicyError
        They do.
    """
    try:
        resolved.verify()
    except RegionCycleError as error:
        raise PolicyError(f"the policy {type(policy).__name__} made a cycle: {error}") from error


def _objection(answer: Resolution, offered: AnnotatedRegionSet, pinned: Collection[NodeId]) -> str | None:
    """What is wrong with the regions of a resolution, as a predicate; None if nothing is."""
    nodes = offered.dataflow.nodes
    claimed: dict[str, dict[NodeId, None]] = {}
    for member in offered.node_regions.values():
        claimed.setdefault(member.target, {}).update(dict.fromkeys(member.nodes))
    holder: dict[NodeId, NodeRegion] = {}
    for region in answer.regions:
        if not region.nodes:
            return f"answered a region of {region.target!r} without ops; leave it out"
        for node in region.nodes:
            if node not in claimed.get(region.target, ()):
                name = repr(nodes[node].var.name) if node in range(len(nodes)) else f"node {node}"
                return f"gives {name} to {region.target!r}, which does not claim it; choose among the claims"
            if node in holder:
                both = f"{holder[node].target!r} and {region.target!r}"
                return f"answered two regions with {nodes[node].var.name!r}, of {both}; keep one of them"
            holder[node] = region
    return _lost(answer, holder, pinned, offered)


def _lost(
    answer: Resolution,
    holder: Mapping[NodeId, NodeRegion],
    pinned: Collection[NodeId],
    offered: AnnotatedRegionSet,
) -> str | None:
    """A pinned node without a region, or a composite that is not in its region as a whole, as a predicate."""
    nodes = offered.dataflow.nodes
    left_out = next((node for node in sorted(pinned) if node not in holder), None)
    if left_out is not None:
        return f"leaves {nodes[left_out].var.name!r} on the host, which is pinned; give it to its target"
    for region in answer.regions:
        for unit in region.units:
            if unit.is_composite and any(holder.get(node) is not region for node in unit.nodes):
                return f"splits the composite {unit.name!r} of {region.target!r}; keep all of its ops or none"
    return None
