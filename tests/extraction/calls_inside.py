"""Runs a model and, beside it, each of its fused functions built alone, on what it was called with inside.

    PYTHONPATH=tests python tests/extraction/calls_inside.py resnet50 squeezenet

prints for light models how far the two are apart; without names, for all nine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from kits.extraction.naive_walk import fuse
from tvm import relax
from tvm.relax.backend.cpu_generic import pipeline

import annotated_region as ar
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model, light_module

__all__ = ["differences"]


def differences(mod: tvm.IRModule, inputs: Sequence[np.ndarray], calls: int = 1) -> dict[str, float]:
    """How far each function, built alone, is from the same function inside the model.

    Parameters
    ----------
    mod
        A module with a function "main", which takes the inputs.
    calls
        How many calls of each function are repeated.

    Returns
    -------
    dict[str, float]
        The greatest difference of a number, relative to the greatest number of that result or to one,
        for each function, in the order of their first calls.
    """
    extracted = ar.extract_fused_functions(mod)
    names = {name.name_hint: function for name, function in extracted.functions_items()}
    alone = {name: tvm.compile(tvm.IRModule({name: each}), "llvm") for name, each in names.items()}
    machine = relax.VirtualMachine(_compiled_as_it_is(fuse(mod)), tvm.cpu())
    given: list[list[tvm.runtime.Tensor]] = []
    found: dict[str, list[float]] = {}

    def watch(_function: Any, name: str, is_before: bool, _result: Any, *values: Any) -> None:
        if name not in alone or len(found.get(name, ())) == calls:
            return
        tensors = [value for value in values if isinstance(value, tvm.runtime.Tensor)]
        if is_before:
            given.append([tvm.runtime.tensor(value.numpy()) for value in tensors])
            return
        arguments = given.pop()
        alone[name][name](*arguments)
        apart = max(_distance(*pair) for pair in zip(arguments, tensors, strict=True))
        found.setdefault(name, []).append(apart)

    machine.set_instrument(watch)
    machine["main"](*map(tvm.runtime.tensor, inputs))
    assert found.keys() == alone.keys(), found.keys() ^ alone.keys()
    return {name: max(apart) for name, apart in found.items()}


def _compiled_as_it_is(fused: tvm.IRModule) -> tvm.IRModule:
    """The executable of a module that is not fused once more, nor are its reshapes made views."""
    target = tvm.target.Target("llvm")
    lowering = pipeline.dataflow_lower_passes(target)[1:] + pipeline.finalize_passes(target)
    return tvm.compile(fused, target, relax_pipeline=tvm.transform.Sequential(lowering))


def _distance(left: tvm.runtime.Tensor, right: tvm.runtime.Tensor) -> float:
    one, other = left.numpy(), right.numpy()
    if one.dtype.kind != "f":
        return float(np.any(one != other))
    return float(np.abs(one - other).max() / max(1.0, np.abs(other).max())) if one.size else 0.0


def main() -> int:
    """Print one line a model; 1 if a function computes something else alone."""
    worst = 0.0
    for name in sys.argv[1:] or LIGHT_MODELS:
        found = differences(light_module(name), list(input_of(light_model(name)).values()))
        worst = max(worst, *found.values())
        same = sum(apart == 0 for apart in found.values())
        text = f"{name:13} {len(found):3} functions, {same:3} the same to the bit"
        print(f"{text}, greatest difference {max(found.values()):.1e}", flush=True)
    return int(worst > 1e-5)


if __name__ == "__main__":
    raise SystemExit(main())
