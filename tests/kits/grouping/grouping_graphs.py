"""Graphs to group: literal ones, random ones, and the families whose cost is measured."""

import itertools
from random import Random

from hypothesis import strategies as st

Graph = tuple[list[list[int]], list[int | None]]
"""Successor lists, and the colour of each vertex."""

SIX_OPS = {"A1": [], "A2": [], "X": ["A1"], "Y": ["A2"], "B1": ["A1", "Y"], "B2": ["A2", "X"]}
"""Two crossing gates, each op with its operands; relu (A) and add (B) are supported, tanh (X, Y) is not."""


def six_op_orders() -> list[tuple[str, ...]]:
    """Every order in which the bindings of `SIX_OPS` may stand."""
    return [
        names
        for names in itertools.permutations(SIX_OPS)
        if all(names.index(operand) < names.index(op) for op in names for operand in SIX_OPS[op])
    ]


def six_ops(names: tuple[str, ...]) -> Graph:
    """The six ops numbered by a binding order."""
    successors = [[names.index(op) for op in names if name in SIX_OPS[op]] for name in names]
    return successors, [0 if name[0] in "AB" else None for name in names]


@st.composite
def graphs(draw: st.DrawFn, most: int = 10, colours: int = 1) -> Graph:
    """Small graphs under every numbering, each vertex on the host or of one of several colours."""
    size = draw(st.integers(1, most))
    numbers = draw(st.permutations(range(size)))
    pairs = list(itertools.combinations(range(size), 2))
    edges = draw(st.sets(st.sampled_from(pairs), max_size=2 * size)) if pairs else set()
    successors: list[list[int]] = [[] for _ in range(size)]
    for early, late in sorted(edges):
        successors[numbers[early]].append(numbers[late])
    kinds = st.sampled_from([None, *range(colours)])
    return successors, draw(st.lists(kinds, min_size=size, max_size=size))


def random_graph(rng: Random, most: int = 10, colours: int = 1) -> Graph:
    """A random graph of up to `most` vertices, from sparse to dense, from few to all vertices coloured."""
    size = rng.randint(1, most)
    density, share = rng.choice([0.1, 0.2, 0.3, 0.4, 0.6]), rng.choice([0.4, 0.6, 0.8, 1.0])
    numbers = list(range(size))
    rng.shuffle(numbers)
    successors: list[list[int]] = [[] for _ in range(size)]
    for early, late in itertools.combinations(range(size), 2):
        if rng.random() < density:
            successors[numbers[early]].append(numbers[late])
    return successors, [rng.randrange(colours) if rng.random() < share else None for _ in range(size)]


def layered(rng: Random, width: int, depth: int, colours: int = 1) -> Graph:
    """Layers of ops with one or two operands each from the layer before; 60 % of the ops are supported."""
    successors: list[list[int]] = [[] for _ in range(width * depth)]
    for vertex in range(width, width * depth):
        start = (vertex // width - 1) * width
        for operand in rng.sample(range(start, start + width), rng.randint(1, min(2, width))):
            successors[operand].append(vertex)
    return successors, [rng.randrange(colours) if rng.random() < 0.6 else None for _ in successors]


def chain(size: int) -> Graph:
    """Every second op supported."""
    successors = [[vertex + 1] if vertex + 1 < size else [] for vertex in range(size)]
    return successors, [0 if vertex % 2 == 0 else None for vertex in range(size)]


def residual(size: int) -> Graph:
    """Blocks of five ops, each with a skip connection; 80 % of the ops are supported."""
    rng = Random(1)
    successors = [[vertex + 1] if vertex + 1 < size else [] for vertex in range(size)]
    for vertex in range(0, size - 5, 5):
        successors[vertex].append(vertex + 5)
    return successors, [0 if rng.random() < 0.8 else None for _ in range(size)]


def inception(size: int) -> Graph:
    """Cells of eight branches of three ops and a join; 80 % of the ops are supported."""
    rng = Random(2)
    successors: list[list[int]] = [[] for _ in range(size)]
    for head in range(0, size - 25, 25):
        for branch in range(head + 1, head + 25, 3):
            successors[head].append(branch)
            successors[branch].append(branch + 1)
            successors[branch + 1].append(branch + 2)
            successors[branch + 2].append(head + 25)
    return successors, [0 if rng.random() < 0.8 else None for _ in range(size)]


def wide_layers(size: int) -> Graph:
    """Layered random graph, 16 ops wide."""
    return layered(Random(3), 16, size // 16)


FAMILIES = {"chain": chain, "residual": residual, "inception": inception, "layered": wide_layers}
