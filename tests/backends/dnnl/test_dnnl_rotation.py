"""Rotary positions are one step, and what only resembles them is computed as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.backends.dnnl.rewriting.rewriter import verification
from annotated_region.testing.dnnl_verifier import verify

SHAPE, ANGLES = (5, 3, 8), (5, 1, 8)
Emit = Callable[[relax.Expr], relax.Var]


def halves(emit: Emit, x: relax.Expr, middle: int = 4) -> tuple[relax.Var, relax.Var]:
    return emit(op.strided_slice(x, [2], [0], [middle])), emit(op.strided_slice(x, [2], [middle], [8]))


def crossed(emit: Emit, x: relax.Expr) -> relax.Var:
    first, second = halves(emit, x)
    return emit(op.concat([emit(op.negative(second)), first], 2))


def plain(emit: Emit, x: relax.Var, c: relax.Var, s: relax.Var) -> relax.Expr:
    return op.add(emit(op.multiply(x, c)), emit(op.multiply(crossed(emit, x), s)))


def exchanged(emit: Emit, x: relax.Var, c: relax.Var, s: relax.Var) -> relax.Expr:
    return op.add(emit(op.multiply(s, crossed(emit, x))), emit(op.multiply(c, x)))


def first_negated(emit: Emit, x: relax.Var, c: relax.Var, s: relax.Var) -> relax.Expr:
    first, second = halves(emit, x)
    turned = emit(op.concat([second, emit(op.negative(first))], 2))
    return op.add(emit(op.multiply(x, c)), emit(op.multiply(turned, s)))


def exchanged_halves(emit: Emit, x: relax.Var, c: relax.Var, s: relax.Var) -> relax.Expr:
    first, second = halves(emit, x)
    turned = emit(op.concat([emit(op.negative(first)), second], 2))
    return op.add(emit(op.multiply(x, c)), emit(op.multiply(turned, s)))


def unequal_parts(emit: Emit, x: relax.Var, c: relax.Var, s: relax.Var) -> relax.Expr:
    first, second = halves(emit, x, 3)
    turned = emit(op.concat([emit(op.negative(second)), first], 2))
    return op.add(emit(op.multiply(x, c)), emit(op.multiply(turned, s)))


def another_factor(emit: Emit, x: relax.Var, c: relax.Var, s: relax.Var) -> relax.Expr:
    first, second = halves(emit, x)
    turned = emit(op.concat([emit(op.multiply(second, relax.const(np.float32(-2)))), first], 2))
    return op.add(emit(op.multiply(x, c)), emit(op.multiply(turned, s)))


def of_another_tensor(emit: Emit, x: relax.Var, c: relax.Var, s: relax.Var) -> relax.Expr:
    other = emit(op.add(x, relax.const(np.float32(1))))
    return op.add(emit(op.multiply(x, c)), emit(op.multiply(crossed(emit, other), s)))


def read_twice(emit: Emit, x: relax.Var, c: relax.Var, s: relax.Var) -> relax.Expr:
    turned = crossed(emit, x)
    return op.add(
        emit(op.add(emit(op.multiply(x, c)), emit(op.multiply(turned, s)))), emit(op.nn.relu(turned))
    )


FORMS = {plain: True, exchanged: True, first_negated: False, exchanged_halves: False, unequal_parts: False}
FORMS |= {another_factor: False, of_another_tensor: False, read_twice: False}
"""Whether they are rotations."""

ANGLE_SHAPES = {"plain": SHAPE, "exchanged": (5, 3, 1)}


@cache
def built() -> Offloaded:
    """All forms, each a function, with a symbolic number of rows."""
    builder = relax.BlockBuilder()
    for form in FORMS:
        name, rows = form.__name__, tirx.Var("s", "int64")
        shapes = {"x": SHAPE, "c": ANGLE_SHAPES.get(name, ANGLES), "s": ANGLES}
        given = [relax.Var(n, relax.TensorType([rows, *each[1:]], "float32")) for n, each in shapes.items()]
        with builder.function(name, given):
            with builder.dataflow():
                output = builder.emit_output(form(builder.emit, *given))
            builder.emit_func_output(output)
    with verification(verify):
        return offload(builder.finalize())


@needs_onednn
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_rows_are_rotated(form: Callable[..., relax.Expr]) -> None:
    name, offloaded = form.__name__, built()
    rng = np.random.default_rng(0)
    x, c, s = (rng.standard_normal(each) for each in (SHAPE, ANGLE_SHAPES.get(name, ANGLES), ANGLES))
    (found,) = offloaded.call(name, *(each.astype("float32") for each in (x, c, s)))
    np.testing.assert_allclose(found, expected_of(name, x, c, s), rtol=1e-5, atol=1e-5)
    (symbol,) = offloaded.symbols_of(name)
    assert ("rotation f32:abc" in offloaded.plan(symbol)) == FORMS[form]


def expected_of(name: str, x: np.ndarray, c: np.ndarray, s: np.ndarray) -> np.ndarray:
    def joined(*parts: np.ndarray) -> np.ndarray:
        return np.concatenate(parts, 2)

    first, second = x[..., :4], x[..., 4:]
    turned = joined(-second, first)
    others = {
        "first_negated": joined(second, -first),
        "exchanged_halves": joined(-first, second),
        "unequal_parts": joined(-x[..., 3:], x[..., :3]),
        "another_factor": joined(-2 * second, first),
        "of_another_tensor": joined(-second - 1, first + 1),
    }
    result: np.ndarray = x * c + others.get(name, turned) * s
    return result + np.maximum(turned, 0) if name == "read_twice" else result
