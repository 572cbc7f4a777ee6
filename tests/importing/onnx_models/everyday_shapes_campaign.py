"""Models by lot with the extents of everyday networks, against ONNX Runtime without its optimizer.

    PYTHONPATH=.:tests python tests/importing/onnx_models/everyday_shapes_campaign.py --target dnnl

Each is up to three convolutions, transposed convolutions, windows or products with what follows them
(`kits.importing.everyday_shapes`); with ``--bytes`` most operands are bytes (`everyday_bytes`).

Each case runs in a child of its own. A model that dnnl runs by oneDNN's reference code counts as one that
hangs. Results go to ``<state>/<target>.jsonl``, a line a case; what stands there is not run again unless
``--again`` asks for its kind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions
from kits.importing.case_campaign import Case, built_for, options_of, run_cases
from kits.importing.everyday_bytes import everyday_model_of_bytes
from kits.importing.everyday_shapes import everyday_model
from kits.importing.node_checks import Kind, Outcome
from kits.onnx_nodes import by_onnx_runtime

from annotated_region.errors import AnnotatedRegionError

SMALL = 2e-5
"""Of the largest element of a result."""
QUANTUM, PART = 2e-2, 5e-3
"""With bytes, of the largest element; and the part of the elements that may be further away, next to ties."""


def main() -> int:
    """Run what is asked for, and print the counts."""
    parser = options_of(__doc__, "build/everyday_shapes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--bytes", action="store_true", help="most operands are bytes")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    seeds = range(options.seed, options.seed + options.models)
    return run_cases(options, _cases(options.target, seeds, options.bytes))


def _cases(target: str, seeds: range, is_of_bytes: bool) -> Iterator[Case]:
    for seed in seeds:
        name = f"{seed} in bytes" if is_of_bytes else str(seed)
        yield name, partial(checked, seed, target, is_of_bytes=is_of_bytes)


def checked(seed: int, target: str, *, is_of_bytes: bool = False) -> Outcome:
    """What becomes of the model of a seed on a target."""
    model, inputs = everyday_model_of_bytes(seed) if is_of_bytes else everyday_model(seed)
    (right,) = by_onnx_runtime(model, inputs)
    try:
        partitioned, machine = built_for(model, target)
    except AnnotatedRegionError as error:
        return Outcome(Kind.UNBUILT, str(error))
    found = machine["main"](*(tvm.runtime.tensor(array) for array in inputs.values())).numpy()
    errors = np.abs(found - right) / np.abs(right).max(initial=1e-30)
    error = float(errors.max(initial=0))
    if is_of_bytes:
        if not np.mean(~(errors <= QUANTUM)) <= PART:
            return Outcome(Kind.WRONG, f"{error:.1e} of the largest element")
    elif not error <= SMALL:
        return Outcome(Kind.WRONG, f"{error:.1e} of the largest element")
    symbols = external_functions(partitioned) if target == "dnnl" else []
    plans = [str(machine.module.get_function(f"{each}__plan", query_imports=True)()) for each in symbols]
    slow = sorted({line for plan in plans for line in plan.splitlines() if "ref:" in line})
    if slow:
        return Outcome(Kind.HANG, "by reference code: " + ", ".join(slow))
    return Outcome(Kind.RIGHT)


if __name__ == "__main__":
    sys.exit(main())
