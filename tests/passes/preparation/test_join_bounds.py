"""Bounds become relu or clip, unless the result would differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import becomes, module, run, stays
from tvm import relax

op = relax.op
Unary = Callable[[relax.Expr], relax.Expr]


def of(function: Unary, dtype: str = "float32") -> tvm.IRModule:
    """tanh(function(tanh(x))): in the middle, so that neither end of the function is special."""
    return module(lambda _builder, x: op.tanh(function(op.tanh(x))), dtype, x=(2, 3))


def low(x: relax.Expr, number: float, dtype: str = "float32") -> relax.Expr:
    return op.maximum(x, relax.const(number, dtype))


def high(x: relax.Expr, number: float, dtype: str = "float32") -> relax.Expr:
    return op.minimum(x, relax.const(number, dtype))


JOINED: dict[str, tuple[Unary, Unary]] = {
    "both": (lambda x: high(low(x, -0.5), 0.25), lambda x: op.clip(x, -0.5, 0.25)),
    "both, the upper one first": (lambda x: low(high(x, 0.25), -0.5), lambda x: op.clip(x, -0.5, 0.25)),
    "equal": (lambda x: high(low(x, 0.25), 0.25), lambda x: op.clip(x, 0.25, 0.25)),
    "relu and six": (lambda x: high(op.nn.relu(x), 6.0), lambda x: op.clip(x, 0.0, 6.0)),
    "zero and six": (lambda x: high(low(x, 0.0), 6.0), lambda x: op.clip(x, 0.0, 6.0)),
    "zero": (lambda x: low(x, 0.0), op.nn.relu),
    "infinite ones": (lambda x: high(low(x, -np.inf), np.inf), lambda x: x),
    "an infinite one": (lambda x: high(low(x, -np.inf), 1.0), lambda x: high(x, 1.0)),
    "whole tensors": (
        lambda x: op.minimum(op.maximum(x, relax.const(np.zeros((2, 3), "float32"))), relax.const(1.0)),
        lambda x: op.clip(x, 0.0, 1.0),
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_bounds_become_one_op(name: str) -> None:
    before, expected = JOINED[name]
    mod = of(before)
    prepared = becomes(mod, of(expected))
    x = np.array([[-9, -0.6, -0.3], [0, 0.2, 9]], "float32")
    np.testing.assert_array_equal(run(prepared, x), run(mod, x))


def test_half_precision_is_clipped_too() -> None:
    becomes(
        of(lambda x: high(low(x, 0.0, "float16"), 6.0, "float16"), "float16"),
        of(lambda x: op.clip(x, 0.0, 6.0), "float16"),
    )


def shared(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    bounded = builder.emit(low(x, -1.0))
    return op.add(high(bounded, 1.0), bounded)


STAYS: dict[str, tvm.IRModule] = {
    "crossed": of(lambda x: high(low(x, 1.0), 0.5)),
    "one side twice": of(lambda x: high(high(x, 1.0), 2.0)),
    "several numbers": of(
        lambda x: op.minimum(low(x, 0.5), relax.const(np.array([1, 2, 3], "float32"))),
    ),
    "no constant": module(lambda _builder, x, y: op.minimum(low(x, 0.5), y), x=(2, 3), y=(2, 3)),
    "shared": module(shared, x=(2, 3)),
    "whole numbers": module(lambda _builder, x: low(x, 0, "int32"), "int32", x=(2, 3)),
    "not a number": of(lambda x: high(low(x, -1.0), np.nan)),
    "a bound that broadcasts": module(
        lambda _builder, x: op.maximum(x, relax.const(np.zeros((4, 2, 3), "float32"))), x=(2, 3)
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_is_no_bound_stays(name: str) -> None:
    stays(STAYS[name])
