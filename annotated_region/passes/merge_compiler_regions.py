"""MergeCompilerRegions: makes the regions of each target as large as validity allows.

It runs after AnnotateTarget, which leaves one region a claim. Two regions of one target may join
unless something outside would have to run both before and after the result:

        relu ----------.                 relu and add may not be one region: tanh needs the one
          '-> tanh --> add               and is needed by the other (tanh is not claimed here)

Joining pairs one by one and looking at each pair alone is how partitioners of this kind have made
cycles: two joins that are each harmless can close a cycle together. Here the whole scope is grouped
at once, and the result is acyclic by construction (see ``annotated_region.grouping``).

Regions of different targets may still overlap afterwards. While they do, each target is grouped on
its own, everything else counting as host; once they are disjoint, all targets are grouped together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import tvm

from annotated_region.checked import checked_class
from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.graphs import Dag
from annotated_region.grouping import Blockers, Grouping
from annotated_region.ids import Colour, numbered
from annotated_region.notes import ApartNote, DissolveNote, DissolveReason, Neighbours, Note
from annotated_region.passes.module_pass import module_pass
from annotated_region.passes.region_pass import RegionPass, RegionsAndNotes
from annotated_region.policies.region_limits import RegionLimits, joining_limits
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.regions.regrouping import Regrouped, regroup

__all__ = ["MergeCompilerRegions", "merged_regions"]


@module_pass
@checked_class
@dataclass(frozen=True)
class MergeCompilerRegions(RegionPass):
    """Join the regions of each target, keeping the quotient graph acyclic.

    Takes an annotated module. Composites are never split; nothing crosses a scope.

    Parameters
    ----------
    siblings
        Whether regions without an edge between them may be joined. By default each backend decides
        (``Backend.regions``); regions of a backend that takes one composite per region are never joined.
    max_nodes
        The maximum number of nodes of a joined region; regions that already exceed it are unchanged.
    max_regions
        The maximum number of regions of one target per scope: the largest are kept, the others go back to
        the host.
    keeps_limits
        Whether joined regions respect the limits and the acceptance check of their backends. `partition`
        first merges without, because the policy enforces the limits and needs to see all claims.

    Raises
    ------
    MalformedAnnotationError
        The annotations do not describe regions.
    RegionCycleError
        The regions already depend on each other's results before anything is joined.
    UnknownTargetError
        A region is annotated for a target that is not registered.

    Notes
    -----
    For one target without limits the number of regions is minimal. Complexity, and the cases where the
    result is only near-minimal, are in ``docs/merging.md``.
    """

    siblings: bool | None = None
    max_nodes: int | None = None
    max_regions: int | None = None
    keeps_limits: bool = field(default=True, kw_only=True, repr=False)

    def transform_regions(self, regions: AnnotatedRegionSet, _mod: tvm.IRModule) -> RegionsAndNotes:
        """Join the regions of one function."""
        if not len(regions):
            return RegionsAndNotes(regions)
        targets = {target: colour for colour, target in numbered(Colour, regions.targets)}
        asked = RegionLimits(regions)
        limits = {
            colour: joining_limits(
                asked,
                target,
                siblings=self.siblings,
                max_nodes=self.max_nodes,
                max_regions=self.max_regions,
                keeps_limits=self.keeps_limits,
            )
            for target, colour in targets.items()
        }
        members = list(regions.node_regions.values())
        families = (
            [members]
            if regions.is_disjoint()
            else [[member for member in members if member.target == target] for target in targets]
        )
        merged = [
            regroup(regions.dataflow, family, [targets[member.target] for member in family], limits)
            for family in families
        ]
        # Regions that were left out stay separate candidates, for ResolveConflicts to choose or drop.
        kept = [member for each in merged for member in (*each.regions, *each.left_out)]
        return RegionsAndNotes(regions.replaced_by(kept), _notes(regions.dataflow, merged, self.max_regions))


def merged_regions(regions: AnnotatedRegionSet) -> AnnotatedRegionSet:
    """The regions of one function, joined as `MergeCompilerRegions` does by default."""
    return MergeCompilerRegions().transform_regions(regions, tvm.IRModule()).regions


def _notes(graph: DataflowGraph, merged: Sequence[Regrouped], max_regions: int | None) -> Iterator[Note]:
    yield ApartNote(tuple(pair for each in merged for pair in _apart(graph, each)))
    for member, answer in (given_back for each in merged for given_back in each.given_back):
        nodes = tuple(graph.nodes[node].var for node in member.nodes)
        if answer is None:
            assert max_regions is not None
            yield DissolveNote(member.target, nodes, DissolveReason.MANY_REGIONS, limit=max_regions)
        else:
            yield DissolveNote(member.target, nodes, DissolveReason.REFUSED, answer=answer)


def _apart(graph: DataflowGraph, result: Regrouped) -> Iterator[Neighbours]:
    """For neighbouring regions of one target, the node that prevents their joining, if any."""
    target_of = {node: member.target for member in result.regions for node in member.nodes}
    for nodes, dag, grouping in result.groupings:
        variables = [graph.nodes[node].var for node in nodes]
        blockers = Blockers(dag, grouping.groups)
        targets = [target_of[nodes[group[0]]] for group in grouping.groups]
        for left, right in _neighbours(dag, grouping, targets):
            between = blockers.between(left, right)
            yield Neighbours(
                targets[left],
                variables[grouping.groups[left][0]],
                variables[grouping.groups[right][0]],
                None if between is None else variables[between],
            )


def _neighbours(dag: Dag, grouping: Grouping, targets: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of groups of one target that an edge joins, or that follow each other in program order."""
    pairs: dict[tuple[int, int], None] = {}
    latest: dict[str, int] = {}
    for group, members in enumerate(grouping.groups):
        if targets[group] in latest:
            pairs[latest[targets[group]], group] = None
        latest[targets[group]] = group
        for vertex in members:
            for successor in dag.successors[vertex]:
                other = grouping.group_of[successor]
                if other is not None and other != group and targets[other] == targets[group]:
                    pairs[min(group, other), max(group, other)] = None
    return sorted(pairs)
