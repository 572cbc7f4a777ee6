"""Checks of many graphs in one process, for the tests."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache
from pathlib import Path

from kits.dense_graphs.recipe import Recipe
from kits.hunt.checking import Kind, reseeded
from kits.hunt.engines import Build, build_of, recipe_of

__all__ = ["PINNED", "TIES", "failures", "ready"]

PINNED: list[dict[str, str]] = json.loads(Path(__file__).with_name("pinned_graphs.json").read_text())
"""Graphs that were wrong once: a name, the target, the recipe."""

TIES = [
    Recipe.from_json(text) for text in json.loads(Path(__file__).with_name("pinned_ties.json").read_text())
]
"""Graphs with a tie of float32 that is none in float64."""


@cache
def ready(target: str) -> Build:
    """The engine of a target; its threads do not spin."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return build_of(target)


def failures(target: str, seeds: range) -> tuple[list[tuple[int, str, Recipe]], Counter[Kind], Counter[str]]:
    """The graphs of some seeds that fail on a target, how often which outcome came, and what was left out."""
    counts: Counter[Kind] = Counter()
    left_out: Counter[str] = Counter()
    found = []
    for seed in seeds:
        recipe, outcome = reseeded(recipe_of(target, seed), ready(target))
        counts[outcome.kind] += 1
        left_out.update(outcome.left_out)
        if outcome.kind.is_failure:
            found.append((seed, outcome.text, recipe))
    return found, counts, left_out
