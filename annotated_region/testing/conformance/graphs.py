"""Graphs for the conformance kit: recipes, instances of patterns, region boundaries and extra results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import tvm
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tvm.relax.dpl import DFPattern

from annotated_region.testing.conformance.bench import Bench
from annotated_region.testing.conformance.instances import add_instance
from annotated_region.testing.recipes import RECIPES, Recipe, can_be_made

__all__ = ["Maker", "graphs_of", "made", "maker_of_op", "maker_of_pattern", "makers_of"]

Maker: TypeAlias = Callable[[Bench], None]
"""Appends an op or an instance of a pattern to a graph."""

_GAPS = ("relax.tanh", "relax.negative", "relax.abs")
_GAPS_OF_TRUTH = ("relax.logical_not", "relax.logical_xor")


def makers_of(claimed: Sequence[str], recipes: Mapping[str, Recipe], dtype: str) -> list[Maker]:
    """Makers of the ops in `claimed`, and of an unclaimed op, so that there are region boundaries."""
    gaps = _GAPS_OF_TRUTH if dtype == "bool" else _GAPS
    gap = next((name for name in gaps if name not in claimed), gaps[-1])
    return [maker_of_op(name, recipes) for name in claimed if can_be_tried(name, recipes, dtype)] + [
        maker_of_op(gap, recipes)
    ]


def can_be_tried(name: str, recipes: Mapping[str, Recipe], dtype: str) -> bool:
    """Whether there is a recipe of an op for graphs of a type."""
    return name in recipes and (recipes[name] is not RECIPES.get(name) or can_be_made(name, dtype))


def maker_of_op(name: str, recipes: Mapping[str, Recipe]) -> Maker:
    """The maker of calls of an op."""
    return partial(_add_op, recipe=recipes[name])


def maker_of_pattern(pattern: DFPattern, recipes: Mapping[str, Recipe]) -> Maker:
    """The maker of ops that match a pattern."""
    return partial(_add_pattern, pattern=pattern, recipes=recipes)


def _add_op(bench: Bench, recipe: Recipe) -> None:
    bench.add(recipe)


def _add_pattern(bench: Bench, pattern: DFPattern, recipes: Mapping[str, Recipe]) -> None:
    add_instance(bench, pattern, recipes)


def graphs_of(
    makers: Sequence[Maker], max_ops: int, dtype: str = "float32", holding: Maker | None = None
) -> st.SearchStrategy[tvm.IRModule]:
    """Modules built by random makers; with `holding`, each contains its ops at a random position.

    Half of them also return a value that has users, so that regions have several results.
    """

    @st.composite
    def graphs(draw: st.DrawFn) -> tvm.IRModule:
        bench = Bench(draw, dtype)
        least = 1 if holding is None else 0
        drawn = draw(st.lists(st.sampled_from(makers), min_size=least, max_size=max_ops - 1 + least))
        if holding is not None:
            drawn.insert(draw(st.integers(0, len(drawn))), holding)
        for maker in drawn:
            maker(bench)
        return bench.module()

    return graphs()


def made(graphs: st.SearchStrategy[tvm.IRModule], examples: int, start: int) -> list[tvm.IRModule]:
    """A list of `examples` graphs; deterministic for a given `start`."""
    found: list[tvm.IRModule] = []

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(graphs)
    def make(mod: tvm.IRModule) -> None:
        found.append(mod)

    make()
    return found
