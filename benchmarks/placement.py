"""Do better placements survive reality? The light models on two engines, placed in four ways, and run.

    python benchmarks/placement.py --models resnet50 squeezenet --rounds 15

The targets are dnnl and onnxruntime, with the host as the third place. Placements are each target alone,
`Priority` in both orders, and `LeastCost(MeasuredCost())`, which times each distinct unit once and keeps the
times. All are built before any is timed; rounds are interleaved, and the answers of all are compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model, light_module

TARGETS = ["dnnl", "onnxruntime"]
MEASURED = "least measured cost"


def main() -> int:
    """Print one line a model; 1 if a placement of least cost is slower than it may be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(LIGHT_MODELS), default=list(LIGHT_MODELS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--costs", type=Path, help="the file of measured costs")
    options = parser.parse_args()
    model = ar.MeasuredCost(options.costs)
    slow = 0
    print(f"threads: {os.environ.get('OMP_NUM_THREADS', 'default')}; milliseconds, medians")
    for name in options.models:
        times, regions, gap = measure(name, model, options.rounds)
        best = min(statistics.median(each) for way, each in times.items() if way != MEASURED)
        # Round by round against the best of the others in that round's company.
        ratio = statistics.median(times[MEASURED]) / best
        slow += ratio > 1.05
        shown = "  ".join(f"{way} {statistics.median(each):.2f}" for way, each in times.items())
        print(f"{name:13} ratio {ratio:.2f}  gap {gap:.3f}  regions {dict(regions)}  {shown}", flush=True)
    return 1 if slow else 0


def measure(
    name: str, model: ar.MeasuredCost, rounds: int
) -> tuple[dict[str, list[float]], Counter[str], float]:
    """For each way, its milliseconds; the regions and the gap of the least cost."""
    mod = ar.passes.PrepareForInference()(light_module(name))
    policy = ar.LeastCost(model)
    report = ar.explain(mod, TARGETS, policy, prepare=False).to_dict()
    regions = Counter(region["target"] for region in report["functions"][0]["regions"])
    ways: dict[str, tuple[list[str], Any]] = {
        "dnnl": (["dnnl"], None),
        "onnxruntime": (["onnxruntime"], None),
        "dnnl first": (TARGETS, ar.Priority(TARGETS)),
        "onnxruntime first": (TARGETS, ar.Priority(TARGETS[::-1])),
        MEASURED: (TARGETS, policy),
    }
    image = next(iter(input_of(light_model(name)).values()))
    machines = {}
    for way, (targets, chosen) in ways.items():
        executable = ar.build(ar.partition(mod, targets, chosen, prepare=False))
        machines[way] = relax.VirtualMachine(executable, tvm.cpu())["main"]
    argument = tvm.runtime.tensor(image)
    expected = machines["dnnl"](argument).numpy()
    times: dict[str, list[float]] = {way: [] for way in ways}
    for way, run in machines.items():
        np.testing.assert_allclose(run(argument).numpy(), expected, rtol=1e-3, atol=1e-4, err_msg=way)
    order = list(ways)
    for number in range(rounds):
        for way in order[number % len(order) :] + order[: number % len(order)]:
            machines[way](argument)
            began = time.perf_counter()
            machines[way](argument)
            times[way].append((time.perf_counter() - began) * 1e3)
    return times, regions, report["gap"]


if __name__ == "__main__":
    sys.exit(main())
