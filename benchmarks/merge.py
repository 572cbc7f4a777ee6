"""Annotation to partition beside TVM's own passes, on chains, residual blocks and inception-like graphs.

    python benchmarks/merge.py --sizes 1000 10000 --tvm-limit 60

Both claim the same ops. Ours runs AnnotateTarget, MergeCompilerRegions, ResolveConflicts and
PartitionGraph; TVM runs FuseOpsByPattern, in both of its modes, and MergeCompositeFunctions. TVM's runs are
processes of their own, ended after a limit. The growth exponent is that of time over size, from the
smallest size to the largest.
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import tvm
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.testing.generated import CLAIMED, chain, inception, residual
from annotated_region.testing.registry import claim_ops

TARGET = "bench"
ARITY = {"relax.nn.relu": 1, "relax.concat": 1}

GRAPHS: dict[str, Callable[[int], tvm.IRModule]] = {
    "chain, all claimed": chain,
    "chain, every 4th not": partial(chain, gap_every=4),
    "chain, every 2nd not": partial(chain, gap_every=2),
    "residual blocks": residual,
    "inception-like": inception,
}


def main() -> int:
    """Print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument(
        "--tvm-limit", type=float, default=120.0, help="seconds for a run of TVM's; 0 leaves them out"
    )
    parser.add_argument(
        "--tvm-sizes", type=int, default=10_000, help="the largest size that TVM is asked for"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    claim_ops(TARGET, *CLAIMED)
    print(
        f"{'graph':22} {'ops':>7} {'ours s':>8} {'MB':>6} {'functions':>9} "
        f"{'TVM bound':>12} {'TVM passed':>13}"
    )
    for name in options.graphs:
        times = []
        for size in options.sizes:
            mod = GRAPHS[name](size)
            seconds, functions = ours(mod, options.rounds)
            times.append(seconds)
            beside = ["-", "-"]
            if options.tvm_limit and size <= options.tvm_sizes:
                beside = [theirs(mod, bind, options.tvm_limit) for bind in (True, False)]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(
                f"{name:22} {size:7} {seconds:8.2f} {peak:6} {functions:9} {beside[0]:>12} {beside[1]:>13}",
                flush=True,
            )
        print(f"{'':22} growth exponent {exponent(options.sizes, times):.2f}")
    return 0


def ours(mod: tvm.IRModule, rounds: int) -> tuple[float, int]:
    """The least seconds of some rounds, and the number of external functions."""
    best = math.inf
    for _round in range(rounds):
        gc.collect()
        start = time.perf_counter()
        partitioned = ar.partition(mod, [TARGET], prepare=False)
        best = min(best, time.perf_counter() - start)
    calls = sum("Codegen" in (func.attrs or {}) for func in partitioned.functions.values())
    return best, calls


def theirs(mod: tvm.IRModule, bind_constants: bool, limit: float) -> str:
    """Seconds that TVM's passes take, in a process that is ended at the limit."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_run_tvm, args=(mod, bind_constants, sender))
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        return f"> {limit:.0f}"
    return f"{receiver.recv():.2f}" if receiver.poll() else f"died ({process.exitcode})"


def _run_tvm(mod: tvm.IRModule, bind_constants: bool, sender: multiprocessing.connection.Connection) -> None:
    patterns = [
        (f"{TARGET}.{op}", is_op(op)(*[wildcard() for _ in range(ARITY.get(op, 2))])) for op in CLAIMED
    ]
    start = time.perf_counter()
    mod = relax.transform.FuseOpsByPattern(patterns, bind_constants=bind_constants)(mod)
    relax.transform.MergeCompositeFunctions()(mod)
    sender.send(time.perf_counter() - start)


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """The power of the size that the time grows with, between the ends."""
    if len(sizes) < 2:
        return math.nan
    return math.log(times[-1] / times[0]) / math.log(sizes[-1] / sizes[0])


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    sys.exit(main())
