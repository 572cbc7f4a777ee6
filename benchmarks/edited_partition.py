"""Partitioning after one edit: `ar.IncrementalPartition` beside `ar.partition`, on a chain of 10 000 ops.

``python benchmarks/edited_partition.py`` edits one op after the other and prints the seconds of both, their
ratio, and the bindings that were worked on. Each result is compared with the full partition.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from random import Random

import tvm
import tvm_ffi
from tvm import relax

import annotated_region as ar
from annotated_region.testing import generated
from annotated_region.testing.registry import claim_ops, temporary_registrations

TARGET = "sketch"


def timed(run: Callable[[tvm.IRModule], tvm.IRModule], mod: tvm.IRModule) -> tuple[tvm.IRModule, float]:
    """The result, and the seconds it took."""
    start = time.perf_counter()
    result = run(mod)
    return result, time.perf_counter() - start


def with_one_op_changed(mod: tvm.IRModule, random: Random) -> tvm.IRModule:
    """The module with a `relu` in place of a random op; all other bindings stay the same objects."""
    func = mod["main"]
    (block,) = func.body.blocks
    bindings = list(block.bindings)
    place = random.randrange(len(bindings) - 1)
    old = bindings[place]
    bindings[place] = relax.VarBinding(
        old.var, relax.BlockBuilder().normalize(relax.op.nn.relu(old.value.args[0]))
    )
    body = relax.BlockBuilder().normalize(relax.SeqExpr([relax.DataflowBlock(bindings)], func.body.body))
    result = mod.clone()
    result.update_func(
        mod.get_global_var("main"), relax.Function(func.params, body, func.ret_ty, attrs=func.attrs)
    )
    return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--gap-every", type=int, default=20, help="one op in so many is not claimed")
    parser.add_argument("--edits", type=int, default=5)
    options = parser.parse_args()
    random = Random(0)
    with temporary_registrations():
        ar.register_backend(TARGET)
        claim_ops(TARGET, *generated.CLAIMED)
        mod = generated.chain(options.ops, gap_every=options.gap_every)
        again = ar.IncrementalPartition([TARGET])
        _first, seconds = timed(again, mod)
        print(f"first call: {seconds:.3f} s")
        ratios = []
        for _edit in range(options.edits):
            mod = with_one_op_changed(mod, random)
            got, part = timed(again, mod)
            want, full = timed(lambda each: ar.partition(each, [TARGET]), mod)
            assert tvm_ffi.structural_equal(got, want)
            ratios.append(part / full)
            print(f"edited: {part:.4f} s, full: {full:.3f} s, {part / full:.2%}; {again.work}")
        print(f"median: {statistics.median(ratios):.2%}")


if __name__ == "__main__":
    main()
