"""The unit of a region depends on that region alone: neither edits elsewhere nor other weights compile it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl.runtime_units import PREBUILT
from annotated_region.compilation.code_generation import generate_code

pytestmark = needs_onednn

WIDTH = 600  # 1.4 MB of weights, which lie in an object file; biases go through TVM's loader
Step = Callable[[relax.Expr], relax.Expr]


def layers(*activations: Step, seed: int = 0) -> tvm.IRModule:
    """Products whose activations differ; erf stands between them, for the host."""
    numbers = np.random.default_rng(seed)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, WIDTH), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value: relax.Expr = x
            for activation in activations:
                weight = relax.const(numbers.standard_normal((WIDTH, WIDTH), "float32"))
                product = builder.emit(op.matmul(value, weight))
                value = builder.emit(op.erf(builder.emit(activation(product))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.finalize()


def units(mod: tvm.IRModule) -> list[str]:
    """The units of the regions, in order, and the runtime's."""
    partitioned = ar.partition(mod, ["dnnl"], bans={"relax.erf": ["dnnl"]}, names="numbers")
    modules = list(generate_code(partitioned, {}).attrs["external_mods"])
    below = [each for module in modules for each in module.imports if each.kind == "c"]
    return [module.inspect_source() for module in (*modules, *below)]


def test_an_edit_of_one_region_changes_one_unit() -> None:
    before = units(layers(op.nn.relu, op.tanh, op.sigmoid))
    after = units(layers(op.nn.relu, op.abs, op.sigmoid))
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True, True]
    assert len(set(before)) == 4
    assert [PREBUILT in text for text in before] == [False, False, False, True]


def test_a_region_more_leaves_the_others_their_units() -> None:
    before = units(layers(op.nn.relu, op.tanh))
    assert set(before) < set(units(layers(op.nn.relu, op.tanh, op.sigmoid)))


def test_other_weights_change_no_unit() -> None:
    assert units(layers(op.nn.relu, op.tanh, seed=1)) == units(layers(op.nn.relu, op.tanh))
