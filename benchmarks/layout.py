"""How much is transposed: PlanLayout against TVM's ConvertLayout and FoldConstant, on the light models.

    python benchmarks/layout.py --run

Each model comes twice: as imported and prepared, in NCHW, and after TVM's conversion to NHWC. Three targets
ask for layouts: one takes any, one demands NHWC of every convolution, one NCHW. TVM converts to what is
demanded; where nothing is, its module stays as it is. Counted are `permute_dims` and `layout_transform` on
what is not constant, and the bytes of what they move; axes of extent one do not count, on either side.
With ``--run`` each planned module is partitioned for dnnl, run, and compared with ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np
import onnxruntime
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.layout_plan import Cost, transposes_of
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model, light_module

CONV2D = "relax.nn.conv2d"
DEMANDS = {"any": None, "NHWC": ("NHWC", "OHWI"), "NCHW": ("NCHW", "OIHW")}
RELATIVE, ABSOLUTE = 1e-3, 1e-4


def main() -> int:
    """Print one line for each model, form and demand; 1 if TVM moves less somewhere, or an answer differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(LIGHT_MODELS), default=list(LIGHT_MODELS))
    parser.add_argument("--raw", action="store_true", help="as imported, not prepared for inference")
    parser.add_argument("--run", action="store_true", help="compare the answers as well")
    options = parser.parse_args()
    for name, demand in DEMANDS.items():
        ar.register_backend(name, layouts={} if demand is None else {CONV2D: ("/".join(demand),)})
    print("| model | from | demanded | TVM: bytes, transposes | planned | at least | seconds | answers |")
    print("|---|---|---|---|---|---|---|---|")
    worse = sum(compared(name, options.raw, options.run) for name in options.models)
    print(f"{worse} worse or wrong", file=sys.stderr)
    return int(worse > 0)


def compared(name: str, raw: bool, run: bool) -> int:
    """Print the lines of one model; how many of them show something worse or wrong."""
    model = light_module(name)
    nchw = model if raw else ar.passes.PrepareForInference()(model)
    worse = 0
    errors: dict[tvm.IRModule, float] = {}  # a plan that changes nothing gives the module that it got
    for form, mod in (("NCHW", nchw), ("NHWC", converted(nchw, DEMANDS["NHWC"]))):
        for demand, layouts in DEMANDS.items():
            if mod is None:
                print(f"| {name} | {form} | {demand} | does not convert | | | | |")
                continue
            theirs = converted(mod, layouts)
            begin = time.perf_counter()
            planned = ar.passes.PlanLayout([demand])(mod)
            seconds = time.perf_counter() - begin
            ours = transposes_of(planned)
            moved = None if theirs is None else transposes_of(theirs)
            if run and planned not in errors:
                errors[planned] = answer_error(name, planned)
            error = errors.get(planned)
            worse += (moved is not None and ours > moved) or (error is not None and error > 1)
            answers = "" if error is None else f"{error:.0e} of tolerance"
            bound = least(mod, demand)
            print(
                f"| {name} | {form} | {demand} | {cell(moved)} | {cell(ours)} | {cell(bound)} "
                f"| {seconds:.1f} | {answers} |",
                flush=True,
            )
    return worse


def converted(mod: tvm.IRModule, layouts: Sequence[str] | None) -> tvm.IRModule | None:
    """What TVM makes of a module; None if it fails."""
    if layouts is None:
        return mod
    try:
        return relax.transform.FoldConstant()(relax.transform.ConvertLayout({CONV2D: list(layouts)})(mod))
    except tvm.error.InternalError:
        return None


def least(mod: tvm.IRModule, demand: str) -> Cost:
    """The bound of the plan: with these rules and demands nothing moves less."""
    return ar.passes.PlanLayout([demand]).plan(mod).lower_bound


def cell(cost: Cost | None) -> str:
    """A cost as text."""
    return "fails" if cost is None else f"{cost.bytes:,}, {cost.transposes}"


def answer_error(name: str, mod: tvm.IRModule) -> float:
    """The largest error of the partitioned module, in tolerances."""
    model = light_model(name)
    inputs = input_of(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)[0]
    machine = relax.VirtualMachine(ar.build(ar.partition(mod, ["dnnl"])), tvm.cpu())
    result = machine["main"](*map(tvm.runtime.tensor, inputs.values()))
    found = (result if hasattr(result, "numpy") else result[0]).numpy()
    error: float = np.max(np.abs(found - expected) / (ABSOLUTE + RELATIVE * np.abs(expected)))
    return float(error)


if __name__ == "__main__":
    sys.exit(main())
