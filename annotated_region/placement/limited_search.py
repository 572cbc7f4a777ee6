"""The dynamic program over the frontier for targets with limits on regions.

Labels carry their resource use (`annotated_region.placement.usage`). Of two labels with equal shape and paid
destinations, one dominates the other if its cost and its use of each resource are no higher: label-setting
for constrained shortest paths (Desrochers and Soumis 1988). If only memory is limited, labels of different
shapes are compared as well (`annotated_region.placement.dominance`). Costs may include penalties for memory
(`Penalties`), which raise bounds if a budget is scarce (Handler and Zang 1980); they are subtracted when
costs are compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from annotated_region.placement.dominance import PlacementProfile, beats, profile
from annotated_region.placement.frontier import FrontierResult, SearchLimits, replayed, work_of_label
from annotated_region.placement.problem import Placement
from annotated_region.placement.shapes import Choice, PlacementShape
from annotated_region.placement.spine import Spine
from annotated_region.placement.transitions import Move, Transitions
from annotated_region.placement.usage import StepUsage, Usage, UsageRules
from annotated_region.placement.uses import Uses

__all__ = ["LimitedExplored", "LimitedLabel", "LimitedSearch", "Penalties"]

RIVALS = 24
"""The number of cheaper labels of its kind that each label is compared with: the most expensive ones, which
use least.
"""


@dataclass(frozen=True, slots=True)
class Penalties:
    """The penalties for memory added to the costs of units, and their maximum sum.

    Attributes
    ----------
    of
        For each unit, its penalty.
    most
        The maximum sum of penalties of a placement within the budgets.
    """

    of: tuple[float, ...]
    most: float


class LimitedLabel(NamedTuple):
    """A partial placement within limits.

    Attributes
    ----------
    bound
        A lower bound on the cost of every placement that extends it, penalties included.
    penalty
        The sum of the penalties of its units.
    before, choice
        As in `Label`.
    usage
        Its resource use.
    """

    bound: float
    penalty: float
    before: LimitedLabel | None
    choice: Choice | None
    usage: Usage

    @property
    def cost(self) -> float:
        """The bound without the penalties paid so far: comparable between labels of one kind."""
        return self.bound - self.penalty


LimitedLayer = dict[PlacementShape, dict[int, list[LimitedLabel]]]
"""For each shape and each set of paid destinations, the labels that do not dominate each other."""


@dataclass(frozen=True, slots=True)
class LimitedExplored:
    """The result of exploring all steps.

    Attributes
    ----------
    labels
        The labels after the last step; none if the search stopped before it.
    dropped
        A lower bound on the cost of the placements of dropped labels, without penalties; infinite if none was
        dropped.
    work
        The work done.
    """

    labels: list[LimitedLabel]
    dropped: float
    work: int


class LimitedSearch:
    """The dynamic program for one problem with limits, one order and one potential.

    Attributes
    ----------
    transitions
        The choices of each step, and their costs with penalties.
    spine
        The allowances to subtract from bounds before comparing them with a cost.

    Notes
    -----
    As `FrontierSearch`, times the number of Pareto-optimal labels per state.
    """

    def __init__(self, transitions: Transitions, spine: Spine, uses: Uses, penalties: Penalties) -> None:
        self.transitions = transitions
        self.spine = spine
        self._penalties = penalties
        self._rules = UsageRules(transitions.problem, uses, transitions.steps)
        self._counts_units = uses.counts_units

    def run(self, limits: SearchLimits) -> FrontierResult:
        """Search for a placement within the limits whose cost without penalties is below ``limits.upper``."""
        explored = self.explore(limits)
        best = min(explored.labels, key=lambda label: label.cost, default=None)
        if best is not None and best.cost >= limits.upper:
            best = None
        bound = min(explored.dropped, limits.upper if best is None else best.cost)
        placement = None if best is None else self.placement(best)
        return FrontierResult(placement, bound, explored.work, explored.dropped == math.inf)

    def explore(self, limits: SearchLimits) -> LimitedExplored:
        """The labels of whole placements, pruned at ``limits.upper``."""
        transitions = self.transitions
        start = LimitedLabel(transitions.potential.base, 0.0, None, None, self._rules.start())
        layer: LimitedLayer = {transitions.shapes.empty: {0: [start]}}
        dropped, work = math.inf, 0
        for index, step in enumerate(transitions.steps):
            cost = work_of_label(len(step.live))
            layer, made = self._carried(index, layer, limits.upper + self._penalties.most)
            work += cost * made
            left = len(transitions.steps) - index
            room = 0 if limits.is_exhausted(work) else limits.room(work, cost, left)
            if room is not None and _size(layer) > room:
                layer, least = self._narrowed(index, layer, room)
                dropped = min(dropped, least - self._penalties.most)
            if not layer:
                break
        labels = [label for kinds in layer.values() for labels in kinds.values() for label in labels]
        return LimitedExplored(labels, dropped, work)

    def placement(self, label: LimitedLabel) -> Placement:
        """The placement of a label of the last step."""
        return replayed(self.transitions, _choices(label))

    def _carried(self, index: int, layer: LimitedLayer, upper: float) -> tuple[LimitedLayer, int]:
        """The labels of the next layer, and the number of labels created."""
        transitions = self.transitions
        step = transitions.steps[index]
        following: LimitedLayer = {}
        made = 0
        for shape, kinds in layer.items():
            for choice in transitions.choices(index, shape):
                made += sum(map(len, kinds.values()))
                moved = transitions.shape_after(index, shape, choice)
                if moved is None:
                    continue
                carrying = _LimitedCarrying(
                    transitions.move(index, shape, choice),
                    self._rules.change(index, step, shape, choice, moved),
                    choice,
                    upper + self.spine.allowance(index, moved.shape),
                )
                found = following.setdefault(moved.shape, {})
                for charged, labels in kinds.items():
                    self._carry(index, carrying, charged, labels, found)
        kept = {
            shape: {paid: _undominated(labels) for paid, labels in kinds.items()}
            for shape, kinds in following.items()
            if kinds
        }
        if self._counts_units:
            kept = _unbeaten(kept, transitions.problem.launch)
        return kept, made

    def _carry(
        self,
        index: int,
        carrying: _LimitedCarrying,
        charged: int,
        labels: Sequence[LimitedLabel],
        found: dict[int, list[LimitedLabel]],
    ) -> None:
        """Expand the labels with equal paid destinations by one choice."""
        transitions, change = self.transitions, carrying.change
        rise, after = carrying.move.rise, carrying.move.made_bits
        mask = (1 << transitions.places) - 1
        for shift, rows, to in carrying.move.readings:
            row = rows[charged >> shift & mask]
            rise += row.rise
            after |= row.paid << to
        after |= transitions.paid_after(index, charged)
        penalty = 0.0 if change.unit is None else self._penalties.of[change.unit]
        for label in labels:
            bound = label.bound + rise
            if bound >= carrying.limit:
                continue
            usage = self._rules.after(label.usage, change)
            if usage is not None:
                new = LimitedLabel(bound, label.penalty + penalty, label, carrying.choice, usage)
                found.setdefault(after, []).append(new)

    def _narrowed(self, index: int, layer: LimitedLayer, width: int) -> tuple[LimitedLayer, float]:
        """The `width` labels of least bound, and the least bound minus allowance of the others."""
        ranked = [
            (label.bound, order, shape, paid, label)
            for order, (shape, paid, label) in enumerate(
                (shape, paid, label)
                for shape, kinds in layer.items()
                for paid, labels in kinds.items()
                for label in labels
            )
        ]
        ranked.sort(key=lambda item: item[:2])
        kept: LimitedLayer = {}
        for _bound, _order, shape, paid, label in ranked[:width]:
            kept.setdefault(shape, {}).setdefault(paid, []).append(label)
        allowances = {shape: self.spine.allowance(index, shape) for shape in layer}
        return kept, min(bound - allowances[shape] for bound, _order, shape, _paid, _label in ranked[width:])


@dataclass(frozen=True, slots=True)
class _LimitedCarrying:
    """One choice for the labels of one shape: its cost, its resource use, and the pruning bound."""

    move: Move
    change: StepUsage
    choice: Choice
    limit: float


def _size(layer: LimitedLayer) -> int:
    return sum(len(labels) for kinds in layer.values() for labels in kinds.values())


def _undominated(labels: list[LimitedLabel]) -> list[LimitedLabel]:
    """The undominated labels among labels of one kind."""
    if len(labels) == 1:
        return labels
    labels.sort(key=lambda label: (label.cost, label.usage))
    kept: list[LimitedLabel] = []
    for label in labels:
        if not any(other.usage.at_most(label.usage) for other in kept[:-RIVALS:-1]):
            kept.append(label)
    return kept


def _unbeaten(layer: LimitedLayer, launch: Sequence[float]) -> LimitedLayer:
    """The labels that no label of another shape dominates, if regions may be split at no use of a resource.

    Whatever a label adds to an idle region, the dominating one adds to a region of its own or to a new one
    (`annotated_region.placement.dominance`): the same units, and so the same memory.
    """
    profiles = {shape: profile(shape) for shape in layer}
    contests: dict[tuple[tuple[object, ...], int], list[PlacementShape]] = {}
    for shape, kinds in layer.items():
        for paid in kinds:
            contests.setdefault((profiles[shape].stands, paid), []).append(shape)
    kept: LimitedLayer = {}
    for (_stands, paid), shapes in contests.items():
        if len(shapes) == 1:
            kept.setdefault(shapes[0], {})[paid] = layer[shapes[0]][paid]
            continue
        for shape, label in _winners([(shape, layer[shape][paid]) for shape in shapes], profiles, launch):
            kept.setdefault(shape, {}).setdefault(paid, []).append(label)
    return kept


def _winners(
    rivals: Sequence[tuple[PlacementShape, Sequence[LimitedLabel]]],
    profiles: Mapping[PlacementShape, PlacementProfile],
    launch: Sequence[float],
) -> list[tuple[PlacementShape, LimitedLabel]]:
    """The labels with equal stands and paid destinations that no cheaper one of another shape dominates."""
    ranked = [(shape, label) for shape, labels in rivals for label in labels]
    ranked.sort(key=lambda item: (item[1].cost, item[1].usage.targets, len(profiles[item[0]].idle)))
    best: list[tuple[PlacementShape, LimitedLabel]] = []
    for shape, label in ranked:
        if not any(
            other is not shape
            and known.usage.needs_at_most(label.usage)
            and beats(profiles[other], profiles[shape], label.cost - known.cost, launch)
            for other, known in best[:-RIVALS:-1]
        ):
            best.append((shape, label))
    return best


def _choices(label: LimitedLabel) -> list[Choice]:
    """The choices that lead to a label, in the order of steps."""
    choices: list[Choice] = []
    cursor: LimitedLabel | None = label
    while cursor is not None and cursor.choice is not None:
        choices.append(cursor.choice)
        cursor = cursor.before
    return choices[::-1]
