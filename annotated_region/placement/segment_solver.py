"""Solves a sequence of segments: equal segments are solved once, and a shortest path combines them.

For each form of segment, each place of its entry value and each place of its exit value, finding the cheapest
placement is a separate small problem, with a separate bound. The best combination over the
places in between is a shortest path (Bellman 1957); a shortest path over the bounds bounds the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

from annotated_region.ids import Place, UnitId, ValueId, numbered
from annotated_region.placement.incumbent import Solution
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.segments import (
    Ends,
    PlacementSegment,
    SegmentForm,
    Tariff,
    Weights,
    form_of,
    segments_of,
    units_within,
)

__all__ = ["Cell", "Cells", "SegmentRow", "RowAnswer", "SmallSolver", "row_of"]

OF_PROBLEM = 4
"""The setup time of a small problem, in nodes of a large one, approximately."""

LARGEST = 2
"""No segment may hold more than this part of the units: otherwise it is nearly the whole problem, which would
be solved once for each pair of places."""

SmallSolver = Callable[[PlacementProblem, int], Solution]
"""Solves a problem within a budget."""


class Cell(NamedTuple):
    """The cheapest placement of a segment found between two places.

    Attributes
    ----------
    cost, bound
        At the tariff, without the cost of the entry.
    groups
        The units of each region, and each host unit, in the numbering of the form; the unit after the last
        represents the producer of the entry.
    regions
        For each target, the number of regions that begin in the segment.
    taken
        The use of each priced resource by the units.
    """

    cost: float
    bound: float
    groups: tuple[tuple[UnitId, ...], ...]
    regions: tuple[int, ...]
    taken: tuple[float, ...]


Cells = Mapping[Ends, Cell]


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """The cheapest placement found for a row, by segment.

    Attributes
    ----------
    chosen
        For each segment, the chosen cell.
    ends
        For each segment, the places of its entry and exit.
    cost
        The cost of the placement at the tariff.
    bound
        A lower bound on the cost of every placement at the tariff.
    columns
        For each segment, its candidate cells.
    work
        The work done.
    """

    chosen: list[Cell]
    ends: list[Ends]
    cost: float
    bound: float
    columns: list[Cells]
    work: int


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """The segments of a network.

    Attributes
    ----------
    problem
        The network.
    units
        For each segment, its units.
    forms
        The distinct forms.
    kinds
        For each segment, the index of its form.
    """

    problem: PlacementProblem
    units: tuple[tuple[UnitId, ...], ...]
    forms: tuple[SegmentForm, ...]
    kinds: tuple[int, ...]

    @staticmethod
    def of(problem: PlacementProblem, weights: Weights) -> SegmentRow:
        """The row of a network. O(nodes + edges + units)."""
        segments = segments_of(problem)
        units = tuple(tuple(units_within(problem, segment)) for segment in segments)
        parts = _parts_of_parameters(problem, segments)
        known: dict[SegmentForm, int] = {}
        kinds = tuple(
            known.setdefault(form_of(problem, segment, own, weights, parts), len(known))
            for segment, own in zip(segments, units, strict=True)
        )
        return SegmentRow(problem, units, tuple(known), kinds)

    def solve(self, tariff: Tariff, budget: int, solver: SmallSolver) -> RowAnswer | None:
        """The cheapest placement, and a bound.

        Parameters
        ----------
        tariff
            The costs of launches and resources.
        budget
            The total work of all small problems.
        solver
            Solves a small problem.

        Returns
        -------
        RowAnswer or None
            None if some segment has no placement between any two places.

        Raises
        ------
        PinError
            If no placement was found for some small problem.
        """
        cells, work = self._cells(tariff, budget, solver)
        columns = [cells[kind] for kind in self.kinds]
        cheapest = _shortest(columns, lambda cell: cell.cost)
        if cheapest is None:
            return None
        bound = _shortest(columns, lambda cell: cell.bound)
        assert bound is not None, "what has a cost has a bound"
        chosen = [column[pair] for column, pair in zip(columns, cheapest.ends, strict=True)]
        return RowAnswer(chosen, cheapest.ends, cheapest.length, bound.length, columns, work)

    def _cells(self, tariff: Tariff, budget: int, solver: SmallSolver) -> tuple[list[Cells], int]:
        """The cells of each form, and the work done."""
        ends = self.ends()
        left, work = sum(map(len, ends)), 0
        found: list[Cells] = []
        for form, pairs in zip(self.forms, ends, strict=True):
            cells: dict[Ends, Cell] = {}
            for pair in pairs:
                small = form.between(self.problem, tariff, pair)
                if all(small.units_of):
                    solution = solver(small, max(0, budget - work) // left)
                    work += solution.work
                    cells[pair] = _cell(form, self.problem.host, solution, form.paid_before(tariff, pair[0]))
                left -= 1
            found.append(cells)
        return found, work

    def ends(self) -> list[dict[Ends, None]]:
        """For each form, the possible places of entry and exit of its segments."""
        exits: list[Sequence[Place | None]] = [
            form.places if form.has_exit else [None] for form in self.forms
        ]
        found: list[dict[Ends, None]] = [{} for _ in self.forms]
        found[self.kinds[0]] |= dict.fromkeys((None, leaving) for leaving in exits[self.kinds[0]])
        for before, kind in dict.fromkeys(pairwise(self.kinds)):
            found[kind] |= dict.fromkeys(product(exits[before], exits[kind]))
        return found

    def placement(self, chosen: Sequence[Cell]) -> Placement:
        """The units in regions; a region that holds the value of a cut continues in the next segment."""
        groups: list[list[UnitId]] = []
        current: list[UnitId] = []
        for kind, units, cell in zip(self.kinds, self.units, chosen, strict=True):
            form = self.forms[kind]
            before, entry, last = current, len(form.units), form.nodes - 1
            for local in cell.groups:
                group = before if entry in local else []
                group += [units[unit] for unit in local if unit != entry]
                if any(last in form.units[unit].nodes for unit in local if unit != entry):
                    current = group
                if entry not in local:
                    groups.append(group)
        return Placement.of(self.problem, groups)


class _Path(NamedTuple):
    """A shortest path through the places of cuts."""

    length: float
    ends: list[Ends]


def row_of(problem: PlacementProblem, weights: Weights, most: int) -> SegmentRow | None:
    """The problem as a row of segments, if enough are equal and all are small enough to make that worthwhile.

    Parameters
    ----------
    problem
        The problem.
    weights
        The use of priced resources by each unit; empty if there are none.
    most
        The maximum effort, in nodes of a large problem.

    Notes
    -----
    O(nodes + edges + units).
    """
    row = SegmentRow.of(problem, weights)
    ways = zip(row.forms, row.ends(), strict=True)
    effort = sum(len(pairs) * (OF_PROBLEM + form.nodes) for form, pairs in ways)
    largest = max(len(segment) for segment in row.units)
    return row if effort <= most and largest * LARGEST <= len(problem.units) else None


def _parts_of_parameters(
    problem: PlacementProblem, segments: Sequence[PlacementSegment]
) -> dict[ValueId, int]:
    """For each parameter, the number of segments that read it."""
    segment_of = [index for index, segment in enumerate(segments) for _node in segment.nodes]
    return {
        index: len({segment_of[node] for node in value.consumers})
        for index, value in numbered(ValueId, problem.values)
        if value.producer is None
    }


def _cell(form: SegmentForm, targets: int, solution: Solution, paid: float) -> Cell:
    """The cell for the solution of one small problem."""
    placement, entry = solution.placement, len(form.units)
    groups = [(unit,) for unit in placement.host_units] + [region.units for region in placement.regions]
    regions = [0] * targets
    for region in placement.regions:
        regions[region.place] += entry not in region.units
    rows = [form.weights[unit] for unit in placement.units if unit != entry] if form.weights else []
    taken = tuple(map(math.fsum, zip(*rows, strict=True)))
    return Cell(solution.cost - paid, solution.lower_bound - paid, tuple(groups), tuple(regions), taken)


def _shortest(columns: Sequence[Cells], length: Callable[[Cell], float]) -> _Path | None:
    """The shortest path through one cell per column, each starting at the end of the previous one."""
    reached: dict[Place | None, float] = {None: 0.0}
    steps: list[dict[Place | None, Ends]] = []
    for column in columns:
        following: dict[Place | None, float] = {}
        step: dict[Place | None, Ends] = {}
        for pair, cell in column.items():
            total = reached.get(pair[0], math.inf) + length(cell)
            if total < following.get(pair[1], math.inf):
                following[pair[1]], step[pair[1]] = total, pair
        reached = following
        steps.append(step)
    if not reached:
        return None
    place: Place | None = None
    ends: list[Ends] = []
    for step in reversed(steps):
        ends.append(step[place])
        place = step[place][0]
    return _Path(reached[None], ends[::-1])
