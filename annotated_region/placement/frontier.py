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

from annotated_region.placement.dominance import Profile, beats, profile
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.shapes import EMPTY, HOST, Shape
from annotated_region.placement.transitions import Transitions

__all__ = ["BEFORE", "FrontierResult", "FrontierSearch", "Label", "Layer"]

BEFORE = -1
"""Stands for the slot of the spine's value before the spine is reached."""

NARROWEST = 4
"""Labels that are kept after a step even when the ration is used up."""

BURST = 4
"""How much more than its share a step may take."""

BRANCHING = 6
"""Labels that one label leads to, roughly."""

RIVALS = 16
"""How many of the cheapest labels each label is compared with."""

Label = tuple[float, "Label | None", int, int]
"""Bound of the whole, the label before, the unit that covers the step's node, the region it joins."""

Layer = dict[Shape, dict[int, Label]]
"""For each shape, the best label for each set of paid destinations (places bits for each slot)."""


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
        The work done, in the unit of `FrontierSearch.explore`.
    exact
        Whether nothing was dropped for lack of room.
    """

    placement: Placement | None
    bound: float
    work: int
    exact: bool


class FrontierSearch:
    """The dynamic program for one problem, one order and one potential; run it with any width.

    Attributes
    ----------
    ahead
        For each step, what the bound of a label may be raised by, given the place of the value that
        `annotated_region.placement.lookahead` watches there; nothing at first.

    Notes
    -----
    O(steps x labels of a layer x (open regions + targets) x frontier). Without a limit, labels grow
    exponentially with the frontier, and with nothing else.
    """

    def __init__(self, transitions: Transitions) -> None:
        self.transitions = transitions
        self._places = transitions.places
        self._launch = transitions.problem.launch
        self.spine_slots = self._slots_of_spine()
        self._feeds = self._feeding_slots()
        self.ahead: list[dict[int, float] | float] = [0.0] * len(transitions.steps)

    def run(
        self, upper: float = math.inf, width: int | None = None, ration: int | None = None
    ) -> FrontierResult:
        """Search for a placement cheaper than `upper`.

        Parameters
        ----------
        upper
            Labels whose bound reaches this are dropped.
        width
            The most labels to keep after a step; None keeps all.
        ration
            The most work to do, about; None is no limit. See `explore`.
        """
        start: Label = (self.transitions.potential.base, None, -1, HOST)
        end = len(self.transitions.steps)
        layer, dropped, work = self.explore({EMPTY: {0: start}}, (0, end), upper, width, ration)
        finals = [label for variants in layer.values() for label in variants.values()]
        best = min(finals, key=lambda label: label[0], default=None)
        bound = min(dropped, upper if best is None else best[0])
        placement = None if best is None else self._replay(best)
        return FrontierResult(placement, bound, work, dropped == math.inf)

    def explore(
        self, layer: Layer, steps: tuple[int, int], upper: float, width: int | None, ration: int | None = None
    ) -> tuple[Layer, float, int]:
        """Carry `layer` over the steps from the first up to, without, the second.

        Parameters
        ----------
        layer
            The labels to start from.
        steps
            The range of steps.
        upper
            Labels whose bound reaches this are dropped.
        width
            The most labels to keep after a step.
        ration
            The work that all steps may do together. Layers are narrowed so that no step takes more than
            `BURST` times its share of what is left.

        Returns
        -------
        tuple
            The labels that arrive, the least bound of those dropped for lack of room, the work done: one for
            each label and four live values.
        """
        dropped, work = math.inf, 0
        for index in range(*steps):
            cost = 1 + len(self.transitions.steps[index].live) // 4
            layer, made = self._next_layer(index, layer, upper)
            work += made * cost
            layer = self._undominated(layer)
            room = width
            if ration is not None:
                share = BURST * (ration - work) // (steps[1] - index) // (BRANCHING * cost)
                room = max(NARROWEST, share if width is None else min(width, share))
            if room is not None and sum(map(len, layer.values())) > room:
                layer, cut = self._narrowed(index, layer, room)
                dropped = min(dropped, cut)
        return layer, dropped, work

    def allowance(self, index: int, shape: Shape) -> float:
        """What to take off the bound of a label after step `index` before it is compared with a cost.

        The potential counts a launch for each run of the spine to come, but such a run may join a region
        whose launch is paid already: an open one that does not come before the spine (case 1). Of the
        regions with values that the spine's next node depends on, it can join one at most, and the others
        come before it then (case 2). What is known from looking ahead counts against that.
        """
        ahead = self.ahead[index]
        slot = self.spine_slots[index]
        if slot is None:
            return 0.0 if isinstance(ahead, dict) else -ahead
        entries, regions, _ = shape
        barred, place = 0, -1
        if slot != BEFORE:
            code = entries[slot]
            if code > 0:
                place = regions[code - 1] % self._places
                barred = 1 << (code - 1) | regions[code - 1] // self._places
            else:
                place = (-1 - code) % self._places
                barred = (-1 - code) // self._places
        feeding = 0
        for feed in self._feeds[index]:
            if entries[feed] > 0:
                feeding |= 1 << (entries[feed] - 1)
        credit, single = 0.0, 0.0
        for rank, code in enumerate(regions):
            if barred >> rank & 1:
                continue
            launch = self._launch[code % self._places]
            if not feeding >> rank & 1:
                credit += launch  # case 1
            elif code % self._places != place and launch > single:
                single = launch  # case 2
        return credit + single - (ahead[place] if isinstance(ahead, dict) else ahead)

    def _feeding_slots(self) -> list[tuple[int, ...]]:
        """After each step, the slots on which the next node of the spine depends."""
        transitions = self.transitions
        problem = transitions.problem
        visits = {step.node: index for index, step in enumerate(transitions.steps)}
        found: list[tuple[int, ...]] = []
        upcoming = list(transitions.potential.spine)
        needs: dict[int, None] = {}
        for index, step in enumerate(transitions.steps):
            if index == 0 or step.node == upcoming[0]:
                if step.node == upcoming[0]:
                    upcoming.pop(0)
                needs = _needs(problem, upcoming[0], visits, index) if upcoming else {}
            found.append(tuple(slot for slot, value in enumerate(step.live) if value in needs))
            if not upcoming:
                upcoming = [-1]
        return found

    def _slots_of_spine(self) -> list[int | None]:
        """After each step, the slot of the value that the next node of the spine reads.

        `BEFORE` while the spine is not reached, None when it has been left.
        """
        potential = self.transitions.potential
        value: int | None = BEFORE
        slots: list[int | None] = []
        for step in self.transitions.steps:
            if step.node == potential.spine[-1]:
                value = None
            elif step.node in potential.carriers:
                value = potential.carriers[step.node]
            slots.append(value if value is None or value == BEFORE else step.live.index(value))
        return slots

    def _next_layer(self, index: int, layer: Layer, upper: float) -> tuple[Layer, int]:
        """All labels after step `index` that may still beat `upper`, and how many were made."""
        following: Layer = {}
        made = 0
        for shape, variants in layer.items():
            for choice in self.transitions.choices(index, shape):
                made += len(variants)
                self._follow(index, shape, choice, variants, following, upper)
        return following, made

    def _follow(
        self,
        index: int,
        shape: Shape,
        choice: tuple[int, int],
        variants: dict[int, Label],
        following: Layer,
        upper: float,
    ) -> None:
        """Carry the labels of one shape over one choice into the following layer."""
        transitions = self.transitions
        moved = transitions.shape_after(index, shape, choice)
        if moved is None:
            return
        limit = upper + self.allowance(index, moved[0])
        move = transitions.move(index, shape, choice)
        mask = (1 << self._places) - 1
        target = following.get(moved[0])
        for charged, label in variants.items():
            bound = label[0] + move.rise
            after = move.made_bits
            for shift, rows, to in move.reads:
                rise, paid = rows[charged >> shift & mask]
                bound += rise
                after |= paid << to
            if bound >= limit:
                continue
            after |= transitions.paid_after(index, charged)
            if target is None:
                target = following[moved[0]] = {}
            known = target.get(after)
            if known is None or bound < known[0]:
                target[after] = (bound, label, *choice)

    def _undominated(self, layer: Layer) -> Layer:
        """The layer without the labels that another label beats whatever follows."""
        contests: dict[tuple[object, ...], list[tuple[float, Profile, Shape, int]]] = {}
        for shape, variants in layer.items():
            taken = profile(shape, self._places)
            for charged, label in variants.items():
                contests.setdefault((taken.stands, charged), []).append((label[0], taken, shape, charged))
        kept: Layer = {}
        for rivals in contests.values():
            rivals.sort(key=lambda rival: (rival[0], len(rival[1].idle)))
            best: list[tuple[float, Profile]] = []
            for bound, taken, shape, charged in rivals:
                if any(beats(other, taken, bound - low, self._launch) for low, other in best[:RIVALS]):
                    continue
                best.append((bound, taken))
                kept.setdefault(shape, {})[charged] = layer[shape][charged]
        return kept

    def _narrowed(self, index: int, layer: Layer, width: int) -> tuple[Layer, float]:
        """The `width` most promising labels, and the least bound among the others."""
        ranked = []
        for shape, variants in layer.items():
            allowance = self.allowance(index, shape)
            ranked += [
                (label[0], label[0] - allowance, shape, charged) for charged, label in variants.items()
            ]
        ranked.sort(key=lambda item: item[0])
        kept: Layer = {}
        for _, _, shape, charged in ranked[:width]:
            kept.setdefault(shape, {})[charged] = layer[shape][charged]
        return kept, min(item[1] for item in ranked[width:])

    def _replay(self, label: Label) -> Placement:
        """Walk the labels back and give each region of each step its identity."""
        choices: list[tuple[int, int]] = []
        cursor: Label | None = label
        while cursor is not None and cursor[1] is not None:
            choices.append((cursor[2], cursor[3]))
            cursor = cursor[1]
        shape: Shape = EMPTY
        known: list[int] = []
        groups: list[dict[int, None]] = []
        for index, (unit, region) in enumerate(reversed(choices)):
            if region == len(known) or region == HOST:
                groups.append({})
            identities = [*known, len(groups) - 1]
            groups[identities[region]][unit] = None
            moved = self.transitions.shape_after(index, shape, (unit, region))
            assert moved is not None, "a label was made by a step that closes a cycle"
            shape, origin = moved
            known = [identities[old] for old in origin]
        return Placement.of(self.transitions.problem, [list(group) for group in groups])


def _needs(problem: PlacementProblem, node: int, visits: dict[int, int], index: int) -> dict[int, None]:
    """The values that `node` and its producers to come, visited after step `index`, read."""
    needs: dict[int, None] = {}
    stack, seen = [node], {node}
    while stack:
        for value in problem.reads[stack.pop()]:
            needs[value] = None
            producer = problem.values[value].producer
            if producer is not None and producer not in seen and visits[producer] > index:
                seen.add(producer)
                stack.append(producer)
    return needs
