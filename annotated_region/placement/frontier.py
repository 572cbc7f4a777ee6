"""Dynamic programming over the frontier: exact when the frontier is small, a beam when it is not.

The nodes are visited in a topological order. After each step, the state is the shape of the prefix
(`annotated_region.placement.shapes`) and, for each live value, its paid destinations; of all
prefixes with the same state, the cheapest is kept. This is the classical dynamic program over a path
decomposition (Held and Karp 1962; Bodlaender 1988), with the order of open regions in the state so that
every result is acyclic. Labels that cannot beat a known placement are pruned (Morin and Marsten 1976,
branch and bound inside dynamic programming); if a layer exceeds the width, only the labels with the lowest
bounds are kept, and the lowest bound of the dropped ones is recorded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from annotated_region.ids import UnitId
from annotated_region.placement.elimination import frontier_sizes
from annotated_region.placement.labels import Label, Layer, Narrowed, choices_of, size_of_layer, undominated
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.shapes import HOST, Choice, PlacementShape
from annotated_region.placement.spine import Spine
from annotated_region.placement.transitions import Transitions

__all__ = [
    "Explored",
    "FrontierResult",
    "FrontierSearch",
    "SearchLimits",
    "is_too_wide",
    "most_work",
    "replayed",
    "work_of_label",
]

NARROWEST = 4
"""Labels that are kept after a step even if the ration is used up."""

BURST = 4
"""The factor by which a step may exceed its share."""

BRANCHING = 6
"""The approximate number of successors of a label."""

OVERDRAFT, LEAST_BUDGET = 4, 2_000
"""A search stops without a result at this multiple of its budget, or of the least budget. The narrowest
search visits every step, and its labels grow with the frontier: no budget covers it on a wide network."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits of a search.

    Attributes
    ----------
    upper
        Labels whose bound reaches this are dropped.
    width
        The maximum number of labels kept after a step; None keeps all.
    ration
        The approximate total work of all steps; None is no limit. Layers are narrowed so that no step
        takes more than `BURST` times its share of the rest.
    most
        The work after which the search stops without a placement; None is no limit.
    """

    upper: float = math.inf
    width: int | None = None
    ration: int | None = None
    most: int | None = None

    def room(self, work: int, cost: int, steps_left: int) -> int | None:
        """The number of labels to keep after a step with work `cost` per label; None is no limit."""
        if self.ration is None:
            return self.width
        share = BURST * (self.ration - work) // steps_left // (BRANCHING * cost)
        return max(NARROWEST, share if self.width is None else min(self.width, share))

    def is_exhausted(self, work: int) -> bool:
        """Whether a search stops after this work."""
        return self.most is not None and work > self.most


@dataclass(frozen=True, slots=True)
class Explored:
    """The result of exploring a range of steps.

    Attributes
    ----------
    layer
        The labels after the last step; none if the search stopped before it.
    dropped
        The least bound of the labels dropped because of the width or when the search stopped.
    work
        The work done, in the unit of `work_of_label`.
    """

    layer: Layer
    dropped: float
    work: int


@dataclass(frozen=True, slots=True)
class FrontierResult:
    """The result of one run of the dynamic program.

    Attributes
    ----------
    placement
        The best placement found, None if nothing beats the upper limit.
    bound
        Every placement costs at least this or the upper limit.
    work
        The work done, in the unit of `Explored`.
    exact
        Whether no label was dropped because of the width.
    """

    placement: Placement | None
    bound: float
    work: int
    exact: bool


class FrontierSearch:
    """The dynamic program for one problem, order and potential; it can run with various limits.

    Attributes
    ----------
    transitions
        The choices of each step, and their costs.
    spine
        The allowances to subtract from bounds before comparing them with a cost.

    Notes
    -----
    O(steps x labels of a layer x (open regions + targets) x frontier). Without a limit, the number of labels
    is exponential in the frontier only.
    """

    def __init__(self, transitions: Transitions) -> None:
        self.transitions = transitions
        self.spine = Spine(transitions)

    def run(self, limits: SearchLimits) -> FrontierResult:
        """Search for a placement cheaper than ``limits.upper``."""
        start = Label(self.transitions.potential.base, None, None)
        explored = self.explore(
            {self.transitions.shapes.empty: {0: start}}, range(len(self.transitions.steps)), limits
        )
        finals = [label for variants in explored.layer.values() for label in variants.values()]
        best = min(finals, key=lambda label: label.bound, default=None)
        bound = min(explored.dropped, limits.upper if best is None else best.bound)
        placement = None if best is None else replayed(self.transitions, choices_of(best))
        return FrontierResult(placement, bound, explored.work, explored.dropped == math.inf)

    def explore(self, layer: Layer, steps: range, limits: SearchLimits) -> Explored:
        """Advance `layer` over a range of steps."""
        dropped, work = math.inf, 0
        for index in steps:
            cost = work_of_label(len(self.transitions.steps[index].live))
            carried = _Carrying(self.transitions, self.spine, index, limits.upper)
            work += cost * carried.carry(layer)
            layer = undominated(carried.following, self.transitions.problem.launch)
            room = 0 if limits.is_exhausted(work) else limits.room(work, cost, steps.stop - index)
            if room is not None and size_of_layer(layer) > room:
                layer, cut = self._narrowed(index, layer, room)
                dropped = min(dropped, cut)
            if not layer:
                break
        return Explored(layer, dropped, work)

    def _narrowed(self, index: int, layer: Layer, width: int) -> Narrowed:
        """The `width` labels of least bound, and the least bound minus allowance of the others."""
        ranked = [(shape, paid) for shape, variants in layer.items() for paid in variants]
        ranked.sort(key=lambda item: layer[item[0]][item[1]].bound)
        kept: Layer = {}
        for shape, paid in ranked[:width]:
            kept.setdefault(shape, {})[paid] = layer[shape][paid]
        allowances = {shape: self.spine.allowance(index, shape) for shape in layer}
        return Narrowed(
            kept, min(layer[shape][paid].bound - allowances[shape] for shape, paid in ranked[width:])
        )


def work_of_label(live: int) -> int:
    """The work of one label: a unit, and one per four live values."""
    return 1 + live // 4


def most_work(budget: int) -> int:
    """The work at which a search with this budget stops."""
    return OVERDRAFT * max(budget, LEAST_BUDGET)


def is_too_wide(problem: PlacementProblem, order: tuple[int, ...], budget: int) -> bool:
    """Whether even a search that keeps `NARROWEST` labels would stop early. O(nodes + edges)."""
    labels = NARROWEST * BRANCHING
    narrowest = labels * sum(map(work_of_label, frontier_sizes(problem, order)))
    return narrowest > most_work(budget)


def replayed(transitions: Transitions, choices: list[Choice]) -> Placement:
    """Replay the choices of a search to build its placement, tracking the identities of regions."""
    shape = transitions.shapes.empty
    groups: list[dict[UnitId, None]] = []  # the units of each region, by identity
    identities: list[int] = []  # of the open regions
    for index, choice in enumerate(choices):
        if choice.region in (len(identities), HOST):
            groups.append({})
        reachable = [*identities, len(groups) - 1]  # index `HOST` (-1) selects the last entry as well
        groups[reachable[choice.region]][choice.unit] = None
        moved = transitions.shape_after(index, shape, choice)
        assert moved is not None, "a label was made by a step that closes a cycle"
        shape = moved.shape
        identities = [reachable[old] for old in moved.origin]
    return Placement.of(transitions.problem, [list(group) for group in groups])


class _Carrying:
    """One step of the dynamic program, from one layer to the next."""

    def __init__(self, transitions: Transitions, spine: Spine, index: int, upper: float) -> None:
        self.transitions = transitions
        self.spine = spine
        self.index = index
        self.upper = upper
        self.mask = (1 << transitions.places) - 1
        self.following: Layer = {}

    def carry(self, layer: Layer) -> int:
        """Expand all labels by all choices; returns the number of new labels."""
        made = 0
        for shape, variants in layer.items():
            for choice in self.transitions.choices(self.index, shape):
                made += len(variants)
                self.follow(shape, choice, variants)
        return made

    def follow(self, shape: PlacementShape, choice: Choice, variants: dict[int, Label]) -> None:
        """Expand the labels of one shape by one choice; prunes those that reach the limit."""
        moved = self.transitions.shape_after(self.index, shape, choice)
        if moved is None:
            return
        limit = self.upper + self.spine.allowance(self.index, moved.shape)
        move = self.transitions.move(self.index, shape, choice)
        found: dict[int, Label] = self.following.get(moved.shape, {})
        for charged, label in variants.items():
            bound = label.bound + move.rise
            after = move.made_bits
            for shift, rows, to in move.readings:
                rise, paid = rows[charged >> shift & self.mask]
                bound += rise
                after |= paid << to
            if bound >= limit:
                continue
            after |= self.transitions.paid_after(self.index, charged)
            known = found.get(after)
            if known is None or bound < known.bound:
                found[after] = Label(bound, label, choice)
        if found:
            self.following[moved.shape] = found
