"""Plants faults in regions of fifteen models, and counts the regions and ops that `check` finds.

    PYTHONPATH=tests python tests/checking/planted_faults.py [--faults 20] [--seed 0]
    [model ...]

A fault is one of `faulty_backend.FAULTS` at a random op, or one that shows only where another op is in the
same region. One that changes no result of the program (a scale in front of a norm) is planted anew. Before
its faults each model is checked without one: an alarm there is counted, too.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from kits.checking.faulty_backend import FAULTS, NAME, Fault, register, spoiled
from kits.family_models import FAMILIES, family_model, inputs_of
from kits.zoo.registry import onnx_network
from kits.zoo.signature import arrays
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar
from annotated_region.testing.registry import temporary_registrations

ZOO = (
    "gpt2_decode",
    "t5",
    "swin",
    "detr",
    "mamba_closed",
    "unet",
    "efficientnet",
    "mixer",
    "graph_attention",
)
MODELS = (*FAMILIES, *ZOO)
UNCLAIMED = ("relax.nn.softmax", "relax.nn.avg_pool2d", "relax.mean")
_TRIES = 40


@dataclass(frozen=True, slots=True)
class Planted:
    """A model that faults are planted in: prepared, with its inputs, and the ops that the target claims."""

    name: str
    mod: tvm.IRModule
    inputs: Sequence[np.ndarray]
    claimed: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    types: dict[str, relax.Binding]


def planted_model(name: str) -> Planted:
    """A model, ready to be spoiled."""
    if name in FAMILIES:
        model = family_model(name, "small")
        mod, inputs = from_onnx(model), list(inputs_of(model).values())
    else:
        network = onnx_network(name)
        form = network.forms[0]  # the one of fixed extents
        mod = from_onnx(network.proto(form))
        inputs = list(arrays(network.inputs, form.calls[0]).values())
    mod = ar.passes.PrepareForInference()(mod)
    bindings = {
        binding.var.name: binding
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.Op)
    }
    ops = {str(binding.value.op.name) for binding in bindings.values()} - set(UNCLAIMED)
    claimed = tuple(sorted(ops))
    register(claimed)
    (report,) = ar.explain(mod, [NAME], prepare=False).functions
    places = tuple(tuple(op for op in region.ops if op in bindings) for region in report.regions)
    return Planted(name, mod, inputs, claimed, places, bindings)


def fitting(model: Planted, random: np.random.Generator) -> Fault:
    """A fault at random that makes sense where it is."""
    while True:
        region = model.places[random.integers(len(model.places))]
        op = region[random.integers(len(region))]
        kind = list(FAULTS)[random.integers(len(FAULTS))]
        needs = None
        if len(region) > 1 and random.random() < 1 / 7:
            kind, needs = "scale", str(random.choice([each for each in region if each != op]))
        if _fits(kind, model.types[op]):
            return Fault(kind, op, needs)


def _fits(kind: str, binding: relax.Binding) -> bool:
    ty = binding.var.ty
    if not isinstance(ty, relax.TensorType) or str(ty.dtype) not in ("float32", "float16", "bfloat16"):
        return False
    extents = [int(each) for each in ty.shape.values]
    call = binding.value
    if kind in ("stride", "mask"):
        return bool(extents) and extents[-1] > 1
    if kind == "exchanged":
        name = str(call.op.name)
        same = len(call.args) > 1 and str(call.args[0].ty) == str(call.args[1].ty)
        return name in ("relax.subtract", "relax.divide", "relax.matmul") and same
    return True


def shows(model: Planted, fault: Fault) -> bool:
    """Whether the results of the program change by more than a thousandth of the largest."""
    main = model.mod["main"]
    right, wrong = (_answers(model, func) for func in (main, spoiled(main, Fault(fault.kind, fault.op))))
    return any(
        not np.allclose(one, other, rtol=0, atol=1e-3 * float(np.abs(one).max(initial=1e-6)), equal_nan=True)
        for one, other in zip(right, wrong, strict=True)
    )


def _answers(model: Planted, func: relax.Function) -> list[np.ndarray]:
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    answer = machine["main"](*map(tvm.runtime.tensor, model.inputs))
    return [each.numpy() for each in ([answer] if isinstance(answer, tvm.runtime.Tensor) else answer)]


def outcome(model: Planted, fault: Fault) -> str:
    """What `check` makes of a fault."""
    register(model.claimed, fault)
    report = ar.check(model.mod, [NAME], inputs=model.inputs, prepare=False)
    place = next(region for region in model.places if fault.op in region)
    bad = [region for region in report.regions if not region.ok]
    if not bad:
        return "hidden" if not shows(model, fault) else "missed"
    if [tuple(op.name for op in region.ops if op.name in model.types) for region in bad] != [place]:
        return "another region"
    found = {op.name for op in report.culprit.ops} if report.culprit else set()
    if (
        report.culprit
        and fault.needs is None
        and report.culprit.builds > 2 * math.log2(max(len(place), 2)) + 4
    ):
        return f"too many builds ({report.culprit.builds} for {len(place)} ops)"
    wanted = {fault.op} if fault.needs is None else {fault.op, fault.needs}
    return "found" if found == wanted else f"other ops ({', '.join(sorted(found))})"


def counted(name: str, faults: int, seed: int, tell: Callable[[str], None]) -> Counter[str]:
    """The outcomes of a model."""
    model = planted_model(name)
    counts: Counter[str] = Counter()
    report = ar.check(model.mod, [NAME], inputs=model.inputs, prepare=False)
    counts["right without a fault" if report.ok else "alarm without a fault"] += 1
    random = np.random.default_rng([seed, sum(map(ord, name))])
    for _try in range(_TRIES * faults):
        if counts.total() > faults:
            break
        begin = time.monotonic()
        fault = fitting(model, random)
        result = outcome(model, fault)
        tell(f"{name} {fault}: {result} ({time.monotonic() - begin:.1f} s)")
        if result != "hidden":
            counts[result.partition(" (")[0]] += 1
    return counts


def main() -> int:
    """Print a table; the result is how many faults were not found as they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=20, help="a model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with temporary_registrations():
        for name in options.models:
            counts = counted(name, options.faults, options.seed, lambda line: print(line, flush=True))
            total += counts
            print(
                f"| {name} | {', '.join(f'{what}: {count}' for what, count in counts.items())} |", flush=True
            )
    print(f"| all | {', '.join(f'{what}: {count}' for what, count in total.items())} |")
    return total.total() - total["found"] - total["right without a fault"]


if __name__ == "__main__":
    raise SystemExit(main())
