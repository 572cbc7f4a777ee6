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

FUNCTIONS = ("sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh")
SELU = (1.6732632423543772, 1.0507009873554805)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """The form with a hyperbolic tangent."""
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


STEPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "tan": np.tan,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "nn.gelu": lambda x: 0.5 * x * np.vectorize(math.erfc)(-x / math.sqrt(2)),
    "nn.gelu_tanh": gelu_tanh,
    "nn.silu": lambda x: x / (1 + np.exp(-x)),
    "nn.selu": lambda x: SELU[1] * np.where(x > 0, x, SELU[0] * np.expm1(x)),
    "nn.softplus": lambda x: np.logaddexp(0, x),
}


def softmax(x: np.ndarray) -> np.ndarray:
    """Along the rows."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


# Sums over 256 and more numbers of a row, or of a part of it; what they are in NumPy.
SUMS: dict[str, tuple[Body, Callable[[np.ndarray], np.ndarray]]] = {
    "sum": (lambda x, _: op.sum(x, [1]), lambda x: x.sum(1)),
    "mean": (lambda x, _: op.mean(x, [1]), lambda x: x.mean(1)),
    "prod": (lambda x, dtype: op.prod(op.divide(x, x), [1]), lambda x: np.ones(len(x))),
    "variance": (lambda x, _: op.variance(x, [1]), lambda x: x.var(1)),
    "std": (lambda x, _: op.std(x, [1]), lambda x: x.std(1)),
    "cumsum": (lambda x, _: op.cumsum(x, 1), lambda x: x.cumsum(1)),
    "cumsum of a type": (lambda x, dtype: op.cumsum(x, 1, dtype), lambda x: x.cumsum(1)),
    "cumprod": (lambda x, _: op.cumprod(op.divide(x, x), 1), np.ones_like),
    "matmul": (lambda x, _: op.matmul(x, op.permute_dims(x)), lambda x: x @ x.T),
    "matmul of a type": (lambda x, dtype: op.matmul(x, op.permute_dims(x), dtype), lambda x: x @ x.T),
    "einsum": (lambda x, _: op.einsum((x, x), "ij,kj->ik"), lambda x: x @ x.T),
    "nn.softmax": (lambda x, _: op.nn.softmax(x), softmax),
    "nn.log_softmax": (lambda x, _: op.nn.log_softmax(x), lambda x: np.log(softmax(x))),
}
IMAGES = {
    f"nn.{kind}{rank}d{end}"
    for rank in (1, 2, 3)
    for kind, end in (("conv", ""), ("conv", "_transpose"), ("avg_pool", ""), ("adaptive_avg_pool", ""))
}


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
    "median": lambda x, _: op.median(x, 1),
    "median of all": lambda x, _: op.median(x),
    "image.grid_sample": lambda x, dtype: op.image.grid_sample(
        op.reshape(x, (1, 1, 4, 6)), op.reshape(ones(dtype), (1, 2, 3, 1))
    ),
    "nn.layer_norm": lambda x, dtype: op.nn.layer_norm(x, ones(dtype), ones(dtype), [-1]),
    "nn.instance_norm": lambda x, dtype: op.nn.instance_norm(x, ones(dtype), ones(dtype), 1, [0]),
    "power": lambda x, dtype: op.power(op.abs(x), ones(dtype)),
    "mod": lambda x, dtype: op.mod(op.abs(x), ones(dtype)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", WIDE)
def test_bfloat16_is_float32_rounded(name: str) -> None:
    x = numbers("bfloat16")
    found = answers(of(WIDE[name], "bfloat16"), x)
    wanted = answers(of(WIDE[name], "float32"), x.astype(np.float32))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == (x.dtype if other.dtype == np.float32 else other.dtype)
        kept = other.astype(one.dtype).astype(np.float64)
        np.testing.assert_array_equal(one.astype(np.float64), kept)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_float16_is_numpys(name: str) -> None:
    x = numbers("float16")
    (found,) = answers(of(lambda x, _: getattr(op, name)(x), "float16"), x)
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = getattr(np, name.replace("a", "arc", 1) if name.startswith("a") else name)(
            x.astype(np.float64)
        )
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_an_angle_of_float16_is_numpys() -> None:
    x = numbers("float16")
    (found,) = answers(of(lambda x, _: op.atan2(x, op.negative(x)), "float16"), x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found, np.arctan2(wide, -wide), rtol=1e-3)


def test_each_repair_is_of_a_fault_that_is_there() -> None:
    """Without the repair these do not compile, or answer wrongly; where one does, it can go."""
    names = {op for ops, _ in half_floats.REWRITES for op in ops}
    tested = {*WIDE, *FUNCTIONS, *STEPS, *SUMS, *IMAGES, "atan2", "nn.attention", "nn.attention_bias"}
    assert {f"relax.{name.split(' ')[0]}" for name in tested} == names
    for name, body in WIDE.items():
        if any(wrong in name for wrong in ("sort", "topk", "median", "grid_sample")):
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


HALVES = pytest.mark.parametrize(("dtype", "rounding"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])


@pytest.mark.sweep
@HALVES
@pytest.mark.parametrize("name", STEPS)
def test_a_function_of_several_steps_is_rounded_once(name: str, dtype: str, rounding: float) -> None:
    x = np.linspace(-4, 4, 80).reshape(8, 10).astype(dtype)
    make = getattr(op.nn, name[3:]) if name.startswith("nn.") else getattr(op, name)
    (found,) = answers(of(lambda x, _: make(x), dtype, x.shape), x)
    wanted = STEPS[name](x.astype("float64"))
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=1.05 * rounding, atol=1e-6)


@pytest.mark.sweep
@HALVES
@pytest.mark.parametrize("name", SUMS)
def test_a_long_sum_is_rounded_once(name: str, dtype: str, rounding: float) -> None:
    """TVM's sum of 4 096 ones is 2 048 in float16, and 256 in bfloat16."""
    x = np.random.default_rng(1).uniform(0.5, 1.5, (3, 600)).astype(dtype)
    body, sums = SUMS[name]
    (found,) = answers(of(body, dtype, x.shape), x)
    assert found.dtype == np.dtype(dtype)
    wanted = sums(x.astype("float64"))
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=1.05 * rounding, atol=1e-6)


@HALVES
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_sums_over_windows_are_rounded_once(rank: int, dtype: str, rounding: float) -> None:
    """Convolutions of 300 channels, and averages of 600 pixels, of numbers around 1."""
    deep = np.random.default_rng(rank).uniform(0.5, 1.5, (1, 300, *[2] * rank)).astype(dtype)
    wide = np.random.default_rng(rank).uniform(0.5, 1.5, (1, 1, 600, *[1] * (rank - 1))).astype(dtype)
    kernel = relax.const(np.ones((1, 300, *[2] * rank), dtype), dtype)
    back = relax.const(np.ones((300, 1, *[1] * rank), dtype), dtype)
    named = {name: getattr(op.nn, name) for name in dir(op.nn) if f"{rank}d" in name}
    bodies: list[tuple[Body, np.ndarray, np.ndarray]] = [
        (lambda x, _: named[f"conv{rank}d"](x, kernel), deep, deep.astype("float64").sum()),
        (lambda x, _: named[f"conv{rank}d_transpose"](x, back), deep, deep.astype("float64").sum(1)),
        (
            lambda x, _: named[f"avg_pool{rank}d"](x, (600, *[1] * (rank - 1))),
            wide,
            wide.astype("float64").mean(),
        ),
        (lambda x, _: named[f"adaptive_avg_pool{rank}d"](x, [1] * rank), wide, wide.astype("float64").mean()),
    ]
    for body, x, wanted in bodies:
        (found,) = answers(of(body, dtype, x.shape), x)
        np.testing.assert_allclose(
            np.squeeze(found).astype("float64"), np.squeeze(wanted), rtol=1.05 * rounding
        )


@HALVES
def test_attention_over_many_keys_is_rounded_once(dtype: str, rounding: float) -> None:
    """With equal scores the answer is the mean of the values, also with a bias of zeros."""
    values = np.random.default_rng(0).uniform(0.5, 1.5, (1, 600, 1, 2)).astype(dtype)
    query, bias = (relax.const(np.zeros(shape, dtype), dtype) for shape in ((1, 1, 1, 2), (1, 1, 1, 600)))
    wanted = values.astype("float64").mean(1)
    for more in ((), (bias,)):
        (found,) = answers(
            of(lambda x, _, more=more: op.nn.attention(query, x, x, *more), dtype, values.shape), values
        )
        np.testing.assert_allclose(found[:, 0].astype("float64"), wanted, rtol=1.05 * rounding)
