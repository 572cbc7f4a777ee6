"""Modules of products whose weights are packed, and how they run on dnnl beside the host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl import processor
from kits.backends.dnnl.dnnl_harness import offload, run
from kits.host_machines import host_machine

__all__ = ["Ran", "print_runs", "products", "runs"]


def products(depth: int, *widths: int) -> tvm.IRModule:
    """``x @ weight`` for weights of some widths, the first with a bias."""
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("rows", "int64"), depth), "float32"))
    rng, builder = np.random.default_rng(0), relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            results = []
            for index, width in enumerate(widths):
                weight = relax.const(rng.standard_normal((depth, width)).astype("float32"))
                result = builder.emit(op.matmul(x, weight))
                bias = relax.const(np.linspace(-1, 1, width, dtype="float32"))
                results.append(result if index else builder.emit(op.add(result, bias)))
            outputs = [builder.emit_output(op.nn.relu(each)) for each in results]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.finalize()


@dataclass(frozen=True, slots=True)
class Ran:
    """A call with some rows.

    Attributes
    ----------
    rows
        Their number.
    errors
        Of each result, over its largest number, against the host.
    steps
        Those of the products.
    """

    rows: int
    errors: list[float]
    steps: list[str]


def runs(counts: Sequence[int], activations: str) -> list[Ran]:
    """Calls of two products of the same rows, by the option."""
    module = ar.passes.QuantizeWeights(4, 32, True)(products(96, 70, 128))
    alone = host_machine(module)
    offloaded = offload(module, packed_activations=activations)
    (symbol,) = offloaded.symbols_of("main")
    found = []
    for rows in counts:
        x = np.random.default_rng(rows).standard_normal((rows, 96), "float32")
        pairs = zip(offloaded.call("main", x), run(alone, "main", [x]), strict=True)
        errors = [float(np.abs(each - expected).max() / np.abs(expected).max()) for each, expected in pairs]
        found.append(Ran(rows, errors, [line for line in offloaded.plan(symbol) if "of int4" in line]))
    return found


def print_runs(counts: Sequence[int], activations: str) -> None:
    """The same for another process: whether bfloat16 is faster on its processor, then each call, as JSON."""
    made = [(each.rows, each.errors, each.steps) for each in runs(counts, activations)]
    print(json.dumps([processor.multiplies_bfloat16_faster(), made]))
