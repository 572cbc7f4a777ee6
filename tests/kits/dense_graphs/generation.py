"""Makes a recipe from a seed."""

from __future__ import annotations

import re

import numpy as np

from kits.dense_graphs.attentions import ATTENTIONS
from kits.dense_graphs.bench import Bench
from kits.dense_graphs.compositions import COMPOSITIONS
from kits.dense_graphs.defaults import DEFAULTS
from kits.dense_graphs.dynamic import DYNAMIC
from kits.dense_graphs.edges import EDGES
from kits.dense_graphs.elementary import ELEMENTARY
from kits.dense_graphs.extras import EXTRAS
from kits.dense_graphs.forms import FORMS
from kits.dense_graphs.fusions import FUSIONS
from kits.dense_graphs.idioms import IDIOMS, Idiom
from kits.dense_graphs.islands import ISLANDS, ISLANDS_OF_BFLOAT16
from kits.dense_graphs.packed import PACKED
from kits.dense_graphs.parts import PARTS
from kits.dense_graphs.quantization import QUANTIZATION
from kits.dense_graphs.rarities import RARITIES
from kits.dense_graphs.recipe import TUPLES, Recipe
from kits.dense_graphs.recurrences import LOOPS
from kits.dense_graphs.spellings import SPELLINGS, counted_from_the_end
from kits.dense_graphs.updates import UPDATES
from kits.dense_graphs.whole import WHOLE
from kits.dense_graphs.whole_edges import WHOLE_EDGES
from kits.dense_graphs.windows import WINDOWS

__all__ = ["generated"]

Calls = tuple[dict[str, int], ...]
NAME = re.compile("[a-z]")
"""Of a symbol in an extent."""

COMMON: tuple[tuple[float, Idiom], ...] = (
    *IDIOMS,
    *WINDOWS,
    *ATTENTIONS,
    *COMPOSITIONS,
    *QUANTIZATION,
    *WHOLE,
    *DYNAMIC,
    *UPDATES,
    *DEFAULTS,
)
EDGY = 0.3
"""The part of all graphs in which idioms of edges are drawn among the others."""

RARE = 0.12
"""The same for elementary functions that few models have."""

WITH_PACKED = 0.06
"""The same for products with packed weights."""

SPELLED = 0.12
"""The same for ops whose channels and axes are written otherwise."""

HALVED = 0.08
"""The same for ops in half precision."""

COUNTED = 0.15
"""The part of all graphs whose axes are counted from the end."""

FORMED = 0.15
"""The same for forms that passes look for."""

LOOPED = 0.05
"""The same for recurrent loops."""

FUSED = 0.1
"""The part of all graphs that have nothing but ops with chains of what engines fuse with them."""

OPEN = 0.4
"""The part of these that is symbolic, whatever chance says besides."""

DOUBLE = 0.35
"""The part of all symbolic graphs that have two symbols."""

PARTED = 0.7
"""The part of all symbolic graphs in which parts begin at an extent."""

EMPTY_CALLS = (({"n": 0}, {"n": 2}), ({"n": 3}, {"n": 0}), ({"n": 1}, {"n": 0}))
CALLS = (({"n": 1}, {"n": 3}), ({"n": 2}, {"n": 1}), ({"n": 3}, {"n": 2}), ({"n": 1}, {"n": 1}))


def generated(seed: int, extras: bool = False, packs: bool = False) -> Recipe:
    """The recipe of a seed: two to eight ops, more only where one idiom has more.

    Parameters
    ----------
    seed
        The same one gives the same graph.
    extras
        Whether ops that oneDNN does not have are among them.
    packs
        Whether products with packed weights are in nearly all of them.
    """
    edgy = bool(np.random.default_rng([seed, 21]).random() < EDGY)
    rare = bool(np.random.default_rng([seed, 23]).random() < RARE)
    idioms = (*COMMON, *((*EXTRAS, *RARITIES) if extras else ()), *((*EDGES, *WHOLE_EDGES) if edgy else ()))
    rng = np.random.default_rng([seed, 20])
    symbolic = rng.random() < 0.22
    parted = symbolic and bool(np.random.default_rng([seed, 24]).random() < PARTED)
    packed = packs or bool(np.random.default_rng([seed, 25]).random() < WITH_PACKED)
    formed = bool(np.random.default_rng([seed, 26]).random() < FORMED)
    seldom = (*(ELEMENTARY if rare else ()), *(PARTS if parted else ()), *(PACKED if packed else ()))
    spelled = bool(np.random.default_rng([seed, 27]).random() < SPELLED)
    halved = bool(np.random.default_rng([seed, 29]).random() < HALVED)
    seldom = (*seldom, *(SPELLINGS if spelled else ()), *(ISLANDS if halved else ()))
    looped = bool(np.random.default_rng([seed, 31]).random() < LOOPED)
    seldom = (*seldom, *(LOOPS if looped else ()))
    seldom = (*seldom, *(ISLANDS_OF_BFLOAT16 if halved and not extras else ()))
    idioms = (*idioms, *seldom, *(FORMS if formed else ()))
    fusing = np.random.default_rng([seed, 30])
    if fusing.random() < FUSED:
        idioms = FUSIONS
        symbolic |= bool(fusing.random() < OPEN)
    chances = np.asarray([weight for weight, _ in idioms]) / sum(weight for weight, _ in idioms)
    bench = Bench(rng, symbol="n" if symbolic else None, whole=bool(rng.random() < 0.12))
    others = np.random.default_rng([seed, 22])
    if symbolic and others.random() < DOUBLE:
        bench.other = "m"
    ranks = [bench.one_of((1, 2, 3, 3, 4, 4, 4, 5)) for _ in range(bench.number(1, 2))]
    for rank in ranks:
        bench.source(bench.shape(rank), "positive" if bench.chance(0.15) else "normal", constant=0.0)
    wanted = bench.number(2, 8)
    ends: list[int] = []
    tries = 0
    while bench.op_count < wanted and tries < 12:
        tries += 1
        end = idioms[int(rng.choice(len(idioms), p=chances))][1](bench)
        if end is not None and not bench.nodes[end].is_source:
            ends.append(end)
    calls = bench.one_of(CALLS) if _has_symbol(bench) else ({},)
    results = _results(bench, ends)
    if edgy:
        results = _odd_results(bench, results)
        calls = bench.one_of(EMPTY_CALLS) if calls != ({},) and bench.chance(0.3) else calls
    recipe = bench.recipe(results, _for_both(bench, calls, others, int(not edgy)), seed)
    turned = np.random.default_rng([seed, 28])
    return counted_from_the_end(recipe, turned) if turned.random() < COUNTED else recipe


def _odd_results(bench: Bench, results: list[int]) -> list[int]:
    """One result twice, an input or a constant as it is, an input that nobody reads; now and then."""
    if bench.chance(0.1):
        results.append(bench.one_of(results))
    if bench.chance(0.1):
        results.append(bench.one_of([n for n, node in enumerate(bench.nodes) if node.is_source]))
    if bench.chance(0.1):
        bench.source((bench.extent(), bench.extent()), constant=0.0)
    return results


def _has_symbol(bench: Bench) -> bool:
    return any(isinstance(dim, str) for node in bench.nodes for dim in node.shape)


def _for_both(bench: Bench, calls: Calls, rng: np.random.Generator, least: int) -> Calls:
    """Calls that say what the second symbol stands for as well; of the symbols, only those that are there."""
    if bench.other is None:
        return calls
    there = {name for node in bench.nodes for dim in node.shape for name in NAME.findall(str(dim))}
    both = [{**call, bench.other: int(rng.integers(least, 4))} for call in calls]
    return tuple({name: call[name] for name in call if name in there} for call in both)


def _results(bench: Bench, ends: list[int]) -> list[int]:
    """What nobody reads, and a few values from the middle."""
    read = {operand for node in bench.nodes for operand in node.operands}
    results = [
        number
        for number, node in enumerate(bench.nodes)
        if number not in read and not node.is_source and node.op not in TUPLES
    ]
    middle = [
        n for n, node in enumerate(bench.nodes) if not node.is_source and node.op not in TUPLES and n in read
    ]
    if middle and bench.chance(0.3):
        results += [bench.one_of(middle) for _ in range(bench.number(1, 2))]
    return list(dict.fromkeys(results)) or ends[-1:]
