"""How the work on a region set grows: functions of 1 000 to 100 000 ops, claimed by two overlapping targets.

``python benchmarks/region_set.py`` prints seconds of processor time, and for each column the exponent
of its growth (the slope of a straight line through the logarithms). ``walk`` only looks at every
binding and counts its arguments: it is what the machine needs to touch the function at all.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.testing import generated
from annotated_region.testing.registry import claim_ops, temporary_registrations

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
FAMILIES: dict[str, Callable[[int], tvm.IRModule]] = {
    "residual": generated.residual,
    "inception": generated.inception,
}
Timings = dict[str, float]


def claims_on(func: relax.Function) -> dict[str, list[tuple[relax.Var, ...]]]:
    """Two targets that claim runs of ops: 12 of every 13 and 8 of every 9, so that most ops lie in both."""
    (block,) = func.body.blocks
    made = [binding.var for binding in block.bindings[:]]
    return {
        "first": [tuple(made[start : start + 12]) for start in range(0, len(made), 13)],
        "second": [tuple(made[start : start + 8]) for start in range(3, len(made), 9)],
    }


def walk(func: relax.Function) -> int:
    """Look at every binding and count its arguments."""
    (block,) = func.body.blocks
    return sum(
        len(binding.value.args) for binding in block.bindings if isinstance(binding.value, tvm.ir.Call)
    )


def timed(timings: Timings, what: str, run: Callable[[], object]) -> None:
    """Add the processor time that `run` takes."""
    start = time.process_time()
    run()
    timings[what] = time.process_time() - start


def measure(mod: tvm.IRModule, passes: bool) -> Timings:
    """One run of everything on one module."""
    timings: Timings = {}
    func = mod["main"]
    claims = claims_on(func)
    timed(timings, "claims", lambda: ar.AnnotatedRegionSet.from_claims(func, claims))
    regions = ar.AnnotatedRegionSet.from_claims(func, claims)
    timed(timings, "annotate", regions.annotate)
    annotated = regions.annotate()
    timed(timings, "walk", lambda: walk(annotated))
    timed(timings, "read", lambda: ar.AnnotatedRegionSet(annotated))
    read = ar.AnnotatedRegionSet(annotated)
    timed(timings, "regions", lambda: list(read))
    timed(timings, "overlaps", read.overlaps)
    timed(timings, "strip", lambda: read.func)
    timed(timings, "verify", read.verify)
    certificate = read.verify()
    timed(timings, "check", lambda: ar.check_certificate(annotated, read, certificate))
    if passes:
        measure_passes(timings, mod)
    return timings


def measure_passes(timings: Timings, mod: tvm.IRModule) -> None:
    """The passes that write and join what two registered targets claim."""
    with temporary_registrations():
        claim_ops("first", *generated.CLAIMED)
        claim_ops("second", "relax.nn.relu", "relax.add")
        step = ar.passes.AnnotateTarget(["first", "second"])
        timed(timings, "AnnotateTarget", lambda: step(mod))
        annotated = step(mod)
        timed(timings, "MergeCompilerRegions", lambda: ar.passes.MergeCompilerRegions()(annotated))


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of the least-squares line through the logarithms."""
    slope, _offset = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(each) for each in seconds]
    )
    return slope


def report(family: str, sizes: Sequence[int], rounds: int, passes: bool) -> None:
    """Print the table of one family; the median over interleaved rounds."""
    runs: dict[int, list[Timings]] = {size: [] for size in sizes}
    for round_number in range(rounds):
        for size in sizes:
            print(f"{family}: round {round_number + 1} of {rounds}, {size} ops", file=sys.stderr)
            runs[size].append(measure(FAMILIES[family](size), passes))
    median = {
        size: {what: statistics.median(run[what] for run in done) for what in done[0]}
        for size, done in runs.items()
    }
    columns = list(median[sizes[0]])
    print(f"\n{family}\n{'':>22}" + "".join(f"{size:>10}" for size in sizes) + "  exponent")
    for what in columns:
        seconds = [median[size][what] for size in sizes]
        print(
            f"{what:>22}" + "".join(f"{each:10.3f}" for each in seconds) + f"{exponent(sizes, seconds):10.2f}"
        )
    largest = median[sizes[-1]]
    print(f"{'read / walk':>22}" + f"{largest['read'] / largest['walk']:10.1f} at {sizes[-1]} ops")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-passes", action="store_true", help="leave AnnotateTarget and the merging out")
    options = parser.parse_args()
    for family in options.families:
        report(family, options.sizes, options.rounds, not options.no_passes)


if __name__ == "__main__":
    main()
