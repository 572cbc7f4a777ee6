"""Hunts for wrong answers, hangs and errors: python tests/hunt/hunt.py --graphs 10000 --seed 0"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from checking import checked, reseeded
from dnnl_engine import DnnlEngine
from table_interpreter import interpreter

from annotated_region.testing.dense_graphs.generation import generated
from annotated_region.testing.dense_graphs.recipe import Recipe
from annotated_region.testing.dense_graphs.shrinking import shrunk


def main() -> None:
    """Print what becomes of the graphs of a range of seeds; what fails is shrunk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="dnnl", choices=["dnnl"])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="do not shrink")
    options = parser.parse_args()
    interpreter()
    counts: Counter[str] = Counter()
    begin = time.monotonic()
    for seed in range(options.seed, options.seed + options.graphs):
        recipe, outcome = reseeded(generated(seed), DnnlEngine)
        counts[outcome.kind.value] += 1
        if not outcome.kind.is_failure:
            continue

        def fails(candidate: Recipe, kind: object = outcome.kind) -> bool:
            return checked(candidate, DnnlEngine, 2.0).kind is kind

        small = recipe if options.keep else shrunk(recipe, fails)
        text = checked(small, DnnlEngine).text
        print(f"--- seed {seed}: {outcome.kind.value}: {text}\n{small}\n{small.to_json()}", flush=True)
    print(dict(counts), f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
