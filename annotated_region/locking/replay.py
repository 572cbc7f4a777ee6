"""Replays a lock: ops that still exist keep their placement, and only changed ops are placed again.

    lock                    model today              held                placed by the policy
    a  dnnl/0               a                        a on dnnl, in 0
    b  dnnl/0               new                                          new: any target that claims it
    c  host                 b   (dnnl declines)                          b:   any target that claims it
                            c                        c on the host

An op is held if the lock has it (see `alignment`) and its target claims it today; an op on the host is held
if its neighbours are unchanged. The regions of the lock are kept as far as the quotient stays acyclic:

1.  Whole, if it is acyclic.
2.  Extended by the nodes that now lie between their ops, if these are on the same target.
3.  Split before and after the nodes between, if these are on another target or the host.
4.  Not at all, if that costs too much; see below.

The ops of a region that must be split are also placed again, without being held. The result is the placement
that keeps most ops where they were, of those that cost at most 2 % more than a placement without the lock,
which is among them.

If all ops are held, and none is missing, the policy does not run. A policy that measures does not run either
if some are missing: a lock of measured costs is replayed without measurements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from annotated_region.costs.model import HOST, ConfirmingCostModel
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.errors import DocumentError
from annotated_region.graphs import is_acyclic
from annotated_region.ids import NodeId
from annotated_region.locking.candidates import Candidate, best_of, model_of
from annotated_region.locking.fingerprints import labels_of
from annotated_region.locking.held import Held, LockedNodes
from annotated_region.locking.kept_regions import KeptPart, kept_acyclic, regions_of_parts
from annotated_region.locking.lock import Lock
from annotated_region.locking.locked_ops import LockedFunction
from annotated_region.policies.policy import Policy, Resolution
from annotated_region.regions.claims import units_of
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["Replay", "require_same_model"]

Join: TypeAlias = Callable[[AnnotatedRegionSet], AnnotatedRegionSet]


def require_same_model(lock: Lock, graphs: Sequence[DataflowGraph]) -> None:
    """Check that a lock was written for a similar model.

    Raises
    ------
    DocumentError
        Less than a quarter of the lock's ops, or of the model's ops, has a counterpart on the other side.
    """
    known, ops, found = sum(len(function.ops) for function in lock.functions), 0, 0
    for graph in graphs:
        ops += len(labels_of(graph))
        function = lock.function(graph.name)
        found += 0 if function is None else len(LockedNodes.of(graph, function).locked)
    if 4 * found < min(known, ops):
        raise DocumentError(
            f"the lock belongs to another model: {found} of its {known} ops are among the {ops} of this one; "
            "write a lock of this model"
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """A policy that replays a lock, and delegates the other ops to a policy; see the module docstring.

    Attributes
    ----------
    policy
        The policy for ops that are not held.
    nodes
        The entries of the lock.
    function
        The function of the lock.
    join
        Merges regions as far as validity and the limits of their targets allow.
    """

    policy: Policy
    nodes: LockedNodes
    function: LockedFunction
    join: Join

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[NodeId] = ()) -> Resolution:
        """See `Policy`. O(nodes + edges) for each resolved cycle, plus the time of the policy."""
        graph = regions.dataflow
        offered = list(regions.node_regions.values())
        held = Held.of(graph, self.nodes, offered, frozenset(pinned))
        if held.is_all and (self.nodes.is_whole or self.measures):
            parts = [
                KeptPart(target, tuple(units), region) for (target, region), units in held.by_region().items()
            ]
            if self._is_in_order(graph, parts):
                return Resolution(regions_of_parts(graph, offered, parts), self._details())
        choose = _Choice(self, regions, frozenset(pinned), held)
        return choose.best().resolution()

    @property
    def measures(self) -> bool:
        """Whether the policy runs placements to compare them."""
        return isinstance(model_of(self.policy), ConfirmingCostModel)

    def _is_in_order(self, graph: DataflowGraph, parts: Sequence[KeptPart]) -> bool:
        return is_acyclic(graph.dag, [part.nodes for part in parts])

    def _details(self) -> dict[str, Any]:
        """The costs in the lock."""
        cost, bound = self.function.cost, self.function.lower_bound
        if cost is None or bound is None or not self.nodes.is_whole:
            return {}
        gap = 0.0 if cost <= 0 else max(0.0, (cost - bound) / cost)
        return {"cost": cost, "lower_bound": bound, "gap": gap, "proof": ["lock"]}


@dataclass(frozen=True, slots=True)
class _Choice:
    """The candidates for a function that was edited.

    Attributes
    ----------
    replay
        The lock and the policy.
    regions
        The claims.
    pinned
        The nodes that must not go to the host.
    held
        What the lock holds.
    """

    replay: Replay
    regions: AnnotatedRegionSet
    pinned: frozenset[NodeId]
    held: Held

    def best(self) -> Candidate:
        """The best candidate: with all held ops in place, with those of split regions placed again, or anew.

        A model that measures whole placements is asked once, so it is not asked for a placement anew.
        """
        candidates, split = self.placed(self.held)
        if self.replay.measures:
            return best_of(candidates)
        if split:
            candidates += self.placed(self.held.without(split))[0]
        return best_of(candidates, self.anew())

    def anew(self) -> Candidate:
        """The placement without the lock."""
        answer = self.replay.policy.resolve(self.regions, self.pinned)
        joined = self.replay.join(self.regions.replaced_by(answer.regions))
        return Candidate.of(joined, answer, self.held, model_of(self.replay.policy))

    def placed(self, fixed: Held) -> tuple[list[Candidate], frozenset[tuple[str, int]]]:
        """The candidates with some ops fixed, and the regions of the lock that had to be split for that.

        Both have the targets of the policy: one keeps the regions of the lock, the other does not.
        """
        graph, model = self.regions.dataflow, model_of(self.replay.policy)
        offered = list(self.regions.node_regions.values())
        answer = self.replay.policy.resolve(
            self.regions.replaced_by(fixed.offers(offered)), self.pinned | fixed.pinned
        )
        parts = kept_acyclic(graph, offered, list(_parts(graph, self.held, answer.regions)))
        sets = [regions_of_parts(graph, offered, parts), answer.regions]
        joined = [self.replay.join(self.regions.replaced_by(each)) for each in sets]
        of_region = Counter((part.target, part.region) for part in parts if part.region is not None)
        split = frozenset(region for region, count in of_region.items() if count > 1)
        return [Candidate.of(each, answer, self.held, model) for each in joined], split


def _parts(graph: DataflowGraph, held: Held, placed: Iterable[NodeRegion]) -> Iterator[KeptPart]:
    """The placed units, grouped by regions of the lock; a unit outside them is a separate part."""
    kept: dict[tuple[str, int], list[ClaimedUnit]] = {}
    new: list[KeptPart] = []
    for member in placed:
        for unit in units_of(member):
            if all(graph.nodes[node].kind is NodeKind.STRUCTURE for node in unit.nodes):
                continue
            region = _region_of(held, unit, member.target)
            if region is None:
                new.append(KeptPart(member.target, (unit,), None))
            else:
                kept.setdefault((member.target, region), []).append(unit)
    for (target, region), units in sorted(kept.items()):
        yield KeptPart(target, tuple(sorted(units)), region)
    yield from new


def _region_of(held: Held, unit: ClaimedUnit, target: str) -> int | None:
    """The region of the lock of the first held node of a unit."""
    for node in unit.nodes:
        place, region = held.place_of.get(node, (HOST, None))
        if place == target and region is not None:
            return region
    return None
