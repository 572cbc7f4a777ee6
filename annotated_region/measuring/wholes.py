"""A placement as a sequence of timed parts: its regions, and what the host computes between them.

Ops on the host that no region separates are one part, because TVM fuses them, and calls them without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from annotated_region.cost_units import CostUnit
from annotated_region.costs.model import HOST
from annotated_region.dataflow.graph import DataflowGraph, NodeKind, Scope
from annotated_region.dataflow.unit_order import in_order
from annotated_region.errors import AnnotatedRegionError
from annotated_region.functions.external import computing_nodes, external_function
from annotated_region.ids import NodeId
from annotated_region.measuring.comparing import WORTH, SpeedComparison, compare
from annotated_region.measuring.identity import key_of, key_of_pair
from annotated_region.measuring.timing import MOST_BYTES, Timed, runs_of
from annotated_region.regions.node_region import NodeRegion, largest_composites
from annotated_region.targets.backend import backend_of
from annotated_region.targets.composite_attributes import composite_attributes

__all__ = ["WholePlacement", "WholePlacements", "timed_unit"]

_PLAIN, _FURTHER_BUILDS = 0.1, 2
"""A relative gain below `_PLAIN` must be reproduced by `_FURTHER_BUILDS` further builds."""

Run = Callable[[], object]
Warn = Callable[[Timed, AnnotatedRegionError], None]


@dataclass(frozen=True, slots=True)
class WholePlacement:
    """The parts of a placement.

    Attributes
    ----------
    parts
        The distinct parts, by key.
    order
        The keys in the order in which the parts run.
    """

    parts: Mapping[str, Timed]
    order: tuple[str, ...]

    @staticmethod
    def of(
        graph: DataflowGraph, members: Sequence[NodeRegion], nodes: Collection[NodeId] | None = None
    ) -> WholePlacement:
        """The parts for some placed regions, with the remaining ops on the host; of all nodes, or of some."""
        within = None if nodes is None else frozenset(nodes)
        timed = [each for each in _parts(graph, members, within) if each is not None]
        order = tuple(key_of(each) for each in timed)
        return WholePlacement(dict(zip(order, timed, strict=True)), order)


def timed_unit(target: str, unit: CostUnit) -> Timed | None:
    """The function that computes exactly this unit; None if it computes nothing."""
    attributes = {} if target == HOST else {"Codegen": target}
    func = unit.function(attributes, target == HOST or backend_of(target).bind_constants)
    return None if func is None else Timed(target, func)


def _parts(
    graph: DataflowGraph, members: Sequence[NodeRegion], within: Collection[NodeId] | None
) -> Iterator[Timed | None]:
    for scope in graph.scopes:
        nodes = [node for node in scope.nodes if within is None or node in within]
        yield from _parts_of_scope(
            graph, nodes, [each for each in members if _scope_of(graph, each) is scope]
        )


def _scope_of(graph: DataflowGraph, member: NodeRegion) -> Scope:
    return graph.scopes[graph.nodes[member.nodes[0]].scope]


def _parts_of_scope(
    graph: DataflowGraph, nodes: Sequence[NodeId], members: Sequence[NodeRegion]
) -> Iterator[Timed | None]:
    """The parts of some nodes of a scope in topological order; None for those that compute nothing."""
    regions = {computing_nodes(graph, member.nodes): member for member in members}
    held = {node for region in regions for node in region}
    units = [*(region for region in regions if region), *((node,) for node in nodes if node not in held)]
    host: list[NodeId] = []
    for unit in in_order(graph, units):
        if unit in regions:
            yield _on_host(graph, host)
            yield _region(graph, regions[unit], unit)
            host = []
        elif graph.nodes[unit[0]].kind in (NodeKind.OPERATION, NodeKind.STRUCTURE):
            host += unit
    yield _on_host(graph, host)


def _on_host(graph: DataflowGraph, nodes: Sequence[NodeId]) -> Timed | None:
    """One function of some ops on the host, and the tuples between them; None if there are none, or none is
    used.

    Without the tuples, each field of the result of a `split` would leave the function and come back as an
    argument, and TVM could not fuse across.
    """
    return timed_unit(HOST, CostUnit.of(graph, computing_nodes(graph, tuple(sorted(nodes)))))


def _region(graph: DataflowGraph, member: NodeRegion, nodes: tuple[NodeId, ...]) -> Timed | None:
    """The external function of a region; None if it computes nothing."""
    composites = [(unit.name, unit.nodes) for unit in largest_composites(member)]
    bound = backend_of(member.target).bind_constants
    further = composite_attributes(graph, member.target)
    external = external_function(graph, nodes, composites, {"Codegen": member.target}, bound, further=further)
    return None if external is None else Timed(member.target, external.func)


class WholePlacements:
    """Some placements of one function.

    They are built together before the first run, or, if their constants exceed `MOST_BYTES`, two at a time.

    Parameters
    ----------
    wholes
        The placements.
    builds
        Frees what was built when it is closed.
    warn
        Called for each part that its target rejects.
    """

    def __init__(self, wholes: Sequence[WholePlacement], builds: ExitStack, warn: Warn) -> None:
        self._wholes = wholes
        self._builds = builds
        self._warn = warn
        self._built: dict[int, Run | None] = {}
        parts = {key: timed for whole in wholes for key, timed in whole.parts.items()}
        self._fit_together = sum(timed.bytes for timed in parts.values()) <= MOST_BYTES

    def key_of_pair(self, current: int, candidate: int) -> str:
        """The key of the comparison of two of them."""
        return key_of_pair(self._wholes[current].order, self._wholes[candidate].order)

    def can_run(self, *numbers: int) -> bool:
        """Whether no target rejects a part of these placements."""
        return all(run is not None for run in self._runs(numbers))

    def compared(self, current: int, candidate: int, rounds: int) -> SpeedComparison:
        """Compare two runnable placements.

        Two builds of the same placement differ in the addresses of their tensors, so a small gain must be
        reproduced by further builds; the result is that of the first build that does not.
        """
        found = _compared(self._runs((current, candidate)), rounds)
        if not found.is_faster or found.share_at_most < 1 - _PLAIN:
            return found
        pair = [self._wholes[current], self._wholes[candidate]]
        for _build in range(_FURTHER_BUILDS):
            with ExitStack() as builds:
                again = _compared(_runs_of(pair, builds, self._warn), rounds)
            if again.gain < WORTH:
                return again
        return found

    def _runs(self, numbers: Sequence[int]) -> list[Run | None]:
        """The runs of some placements; if not all fit together, the others are freed."""
        if not self._built.keys() >= set(numbers):
            self._builds.close()
            together = range(len(self._wholes)) if self._fit_together else numbers
            runs = _runs_of([self._wholes[number] for number in together], self._builds, self._warn)
            self._built = dict(zip(together, runs, strict=True))
        return [self._built[number] for number in numbers]


def _compared(runs: Sequence[Run | None], rounds: int) -> SpeedComparison:
    one, other = runs
    assert one is not None, "rejected placements are not compared"
    assert other is not None, "rejected placements are not compared"
    return compare(one, other, rounds)


def _runs_of(wholes: Sequence[WholePlacement], builds: ExitStack, warn: Warn) -> list[Run | None]:
    """Functions that run each placement once; None if a part of it is rejected, which is reported."""
    parts = {key: timed for whole in wholes for key, timed in whole.parts.items()}
    runs = _runs(parts, builds, warn)
    return [_in_turn([runs[key] for key in whole.order]) for whole in wholes]


def _runs(parts: Mapping[str, Timed], builds: ExitStack, warn: Warn) -> dict[str, Run | None]:
    try:
        return dict(zip(parts, runs_of(list(parts.values()), builds), strict=True))
    except AnnotatedRegionError as error:
        if len(parts) == 1:
            (timed,) = parts.values()
            warn(timed, error)
            return dict.fromkeys(parts)
    # One rejected part fails the whole batch, so build them one by one.
    return {key: run for part in parts.items() for key, run in _runs(dict([part]), builds, warn).items()}


def _in_turn(runs: Sequence[Run | None]) -> Run | None:
    taken = [run for run in runs if run is not None]
    if len(taken) < len(runs):
        return None

    def run() -> None:
        for each in taken:
            each()

    return run
