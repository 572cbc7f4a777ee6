"""Annotates, merges, resolves and partitions layered random graphs by the thousand; every result is checked.

    python tests/passes/merge_campaign.py --examples 100000 --seed 0

Graphs have 4x4 to 16x16 ops, every sixteenth more than 8x8. Two targets claim overlapping kinds of them;
every other graph has one target. Each set of regions has a certificate, which the independent checker
takes; each partitioned module is well formed, and holds every op of the graph once.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator

import tvm
from rich.progress import track
from tvm import relax

import annotated_region as ar
from annotated_region.passes.pipeline import placement_passes
from annotated_region.passes.region_session import RegionSession
from annotated_region.testing.generated import layered
from annotated_region.testing.registry import claim_ops, temporary_registrations

SMALL = ((4, 6), (6, 4), (5, 5), (6, 6), (3, 8), (8, 3), (4, 4), (8, 8))
LARGE = ((8, 16), (12, 12), (16, 8), (16, 16))


def examples(count: int, seed: int) -> Iterator[tuple[tvm.IRModule, list[str]]]:
    """Graphs, each with the targets that are asked."""
    choose = random.Random(seed)
    for number in range(count):
        # Every 16th graph is a large one.
        sizes = SMALL if number % 16 else LARGE
        width, depth = choose.choice(sizes)
        share = choose.uniform(0.3, 0.9)
        mod = layered(width, depth, seed * count + number, share)
        yield mod, (["first"] if number % 2 else choose.sample(["first", "second"], 2))


def ops_of(func: relax.Function) -> Counter[str]:
    """The ops that a function calls, composites included."""
    found: Counter[str] = Counter()
    for block in func.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op):
                found[value.op.name] += 1
            elif isinstance(value, relax.Function):
                found += ops_of(value)
    return found


def check(mod: tvm.IRModule, targets: list[str]) -> int:
    """Check one graph; the number of regions it ends with."""
    session = RegionSession()
    placed = session.run(placement_passes(targets), mod)
    (regions,) = session.take(placed).values()
    ar.check_certificate(mod["main"], regions, regions.verify())
    result = session.run([ar.passes.PartitionGraph()], placed)
    relax.analysis.well_formed(result)
    functions = [func for func in result.functions.values() if isinstance(func, relax.Function)]
    # Equal regions share a function, so ops are counted where it is called.
    calls = Counter(
        binding.value.op.name_hint
        for block in result["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, tvm.ir.Call) and isinstance(binding.value.op, tvm.ir.GlobalVar)
    )
    held: Counter[str] = Counter()
    for func in functions:
        times = calls.get(str(func.attrs["global_symbol"]), 1)
        held.update({name: count * times for name, count in ops_of(func).items()})
    if held != ops_of(mod["main"]):
        raise AssertionError(f"ops were lost or doubled: {held} for {ops_of(mod['main'])}")
    return len(regions)


def main() -> int:
    """Run and count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    invalid, regions = 0, 0
    with temporary_registrations():
        claim_ops("first", "relax.add", "relax.nn.relu")
        claim_ops("second", "relax.add", "relax.tanh")
        runs = examples(options.examples, options.seed)
        for number, (mod, targets) in enumerate(track(runs, "graphs", options.examples)):
            try:
                regions += check(mod, targets)
            except (AssertionError, ar.AnnotatedRegionError) as error:
                invalid += 1
                print(f"graph {number}, targets {targets}: {error}", file=sys.stderr)
    print(f"{options.examples} graphs, seed {options.seed}: {invalid} invalid, {regions} regions")
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main())
