r"""The term of one value, its producer and its readers in the bound: its minimum cost under prices.

A value pays once per destination. For few places, its best set of destinations is found by enumerating all
sets, for any number of readers: given the set, each reader takes its cheapest place in it.

                     reader 1          price of a member at a place: added to the cost of the node,
                   /                   subtracted from the cost of the value; it cancels out in every
        producer  --- reader 2         placement, so any prices give a valid bound
                   \
                     reader 3 (next on the spine: pays the launch if it changes place)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from annotated_region.ids import ValueId
from annotated_region.placement.problem import PlacementProblem

__all__ = ["Star", "subsets"]


def subsets(bits: int) -> list[int]:
    """All subsets of a bit set, starting with the empty one."""
    found = [0]
    while bits:
        lowest = bits & -bits
        found += [subset | lowest for subset in found]
        bits ^= lowest
    return found


class Star:
    """The term of one value in the bound.

    Parameters
    ----------
    problem
        The problem.
    value
        The value, by index.
    places_of
        For each node, its possible places.
    follower
        The reader that follows on the spine, if the producer is on it; the edge between them pays the
        launch of the reader's place if their places differ.

    Attributes
    ----------
    members
        The producer, if there is one, then the readers.
    price
        For each member, the price at each place.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        value: ValueId,
        places_of: Sequence[tuple[int, ...]],
        follower: int | None = None,
    ) -> None:
        described = problem.values[value]
        host = problem.host
        producers = () if described.producer is None else (described.producer,)
        self.members = (*producers, *described.consumers)
        self.price = [[0.0] * (host + 1) for _ in self.members]
        self._made = len(producers)
        self._readers = range(self._made, len(self.members))
        self._others = {
            member: [other for other in self._readers if other != member] for member in self._readers
        }
        self._follower = None if follower is None else self.members.index(follower)
        self._places = [places_of[node] for node in self.members]
        self._sources = self._places[0] if producers else (host,)
        self._launch = [*problem.launch, 0.0]
        self._moves = [
            [0.0 if place == source else cost for place, cost in enumerate(row)]
            for source, row in enumerate(described.transfer)
        ]
        self._host_bit = 1 << host if described.host_reads else 0
        self._read = 0
        for member in self._readers:
            for place in self._places[member]:
                self._read |= 1 << place
        self._read_places = [place for place in range(host + 1) if self._read >> place & 1]
        self._within = {places: index for index, places in enumerate(subsets(self._read))}
        self._sets = {source: self._sends(source, self._host_bit | 1 << source) for source in self._sources}
        self._having = self._positions_of_places()
        self._known: dict[int, list[float]] = {}
        self._pair = self._pair_costs() if self._made and len(self._readers) == 1 else None

    def _sends(self, source: int, always: int, paid: int = 0) -> list[tuple[int, float, int]]:
        """The sets of destinations that include `always`, with the cost of those not `paid` and with their
        index in tables of minima.
        """
        row = self._moves[source]
        found = []
        for chosen in subsets(self._read & ~always):
            places = chosen | always
            cost = sum(row[place] for place in range(len(row)) if (places & ~paid) >> place & 1)
            found.append((places, cost, self._within[places & self._read]))
        return found

    def _positions_of_places(self) -> dict[int, list[int]]:
        """For each place, the positions of the sets that contain it in the sequence of all sources' sets."""
        flat = [places for source in self._sources for places, _cost, _index in self._sets[source]]
        return {
            place: [position for position, places in enumerate(flat) if places >> place & 1]
            for place in self._read_places
        }

    def _pair_costs(self) -> list[list[float]]:
        """For one producer and one reader, the cost of each pair of places."""
        costs = []
        for source in self._sources:
            row = []
            for place in self._places[1]:
                sets = self._sets[source]
                moved = min(cost for places, cost, _index in sets if places >> place & 1)
                follows = self._follower is not None and place != source
                row.append(moved + (self._launch[place] if follows else 0.0))
            costs.append(row)
        return costs

    def forget(self, member: int) -> None:
        """Compute anew what was derived from the prices of a member; to be called when they have changed."""
        self._known.pop(member, None)

    def best(self) -> float:
        """The minimum cost of the value, net of prices."""
        return min(self._by_source())

    def marginals(self, member: int) -> list[float]:
        """For each possible place of a member, the minimum cost of the value if the member is there."""
        if self._pair is None:
            return self._by_source() if member < self._made else self._by_reader(member)
        made, read = self.price
        sources = [made[place] for place in self._sources]
        readers = [read[place] for place in self._places[1]]
        if member == 0:
            rows = zip(self._pair, sources, strict=True)
            return [min([c - p for c, p in zip(row, readers, strict=True)]) - own for row, own in rows]
        columns = zip(zip(*self._pair, strict=True), readers, strict=True)
        return [min([c - p for c, p in zip(column, sources, strict=True)]) - own for column, own in columns]

    def rest(self, readers: Sequence[int], source: int, charged: int) -> float:
        """The minimum remaining cost of the value, net of prices, after its definition and some transfers.

        Parameters
        ----------
        readers
            The remaining readers.
        source
            The place of its definition.
        charged
            The paid destinations.
        """
        if not readers:
            return 0.0
        wanted = set(readers)
        left = [member for member in self._readers if self.members[member] in wanted]
        sums = self._sums(left, source)
        free = charged | 1 << source
        return min(cost + sums[index] for _places, cost, index in self._sends(source, free, free))

    def _by_source(self) -> list[float]:
        """For each source, the minimum cost of the value, net of prices."""
        found = []
        for source, sums in zip(self._sources, self._sums_by_source(self._readers), strict=True):
            least = min([cost + sums[index] for _places, cost, index in self._sets[source]])
            found.append(least - self.price[0][source] if self._made else least)
        return found

    def _by_reader(self, member: int) -> list[float]:
        """For each possible place of a reader, the minimum cost of the value if the reader is there."""
        if member == self._follower:
            return self._by_follower(member)
        totals: list[float] = []
        for source, sums in zip(self._sources, self._sums_by_source(self._others[member]), strict=True):
            offset = self.price[0][source] if self._made else 0.0
            totals += [cost + sums[index] - offset for _places, cost, index in self._sets[source]]
        price, having = self.price[member], self._having
        return [
            min([totals[position] for position in having[place]], default=math.inf) - price[place]
            for place in self._places[member]
        ]

    def _by_follower(self, member: int) -> list[float]:
        """As `_by_reader`, for the reader that pays its launch if its place is not that of the source."""
        possible = self._places[member]
        least = [math.inf] * len(self._moves)
        for source, sums in zip(self._sources, self._sums_by_source(self._others[member]), strict=True):
            offset = self.price[0][source] if self._made else 0.0
            for places, cost, index in self._sets[source]:
                total = cost + sums[index] - offset
                for place in possible:
                    entry = self._launch[place] if place != source else 0.0
                    if places >> place & 1 and total + entry < least[place]:
                        least[place] = total + entry
        price = self.price[member]
        return [least[place] - price[place] for place in possible]

    def _sums_by_source(self, members: Sequence[int]) -> list[list[float]]:
        """For each source, the sums of the readers' minima, which only the follower makes different."""
        if self._follower in members:
            return [self._sums(members, source) for source in self._sources]
        return [self._sums(members, self._sources[0])] * len(self._sources)

    def _sums(self, members: Sequence[int], source: int) -> list[float]:
        """For each set of destinations, the sum of the readers' minimum costs within it."""
        tables = [self._minima(member, source) for member in members]
        if not tables:
            return [0.0] * len(self._within)
        if len(tables) == 1:
            return tables[0]
        return [sum(column) for column in zip(*tables, strict=True)]

    def _minima(self, member: int, source: int) -> list[float]:
        """For each set of destinations, the minimum cost of a reader within it."""
        follows = member == self._follower
        if member in self._known and not follows:
            return self._known[member]
        price, launch = self.price[member], self._launch
        table = [math.inf]
        for place in self._read_places:
            cost = math.inf
            if place in self._places[member]:
                cost = launch[place] - price[place] if follows and place != source else -price[place]
            table += [cost if cost < known else known for known in table]
        self._known[member] = table
        return table
