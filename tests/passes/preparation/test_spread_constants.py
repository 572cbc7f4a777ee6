"""Functions of constants that are repeated along symbolic axes are computed once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kits.passes.preparation.preparation_kit import becomes, module, ops, prepare
from tvm import relax

op = relax.op
Make = Callable[[relax.Expr], relax.Expr]

SPREAD: dict[str, tuple[Make, Make]] = {
    "the truth of zeros": (
        lambda shape: op.astype(op.zeros(shape, "float32"), "bool"),
        lambda shape: op.broadcast_to(relax.const(False), shape),
    ),
    "the negation of a truth": (
        lambda shape: op.logical_not(op.full(shape, relax.const(False))),
        lambda shape: op.broadcast_to(relax.const(True), shape),
    ),
    "an exponential of rows": (
        lambda shape: op.exp(op.broadcast_to(relax.const(np.log(np.array([2, 4, 8], "float32"))), shape)),
        lambda shape: op.broadcast_to(relax.const(np.array([2, 4, 8], "float32")), shape),
    ),
}


@pytest.mark.parametrize("name", SPREAD)
def test_a_function_of_a_spread_constant_is_the_spread_result(name: str) -> None:
    """A cumulative sum behind it, as masks have, does not broadcast by itself."""
    made, wanted = SPREAD[name]

    def of(make: Make):
        return module(lambda _builder, x: op.cumsum(make(x.ty.shape), 0, "float32"), x=("n", 3))

    becomes(of(made), of(wanted))


def test_a_function_of_a_computed_value_stays_behind_its_broadcast() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var, like: relax.Var) -> relax.Expr:
        return op.cumsum(op.exp(op.broadcast_to(x, like.ty.shape)), 0)

    mod = module(body, x=(3,), like=("n", 3))
    assert ops(prepare(mod)) == {"broadcast_to": 1, "exp": 1, "cumsum": 1}
