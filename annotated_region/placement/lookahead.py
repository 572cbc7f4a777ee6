"""What the rest of the network costs beyond its prices, seen from where a single value is live.

Where one value alone connects what is done with what is to come (an articulation point), the rest can be
solved by itself for each place of that value. Going backwards, segment by segment, gives for each such cut
and each place a bound on what the label's own bound still lacks, mostly launches away from the spine.

The solver of a segment may be given more than any real past leaves behind, never less: the value's
own region is open, nothing else comes after anything, one idle region of each target waits for
nodes that depend on nothing, parameters are paid everywhere. Other open regions are accounted for
by the caller, who takes their launches off (`FrontierSearch.allowance`).
"""

from __future__ import annotations

import math

from annotated_region.placement.frontier import BEFORE, FrontierSearch, Layer
from annotated_region.placement.shapes import EMPTY, HOST, Shape

__all__ = ["look_ahead"]

FIRST_WIDTH = 8
"""The first, narrow run over a segment."""

WIDER = 8
"""How much wider each further run is."""

SHORTEST = 6
"""Steps between two cuts, at least: shorter segments teach nothing that the next one does not."""


def look_ahead(search: FrontierSearch, slack: float, width: int, ration: int) -> tuple[float, int]:
    """Fill `search.ahead`, and say by how much the bound of the whole problem rises.

    Parameters
    ----------
    search
        The search to instruct.
    slack
        The difference of the best known cost and the potential's bound: more need not be proven.
    width
        The most labels to keep after a step.
    ration
        The work after which cuts further ahead are left as they are known.

    Returns
    -------
    tuple
        The rise, and the work done.

    Notes
    -----
    As one run of the search with `width`, times the places of a cut value.
    """
    cuts = _cuts(search)
    ends = [*(cut + 1 for cut in cuts[1:]), len(search.transitions.steps)]
    work, least = 0, 0.0
    for rank in range(len(cuts) - 1, -1, -1):
        cut = cuts[rank]
        if work < ration:
            found: dict[int, float] = {}
            for place in _places_at(search, cut):
                layer = _entry(search, cut, place)
                found[place], done = _solve(search, layer, (cut + 1, ends[rank]), slack, width)
                work += done
            offset = _parameters(search, cut)
            search.ahead[cut] = {place: max(0.0, rise - offset) for place, rise in found.items()}
            least = max(0.0, min(found.values()) - offset)
        else:
            known = search.ahead[cut]
            least = max(least, min(known.values()) if isinstance(known, dict) else known)
            search.ahead[cut] = known if isinstance(known, dict) else least
        first = cuts[rank - 1] + 1 if rank else 0
        search.ahead[first:cut] = [least] * (cut - first)
    if work >= ration:
        return least, work
    start: Layer = {EMPTY: {0: (0.0, None, -1, HOST)}}
    rise, done = _solve(search, start, (0, cuts[0] + 1 if cuts else ends[0]), slack, width)
    return max(rise, least), work + done


def _solve(
    search: FrontierSearch, layer: Layer, steps: tuple[int, int], slack: float, width: int
) -> tuple[float, int]:
    """The least rise over a segment and all that follows it, at most `slack`; and the work done.

    A narrow run finds a rise that can be reached, which is the limit that makes the next run small.
    """
    last = steps[1] - 1
    dropped, work, room = math.inf, 0, FIRST_WIDTH
    while True:
        arrived, dropped, done = search.explore(layer, steps, slack, room)
        work += done
        for shape, variants in arrived.items():
            allowance = search.allowance(last, shape)
            slack = min([slack, *(label[0] - allowance for label in variants.values())])
        if dropped >= slack or room >= width:
            return min(slack, dropped), work
        room = min(WIDER * room, width)


def _cuts(search: FrontierSearch) -> list[int]:
    """The steps that make the only live value but parameters, in the middle of nothing else."""
    transitions = search.transitions
    spanned = transitions.spanned()
    values = transitions.problem.values
    found: list[int] = []
    for index, step in enumerate(transitions.steps):
        made = [value for value in step.live if values[value].producer is not None]
        alone = len(made) == 1 and made == list(step.made)
        slot = search.spine_slots[index]
        on_spine = slot is not None and slot != BEFORE and step.live[slot] in made
        far = not found or index - found[-1] >= SHORTEST
        if far and alone and on_spine and not spanned[index] and not step.detached_places:
            found.append(index)
    return found


def _places_at(search: FrontierSearch, cut: int) -> list[int]:
    """The places where the value of a cut can stand."""
    problem = search.transitions.problem
    node = search.transitions.steps[cut].node
    return sorted({problem.units[unit].place for unit in problem.units_of[node]})


def _entry(search: FrontierSearch, cut: int, place: int) -> Layer:
    """The one label from which the segment after a cut starts."""
    transitions = search.transitions
    step = transitions.steps[cut]
    host, places = transitions.problem.host, transitions.places
    waiting = [target for target in range(host) if step.source_places >> target & 1]
    idle = (1 << len(waiting)) - 1
    if place == host:
        regions = tuple(waiting)
        code = -1 - (place + places * idle)
    else:
        regions = (place + places * (idle << 1), *waiting)
        code = 1
    entries, charged = [], 0
    for slot, value in enumerate(step.live):
        if value in step.made:
            entries.append(code)
            described = transitions.problem.values[value]
            readers = transitions.readers_after(value, cut)
            paid = 1 << host if described.host_reads and place != host else 0
            charged |= (paid & transitions.useful_bits(value, readers, place)) << slot * places
        else:
            entries.append(0)
            charged |= _useful_of_parameter(search, value, cut) << slot * places
    shape: Shape = (tuple(entries), regions, ())
    return {shape: {charged: (0.0, None, -1, HOST)}}


def _readers_left(search: FrontierSearch, value: int, cut: int) -> tuple[int, ...]:
    """Who reads a parameter after a cut, in the order of the steps."""
    steps = search.transitions.steps
    wanted = set(search.transitions.problem.values[value].consumers)
    return tuple(step.node for step in steps[cut + 1 :] if step.node in wanted)


def _useful_of_parameter(search: FrontierSearch, value: int, cut: int) -> int:
    """Where a parameter could have been sent before a cut, if that matters."""
    readers = _readers_left(search, value, cut)
    return search.transitions.useful_bits(value, readers, search.transitions.problem.host)


def _parameters(search: FrontierSearch, cut: int) -> float:
    """What is lost, at most, by taking the live parameters for paid."""
    transitions = search.transitions
    host = transitions.problem.host
    lost = 0.0
    for value in transitions.steps[cut].live:
        if transitions.problem.values[value].producer is None:
            readers = _readers_left(search, value, cut)
            everything = _useful_of_parameter(search, value, cut)
            lost += transitions.potential.rest(value, readers, host, 0)
            lost -= transitions.potential.rest(value, readers, host, everything)
    return lost
