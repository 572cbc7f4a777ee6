"""Dynamic programming over the frontier: exact when the frontier is small, a beam when it is not.

The nodes are visited in a topological order. After each step all that matters of the past is its shape
(`annotated_region.placement.shapes`) and, for each live value, which destinations have been paid; of all
pasts that agree on this, the cheapest is kept. That is the classical dynamic program over a path
decomposition (Held and Karp 1962; Bodlaender 1988), with the order of open regions in the state so that
every answer is acyclic. Labels that cannot beat a known placement are dropped (Morin and Marsten 1976,
branch and bound inside dynamic programming); when a layer is wider than allowed only the most promising
labels survive, and the bound of the dropped ones is remembered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from annotated_region.ids import UnitId
from annotated_region.placement.labels import Label, Layer, Narrowed, choices_of, size_of_layer, undominated
from annotated_region.placement.problem import Placement
from annotated_region.placement.shapes import HOST, Choice, PlacementShape
from annotated_region.placement.spine import Spine
from annotated_region.placement.transitions import Transitions

__all__ = ["Explored", "FrontierResult", "FrontierSearch", "SearchLimits", "replayed"]

NARROWEST = 4
"""Labels that are kept after a step even when the ration is used up."""

BURST = 4
"""How much more than its share a step may take."""

BRANCHING = 6
"""Labels that one label leads to, roughly."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far to search.

    Attributes
    ----------
    upper
        Labels whose bound reaches this are dropped.
    width
        The most labels to keep after a step; None keeps all.
    ration
        The work that all steps may do together, about; None is no limit. Layers are narrowed so that no step
        takes more than `BURST` times its share of what is left.
    """

    upper: float = math.inf
    width: int | None = None
    ration: int | None = None

    def room(self, work: int, cost: int, steps_left: int) -> int | None:
        """The labels that may be kept after a step of which each label costs `cost`; None is no limit."""
        if self.ration is None:
            return self.width
        share = BURST * (self.ration - work) // steps_left // (BRANCHING * cost)
        return max(NARROWEST, share if self.width is None else min(self.width, share))


@dataclass(frozen=True, slots=True)
class Explored:
    """What was found of a range of steps.

    Attributes
    ----------
    layer
        The labels that arrive.
    dropped
        The least bound of those that were dropped for lack of room.
    work
        The work done: one for each label and four live values.
    """

    layer: Layer
    dropped: float
    work: int


@dataclass(frozen=True, slots=True)
class FrontierResult:
    """What one run of the dynamic program found.

    Attributes
    ----------
    placement
        The best placement found, None if nothing beats the upper limit.
    bound
        Every placement costs at least this or the upper limit.
    work
        The work done, in the unit of `Explored`.
    exact
        Whether nothing was dropped for lack of room.
    """

    placement: Placement | None
    bound: float
    work: int
    exact: bool


class FrontierSearch:
    """The dynamic program for one problem, one order and one potential; run it with any limits.

    Attributes
    ----------
    transitions
        What each step can do, and what it costs.
    spine
        What to take off a bound before it is compared with a cost.

    Notes
    -----
    O(steps x labels of a layer x (open regions + targets) x frontier). Without a limit, labels grow
    exponentially with the frontier, and with nothing else.
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
        """Carry `layer` over some steps."""
        dropped, work = math.inf, 0
        for index in steps:
            cost = 1 + len(self.transitions.steps[index].live) // 4
            carried = _Carrying(self.transitions, self.spine, index, limits.upper)
            work += cost * carried.carry(layer)
            layer = undominated(carried.following, self.transitions.problem.launch)
            room = limits.room(work, cost, steps.stop - index)
            if room is not None and size_of_layer(layer) > room:
                layer, cut = self._narrowed(index, layer, room)
                dropped = min(dropped, cut)
        return Explored(layer, dropped, work)

    def _narrowed(self, index: int, layer: Layer, width: int) -> Narrowed:
        """The `width` labels of least bound; of the others, their least bound less the allowance."""
        ranked = [(shape, paid) for shape, variants in layer.items() for paid in variants]
        ranked.sort(key=lambda item: layer[item[0]][item[1]].bound)
        kept: Layer = {}
        for shape, paid in ranked[:width]:
            kept.setdefault(shape, {})[paid] = layer[shape][paid]
        allowances = {shape: self.spine.allowance(index, shape) for shape in layer}
        return Narrowed(
            kept, min(layer[shape][paid].bound - allowances[shape] for shape, paid in ranked[width:])
        )


def replayed(transitions: Transitions, choices: list[Choice]) -> Placement:
    """Take the choices of a search once more, and give each region of each step its identity."""
    shape = transitions.shapes.empty
    groups: list[dict[UnitId, None]] = []  # units, by the identity of their region
    identities: list[int] = []  # of the open regions
    for index, choice in enumerate(choices):
        if choice.region in (len(identities), HOST):
            groups.append({})
        reachable = [*identities, len(groups) - 1]  # `HOST` is the last as well
        groups[reachable[choice.region]][choice.unit] = None
        moved = transitions.shape_after(index, shape, choice)
        assert moved is not None, "a label was made by a step that closes a cycle"
        shape = moved.shape
        identities = [reachable[old] for old in moved.origin]
    return Placement.of(transitions.problem, [list(group) for group in groups])


class _Carrying:
    """One step of the dynamic program: the labels of a layer on their way to the following one."""

    def __init__(self, transitions: Transitions, spine: Spine, index: int, upper: float) -> None:
        self.transitions = transitions
        self.spine = spine
        self.index = index
        self.upper = upper
        self.mask = (1 << transitions.places) - 1
        self.following: Layer = {}

    def carry(self, layer: Layer) -> int:
        """Carry all labels over all choices; how many labels were made."""
        made = 0
        for shape, variants in layer.items():
            for choice in self.transitions.choices(self.index, shape):
                made += len(variants)
                self.follow(shape, choice, variants)
        return made

    def follow(self, shape: PlacementShape, choice: Choice, variants: dict[int, Label]) -> None:
        """Carry the labels of one shape over one choice; those that reach the limit are dropped."""
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
