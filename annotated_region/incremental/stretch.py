"""Partitions a stretch of a function by itself, and finds the parts that it falls into.

The stretch runs through the very passes of `annotated_region.partition`, and a cut between two of its parts
counts if all of this holds, so that what is before it and what is behind it would have come out the same with
anything else on the other side:

1.  No rewrite of preparation asked about anything beyond the cut but the binding at the cut itself, and that
    binding came out as it went in.
2.  In the prepared function the cut still is one: whatever is behind it depends on it, whatever is before it
    leads to it, and no region reaches over it.
3.  The policy chose locally (`Resolution.local`).
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
    """A policy that another one stands behind; remembers whether all answers were local."""

    policy: Policy
    local: bool = True

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[NodeId]) -> Resolution:
        """What the policy behind it answers."""
        answer = self.policy.resolve(regions, pinned)
        self.local = self.local and answer.local
        return answer


@dataclass(slots=True)
class Stretch:
    """Runs the passes over windows.

    Attributes
    ----------
    steps
        The passes before `PartitionGraph`.
    noticing
        The policy among them.
    by_place
        How external functions are named.
    separable
        Which ops separate.
    """

    steps: Sequence[SessionStep]
    noticing: NoticingPolicy
    by_place: bool
    separable: Separable

    def parts(self, window: Window) -> list[FunctionPart] | str:
        """The parts of a window, or why it cannot be worked on by itself.

        Raises
        ------
        AnnotatedRegionError
            As `annotated_region.partition` does.
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
        reason = prepared.reason() or ("" if self.noticing.local else "regions were grouped anew")
        if reason:
            return reason
        kept = prepared.cuts(sources, borders.crossed)
        if (first and 0 not in kept) or (rest and len(cut) - 1 not in kept):
            return "something looks over the border of what was edited"
        return list(_parts(prepared, sources, borders, kept, bool(first), bool(rest)))


def _parts(
    prepared: _Prepared,
    sources: Sequence[Sequence[relax.Binding]],
    borders: Borders,
    kept: Mapping[int, int],
    has_first: bool,
    has_rest: bool,
) -> Iterator[FunctionPart]:
    """The parts between the cuts that count."""
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
    """A function behind the passes: its units in their order."""

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner
        self.graph: DataflowGraph = partitioner.graph
        scopes = self.graph.scopes
        self.units: list[Nodes] = partitioner.units(scopes[0].nodes) if len(scopes) == 1 else []

    def reason(self) -> str:
        """Why the function cannot be taken apart; nothing if it can."""
        if len(self.graph.scopes) != 1 or self.graph.has_shape_vars or self.graph.order_edges:
            return "the prepared function is not one dataflow block of known shapes"
        return reason_against_bindings([node.binding for node in self.graph.nodes])

    def cuts(self, sources: Sequence[Sequence[relax.Binding]], crossed: Collection[int]) -> dict[int, int]:
        """The cuts that count, by the number of the part before, and how many units stand before each."""
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
        """For each node, whether it does not separate the others."""
        graph = self.graph
        size = len(graph.nodes)
        reached = [max((edge.consumer for edge in edges), default=-1) for edges in graph.out_of]
        has_producer = [any(edge.producer >= 0 for edge in edges) for edges in graph.into]
        last_source = max((node for node in range(size) if not has_producer[node]), default=0)
        # The result counts as a reader behind all nodes.
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
        """For each unit, how many nodes stand before it, and the largest of them."""
        counts, largest = [0], [-1]
        for unit in self.units:
            counts.append(counts[-1] + len(unit))
            largest.append(max(largest[-1], unit[-1]))
        return counts, largest
