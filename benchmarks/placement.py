"""Do better placements survive reality? The light models on two engines, placed in four ways, and run.

    python benchmarks/placement.py --models resnet50 squeezenet --rounds 15

The targets are dnnl and onnxruntime, with the host as the third place. Placements are each target alone,
`Priority` in both orders, and `LeastCost(MeasuredCost())`, which times each distinct unit once and keeps the
times. All are built before any is timed; rounds are interleaved, and the answers of all are compared. Ways
that lead to the same program share it and its times, so that they do not differ by noise alone.
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
import tvm_ffi
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
    programs = {way: ar.partition(mod, given, chosen, prepare=False) for way, (given, chosen) in ways.items()}
    first = {way: _first_equal(way, programs) for way in ways}
    machines = {
        way: relax.VirtualMachine(ar.build(programs[way]), tvm.cpu())["main"] for way in set(first.values())
    }
    samples = _run(machines, tvm.runtime.tensor(next(iter(input_of(light_model(name)).values()))), rounds)
    return {way: samples[first[way]] for way in ways}, regions, report["gap"]


def _first_equal(way: str, programs: dict[str, tvm.IRModule]) -> str:
    return next(other for other in programs if tvm_ffi.structural_equal(programs[other], programs[way]))


def _run(machines: dict[str, Any], argument: Any, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each program, in interleaved rounds; their answers have to agree."""
    order = sorted(machines)
    expected = machines[order[0]](argument).numpy()
    for way in order[1:]:
        np.testing.assert_allclose(
            machines[way](argument).numpy(), expected, rtol=1e-3, atol=1e-4, err_msg=way
        )
    times: dict[str, list[float]] = {way: [] for way in order}
    for number in range(rounds):
        for way in order[number % len(order) :] + order[: number % len(order)]:
            machines[way](argument)
            began = time.perf_counter()
            machines[way](argument)
            times[way].append((time.perf_counter() - began) * 1e3)
    return times


if __name__ == "__main__":
    sys.exit(main())
