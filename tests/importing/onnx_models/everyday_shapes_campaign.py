"""Models by lot with the extents of everyday networks, against ONNX Runtime without its optimizer.

    PYTHONPATH=.:tests python tests/importing/onnx_models/everyday_shapes_campaign.py --target dnnl

Each is up to three convolutions, transposed convolutions, windows or products with what follows them
(`kits.importing.everyday_shapes`); with ``--bytes`` most operands are bytes (`everyday_bytes`), with
``--bf16`` products round their operands to bfloat16, as an option of dnnl and openvino says.

Each case runs in a child of its own. A model that dnnl runs by oneDNN's reference code counts as one that
hangs. Results go to ``<state>/<target>.jsonl``, a line a case; what stands there is not run again unless
``--again`` asks for its kind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

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
HALF = 2e-2
"""With bfloat16, of the largest element: five roundings, for up to six products stand in front."""
BF16 = {"dnnl": "bf16", "openvino": "bf16"}
"""The precision of each target that has one, as it calls it."""

Form: TypeAlias = str
"""``float32``, ``bytes`` or ``bf16``."""


def main() -> int:
    """Run what is asked for, and print the counts."""
    parser = options_of(__doc__, "build/everyday_shapes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--bytes", action="store_true", help="most operands are bytes")
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16")
    options = parser.parse_args()
    if options.bf16 and options.target not in BF16:
        parser.error(f"--bf16 is an option of {' and '.join(BF16)}")
    form = "bytes" if options.bytes else "bf16" if options.bf16 else "float32"
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    seeds = range(options.seed, options.seed + options.models)
    return run_cases(options, _cases(options.target, seeds, form))


def _cases(target: str, seeds: range, form: Form) -> Iterator[Case]:
    for seed in seeds:
        name = str(seed) if form == "float32" else f"{seed} in {form}"
        yield name, partial(checked, seed, target, form)


def checked(seed: int, target: str, form: Form) -> Outcome:
    """What becomes of the model of a seed on a target."""
    model, inputs = everyday_model_of_bytes(seed) if form == "bytes" else everyday_model(seed)
    if not model.graph.node:
        return Outcome(Kind.NO_REGION, "ONNX Runtime refuses models without nodes")
    (right,) = by_onnx_runtime(model, inputs)
    options = {"precision": BF16[target]} if form == "bf16" else None
    try:
        partitioned, machine = built_for(model, target, options=options)
    except AnnotatedRegionError as error:
        return Outcome(Kind.UNBUILT, str(error))
    found = machine["main"](*(tvm.runtime.tensor(array) for array in inputs.values())).numpy()
    errors = np.abs(found - right) / np.abs(right).max(initial=1e-30)
    error, part = float(errors.max(initial=0)), float(np.mean(~(errors <= QUANTUM)))
    is_right = part <= PART if form == "bytes" else error <= (HALF if form == "bf16" else SMALL)
    if not is_right:
        return Outcome(Kind.WRONG, f"{error:.1e} of the largest element")
    symbols = external_functions(partitioned) if target == "dnnl" else []
    plans = [str(machine.module.get_function(f"{each}__plan", query_imports=True)()) for each in symbols]
    slow = sorted({line for plan in plans for line in plan.splitlines() if "ref:" in line})
    if slow:
        return Outcome(Kind.HANG, "by reference code: " + ", ".join(slow))
    return Outcome(Kind.RIGHT)


if __name__ == "__main__":
    sys.exit(main())
