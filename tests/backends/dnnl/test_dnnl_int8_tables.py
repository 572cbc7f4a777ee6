"""Functions of bytes as tables of 256 results: against TVM without offload, over types and sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, add_function, needs_onednn, offload, run, tvm_alone
from tvm import relax
from tvm.relax import op

SIZES = (3, 5, 7, 11)
"""Neither whole registers nor a whole run of elements."""

LINES = (1, 3, 4099, 2)


def number(value: float, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.asarray(value, dtype))


def quantize(x: relax.Expr, scale: float, zero: int, dtype: str) -> relax.Expr:
    return op.quantize(x, number(scale), number(zero, dtype), 1, dtype)


def dequantize(x: relax.Expr, scale: float, zero: int, dtype: str) -> relax.Expr:
    return op.dequantize(x, number(scale), number(zero, dtype), 1)


def rounded(x: relax.Expr, scale: float, zero: int, dtype: str = "uint8") -> relax.Expr:
    return dequantize(quantize(x, scale, zero, dtype), scale, zero, dtype)


def hard_swish(x: relax.Expr) -> relax.Expr:
    """As quantizers of ONNX leave it: each operand and each result is rounded."""
    x = dequantize(x, 0.05, 117, "uint8")
    gate = rounded(op.clip(op.add(op.multiply(x, number(1 / 6)), number(0.5)), 0, 1), 1 / 255, 0)
    return quantize(op.multiply(x, gate), 0.037, 11, "uint8")


def swish(x: relax.Expr) -> relax.Expr:
    x = dequantize(x, 0.04, -9, "int8")
    return quantize(op.multiply(rounded(op.sigmoid(x), 1 / 256, 0), x), 0.031, -90, "int8")


def gelu(x: relax.Expr) -> relax.Expr:
    x = dequantize(x, 0.03, 128, "uint8")
    error = rounded(op.erf(rounded(op.divide(x, number(2**0.5)), 0.02, 126)), 1 / 127, 128)
    half = rounded(op.multiply(x, rounded(op.add(error, number(1)), 2 / 255, 0)), 0.04, 5)
    return quantize(op.multiply(half, number(0.5)), 0.02, 5, "uint8")


def other_scale(x: relax.Expr) -> relax.Expr:
    return quantize(dequantize(x, 0.05, 3, "uint8"), 0.031, -60, "int8")


def quotient(x: relax.Expr) -> relax.Expr:
    """The number may be on either side; a quotient of 0 is infinite."""
    return quantize(op.divide(number(2), dequantize(x, 0.25, 100, "uint8")), 0.063, 120, "uint8")


FUNCTIONS: dict[str, tuple[Callable[[relax.Expr], relax.Expr], str, tuple[int, ...], bool]] = {
    "hard_swish": (hard_swish, "uint8", SIZES, True),
    "hard_swish_of_lines": (hard_swish, "uint8", LINES, True),
    "swish": (swish, "int8", SIZES, False),
    "gelu": (gelu, "uint8", SIZES, False),
    "other_scale": (other_scale, "uint8", LINES, True),
    "quotient": (quotient, "uint8", SIZES, True),
}
"""The function, the type of its argument, the extents, and whether TVM computes the same numbers."""


def two_arguments(x: relax.Expr, y: relax.Expr) -> relax.Expr:
    x, y = dequantize(x, 0.05, 117, "uint8"), dequantize(y, 0.03, 99, "uint8")
    return quantize(op.multiply(rounded(op.nn.relu(x), 0.05, 0), y), 0.2, 120, "uint8")


def behind_a_product(x: relax.Expr) -> relax.Expr:
    """What has one reader each is appended to the product instead."""
    values = np.random.default_rng(0).integers(-128, 128, (8, 3, 1, 1))
    kernel = op.dequantize(relax.const(values.astype("int8")), number(0.02), number(0, "int8"), 0)
    y = op.nn.conv2d(dequantize(x, 0.05, 117, "uint8"), kernel)
    return quantize(op.clip(rounded(y, 0.0613, 110), 0, 6), 0.0247, 0, "uint8")


def of_one_element(x: relax.Expr) -> relax.Expr:
    """A constant may be the first operand: it has the shape of the result."""
    bound = relax.const(np.full((1, 1, 1, 1), 0.3, "float32"))
    return quantize(op.minimum(bound, dequantize(x, 0.03, 128, "uint8")), 0.0625, -3, "int8")


def tensor(name: str, extents: tuple[int, ...], dtype: str = "uint8") -> relax.Var:
    return relax.Var(name, relax.TensorType(extents, dtype))


@cache
def module() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    for name, (function, dtype, extents, _) in FUNCTIONS.items():
        add_function(builder, name, [tensor("x", extents, dtype)], function)
    add_function(builder, "two_arguments", [tensor(name, SIZES) for name in "xy"], two_arguments)
    add_function(builder, "behind_a_product", [tensor("x", LINES)], behind_a_product)
    add_function(builder, "of_one_element", [tensor("x", (1, 1, 1, 1))], of_one_element)
    return builder.finalize()


@cache
def offloaded() -> Offloaded:
    return offload(module())


@cache
def host() -> relax.VirtualMachine:
    return tvm_alone(module())


def bytes_of(dtype: str, extents: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """All of them, several times."""
    count = int(np.prod(extents))
    every = np.resize(np.arange(256, dtype="uint8"), count)
    return np.random.default_rng(seed).permutation(every).view(dtype).reshape(extents)


def steps_of(name: str) -> list[str]:
    (symbol,) = offloaded().symbols_of(name)
    return [step.split()[0] for step in offloaded().plan(symbol)]


@needs_onednn
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_of_bytes_is_one_lookup(name: str) -> None:
    _, dtype, extents, is_exact = FUNCTIONS[name]
    x = bytes_of(dtype, extents)
    (expected,) = run(host(), name, [x])
    (found,) = offloaded().call(name, x)
    off = np.abs(found.astype("int32") - expected.astype("int32"))
    assert found.dtype == expected.dtype
    assert off.max() <= (0 if is_exact else 1)
    assert np.mean(off > 0) < 0.02
    assert len(np.unique(expected)) > 40
    assert steps_of(name) == ["lookup"]


@needs_onednn
def test_functions_of_two_arguments_are_computed() -> None:
    x, y = bytes_of("uint8", SIZES), bytes_of("uint8", SIZES, seed=1)
    (expected,) = run(host(), "two_arguments", [x, y])
    (found,) = offloaded().call("two_arguments", x, y)
    np.testing.assert_array_equal(found, expected)
    assert steps_of("two_arguments").count("lookup") == 1


@needs_onednn
def test_chains_behind_products_are_no_tables() -> None:
    x = bytes_of("uint8", LINES)
    (expected,) = run(host(), "behind_a_product", [x])
    (found,) = offloaded().call("behind_a_product", x)
    off = np.abs(found.astype("int32") - expected.astype("int32"))
    assert off.max() <= 3  # a tie of the inner rounding is worth 0.0613 / 0.0247 of the outer one
    assert np.mean(off > 0) < 0.01
    assert [step for step in steps_of("behind_a_product") if step != "reorder"] == ["convolution"]


@needs_onednn
@pytest.mark.parametrize("value", [0, 100, 130, 138, 200, 255])
def test_a_single_byte_has_no_table(value: int) -> None:
    x = np.full((1, 1, 1, 1), value, "uint8")
    (expected,) = run(host(), "of_one_element", [x])
    (found,) = offloaded().call("of_one_element", x)
    np.testing.assert_array_equal(found, expected)
    assert "lookup" not in steps_of("of_one_element")
