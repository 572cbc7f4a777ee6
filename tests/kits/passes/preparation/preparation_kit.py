"""Small modules, and what the tests of the preparation ask of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

from annotated_region.expr_map import ExprSet
from annotated_region.passes.prepare_for_inference import PrepareForInference
from kits.host_machines import host_machine

Shape = tuple[int | str, ...]


def module(body: Callable[..., relax.Expr], dtype: str = "float32", **inputs: Shape) -> tvm.IRModule:
    """A module whose ``main`` computes ``body(builder, *inputs)`` in one dataflow block.

    Text in a shape stands for a symbolic extent. Nested calls become bindings of their own.
    """
    symbols: dict[str, tvm.tirx.Var] = {}

    def extent(value: int | str) -> int | tvm.tirx.Var:
        return value if isinstance(value, int) else symbols.setdefault(value, tvm.tirx.Var(value, "int64"))

    builder = relax.BlockBuilder()
    params = [
        relax.Var(name, relax.TensorType([extent(value) for value in shape], dtype))
        for name, shape in inputs.items()
    ]
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(body(builder, *params))
        builder.emit_func_output(output)
    return builder.get()


def constant(*shape: int, seed: int = 0, dtype: str = "float32") -> relax.Expr:
    """A constant with seeded values between a half and three halves, so that products stay of order one."""
    return relax.const(values(*shape, seed=seed).astype(dtype))


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)


def prepare(mod: tvm.IRModule) -> tvm.IRModule:
    """The prepared module; the one handed in is unchanged, and preparing twice adds nothing."""
    before = [(name, mod[name]) for name in mod.get_global_vars()], constants(mod)
    prepared = PrepareForInference()(mod)
    functions, weights = before
    assert all(mod[name].same_as(function) for name, function in functions)
    for old, now in zip(weights, constants(mod), strict=True):
        np.testing.assert_array_equal(old, now)  # the rewrites read constants where they lie
    relax.analysis.well_formed(prepared)
    tvm.ir.assert_structural_equal(PrepareForInference()(prepared), prepared)
    return prepared


def becomes(before: tvm.IRModule, expected: tvm.IRModule) -> tvm.IRModule:
    """Assert that preparation makes `expected` of `before`; answers with the result."""
    prepared = prepare(before)
    tvm.ir.assert_structural_equal(prepared, expected, map_free_vars=True)
    return prepared


def stays(mod: tvm.IRModule) -> None:
    """Assert that preparation finds nothing to do."""
    tvm.ir.assert_structural_equal(prepare(mod), mod)


def ops(mod: tvm.IRModule, name: str = "main") -> Counter[str]:
    """How often each op stands in a function, nested blocks included; other values by their kind."""
    found: Counter[str] = Counter()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call):
            found[str(getattr(expr.op, "name", type(expr.op).__name__)).removeprefix("relax.")] += 1
        elif isinstance(expr, relax.TupleGetItem):
            found["TupleGetItem"] += 1

    relax.analysis.post_order_visit(mod[name], visit)
    return found


def constants(mod: tvm.IRModule) -> list[np.ndarray]:
    """The constants of all Relax functions, in program order."""
    found: list[np.ndarray] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            found.append(expr.value.numpy())

    for name in sorted(mod.get_global_vars(), key=lambda name: name.name_hint):
        if isinstance(mod[name], relax.Function):
            relax.analysis.post_order_visit(mod[name], visit)
    return found


def distinct_constants(mod: tvm.IRModule) -> list[np.ndarray]:
    """Each constant of ``main`` once, however many ops read it."""
    found = ExprSet()
    relax.analysis.post_order_visit(
        mod["main"], lambda expr: found.add(expr) if isinstance(expr, tvm.ir.GenericConst) else None
    )
    return [each.value.numpy() for each in found]


def run(mod: tvm.IRModule, *arrays: np.ndarray) -> list[np.ndarray]:
    """What ``main`` computes, compiled by TVM alone."""
    machine = host_machine(mod)
    result = machine["main"](*[tvm.runtime.tensor(array) for array in arrays])
    return [field.numpy() for field in (result if isinstance(result, tvm.ir.Array) else [result])]
