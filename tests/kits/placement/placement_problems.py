"""Problems to solve: literal graphs, families of networks, and random ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from annotated_region.ids import Place
from annotated_region.placement import (
    PlacementConstant,
    PlacementProblem,
    PlacementUnit,
    PlacementValue,
    TargetLimits,
)

Table = tuple[tuple[float, ...], ...]


def uniform_table(targets: int, cost: float, same_target: float | None = None) -> Table:
    """Every move costs `cost`; between two regions of one target `same_target`."""
    same = cost if same_target is None else same_target
    places = range(targets + 1)
    return tuple(tuple(same if a == b else cost for b in places) for a in places)


def of_edges(
    nodes: int,
    edges: Iterable[tuple[int, int]],
    launch: Sequence[float],
    compute: Sequence[Sequence[float]],
    table: Table,
    composites: Iterable[PlacementUnit] = (),
    inputs: Iterable[Sequence[int]] = (),
) -> PlacementProblem:
    """One value a node; what nobody reads is a result. `compute[node]` is one cost a place, host last."""
    readers: list[list[int]] = [[] for _ in range(nodes)]
    for source, reader in sorted(set(edges)):
        readers[source].append(reader)
    values = [PlacementValue(None, tuple(read), table) for read in inputs]
    values += [
        PlacementValue(node, tuple(read), table, host_reads=not read) for node, read in enumerate(readers)
    ]
    units = [
        PlacementUnit(Place(place), (node,), cost)
        for node in range(nodes)
        for place, cost in enumerate(compute[node])
    ]
    return PlacementProblem(nodes, tuple(launch), tuple(values), (*units, *composites))


def random_problem(seed: int, most_nodes: int = 8, most_targets: int = 3) -> PlacementProblem:
    """A small problem with zero, equal and random costs, composites, parameters and missing units."""
    rng = random.Random(seed)
    nodes = rng.randint(1, most_nodes)
    targets = rng.randint(1, most_targets)
    draw = _drawer(rng)
    density = rng.choice([0.2, 0.35, 0.5, 0.8])
    reach = rng.choice([2, 3, nodes])
    readers: list[list[int]] = [[] for _ in range(nodes)]
    for right in range(nodes):
        for left in range(max(0, right - reach), right):
            if rng.random() < density:
                readers[left].append(right)
    values = []
    for _ in range(rng.randint(0, 2)):
        parameter = tuple(node for node in range(nodes) if rng.random() < 0.3)
        values.append(PlacementValue(None, parameter, _table(rng, draw, targets)))
    for node, read in enumerate(readers):
        host_reads = not read or rng.random() < 0.15
        values.append(PlacementValue(node, tuple(read), _table(rng, draw, targets), host_reads))
        if rng.random() < 0.1 and read:
            values.append(PlacementValue(node, tuple(read[:1]), _table(rng, draw, targets)))
    launch = tuple(draw() for _ in range(targets))
    return PlacementProblem(nodes, launch, tuple(values), _units(rng, draw, nodes, targets))


def _drawer(rng: random.Random):
    kind = rng.randrange(4)
    if kind == 0:
        return lambda: float(rng.randint(0, 3))
    if kind == 1:
        return lambda: rng.choice([0.0, 1.0])
    if kind == 2:
        return rng.random
    return lambda: rng.choice([0.0, rng.random(), 10 * rng.random()])


def _table(rng: random.Random, draw, targets: int) -> Table:
    if rng.random() < 0.5:
        return uniform_table(targets, draw(), rng.choice([None, 0.0]))
    return tuple(tuple(draw() for _ in range(targets + 1)) for _ in range(targets + 1))


def _units(rng: random.Random, draw, nodes: int, targets: int) -> tuple[PlacementUnit, ...]:
    units = []
    support = rng.choice([0.5, 0.8, 1.0])
    for node in range(nodes):
        if rng.random() < 0.95:
            host = math.inf if rng.random() < 0.05 else draw() + rng.choice([0.0, 1.0, 2.0])
            units.append(PlacementUnit(Place(targets), (node,), host))
        for target in range(targets):
            if rng.random() < support:
                units.append(PlacementUnit(Place(target), (node,), draw()))
    for _ in range(rng.randint(0, 3) if nodes > 1 else 0):
        size = rng.randint(2, min(4, nodes))
        start = rng.randrange(nodes - size + 1)
        members = range(start, start + size) if rng.random() < 0.6 else rng.sample(range(nodes), size)
        units.append(PlacementUnit(Place(rng.randrange(targets)), tuple(sorted(members)), draw()))
    return tuple(units)


def limited_problem(seed: int, most_nodes: int = 8) -> PlacementProblem:
    """A random problem whose targets limit all that there is to limit, now tightly and now loosely."""
    problem = random_problem(seed, most_nodes)
    rng = random.Random(seed + 1)
    nodes = problem.nodes
    sizes = rng.choice([[0, 1], [1, 2, 3], [1, 5, 25]])
    constants = [
        PlacementConstant(
            rng.choice(sizes), tuple(sorted(rng.sample(range(nodes), rng.randint(1, min(3, nodes)))))
        )
        for _ in range(rng.randint(0, 2 * nodes))
    ]
    scale = max(1, sum(sizes) * nodes // 3)

    def limit(most: int) -> int | None:
        return rng.choice([None, rng.randint(0, most), rng.randint(1, most), most])

    limits = tuple(
        TargetLimits(limit(4), limit(3), limit(scale), limit(scale), limit(2 * scale)) for _ in problem.launch
    )
    values = (replace(value, size=rng.choice(sizes)) for value in problem.values)
    return replace(problem, values=tuple(values), limits=limits, constants=tuple(constants))


def random_predicate(seed: int, problem: PlacementProblem) -> Callable[[int, tuple[int, ...]], bool]:
    """What targets say of regions: by size, by sums of weights, or by lot, which is not monotone."""
    rng = random.Random(seed)
    kinds = [rng.randrange(3) for _ in problem.launch]
    most = [rng.randint(1, 5) for _ in problem.launch]
    weight = [rng.randint(0, 3) for _ in range(problem.nodes)]
    share = rng.choice([0.3, 0.6, 0.9])

    def accepts(place: int, units: tuple[int, ...]) -> bool:
        if kinds[place] == 0:
            return sum(len(problem.units[unit].nodes) for unit in units) <= most[place]
        if kinds[place] == 1:
            return (
                sum(weight[node] for unit in units for node in problem.units[unit].nodes) <= 2 * most[place]
            )
        return (
            random.Random(f"{seed} {place} {sorted(problem.units[unit].nodes for unit in units)}").random()
            < share
        )

    return accepts
