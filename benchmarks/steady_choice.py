"""Is the placement of least measured cost the same beside other work? Light models, measured anew each time.

    python benchmarks/steady_choice.py --models squeezenet --times 3

The targets are dnnl and onnxruntime, with the host as the third place. Each model is placed once on the quiet
machine and several times beside a load, each time with an empty database of costs. A row tells how many ops
had another target than when quiet, and how many seconds measuring and placing took.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from loads import LOADS, load

import annotated_region as ar
from annotated_region.testing.light_models import LIGHT_MODELS, light_module

TARGETS = ["dnnl", "onnxruntime"]


def main() -> int:
    """Print one line a model; 1 if an op of any had another target beside the load."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(LIGHT_MODELS), default=list(LIGHT_MODELS))
    parser.add_argument("--load", choices=LOADS, default="2 busy")
    parser.add_argument("--times", type=int, default=3, help="how often each model is placed beside the load")
    options = parser.parse_args()
    changed = 0
    for name in options.models:
        quiet, seconds = placed(name, "quiet")
        ops = f"{name:13} {len(quiet)} ops, quiet in {seconds:.0f} s; beside {options.load}: "
        others = []
        for _ in range(options.times):
            found, seconds = placed(name, options.load)
            elsewhere = sum(found[op] != target for op, target in quiet.items())
            changed += elsewhere
            others.append(f"{elsewhere} elsewhere in {seconds:.0f} s")
        print(ops + ", ".join(others), flush=True)
    return 1 if changed else 0


def placed(name: str, other_work: str) -> tuple[dict[str, str], float]:
    """The target of each op of a model by its key, and the seconds that it took to find them."""
    mod = light_module(name)
    with tempfile.TemporaryDirectory() as folder, load(other_work):
        started = time.perf_counter()
        policy = ar.LeastCost(ar.MeasuredCost(Path(folder, "costs.sqlite3")))
        report = ar.explain(mod, TARGETS, policy).to_dict()
        seconds = time.perf_counter() - started
    ops = {op["key"]: op["placed"] or "host" for op in report["functions"][0]["ops"]}
    return ops, seconds


if __name__ == "__main__":
    sys.exit(main())
