"""Shows what a seed fails of, shrunk: python tests/hunt/shrink.py dnnl 174 244"""

from __future__ import annotations

import sys

from hunting_worker import smallest
from kits.dense_graphs.relax_graph import module_of
from kits.hunt.checking import checked, reseeded
from kits.hunt.engines import build_of, recipe_of


def main(target: str, seeds: list[int]) -> None:
    """Print the smallest graph of each seed."""
    build = build_of(target)
    for seed in seeds:
        recipe, outcome = reseeded(recipe_of(target, seed), build)
        print(seed, outcome)
        if outcome.kind.is_failure:
            small = smallest(recipe, build, outcome.kind)
            print(f"{small}\n{checked(small, build).text}\n{small.to_json()}\n{module_of(small).script()}")


if __name__ == "__main__":
    main(sys.argv[1], list(map(int, sys.argv[2:])))
