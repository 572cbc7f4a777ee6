"""Checks the graphs of a range of seeds in a process of its own, and tells line by line what becomes of them.

Before a graph, its seed; behind it, what became of it. So whoever reads knows which graph it was that the
process did not survive.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
from collections.abc import Callable

from kits.dense_graphs.recipe import Recipe
from kits.dense_graphs.shrinking import shrunk
from kits.hunt.checking import Kind, checked, reseeded
from kits.hunt.engines import Build, build_of, recipe_of

__all__ = ["smallest"]

SHRINKING_SECONDS = 2.0
TRIES = {Kind.HANG: 120}


def smallest(recipe: Recipe, build: Build, kind: Kind, beat: Callable[[], None] = lambda: None) -> Recipe:
    """The smallest graph that is found to fail in the same way; `beat` is called before each try."""

    def fails(candidate: Recipe) -> bool:
        beat()
        return checked(candidate, build, SHRINKING_SECONDS).kind is kind

    return shrunk(recipe, fails, TRIES.get(kind, 600))


def main(target: str, first: int, count: int, shrinks: bool) -> None:
    """Check graphs, shrink what fails if `shrinks`."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # whoever reads asks for the stacks of a process that is silent
    build = build_of(target)
    for seed in range(first, first + count):
        _say({"seed": seed})
        recipe, outcome = reseeded(recipe_of(target, seed), build)
        _say({"became": outcome.kind.value, "left out": outcome.left_out})
        if not outcome.kind.is_failure:
            continue
        _say({"failed": seed, "kind": outcome.kind.value, "text": outcome.text, "recipe": recipe.to_json()})
        if not shrinks:
            continue
        small = smallest(recipe, build, outcome.kind, lambda at=seed: _say({"seed": at}))
        text = checked(small, build).text
        _say({"shrunk": seed, "kind": outcome.kind.value, "text": text, "recipe": small.to_json()})


def _say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "--keep" not in sys.argv)
