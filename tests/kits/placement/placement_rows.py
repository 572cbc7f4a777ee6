"""Networks made of blocks that repeat, each joined to the next by one value."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from annotated_region.ids import Place
from annotated_region.placement import PlacementProblem, PlacementUnit, TargetLimits
from kits.placement.placement_problems import of_edges, uniform_table

BYTES = 64


@dataclass(frozen=True)
class Block:
    """For each node what it reads: -1 for what comes before the block, others in the block's numbers."""

    reads: Sequence[Sequence[int]]
    compute: Sequence[Sequence[float]]
    composites: Sequence[PlacementUnit] = ()


def row(blocks: Sequence[Block], launch: Sequence[float], crossing: float) -> PlacementProblem:
    """The blocks one behind the other; a parameter comes before the first."""
    edges, compute, units, inputs = [], [], [], []
    for block in blocks:
        first = len(compute)
        for node, read in enumerate(block.reads):
            for source in read:
                before = first - 1 if source < 0 else first + source
                edges += [(before, first + node)] if before >= 0 else []
                inputs += [first + node] if before < 0 else []
        compute += block.compute
        units += [
            replace(unit, nodes=tuple(first + node for node in unit.nodes)) for unit in block.composites
        ]
    table = uniform_table(len(launch), crossing)
    problem = of_edges(len(compute), edges, launch, compute, table, units, [sorted(set(inputs))])
    return replace(problem, values=tuple(replace(value, size=BYTES) for value in problem.values))


def random_row(seed: int, most_nodes: int = 7) -> PlacementProblem:
    """A small row of blocks of two kinds."""
    rng = random.Random(seed)
    targets = rng.randint(1, 2)
    kinds = [_random_block(rng, targets) for _ in range(2)]
    blocks: list[Block] = []
    while True:
        block = rng.choice(kinds)
        if blocks and sum(len(each.reads) for each in [*blocks, block]) > most_nodes:
            break
        blocks.append(block)
    return row(blocks, [rng.choice([0.0, 0.5, 2.0]) for _ in range(targets)], rng.choice([0.0, 0.3, 1.0]))


def _random_block(rng: random.Random, targets: int) -> Block:
    size = rng.randint(1, 3)
    reads = [[-1], *([rng.randrange(-1, node)] for node in range(1, size))]
    loose = set(range(size - 1)) - {source for read in reads for source in read}
    reads[-1] = sorted({*reads[-1], *loose})
    compute = [
        [rng.choice([math.inf, 0.5, 1.0, rng.random()]) for _ in range(targets)] + [rng.choice([1.0, 3.0])]
        for _ in range(size)
    ]
    composites = []
    if size > 1 and rng.random() < 0.5:
        composites.append(PlacementUnit(Place(rng.randrange(targets)), (size - 2, size - 1), rng.random()))
    return Block(reads, compute, composites)


def with_limits(seed: int, problem: PlacementProblem) -> PlacementProblem:
    """The same with limits for the first target on memory, regions and ops, of which some are none."""
    rng = random.Random(seed)
    most = problem.nodes
    limits = TargetLimits(
        rng.choice([None, rng.randint(1, most)]),
        rng.choice([None, rng.randint(1, 2)]),
        None,
        None,
        rng.choice([None, BYTES * rng.randint(0, most)]),
    )
    return replace(problem, limits=(limits, *(TargetLimits() for _ in problem.launch[1:])))


def residual_row(blocks: int) -> PlacementProblem:
    """Blocks of six nodes with a shortcut around four of them, three targets; the first is fastest."""
    none = math.inf
    add, multiply, relu = [0.5, none, 1.0, 4.0], [none, 1.0, 1.0, 4.0], [0.5, 1.0, none, 4.0]
    block = Block([[-1], [0], [1], [2], [-1, 3], [4]], [multiply, relu, multiply, relu, add, relu])
    return row([block] * blocks, [1.0, 1.0, 1.0], 1.0)
