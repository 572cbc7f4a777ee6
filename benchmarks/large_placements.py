"""How long it takes to place 10 000 ops, and how near to the best that is, with limits and without.

    python benchmarks/large_placements.py --size 10000 --limits none memory

Three targets claim overlapping parts of generated graphs; costs are those of `UnitCost`. With ``memory`` one
of them may hold a fifth of the tensors' bytes, with ``all`` it may also have few regions of few ops. Timed is
the policy alone: reading the graph and claiming its ops are `benchmarks/merge.py`'s.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import tvm

import annotated_region as ar
from annotated_region.costs import UnitCost
from annotated_region.testing.generated import chain, inception, layered, residual
from annotated_region.testing.registry import claim_ops, temporary_registrations

GRAPHS: dict[str, Callable[[int], tvm.IRModule]] = {
    "chain": chain,
    "chain with gaps": partial(chain, gap_every=4),
    "residual blocks": residual,
    "inception-like": inception,
    "layers 16 wide": lambda size: layered(16, size // 16, seed=1),
}
CLAIMS = {
    "first": ("relax.add", "relax.nn.relu"),
    "second": ("relax.multiply", "relax.nn.relu"),
    "third": ("relax.add", "relax.multiply", "relax.concat"),
}
LIMITED = "first"
TENSOR = 64  # bytes of each value of these graphs
LIMITS = ("none", "memory", "all")


def main() -> int:
    """Print one line a graph and kind of limit; 1 if a placement takes longer than it may."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--limits", nargs="+", choices=LIMITS, default=list(LIMITS))
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a placement may take")
    options = parser.parse_args()
    slow = 0
    for name in options.graphs:
        for limits in options.limits:
            seconds, ops, details = placed(GRAPHS[name](options.size), limits, options.size)
            slow += seconds > options.seconds
            print(
                f"{name:16} {limits:7} {ops:6} ops {seconds:6.1f} s  cost {details['cost']:.0f}  "
                f"gap {details['gap']:.3%}  {', '.join(details['proof'])}",
                flush=True,
            )
    return 1 if slow else 0


def placed(mod: tvm.IRModule, limits: str, size: int) -> tuple[float, int, dict[str, Any]]:
    """Seconds of the policy, the number of ops, and the details of its answer."""
    with temporary_registrations():
        for target, ops in CLAIMS.items():
            claim_ops(target, *ops)
        if limits == "all":
            ar.register_backend(LIMITED, max_regions=max(1, size // 100), max_ops=40)
        mod = ar.passes.AnnotateTarget(list(CLAIMS))(mod)
        mod = ar.passes.MergeCompilerRegions(keeps_limits=False)(mod)
        regions = ar.AnnotatedRegionSet(mod["main"])
        budget = None if limits == "none" else {LIMITED: size * TENSOR // 5}
        policy = ar.LeastCost(UnitCost(), budget_bytes=budget)
        began = time.perf_counter()
        details = policy.resolve(regions).details
        return time.perf_counter() - began, len(regions.dataflow.nodes), dict(details)


if __name__ == "__main__":
    sys.exit(main())
