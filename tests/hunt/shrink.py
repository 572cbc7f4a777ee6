"""Shrinks the graphs of seeds: python tests/hunt/shrink.py dnnl 174 244"""

from __future__ import annotations

import sys

from checking import checked, reseeded
from dnnl_engine import DnnlEngine
from table_interpreter import interpreter

from annotated_region.testing.dense_graphs.generation import generated
from annotated_region.testing.dense_graphs.recipe import Recipe
from annotated_region.testing.dense_graphs.relax_graph import module_of
from annotated_region.testing.dense_graphs.shrinking import shrunk


def main() -> None:
    """Print the smallest graph of each seed."""
    interpreter()
    for seed in map(int, sys.argv[1:]):
        recipe, outcome = reseeded(generated(seed), DnnlEngine)
        print(seed, outcome)
        if not outcome.kind.is_failure:
            continue

        def fails(candidate: Recipe, kind: object = outcome.kind) -> bool:
            return checked(candidate, DnnlEngine, 2.0).kind is kind

        small = shrunk(recipe, fails)
        print(small)
        print(checked(small, DnnlEngine).text)
        print(small.to_json())
        print(module_of(small).script())


if __name__ == "__main__":
    main()
