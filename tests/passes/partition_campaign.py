"""Partitions generated functions by the thousand, and compares what they compute with TVM, bit by bit.

    PYTHONPATH=tests python tests/passes/partition_campaign.py --examples 20000 --seed 0

`test_the_partitioned_module_computes_the_same_bits` compiles one function at a time, which takes a quarter
of a second. Here a hundred functions share a module, so that TVM compiles each kernel once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import tvm
from hypothesis import HealthCheck, Phase, given, seed, settings
from kits.passes.partition_kit import disjoint_sets, external, flat, machine, register_targets, stripped
from rich.progress import track
from test_partition_graph import RUNNABLE, arguments_of

import annotated_region as ar
from annotated_region.testing.registry import temporary_registrations

BATCH = 100


def generated(examples: int, start: int) -> list[ar.AnnotatedRegionSet]:
    """Disjoint sets over runnable functions, as the property tests draw them."""
    found: list[ar.AnnotatedRegionSet] = []

    @seed(start)
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(disjoint_sets(RUNNABLE))
    def collect(regions: ar.AnnotatedRegionSet) -> None:
        if len(regions):
            found.append(regions)

    collect()
    return found


def batches(sets: Sequence[ar.AnnotatedRegionSet]) -> Iterator[tuple[tvm.IRModule, tvm.IRModule]]:
    """Modules of many functions, without regions and with them."""
    for first in range(0, len(sets), BATCH):
        plain, annotated = {}, {}
        for number, regions in enumerate(sets[first : first + BATCH]):
            name = f"f{number}"
            plain[name] = regions.func.with_attr("global_symbol", name)
            annotated[name] = regions.annotate().with_attr("global_symbol", name)
        yield tvm.IRModule(plain), tvm.IRModule(annotated)


def compare(plain: tvm.IRModule, annotated: tvm.IRModule) -> tuple[int, int]:
    """Compare every function of a batch; how many, and how many external functions they call."""
    part = ar.passes.PartitionGraph()(annotated)
    expected, found = machine(plain), machine(stripped(part))
    names = [name.name_hint for name in plain.get_global_vars()]
    for name in names:
        arguments = arguments_of(plain[name])
        for left, right in zip(flat(expected[name](*arguments)), flat(found[name](*arguments)), strict=True):
            np.testing.assert_array_equal(left, right, err_msg=annotated[name].script())
    return len(names), len(external(part))


def main() -> int:
    """Run and count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    functions = externals = 0
    with temporary_registrations():
        register_targets()
        sets = generated(options.examples, options.seed)
        for plain, annotated in track(list(batches(sets)), "batches"):
            compared, called = compare(plain, annotated)
            functions, externals = functions + compared, externals + called
    print(
        f"{options.examples} examples, seed {options.seed}: {functions} functions with regions, "
        f"{externals} external functions, all bits equal"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
