"""Operations without effect are removed; similar ones are kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import (
    becomes,
    constant,
    module,
    ops,
    prepare,
    run,
    stays,
    values,
)
from tvm import relax

op = relax.op
Unary = Callable[[relax.Expr], relax.Expr]


def of(function: Unary, *shape: int | str) -> tvm.IRModule:
    """relu(function(tanh(x))): in the middle, so that neither end of the function is special."""
    return module(lambda _builder, x: op.nn.relu(function(op.tanh(x))), x=shape)


def nothing_of(x: relax.Expr) -> relax.Expr:
    """The columns behind the last one."""
    return op.strided_slice(x, [1], [3], [3])


IDENTITIES: dict[str, Unary] = {
    "reshape": lambda x: op.reshape(x, (2, 3)),
    "broadcast_to": lambda x: op.broadcast_to(x, (2, 3)),
    "flatten and back": lambda x: op.reshape(op.flatten(x), (2, 3)),
    "astype": lambda x: op.astype(x, "float32"),
    "permute_dims": lambda x: op.permute_dims(x, [0, 1]),
    "permute_dims twice": lambda x: op.permute_dims(op.permute_dims(x, [1, 0])),
    "expand and squeeze": lambda x: op.reshape(op.squeeze(op.expand_dims(x, [0]), [0]), (2, 3)),
    "concat of one": lambda x: op.concat([x], axis=1),
    "concat with nothing": lambda x: op.concat([x, nothing_of(x)], axis=1),
    "concat behind nothing": lambda x: op.concat([nothing_of(x), nothing_of(x), x], axis=-1),
    "split into one": lambda x: op.split(x, 1, axis=1),
    "pad by nothing": lambda x: op.nn.pad(x, [0, 0, 0, 0]),
    "multiply by one": lambda x: op.multiply(x, relax.const(1.0)),
    "multiply one by": lambda x: op.multiply(relax.const(np.ones((2, 3), "float32")), x),
    "divide by one": lambda x: op.divide(x, relax.const(np.ones((3,), "float32"))),
    "add zero": lambda x: op.add(x, relax.const(0.0)),
    "subtract zero": lambda x: op.subtract(x, relax.const(np.zeros((1, 3), "float32"))),
    "slice_scatter over a whole axis": lambda x: op.slice_scatter(op.exp(x), x, 0, 3, 1, axis=-1),
    "scatter_nd of nothing": lambda x: op.scatter_nd(
        x, relax.const(np.zeros((0, 2), "int64")), relax.const(np.zeros(0, "float32"))
    ),
    "scatter_elements of nothing": lambda x: op.scatter_elements(
        x, relax.const(np.zeros((0, 3), "int64")), relax.const(np.zeros((0, 3), "float32"))
    ),
    "dropout": lambda x: relax.TupleGetItem(op.nn.dropout(x, 0.5), 0),
}


def test_two_tensors_are_joined_without_a_third_that_is_empty() -> None:
    given = of(lambda x: op.concat([x, nothing_of(x), op.exp(x)], axis=1), 2, 3)
    after = prepare(given)
    assert ops(after) == dict.fromkeys(["tanh", "exp", "concat", "nn.relu"], 1)
    x = values(2, 3)
    np.testing.assert_allclose(run(after, x)[0], np.hstack([np.tanh(x), np.exp(np.tanh(x))]), 1e-5)


@pytest.mark.parametrize("name", IDENTITIES)
def test_an_identity_goes(name: str) -> None:
    becomes(of(IDENTITIES[name], 2, 3), of(lambda x: x, 2, 3))


DIFFERENCES: dict[str, Unary] = {
    "another shape": lambda x: op.reshape(x, (3, 2)),
    "another dtype and back": lambda x: op.astype(op.astype(x, "float16"), "float32"),
    "a transpose": lambda x: op.permute_dims(x, [1, 0]),
    "a pad": lambda x: op.nn.pad(x, [0, 0, 0, 1]),
    "divide one by": lambda x: op.divide(relax.const(1.0), x),
    "subtract from zero": lambda x: op.subtract(relax.const(0.0), x),
    "multiply by two": lambda x: op.multiply(x, relax.const(2.0)),
    "multiply by one and a broadcast": lambda x: op.multiply(x, relax.const(np.ones((4, 2, 3), "float32"))),
    "multiply by nearly one": lambda x: op.multiply(x, relax.const(np.array([1, 1, 2], "float32"))),
    "a broadcast": lambda x: op.broadcast_to(x, (4, 2, 3)),
    "slice_scatter over two of three columns": lambda x: op.slice_scatter(
        x, op.strided_slice(op.exp(x), [1], [1], [3]), 0, 2, 1, axis=1
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_changes_something_stays(name: str) -> None:
    stays(of(DIFFERENCES[name], 2, 3))


def test_identities_of_symbolic_shapes_go() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.nn.relu(op.reshape(op.broadcast_to(x, x.ty.shape), x.ty.shape))

    expected = module(lambda _builder, x: op.nn.relu(x), x=("n", 3, "m"))
    becomes(module(body, x=("n", 3, "m")), expected)


def test_a_reshape_to_an_unknown_shape_stays() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(ndim=2, dtype="float32"))
    shape = relax.Var("shape", relax.ShapeType(ndim=2))
    with builder.function("main", [x, shape]):
        with builder.dataflow():
            output = builder.emit_output(op.reshape(x, shape))
        builder.emit_func_output(output)
    stays(builder.get())


def test_a_squeeze_of_an_unknown_rank_stays() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(dtype="float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(op.nn.relu(op.squeeze(x)))
        builder.emit_func_output(output)
    stays(builder.get())


def test_reshapes_to_an_extent_of_zero_stay_apart() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.reshape(builder.emit(op.flatten(x)), (0, 3))

    stays(module(body, x=(2, 0)))  # a literal 0 means "as the input has it", and the inputs differ


def test_a_broadcast_between_symbols_stays() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Expr:
        return op.add(x, builder.emit(op.broadcast_to(y, x.ty.shape)))

    stays(module(body, x=("n", 4), y=("m", 4)))


def test_a_cast_of_an_unknown_shape_goes() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(ndim=2, dtype="float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(op.nn.relu(op.astype(x, "float32")))
        builder.emit_func_output(output)
    assert ops(prepare(builder.get())) == {"nn.relu": 1}


def test_transposes_in_a_row_become_one() -> None:
    becomes(
        of(lambda x: op.permute_dims(op.permute_dims(x, [2, 0, 1]), [1, 0, 2]), 2, 3, 4),
        of(lambda x: op.permute_dims(x, [0, 2, 1]), 2, 3, 4),
    )


def test_reshapes_in_a_row_become_one() -> None:
    becomes(
        of(lambda x: op.reshape(op.flatten(op.reshape(x, (3, 2, 4))), (4, 6)), 2, 3, 4),
        of(lambda x: op.reshape(x, (4, 6)), 2, 3, 4),
    )


def test_a_reshape_read_twice_stays_for_its_other_reader() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        flat = builder.emit(op.reshape(x, (6,)))
        return relax.Tuple([flat, builder.emit(op.reshape(flat, (3, 2)))])

    assert ops(prepare(module(body, x=(2, 3)))) == {"reshape": 2}


def test_a_constant_stands_on_the_right() -> None:
    for binary in (op.add, op.multiply):
        becomes(
            of(lambda x, binary=binary: binary(constant(2, 3), x), 2, 3),
            of(lambda x, binary=binary: binary(x, constant(2, 3)), 2, 3),
        )


def test_operators_broadcast_by_themselves() -> None:
    becomes(
        module(lambda _builder, x, y: op.subtract(x, op.broadcast_to(y, (2, 3))), x=(2, 3), y=(3,)),
        module(lambda _builder, x, y: op.subtract(x, y), x=(2, 3), y=(3,)),
    )


FILLED: dict[str, Unary] = {
    "zeros": lambda x: op.zeros(x.ty.shape, "float32"),
    "zeros_like": op.zeros_like,
    "ones_like": op.ones_like,
    "full": lambda x: op.full(x.ty.shape, relax.const(0.5)),
    "full_like": lambda x: op.full_like(x, relax.const(0.5)),
}


@pytest.mark.parametrize("name", FILLED)
def test_a_filled_tensor_is_its_number(name: str) -> None:
    """A choice and arithmetic broadcast the number by themselves."""
    number = 0.0 if "zeros" in name else 1.0 if "ones" in name else 0.5

    def choice(filled: Unary) -> tvm.IRModule:
        def body(builder: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Expr:
            kept = builder.emit(op.where(op.less(x, y), x, filled(x)))
            return op.divide(filled(x), kept)

        return module(body, x=("n", 3), y=(3,))

    becomes(choice(FILLED[name]), choice(lambda _x: relax.const(number)))


def test_a_choice_between_two_filled_tensors_has_the_shape_of_the_condition() -> None:
    becomes(
        module(
            lambda _b, x: op.where(x, op.full_like(x, relax.const(2.0), "float32"), relax.const(1.0)),
            "bool",
            x=(2, 3),
        ),
        module(lambda _b, x: op.where(x, relax.const(2.0), relax.const(1.0)), "bool", x=(2, 3)),
    )


def test_a_filled_tensor_that_makes_the_shape_stays() -> None:
    stays(module(lambda _b, x: op.maximum(x, op.full((2000, 1000), relax.const(1.0))), x=(1, 1)))


def test_neutral_truths_go() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        seen = op.logical_and(op.full(x.ty.shape, relax.const(True)), op.less(x, relax.const(1.0)))
        return op.logical_or(seen, op.zeros_like(seen))

    becomes(module(body, x=("n", 3)), module(lambda _builder, x: op.less(x, relax.const(1.0)), x=("n", 3)))


def test_a_broadcast_that_nobody_else_makes_stays() -> None:
    stays(
        module(lambda _builder, x, y: op.add(op.broadcast_to(x, (2, 3)), y), x=(1, 3), y=(1, 3)),
    )


def test_the_mask_of_a_dropout_is_ones() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        dropout = builder.emit(op.nn.dropout(x, 0.5))
        kept, mask = (builder.emit(relax.TupleGetItem(dropout, index)) for index in (0, 1))
        return op.subtract(kept, op.nn.softmax(mask))

    before = module(body, x=(2, 3))
    after = prepare(before)
    assert ops(after) == {"ones_like": 1, "nn.softmax": 1, "subtract": 1}
    np.testing.assert_array_equal(run(after, values(2, 3))[0], run(before, values(2, 3))[0])
