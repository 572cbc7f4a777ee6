"""Results that are exact in theory are exact on oneDNN; infinities and NaN are those of TVM."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import (
    Offloaded,
    add_function,
    needs_onednn,
    offload,
    run,
    single,
    tvm_alone,
)
from tvm import relax
from tvm.relax import op

Make = Callable[..., Any]
NAN, INF = math.nan, math.inf


def const(value: float) -> relax.Expr:
    return relax.const(np.float32(value))


def identity(size: int) -> relax.Expr:
    return relax.const(np.eye(size, dtype="float32"))


EXACT: dict[str, tuple[Make, list[float], list[float]]] = {
    "exp": (op.exp, [0, -0.0], [1, 1]),
    "log": (op.log, [1, 0], [0, -INF]),
    "sqrt": (op.sqrt, [4, 9, 0], [2, 3, 0]),
    "rsqrt": (op.rsqrt, [4, 16, 0.25], [0.5, 0.25, 2]),
    "square": (lambda x: op.power(x, const(2)), [3, -5], [9, 25]),
    "cube": (lambda x: op.power(x, const(3)), [2, 3, -2], [8, 27, -8]),
    "root": (lambda x: op.power(x, const(0.5)), [4, 9], [2, 3]),
    "inverse_root": (lambda x: op.power(x, const(-0.5)), [4, 16], [0.5, 0.25]),
    "inverse": (lambda x: op.power(x, const(-1)), [4, 3], [0.25, 1 / 3]),
    "first_power": (lambda x: op.power(x, const(1)), [4, 0.1], [4, 0.1]),
    "tanh": (op.tanh, [0, 100], [0, 1]),
    "sigmoid": (op.sigmoid, [0, 100, -200], [0.5, 1, 0]),
    "erf": (op.erf, [0, 10], [0, 1]),
    "cos": (op.cos, [0], [1]),
    "sin": (op.sin, [0], [0]),
    "gelu": (op.nn.gelu, [0], [0]),
    "gelu_tanh": (op.nn.gelu_tanh, [0], [0]),
    "silu": (op.nn.silu, [0], [0]),
    "quotient": (lambda x: op.divide(x, const(41)), [41, 82, 1], [1, 2, 1 / 41]),
    "quotient_by_7": (lambda x: op.divide(x, const(7)), [49, 7, 3], [7, 1, 3 / 7]),
    "quotient_of_product": (lambda x: op.divide(op.matmul(x, identity(4)), const(41)), [41, 82], [1, 2]),
    "largest": (lambda x: op.maximum(x, const(1)), [INF, -INF], [INF, 1]),
    "least": (lambda x: op.minimum(x, const(1)), [INF, -INF], [1, -INF]),
    "lower_bound": (lambda x: op.clip(x, -1, INF), [INF, -INF], [INF, -1]),
    "upper_bound": (lambda x: op.clip(x, -INF, 1), [INF, -INF], [1, -INF]),
    "buckets": (lambda x: op.multiply(op.log(x), const(2.885390043)), [2, 4, 8], [2, 4, 6]),
}
"""Functions, arguments, and the nearest float32 to each result."""

ROWS: dict[str, tuple[Make, list[float], list[float]]] = {
    "softmax": (lambda x: op.nn.softmax(x, -1), [5, 5, 5, 5], [0.25] * 4),
    "softmax_between": (
        lambda x: op.reshape(op.nn.softmax(op.reshape(x, (2, 2)), 0), (1, 4)),
        [3, 4, 3, 4],
        [0.5] * 4,
    ),
    "log_softmax": (lambda x: op.nn.log_softmax(x, -1), [7, -INF, -INF, -INF], [0, -INF, -INF, -INF]),
    "mean": (lambda x: op.mean(x, [1], keepdims=True), [41, 41, 41, 41], [41]),
    "mean_of_three": (
        lambda x: op.mean(op.strided_slice(x, [1], [0], [3]), [1], keepdims=True),
        [7, 41, 1, 0],
        [49 / 3],
    ),
    "mean_of_equals": (
        lambda x: op.mean(op.concat((x, x, op.strided_slice(x, [1], [0], [3])), 1), [1], keepdims=True),
        [49] * 4,
        [49],
    ),
    "average": (lambda x: op.nn.avg_pool1d(op.reshape(x, (1, 1, 4)), 3), [41, 41, 41, 41], [41, 41]),
    "largest": (lambda x: op.max(x, [1], keepdims=True), [1, NAN, 3, 2], [NAN]),
    "least": (lambda x: op.min(x, [1], keepdims=True), [NAN, 1, 3, 2], [NAN]),
    "variance": (lambda x: op.variance(x, [1], keepdims=True), [3, 3, 5, 5], [1]),
}
"""Functions of one row of four numbers."""

SPECIAL = np.array([NAN, INF, -INF, 0, -0.0, 1, -1, 2.5], "float32")

UNARY: dict[str, Make] = {
    "exp": op.exp,
    "log": op.log,
    "sqrt": op.sqrt,
    "rsqrt": op.rsqrt,
    "tanh": op.tanh,
    "sigmoid": op.sigmoid,
    "silu": op.nn.silu,
    "erf": op.erf,
    "abs": op.abs,
    "negative": op.negative,
    "square": op.square,
    "leakyrelu": lambda x: op.nn.leakyrelu(x, 0.1),
    "softplus": lambda x: op.log(op.add(op.exp(x), const(1))),
    "choice": lambda x: op.where(op.greater(x, const(0.5)), const(1), const(0)),
    "quotient": lambda x: op.divide(x, const(41)),
}

PAIRWISE: dict[str, tuple[Make, Callable[..., np.ndarray]]] = {
    "add": (op.add, np.add),
    "subtract": (op.subtract, np.subtract),
    "multiply": (op.multiply, np.multiply),
    "divide": (op.divide, np.divide),
    **{
        name: (lambda a, b, compare=compare: op.astype(compare(a, b), "float32"), exact)
        for name, compare, exact in (
            ("equal", op.equal, np.equal),
            ("not_equal", op.not_equal, np.not_equal),
            ("greater", op.greater, np.greater),
            ("greater_equal", op.greater_equal, np.greater_equal),
            ("less", op.less, np.less),
            ("less_equal", op.less_equal, np.less_equal),
        )
    },
}
"""Functions of two tensors, and NumPy's: TVM finds what is no number not unequal to itself."""

SOFTMAXES = ("softmax", "log_softmax")


def floats(*shapes: tuple[int, ...]) -> list[relax.Var]:
    return [relax.Var(f"x{index}", relax.TensorType(each, "float32")) for index, each in enumerate(shapes)]


def whole_module() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    for name, (make, given, _) in EXACT.items():
        size = 4 if name == "quotient_of_product" else len(given)
        add_function(builder, f"exact_{name}", floats((1, size)), make)
    for name, (make, _, _) in ROWS.items():
        add_function(builder, f"row_{name}", floats((1, 4)), make)
    for name, make in UNARY.items():
        add_function(builder, f"special_{name}", floats((8,)), make)
    for name, (make, _) in PAIRWISE.items():
        add_function(builder, f"pairs_{name}", floats((8, 8), (8, 8)), make)
        add_function(builder, f"broadcast_{name}", floats((8, 8), (1, 8)), make)
    for name in SOFTMAXES:
        add_function(
            builder, f"rows_{name}", floats((6, 4)), lambda x, name=name: getattr(op.nn, name)(x, -1)
        )
    return builder.finalize()


@cache
def offloaded() -> Offloaded:
    return offload(whole_module())


@cache
def on_host() -> relax.VirtualMachine:
    return tvm_alone(whole_module())


@needs_onednn
@pytest.mark.parametrize("name", EXACT)
def test_an_exact_result(name: str) -> None:
    _, given, expected = EXACT[name]
    row = np.array([given], "float32")
    if name == "quotient_of_product":
        row = np.pad(row, ((0, 0), (0, 2)))
    (result,) = offloaded().call(f"exact_{name}", row)
    np.testing.assert_array_equal(result[0, : len(given)], np.array(expected, "float32"))


@needs_onednn
@pytest.mark.parametrize("name", ROWS)
def test_an_exact_result_of_a_row(name: str) -> None:
    _, given, expected = ROWS[name]
    (result,) = offloaded().call(f"row_{name}", np.array([given], "float32"))
    np.testing.assert_array_equal(result.reshape(-1), np.array(expected, "float32"))


def compare_with_host(name: str, *arrays: np.ndarray) -> None:
    assert offloaded().symbols_of(name)
    (expected,) = run(on_host(), name, arrays)
    (result,) = offloaded().call(name, *arrays)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@needs_onednn
@pytest.mark.parametrize("name", UNARY)
def test_special_numbers(name: str) -> None:
    compare_with_host(f"special_{name}", SPECIAL)


@needs_onednn
@pytest.mark.parametrize("name", PAIRWISE)
def test_pairs_of_special_numbers(name: str) -> None:
    left, right = (each.copy() for each in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        pairs, rows = (PAIRWISE[name][1](left, other) for other in (right, SPECIAL[None]))
    np.testing.assert_array_equal(offloaded().call(f"pairs_{name}", left, right)[0], pairs)
    np.testing.assert_array_equal(offloaded().call(f"broadcast_{name}", left, SPECIAL[None])[0], rows)


@needs_onednn
@pytest.mark.parametrize("name", SOFTMAXES)
def test_rows_with_special_numbers(name: str) -> None:
    rows = [[1, 2, INF, 3], [1, 2, -INF, 3], [NAN, 1, 2, 3], [-INF] * 4, [INF, INF, 1, 2], [1e30, 1e30, 0, 1]]
    compare_with_host(f"rows_{name}", np.array(rows, "float32"))


@needs_onednn
def test_whole_numbers_of_logarithms() -> None:
    """T5 rounds logarithms of distances to the numbers of its buckets."""
    numbers = np.array([[2, 4, 8]], "float32")
    (result,) = offloaded().call("exact_buckets", numbers)
    assert result.astype("int64").tolist() == [[2, 4, 6]]


@needs_onednn
@pytest.mark.parametrize("behind", ["nothing", "matmul", "matmul_less"])
@pytest.mark.parametrize("first", ["negative", "difference"])
def test_what_one_plan_makes_of_zeros_is_not_what_another_one_does(first: str, behind: str) -> None:
    """oneDNN's cache of primitives takes ``-x - 0`` and ``-x + 0`` for one, but their zeros differ."""
    made: dict[str, Make] = {"negative": op.negative, "difference": lambda x: op.subtract(const(0), x)}
    before: dict[str, Make] = {
        "nothing": lambda x: x,
        "matmul": lambda x: op.matmul(x, x),
        "matmul_less": lambda x: op.multiply(op.subtract(const(0), op.matmul(x, x)), op.add(x, const(1))),
    }
    extent = 7 if first == "negative" else 9
    zeros = np.zeros((extent, extent), "float32")
    for name in (first, *(made.keys() - {first})):
        x = relax.Var("x", relax.TensorType(zeros.shape, "float32"))
        found = offload(single([x], made[name](before[behind](x)))).call("main", zeros)[0]
        assert np.signbit(found).all() == (name == "negative")
        assert np.signbit(found).any() == (name == "negative")
