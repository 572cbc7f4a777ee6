"""How partitioning grows: modules of 1 000 to 100 000 ops, from one region to one for every second op.

``python benchmarks/partition.py`` prints seconds of processor time, and for each row the exponent of
its growth (the slope of a straight line through the logarithms). ``passes, written`` is annotating,
merging and resolving in a ``Sequential``, which writes annotations between passes; ``ar.partition`` is
these and PartitionGraph, without writing. ``functions`` counts the external functions.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import tvm

import annotated_region as ar
from annotated_region.passes.pipeline import placement_passes
from annotated_region.testing import generated
from annotated_region.testing.registry import claim_ops, temporary_registrations

TARGET = "sketch"
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
FAMILIES: dict[str, Callable[[int], tvm.IRModule]] = {
    # Blocks that differ in their weights alone: one structural hash, many functions.
    "residual": generated.residual,
    "inception": generated.inception,
    # One region for every second op.
    "gaps": partial(generated.chain, gap_every=2),
}
Timings = dict[str, float]


def timed(timings: Timings, what: str, run: Callable[[], tvm.IRModule]) -> tvm.IRModule:
    """Note the processor time that `run` takes; what it gives."""
    start = time.process_time()
    result = run()
    timings[what] = time.process_time() - start
    return result


def measure(mod: tvm.IRModule, bind_constants: bool) -> Timings:
    """One run of everything on one module."""
    timings: Timings = {}
    with temporary_registrations():
        ar.register_backend(TARGET, bind_constants=bind_constants)
        claim_ops(TARGET, *generated.CLAIMED)
        steps = tvm.transform.Sequential(placement_passes([TARGET]))
        placed = timed(timings, "passes, written", lambda: steps(mod))
        timed(timings, "PartitionGraph", lambda: ar.passes.PartitionGraph()(placed))
        part = timed(timings, "ar.partition", lambda: ar.partition(mod, [TARGET], prepare=False))
        timed(timings, "InlinePartitions", lambda: ar.passes.InlinePartitions()(part))
    timings["functions"] = len(part.functions) - 1
    return timings


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of the least-squares line through the logarithms."""
    slope, _offset = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(each) for each in seconds]
    )
    return slope


def report(family: str, sizes: Sequence[int], rounds: int, bind_constants: bool) -> None:
    """Print the table of one family; the median over interleaved rounds."""
    runs: dict[int, list[Timings]] = {size: [] for size in sizes}
    for round_number in range(rounds):
        for size in sizes:
            print(f"{family}: round {round_number + 1} of {rounds}, {size} ops", file=sys.stderr)
            runs[size].append(measure(FAMILIES[family](size), bind_constants))
    constants = "bound" if bind_constants else "passed"
    print(f"\n{family}, constants {constants}\n{'':>18}" + "".join(f"{size:>10}" for size in sizes))
    for what in runs[sizes[0]][0]:
        values = [statistics.median(run[what] for run in runs[size]) for size in sizes]
        if what == "functions":
            print(f"{what:>18}" + "".join(f"{each:10.0f}" for each in values))
        else:
            slope = f"  exponent {exponent(sizes, values):.2f}" if len(sizes) > 1 else ""
            print(f"{what:>18}" + "".join(f"{each:10.3f}" for each in values) + slope)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pass-constants", action="store_true", help="make constants parameters")
    options = parser.parse_args()
    for family in options.families:
        report(family, options.sizes, options.rounds, not options.pass_constants)


if __name__ == "__main__":
    main()
