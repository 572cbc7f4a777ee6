"""What holds of a lock that is replayed on an edited model, and its cost beside placing the model anew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.cost_units import CostUnit
from annotated_region.costs import HOST
from annotated_region.dataflow.graph import RESULT, DataflowGraph, NodeKind
from annotated_region.dataflow.leaves import readers_of_leaves
from annotated_region.functions.modules import require_well_formed
from annotated_region.ids import NodeId
from annotated_region.passes.pipeline import placed_module
from annotated_region.reports.reporting import report_of
from annotated_region.targets.extents import size_of

__all__ = ["Replayed", "objective", "replayed"]


@dataclass(frozen=True)
class Replayed:
    """What came of one edit.

    Attributes
    ----------
    unchanged
        How many ops the edit did not touch.
    moved
        The names of those of them that another target runs.
    renamed
        The names of those of them whose region has another id.
    cost, anew
        The objective with the lock, and of the placement without it.
    """

    unchanged: int
    moved: tuple[str, ...]
    renamed: tuple[str, ...]
    cost: float
    anew: float


def replayed(
    before: ar.Report, mod: tvm.IRModule, touched: frozenset[str], targets: Sequence[str], policy, model
) -> Replayed:
    """Place an edited module with the lock of the one before, and hold it to the laws."""
    lock = before.to_lock()
    placed, session = placed_module(mod, targets, policy, prepare=False, lock=lock, keeps_notes=True)
    sets = session.take(placed)
    (regions,) = sets.values()
    # Valid, by code that shares nothing with what placed it.
    ar.check_certificate(regions.func, regions, regions.verify())
    _require_claimed(regions, mod, targets)
    require_well_formed(ar.partition(mod, targets, policy, prepare=False, lock=lock))
    report = report_of(sets.values(), session.notes, targets, lock)
    # The same again, and the text says it all.
    again = ar.Lock.from_text(str(report.to_lock()))
    assert str(again) == str(report.to_lock())
    assert not again.diff(ar.explain(mod, targets, policy, prepare=False, lock=again).to_lock())
    fresh, other = placed_module(mod, targets, policy, prepare=False)
    (anew,) = other.take(fresh).values()
    was = {op.name: op for op in before.functions[0].ops}
    kept = [op for op in report.functions[0].ops if op.name in was and op.name not in touched]
    return Replayed(
        len(kept),
        tuple(op.name for op in kept if op.placed != was[op.name].placed),
        tuple(
            op.name for op in kept if op.placed == was[op.name].placed and op.region != was[op.name].region
        ),
        objective(regions, model),
        objective(anew, model),
    )


def _require_claimed(regions: ar.AnnotatedRegionSet, mod: tvm.IRModule, targets: Sequence[str]) -> None:
    """Each op of a region is one that the target claims today."""
    (function,) = ar.explain(mod, targets, prepare=False).functions
    claims = {op.name: op.claims for op in function.ops}
    for region in regions:
        for var in region.nodes:
            assert region.target in claims.get(var.name, {region.target: ()}), f"{var.name}: {region}"


def objective(regions: ar.AnnotatedRegionSet, model) -> float:
    """The cost of a placement, from its definition: launches, units, and values that cross."""
    graph = regions.dataflow
    region_of = {var: region for region in regions for var in region.nodes}
    total = [model.launch(region.target) for region in regions]
    total += list(_units(regions, model))
    computes = (NodeKind.OPERATION, NodeKind.BOUNDARY)
    readers = readers_of_leaves(graph, lambda node: node == RESULT or graph.nodes[node].kind in computes)
    for leaf, consumers in readers.items():
        maker = region_of.get(leaf.root)
        source = HOST if maker is None else maker.target
        places = {region_of.get(graph.nodes[node].var) if node != RESULT else None for node in consumers}
        for destination in {HOST if each is None else each.target for each in places if each != maker}:
            if not source == destination == HOST:
                total.append(model.transfer(size_of(leaf.ty), source, destination))
    return math.fsum(total)


def _numbers(graph: DataflowGraph, variables: Iterable[relax.Var]) -> tuple[NodeId, ...]:
    numbers = (graph.number_of(var) for var in variables)
    return tuple(number for number in numbers if number is not None)


def _units(regions: ar.AnnotatedRegionSet, model) -> Iterator[float]:
    graph = regions.dataflow
    held = set()
    for region in regions:
        for composite in region.composites:
            nodes = _numbers(graph, composite.nodes)
            held.update(nodes)
            ops = tuple(node for node in nodes if graph.nodes[node].kind is NodeKind.OPERATION)
            yield model.compute(region.target, CostUnit.of(graph, ops, composite.name))
        for number in _numbers(graph, region.nodes):
            if number not in held and graph.nodes[number].kind is NodeKind.OPERATION:
                yield model.compute(region.target, CostUnit.of(graph, (number,)))
            held.add(number)
    for number, node in graph.numbered():
        if number not in held and node.kind is NodeKind.OPERATION:
            yield model.compute(HOST, CostUnit.of(graph, (number,)))
