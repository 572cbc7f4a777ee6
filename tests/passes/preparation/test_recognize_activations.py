"""GELU and SiLU found in their parts: every spelling becomes the op, everything else stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kits.passes.preparation.composition_kit import ACTIVATIONS, Spelling, number, reference
from kits.passes.preparation.preparation_kit import becomes, module, ops, prepare, run, stays
from tvm import relax

op = relax.op
Shape = tuple[int | str, ...]
OPS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "gelu": op.nn.gelu,
    "gelu_tanh": op.nn.gelu_tanh,
    "silu": op.nn.silu,
}


def spelled(spelling: Spelling, *shape: int | str, dtype: str = "float32") -> tvm.IRModule:
    return module(lambda _builder, x: spelling.build(x, dtype), dtype, x=shape)


def single(name: str, *shape: int | str, dtype: str = "float32") -> tvm.IRModule:
    return module(lambda _builder, x: OPS[name](x), dtype, x=shape)


@pytest.mark.parametrize("spelling", ACTIVATIONS, ids=lambda spelling: spelling.name)
def test_every_spelling_becomes_the_op(spelling: Spelling) -> None:
    becomes(spelled(spelling, 2, 3), single(spelling.function, 2, 3))
    becomes(spelled(spelling, "n", 1), single(spelling.function, "n", 1))


@pytest.mark.parametrize("spelling", ACTIVATIONS, ids=lambda spelling: spelling.name)
def test_half_precision_becomes_the_op_too(spelling: Spelling) -> None:
    """Its constants are rounded to 11 bits, and with them the factor that is left."""
    found = ops(prepare(spelled(spelling, 2, 3, dtype="float16")))
    assert found[f"nn.{spelling.function}"] == 1
    assert found.total() - found["multiply"] == 1


POINTS = np.concatenate([np.linspace(-9, 9, 41), [0.0, 1e-20, -1e-20, 30.0, -30.0]]).astype("float32")


@pytest.mark.parametrize("name", OPS)
def test_parts_and_op_compute_the_same(name: str) -> None:
    """Beside a third evaluation, in double precision."""
    wanted = reference[name](POINTS.astype("float64"))
    for spelling in (each for each in ACTIVATIONS[::7] if each.function == name):
        mod = spelled(spelling, len(POINTS))
        for each in (mod, prepare(mod)):
            np.testing.assert_allclose(run(each, POINTS)[0], wanted, rtol=1e-4, atol=1e-6)


def gelu(x: relax.Expr, root: float = 0.5**0.5, one: float = 1.0) -> relax.Expr:
    return op.multiply(op.multiply(x, number(0.5)), op.add(op.erf(op.multiply(x, number(root))), number(one)))


DIFFERENT: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "another root": lambda x: gelu(x, 0.7072),
    "another shift": lambda x: gelu(x, one=1.001),
    "another function": lambda x: op.multiply(x, op.add(op.exp(x), number(1.0))),
    "a sigmoid of something else": lambda x: op.multiply(x, op.sigmoid(op.multiply(x, number(1.702)))),
    "a shifted operand": lambda x: op.multiply(op.add(x, number(1.0)), op.sigmoid(x)),
    "a shifted gate": lambda x: op.multiply(x, op.add(op.sigmoid(x), number(1.0))),
    "a gate without its shift": lambda x: op.multiply(x, op.erf(op.multiply(x, number(0.5**0.5)))),
    "another cube": lambda x: op.multiply(
        x,
        op.add(
            op.tanh(
                op.multiply(
                    op.add(x, op.multiply(op.power(x, number(3.0)), number(0.0448))),
                    number((2 / np.pi) ** 0.5),
                )
            ),
            number(1.0),
        ),
    ),
    "a vector for a half": lambda x: op.multiply(
        op.multiply(x, relax.const(np.array([0.5, 0.5, 0.25], "float32"))),
        op.add(op.erf(op.multiply(x, number(0.5**0.5))), number(1.0)),
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_resembles_an_activation_stays(name: str) -> None:
    found = ops(prepare(module(lambda _builder, x: DIFFERENT[name](x), x=(2, 3))))
    assert not {"nn.gelu", "nn.gelu_tanh", "nn.silu"} & set(found)


def test_the_parts_of_other_dtypes_stay() -> None:
    stays(module(lambda _builder, x: op.multiply(x, op.sigmoid(x)), "float64", x=(2, 3)))


def test_a_product_that_broadcasts_is_no_activation() -> None:
    stays(module(lambda _builder, x, y: op.multiply(x, op.sigmoid(y)), x=(2, 3), y=(1, 3)))


@pytest.mark.parametrize("part", ["inner", "curve", "gate", "half"])
def test_a_part_with_another_reader_keeps_the_parts(part: str) -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        values = {}
        values["inner"] = builder.emit(op.divide(x, number(2**0.5)))
        values["curve"] = builder.emit(op.erf(values["inner"]))
        values["gate"] = builder.emit(op.add(values["curve"], number(1.0)))
        values["half"] = builder.emit(op.multiply(x, number(0.5)))
        product = builder.emit(op.multiply(values["half"], values["gate"]))
        return relax.Tuple([product, values[part]])

    # Where the half is read twice, the product of it and the gate is no GELU of x: the half would be lost.
    assert "nn.gelu" not in ops(prepare(module(body, x=(2, 3))))


def test_two_readers_of_the_result_and_of_the_argument() -> None:
    def body(activation: Callable[[relax.Expr], relax.Expr]) -> Callable[..., relax.Expr]:
        def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            data = builder.emit(op.exp(x))
            result = builder.emit(activation(data))
            return relax.Tuple([data, builder.emit(op.exp(result)), builder.emit(op.tanh(result))])

        return build

    becomes(module(body(gelu), x=(2, 3)), module(body(op.nn.gelu), x=(2, 3)))


def test_a_factor_that_is_left_stands_behind() -> None:
    before = module(lambda _builder, x: op.multiply(op.multiply(x, number(3.0)), op.sigmoid(x)), x=(2, 3))
    after = module(lambda _builder, x: op.multiply(op.nn.silu(x), number(3.0)), x=(2, 3))
    becomes(before, after)


def test_a_bias_and_a_product_before_it_are_seen_through() -> None:
    """The activation applies to whatever reads twice, not to what that was made from."""

    def body(activation: Callable[[relax.Expr], relax.Expr]) -> Callable[..., relax.Expr]:
        return lambda builder, x: activation(builder.emit(op.multiply(x, number(2.0))))

    becomes(module(body(gelu), x=(2, 3)), module(body(op.nn.gelu), x=(2, 3)))
