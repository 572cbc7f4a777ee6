"""Quotients of integers that PyTorch writes as truncated and corrected ones are rounded down by one op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import becomes, module, ops, prepare, run
from tvm import relax

op = relax.op
INT8 = np.arange(-128, 128).astype("int8").reshape(2, 128)


def number(value: int, dtype: str = "int8") -> relax.Expr:
    return relax.const(value, dtype)


def quotient(
    builder: relax.BlockBuilder,
    x: relax.Expr,
    step: int,
    dtype: str = "int8",
    *,
    corrected_by: int = 1,
    below: int = 0,
    rest_of: int | None = None,
) -> relax.Expr:
    """``torch.div(x, step, rounding_mode="floor")``, as PyTorch exports it to ONNX."""
    truncated = builder.emit(op.divide(x, number(step, dtype)))
    sign = builder.emit(op.logical_xor(op.less(x, number(below, dtype)), relax.const(False, "bool")))
    rest = builder.emit(op.floor_mod(x, number(rest_of or step, dtype)))
    exact = builder.emit(op.equal(rest, number(0, dtype)))
    condition = builder.emit(op.logical_and(sign, op.logical_not(exact)))
    return op.where(condition, op.subtract(truncated, number(corrected_by, dtype)), truncated)


def of(function: Callable[[relax.BlockBuilder, relax.Expr], relax.Expr]) -> tvm.IRModule:
    return module(function, "int8", x=(2, 128))


@pytest.mark.parametrize("step", [2, 5, 127])
def test_a_corrected_quotient_is_rounded_down(step: int) -> None:
    mod = of(lambda builder, x: quotient(builder, x, step))
    prepared = becomes(mod, of(lambda _builder, x: op.floor_divide(x, number(step))))
    np.testing.assert_array_equal(run(prepared, INT8)[0], INT8.astype("int64") // step)


def other_number(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    truncated = builder.emit(op.divide(x, number(5)))
    other = builder.emit(op.negative(x))
    rest = op.not_equal(op.floor_mod(other, number(5)), number(0))
    condition = op.logical_and(op.less(x, number(0)), rest)
    return op.where(condition, op.subtract(truncated, number(1)), truncated)


STAYS: dict[str, tvm.IRModule] = {
    "a negative divisor": of(lambda builder, x: quotient(builder, x, -5)),
    "another correction": of(lambda builder, x: quotient(builder, x, 5, corrected_by=2)),
    "another sign": of(lambda builder, x: quotient(builder, x, 5, below=1)),
    "another remainder": of(lambda builder, x: quotient(builder, x, 5, rest_of=10)),
    "another number": of(other_number),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_is_no_corrected_quotient_keeps_its_parts(name: str) -> None:
    prepared = prepare(STAYS[name])
    assert ops(prepared)["divide"] == 1
    np.testing.assert_array_equal(run(prepared, INT8)[0], run(STAYS[name], INT8)[0])
