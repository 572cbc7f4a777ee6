"""TVM's nine pattern tables on eighteen models: regions, ops and composites beside those of TVM's own passes.

    PYTHONPATH=tests python tests/targets/tables_campaign.py --models squeezenet bert --tables cublas nnapi

A row tells, for a prepared model and for what `FuseOpsByPattern` makes of it, our regions and ops over TVM's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import tvm
from kits.targets.pattern_tables import (
    MODELS,
    TABLES,
    calls_of_generated,
    composites_in_regions,
    fused_by_tvm,
    merged_by_tvm,
    ops_in_regions,
    ops_of_composites,
    prepared,
    table_of,
)

import annotated_region as ar
from annotated_region.errors import AnnotatedRegionError
from annotated_region.targets.backend import backend_of
from annotated_region.testing.registry import temporary_registrations


@dataclass(frozen=True, slots=True)
class Tally:
    """Regions, ops in them, and composites by name."""

    regions: int
    ops: int
    composites: Counter[str]

    def faults(self, peer: Tally) -> Iterator[str]:
        """How this falls short of a peer."""
        if self.regions > peer.regions:
            yield "more regions"
        if self.ops < peer.ops:
            yield "fewer ops"
        if self.composites != peer.composites:
            ours, theirs = self.composites - peer.composites, peer.composites - self.composites
            yield f"composites: ours alone {dict(ours)}, TVM's alone {dict(theirs)}"


def main() -> int:
    """Print a row per model and table; 1 if one falls short of TVM."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    options = parser.parse_args()
    short = 0
    for name in options.models:
        mod = prepared(name)
        for target in options.tables:
            began = time.perf_counter()
            try:
                shown, faults = compared(mod, target)
            except AnnotatedRegionError as error:
                shown, faults = "", [f"{type(error).__name__}: {error}"]
            short += bool(faults)
            verdict = "; ".join(faults) or "no worse"
            print(f"{name:14} {target:12} {shown} {verdict} {time.perf_counter() - began:.1f} s", flush=True)
    print(f"{len(options.models) * len(options.tables)} rows, {short} fall short")
    return 1 if short else 0


def compared(mod: tvm.IRModule, target: str) -> tuple[str, list[str]]:
    """The row of a model and a table, and how it falls short."""
    table = table_of(target)
    with temporary_registrations():
        ar.register_patterns(target, table)
        made, fused = fused_by_tvm(mod, table)
        is_merged = backend_of(target).regions != "one composite"
        regions = merged_by_tvm(fused) if is_merged else made.total()
        peer = Tally(regions, ops_of_composites(fused), made)
        names = {entry.name for entry in table}
        ours = {"raw": partitioned(mod, target, names), "fused": partitioned(fused, target, names)}
    faults = [f"{road}: {fault}" for road, each in ours.items() for fault in each.faults(peer)]
    shown = " ".join(
        f"{road} {each.regions}/{peer.regions} regions {each.ops}/{peer.ops} ops;"
        for road, each in ours.items()
    )
    return shown, faults


def partitioned(mod: tvm.IRModule, target: str, names: set[str]) -> Tally:
    """What `partition` makes of a module."""
    found = ar.partition(mod, [target], prepare=False, cross_compile=True)
    composites = composites_in_regions(found)
    of_table = Counter({name: count for name, count in composites.items() if name in names})
    return Tally(calls_of_generated(found), ops_in_regions(found), of_table)


if __name__ == "__main__":
    sys.exit(main())
