r"""The discrete half of a partial placement: where live values stand, and which regions come before which.

A *shape* is ``(entries, regions, pending)``:

* ``entries``: one code for each live slot: 0 for a parameter; ``1 + r`` for a value made in the open
  region r; ``-1 - (place + places * ancestors)`` for a value made by the host, or in a region that can
  grow no more, ``ancestors`` being the bit set of open regions that come before it;
* ``regions``: the *open* regions, those which a later node may still join, each as
  ``place + places * ancestors``;
* ``pending``: ``(unit, region)`` of the composites that are begun and not complete.

The quotient graph stays acyclic because a node joins region r only if r is no ancestor of what the node
reads elsewhere; the ancestors are kept transitively closed, so the test is one bit. Regions that no later
node can join are forgotten: nothing can distinguish two pasts that agree on the rest.

        A1   A2       A1 in region 0.  X reads A1 on the host: ancestors of X = {0}.
        | \ / |       B reads A2 and X; may B join region 0?  X comes after region 0: no.
        X  \/  Y
        | /  \ |
        B1    B2
"""

from __future__ import annotations

from annotated_region.placement.elimination import Step

__all__ = ["EMPTY", "HOST", "Pending", "Shape", "advance", "open_regions", "source_place"]

Pending = tuple[tuple[int, int], ...]
Shape = tuple[tuple[int, ...], tuple[int, ...], Pending]

EMPTY: Shape = ((), (), ())
"""Nothing is live, no region is open."""

HOST = -1
"""The region index that means: no region, the host."""


def source_place(code: int, regions: tuple[int, ...], places: int) -> int:
    """The place of the value behind an entry's code; the host for a parameter."""
    if code > 0:
        return regions[code - 1] % places
    return (-1 - code) % places if code < 0 else places - 1


def open_regions(shape: Shape, place: int, places: int) -> list[int]:
    """The open regions of `place`."""
    return [index for index, code in enumerate(shape[1]) if code % places == place]


def advance(
    step: Step, shape: Shape, region: int, place: int, pending: Pending, places: int
) -> tuple[Shape, tuple[int, ...]] | None:
    """The shape after the node of `step` joins `region`, and the old indices of the regions it keeps.

    Parameters
    ----------
    step
        What is read, kept and made.
    shape
        The shape before.
    region
        An open region; the number of open regions to found a new one; `HOST` for the host.
    place
        The place of the node.
    pending
        The composites that will be pending afterwards, with their regions as indexed before.
    places
        Targets and host.

    Returns
    -------
    tuple or None
        None if joining would close a cycle.

    Notes
    -----
    O(live + open regions), on machine words for bit sets.
    """
    entries = [*shape[0], *(0 for _ in step.arrivals)]
    ancestors = [code // places for code in shape[1]]
    above = _above([entries[slot] for _, slot in step.inputs], ancestors, region, places)
    if region >= 0 and above >> region & 1:
        return None
    kept = [entries[slot] for slot in step.kept]
    region_places = [code % places for code in shape[1]]
    if region == len(ancestors):
        ancestors.append(above)
        region_places.append(place)
    elif region >= 0 and above & ~ancestors[region]:
        _grow(kept, ancestors, region, above, places)
    kept += [1 + region if region >= 0 else -1 - (place + places * above)] * len(step.made)
    still_open = _still_open(step, kept, ancestors, region_places, places)
    for _, index in pending:
        still_open |= 1 << index
    return _canonical(kept, ancestors, region_places, pending, still_open, places)


def _above(codes: list[int], ancestors: list[int], region: int, places: int) -> int:
    """The open regions that come before a node which reads `codes` and joins `region`."""
    above = 0
    for code in codes:
        if code < 0:
            above |= (-1 - code) // places
        elif code > 0 and code - 1 != region:
            above |= 1 << (code - 1) | ancestors[code - 1]
    return above


def _grow(entries: list[int], ancestors: list[int], region: int, above: int, places: int) -> None:
    """Put `above` before `region` and before everything that comes after it, in place."""
    bit = 1 << region
    closed = above | ancestors[region]
    ancestors[region] = closed
    for index, mask in enumerate(ancestors):
        if mask & bit:
            ancestors[index] = mask | closed
    for slot, code in enumerate(entries):
        if code < 0 and (-1 - code) // places & bit:
            entries[slot] = -1 - ((-1 - code) % places + places * ((-1 - code) // places | closed))


def _still_open(
    step: Step, entries: list[int], ancestors: list[int], region_places: list[int], places: int
) -> int:
    """The regions that some later node may have to join, as a bit set.

    A later node that depends on live values is kept out of the regions that come before one of them
    (case 1). A node that depends on nothing may join anything; but if it is not to share a region with
    its readers, then any region of its target that is not after them will do as well, in particular one
    before which there is no other of that target: only those stay open for it (case 2). For nodes that
    depend on such nodes alone that argument does not hold, and all regions stay open (case 3).
    """
    reachable = 0
    for slots in step.ready:
        blocked = 0
        for slot in slots:
            code = entries[slot]
            blocked |= ancestors[code - 1] if code > 0 else (-1 - code) // places
        reachable |= ~blocked
    found = 0
    for index, place in enumerate(region_places):
        if step.later_places >> place & 1 and reachable >> index & 1:
            found |= 1 << index  # case 1
        elif step.detached_places >> place & 1:
            found |= 1 << index  # case 3
        elif step.source_places >> place & 1:
            before = ancestors[index]
            if not any(before >> other & 1 for other, same in enumerate(region_places) if same == place):
                found |= 1 << index  # case 2
    return found


def _canonical(
    entries: list[int],
    ancestors: list[int],
    region_places: list[int],
    pending: tuple[tuple[int, int], ...],
    still_open: int,
    places: int,
) -> tuple[Shape, tuple[int, ...]]:
    """Number the open regions by first appearance, so that equal situations have equal shapes."""
    order: dict[int, None] = {}
    for code in entries:
        if code > 0 and still_open >> (code - 1) & 1:
            order[code - 1] = None
    for _, index in pending:
        order[index] = None
    rest = [index for index in range(len(ancestors)) if still_open >> index & 1 and index not in order]
    rest.sort(key=lambda index: (region_places[index], ancestors[index].bit_count()))
    origin = (*order, *rest)
    if origin == tuple(range(len(ancestors))):
        codes = tuple(place + places * mask for place, mask in zip(region_places, ancestors, strict=True))
        return (tuple(entries), codes, pending), origin
    new_index = {old: new for new, old in enumerate(origin)}
    renumbered: dict[int, int] = {}

    def renumber(mask: int) -> int:
        if mask not in renumbered:
            bits = (1 << new for old, new in new_index.items() if mask >> old & 1)
            renumbered[mask] = sum(bits)
        return renumbered[mask]

    codes = tuple(region_places[old] + places * renumber(ancestors[old]) for old in origin)
    moved = []
    for code in entries:
        if code > 0:
            old = code - 1
            closed = -1 - (region_places[old] + places * renumber(ancestors[old]))
            moved.append(1 + new_index[old] if old in new_index else closed)
        elif code < 0:
            moved.append(-1 - ((-1 - code) % places + places * renumber((-1 - code) // places)))
        else:
            moved.append(0)
    moved_pending = tuple((unit, new_index[index]) for unit, index in pending)
    return (tuple(moved), codes, moved_pending), origin
