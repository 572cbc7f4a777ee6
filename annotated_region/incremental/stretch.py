"""Partitions a stretch of a function separately, and splits the result into parts.

The stretch runs through the same passes as in `annotated_region.partition`. A cut between two of its parts is
valid if all of these hold, because then the result on either side does not depend on the other side:

1.  No rewrite of preparation inspected anything across the cut except the binding at the cut itself, and
    that binding is unchanged.
2.  In the prepared function it is still a cut: all later nodes depend on it, it depends on all earlier nodes,
    and no region spans it.
3.  The choices of the policy were local (`Resolution.local`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tvm import relax

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.functions.modules import require_well_formed
from annotated_region.functions.nesting import require_shallow
from annotated_region.ids import NodeId
from annotated_region.incremental.cuts import Separable, cut_into_parts
from annotated_region.incremental.part import FunctionPart
from annotated_region.incremental.source import reason_against_bindings
from annotated_region.incremental.window import Window
from annotated_region.passes.partition_graph import Partitioner, final_regions
from annotated_region.passes.preparation.borders import Borders, watching
from annotated_region.passes.region_session import RegionSession, SessionStep
from annotated_region.policies.policy import Policy, Resolution
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.tvm_adapter.types import expect

__all__ = ["NoticingPolicy", "Stretch"]

Nodes = tuple[NodeId, ...]


@dataclass(slots=True)
class NoticingPolicy:
    """Delegates to another policy, and records whether all its resolutions were local."""

    policy: Policy
    local: bool = True

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[NodeId]) -> Resolution:
        """The resolution of the other policy."""
        answer = self.policy.resolve(regions, pinned)
        self.local = self.local and answer.local
        return answer


@dataclass(slots=True)
class Stretch:
    """Runs the passes on windows.

    Attributes
    ----------
    steps
        The passes before `PartitionGraph`.
    noticing
        The policy in these passes.
    by_place
        Whether external functions are named after their ops.
    separable
        Decides which ops separate.
    """

    steps: Sequence[SessionStep]
    noticing: NoticingPolicy
    by_place: bool
    separable: Separable

    def parts(self, window: Window) -> list[FunctionPart] | str:
        """The parts of a window, or the reason why it cannot be processed separately.

        Raises
        ------
        AnnotatedRegionError
            As for `annotated_region.partition`.
        """
        first, rest = window.first, window.rest
        cut = cut_into_parts(
            [*first, *window.bindings],
            expect(relax.Var, window.source.func.body.body),
            self.separable,
            len(first),
        )
        sources = [*cut, rest] if rest else cut
        borders = Borders(sources, [window.head.var] if window.head is not None else ())
        self.noticing.local = True
        mod = window.module(sources)
        require_well_formed(mod)
        require_shallow(mod)
        session = RegionSession(checked=mod)
        with watching(borders):
            placed = session.run(self.steps, mod)
        (regions,) = session.take(placed).values()
        prepared = _Prepared(Partitioner(final_regions(regions), self.by_place))
        reason = prepared.reason() or ("" if self.noticing.local else "the policy regrouped regions")
        if reason:
            return reason
        kept = prepared.cuts(sources, borders.crossed)
        if (first and 0 not in kept) or (rest and len(cut) - 1 not in kept):
            return "a rewrite inspects bindings outside of the edited part"
        return list(_parts(prepared, sources, borders, kept, bool(first), bool(rest)))


def _parts(
    prepared: _Prepared,
    sources: Sequence[Sequence[relax.Binding]],
    borders: Borders,
    kept: Mapping[int, int],
    has_first: bool,
    has_rest: bool,
) -> Iterator[FunctionPart]:
    """The parts between valid cuts."""
    borders_of_parts = [-1, *kept, len(sources) - 1]
    places = [0, *kept.values(), len(prepared.units)]
    stretches = list(zip(pairwise(borders_of_parts), pairwise(places), strict=True))
    for (before, last), (start, stop) in stretches[has_first : len(stretches) - has_rest]:
        numbers = range(before + 1, last + 1)
        bindings = [binding for number in numbers for binding in sources[number]]
        asked = (name for number in numbers for name in borders.names[number])
        names = frozenset([*(binding.var.name for binding in bindings), *asked])
        yield FunctionPart(bindings, names, prepared.units[start:stop], prepared.partitioner)


class _Prepared:
    """The function after the passes, with its units in order."""

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner
        self.graph: DataflowGraph = partitioner.graph
        scopes = self.graph.scopes
        self.units: list[Nodes] = partitioner.units(scopes[0].nodes) if len(scopes) == 1 else []

    def reason(self) -> str:
        """The reason why the function cannot be split; empty if it can."""
        if len(self.graph.scopes) != 1 or self.graph.has_shape_vars or self.graph.order_edges:
            return "the prepared function is not one dataflow block of known shapes"
        return reason_against_bindings([node.binding for node in self.graph.nodes])

    def cuts(self, sources: Sequence[Sequence[relax.Binding]], crossed: Collection[int]) -> dict[int, int]:
        """The valid cuts: for the index of the part before each, the number of units before it."""
        place_of = {
            unit[0]: place for place, unit in enumerate(self.units) if unit not in self.partitioner.made
        }
        found: dict[int, int] = {}
        open_at, (counts, largest) = self._open(), self._sides()
        for number, part in enumerate(sources[:-1]):
            node = self.graph.number_of(part[-1].var)
            if number in crossed or node is None or node not in place_of or open_at[node]:
                continue
            place = place_of[node]
            in_order = counts[place] == node and largest[place] < node
            if in_order and self.graph.nodes[node].value.same_as(part[-1].value):
                found[number] = place + 1
        return found

    def _open(self) -> list[bool]:
        """For each node, whether it is not a separator."""
        graph = self.graph
        size = len(graph.nodes)
        reached = [max((edge.consumer for edge in edges), default=-1) for edges in graph.out_of]
        has_producer = [any(edge.producer >= 0 for edge in edges) for edges in graph.into]
        last_source = max((node for node in range(size) if not has_producer[node]), default=0)
        # The result counts as a reader after all nodes.
        ends = [
            size if any(edge.consumer < 0 for edge in edges) or not edges else 0 for edges in graph.out_of
        ]
        first_sink = min((node for node in range(size) if ends[node]), default=size)
        answer, furthest = [], -1
        for node in range(size):
            answer.append(furthest > node or not last_source <= node < first_sink)
            furthest = max(furthest, reached[node])
        return answer

    def _sides(self) -> tuple[list[int], list[int]]:
        """For each unit, the number of nodes before it, and its largest node."""
        counts, largest = [0], [-1]
        for unit in self.units:
            counts.append(counts[-1] + len(unit))
            largest.append(max(largest[-1], unit[-1]))
        return counts, largest
