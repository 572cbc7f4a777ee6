"""bfloat16 and float16 on the host: each repaired op against float32, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.passes.host_repairs import half_floats
from annotated_region.passes.host_repairs.repairing import repaired

op = relax.op
Body = Callable[[relax.Expr, str], relax.Expr]

STEPS = ("tanh", "nn.gelu", "nn.gelu_tanh")


def ones(dtype: str) -> relax.Expr:
    """Numbers that bfloat16 has."""
    return relax.const(np.linspace(0.5, 2.0, 6).astype("bfloat16").astype(dtype), dtype)


def of(body: Body, dtype: str, shape: tuple[int, ...] = (4, 6)) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(body(x, dtype))
        builder.emit_func_output(output)
    return builder.get()


def numbers(dtype: str, shape: tuple[int, ...] = (4, 6)) -> np.ndarray:
    drawn = np.random.default_rng(3).permutation(np.prod(shape)).reshape(shape) / 8 - 1.1
    return drawn.astype(np.float32).astype(dtype)


def answers(mod: tvm.IRModule, x: np.ndarray) -> list[np.ndarray]:
    machine = relax.VirtualMachine(ar.build(mod), tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(x))
    return [each.numpy() for each in (result if isinstance(result, tvm.ir.Array) else [result])]


WIDE: dict[str, Body] = {
    "isnan": lambda x, _: op.isnan(x),
    "isinf": lambda x, _: op.isinf(x),
    "isfinite": lambda x, _: op.isfinite(x),
    "argmax": lambda x, _: op.argmax(x, 1),
    "argmin": lambda x, _: op.argmin(x, 0),
    "argsort": lambda x, _: op.argsort(x, 1),
    "sort": lambda x, _: op.sort(x, 1),
    "topk": lambda x, _: op.topk(x, 2, 1, "both"),
    "topk of values": lambda x, _: op.topk(x, 2, 1, "values"),
    "topk of indices": lambda x, _: op.topk(x, 2, 1, "indices"),
    "nn.layer_norm": lambda x, dtype: op.nn.layer_norm(x, ones(dtype), ones(dtype), [-1]),
    "nn.instance_norm": lambda x, dtype: op.nn.instance_norm(x, ones(dtype), ones(dtype), 1, [0]),
    "power": lambda x, dtype: op.power(op.abs(x), ones(dtype)),
    "mod": lambda x, dtype: op.mod(op.abs(x), ones(dtype)),
}


@pytest.mark.parametrize("name", WIDE)
def test_bfloat16_is_float32_rounded(name: str) -> None:
    x = numbers("bfloat16")
    found = answers(of(WIDE[name], "bfloat16"), x)
    wanted = answers(of(WIDE[name], "float32"), x.astype(np.float32))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        kept = other.astype(one.dtype).astype(np.float64)
        np.testing.assert_array_equal(one.astype(np.float64), kept)


@pytest.mark.parametrize("name", ["sinh", "cosh", "atan", "asinh"])
def test_a_function_of_float16_is_numpys(name: str) -> None:
    x = numbers("float16")
    (found,) = answers(of(lambda x, _: getattr(op, name)(x), "float16"), x)
    wanted = getattr(np, name.replace("a", "arc", 1) if name.startswith("a") else name)(x.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_each_repair_is_of_a_fault_that_is_there() -> None:
    """Without the repair these do not compile, or answer wrongly; where one does, it can go."""
    names = {op for ops, _ in half_floats.REWRITES for op in ops}
    tested = {f"relax.{name.split(' ')[0]}" for name in (*WIDE, "sinh", "cosh", "atan", "asinh", *STEPS)}
    assert tested == names
    for name, body in WIDE.items():
        if "sort" in name or "topk" in name:
            continue
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            tvm.compile(of(body, "bfloat16"), UNOPTIMIZED)


def test_float32_and_the_module_handed_in_stay() -> None:
    mod = of(WIDE["nn.layer_norm"], "float32")
    assert repaired(mod).same_as(mod)
    half = of(WIDE["nn.layer_norm"], "bfloat16")
    text = half.script()
    assert repaired(half).script() != text
    assert half.script() == text


@pytest.mark.parametrize(("dtype", "rounding"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
@pytest.mark.parametrize("name", STEPS)
def test_a_function_of_several_steps_is_rounded_once(name: str, dtype: str, rounding: float) -> None:
    x = np.linspace(-4, 4, 80).reshape(8, 10).astype(dtype)
    make = op.tanh if name == "tanh" else getattr(op.nn, name.removeprefix("nn."))
    (found,) = answers(of(lambda x, _: make(x), dtype, x.shape), x)
    wide = x.astype("float64")
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    wanted = {
        "tanh": np.tanh(wide),
        "nn.gelu": 0.5 * wide * np.vectorize(math.erfc)(-wide / math.sqrt(2)),
        "nn.gelu_tanh": 0.5 * wide * (1 + np.tanh(inner)),
    }[name]
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=1.05 * rounding, atol=1e-6)
