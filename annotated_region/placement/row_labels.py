"""The cheapest paths through a row of segments whose fronts are known, within one memory budget.

A label is a place and the memory used up to a cut; each segment extends it by the points of its front between
two places (`annotated_region.placement.fronts`). This is the shortest path with one resource (Joksch 1966;
Desrochers and Soumis 1988). Labels are pruned by the best known placement, with bounds on the rest of the row
at several prices for memory (Handler and Zang 1980).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from annotated_region.ids import Place
from annotated_region.placement.fronts import Front, FrontPoint, MemoryBudget
from annotated_region.placement.segment_solver import Cell
from annotated_region.placement.segments import Ends

__all__ = ["RowLabel", "RowPaths", "cells_of", "lengths_to_end", "paths_within_budget"]

PRICE_LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.4, 2.0, 4.0)
"""The multiples of the price of memory at which the rest of a row is bounded."""

BRANCHING = 8
"""The approximate number of successors of a label."""

LABELS_PER_WORK = 10
"""The labels of rows that take as long as one unit of work."""

Lengths = Mapping[Place | None, float]
"""By the place of the value at a cut, the length of the shortest path from it to one end of the row."""


class RowLabel(NamedTuple):
    """A placement of the segments before a cut: what it needs, and its last segment."""

    memory: int
    cost: float
    bound: float
    before: RowLabel | None
    front: Front | None
    point: FrontPoint | None


@dataclass(frozen=True, slots=True)
class RowPaths:
    """The paths found.

    Attributes
    ----------
    labels
        The labels of whole paths of which none costs less and needs no more memory than another one.
    dropped
        A lower bound on the cost of paths dropped for lack of budget; infinite if there are none.
    work
        The work done.
    """

    labels: list[RowLabel]
    dropped: float
    work: int


def paths_within_budget(
    columns: Sequence[Mapping[Ends, Front]], memory: MemoryBudget, upper: float, budget: int
) -> RowPaths:
    """The paths through a row that cost less than `upper` and keep the memory budget.

    Parameters
    ----------
    columns
        For each segment, the fronts between the places of its entry and exit.
    memory
        The budget, and a price near the best one.
    upper
        The cost of a known placement.
    budget
        The approximate work.

    Notes
    -----
    O(segments x labels x points of a front), with the number of labels bounded by the budget.
    """
    rests = [_rest(columns, memory, level * memory.price) for level in PRICE_LEVELS]
    room = max(1, budget * LABELS_PER_WORK // (BRANCHING * len(columns)))
    layer: _Layer = {None: [RowLabel(0, 0.0, 0.0, None, None, None)]}
    dropped, made = math.inf, 0
    for index, column in enumerate(columns):
        following: dict[Place | None, list[RowLabel]] = {}
        for (entry, leaving), front in column.items():
            labels, rest = layer.get(entry, ()), [each.after(index, leaving) for each in rests]
            found = following.setdefault(leaving, [])
            for label in labels:
                found += _extended(label, front, rest, memory.most, upper)
            made += len(labels) * len(front.points)
        layer, least = _narrowed({place: _undominated(found) for place, found in following.items()}, room)
        dropped = min(dropped, least)
    return RowPaths(layer.get(None, []), dropped, made // LABELS_PER_WORK)


def cells_of(label: RowLabel) -> list[Cell]:
    """The segments of a label of the whole row."""
    cells: list[Cell] = []
    cursor: RowLabel | None = label
    while cursor is not None and cursor.front is not None and cursor.point is not None:
        placement = cursor.front.placement(cursor.point)
        groups = [(unit,) for unit in placement.host_units] + [region.units for region in placement.regions]
        cells.append(Cell(cursor.point.cost, cursor.point.cost, tuple(groups), (), ()))
        cursor = cursor.before
    return cells[::-1]


def lengths_to_end(columns: Sequence[Mapping[Ends, float]]) -> list[dict[Place | None, float]]:
    """For each cut, from the start of the row to its end, the shortest paths to the end."""
    found: list[dict[Place | None, float]] = [{None: 0.0}]
    for column in reversed(columns):
        lengths: dict[Place | None, float] = {}
        for (entry, leaving), length in column.items():
            total = length + found[-1].get(leaving, math.inf)
            if total < lengths.get(entry, math.inf):
                lengths[entry] = total
        found.append(lengths)
    return found[::-1]


_Layer = dict[Place | None, list[RowLabel]]


@dataclass(frozen=True, slots=True)
class _Rest:
    """What the rest of a row costs at least at one price of memory.

    Attributes
    ----------
    price, refund
        The price of a byte, and of the whole budget.
    lengths
        For each cut, the least cost of the segments after it.
    """

    price: float
    refund: float
    lengths: Sequence[Lengths]

    def after(self, index: int, place: Place | None) -> tuple[float, float]:
        """The price, and the length of the segments after one, without the refund; infinite if none fits."""
        return self.price, self.lengths[index + 1].get(place, math.inf) - self.refund


def _rest(columns: Sequence[Mapping[Ends, Front]], memory: MemoryBudget, price: float) -> _Rest:
    """The bounds on the rest of the row at one price."""
    lengths = [
        {
            ends: min(point.cost + price * point.memory for point in front.points)
            for ends, front in column.items()
            if front.points
        }
        for column in columns
    ]
    return _Rest(price, price * memory.most, lengths_to_end(lengths))


def _extended(
    label: RowLabel, front: Front, rest: Sequence[tuple[float, float]], most: int, upper: float
) -> Iterator[RowLabel]:
    """The extensions of a label that may lead to a path below `upper` within the budget."""
    for point in front.points:
        memory, cost = label.memory + point.memory, label.cost + point.cost
        if memory > most:
            return
        bound = max([cost + price * memory + length for price, length in rest])
        if bound < upper:
            yield RowLabel(memory, cost, bound, label, front, point)


def _undominated(labels: list[RowLabel]) -> list[RowLabel]:
    """The labels of which none costs less and needs no more memory than another one, by memory."""
    kept: list[RowLabel] = []
    for label in sorted(labels, key=lambda label: (label.memory, label.cost)):
        if not kept or label.cost < kept[-1].cost:
            kept.append(label)
    return kept


def _narrowed(layer: _Layer, room: int) -> tuple[_Layer, float]:
    """The `room` labels of least bound, and the least bound of the others."""
    bounds = sorted(label.bound for labels in layer.values() for label in labels)
    if len(bounds) <= room:
        return layer, math.inf
    least = bounds[room]
    kept = {place: [label for label in labels if label.bound < least] for place, labels in layer.items()}
    return kept, least
