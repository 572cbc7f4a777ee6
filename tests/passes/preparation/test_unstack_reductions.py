"""Reductions of a stack become chains of binary operations, where the reduction undoes the stack."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import becomes, module, ops, prepare, run, stays, values
from tvm import relax

op = relax.op
BINARY = {"sum": op.add, "prod": op.multiply, "max": op.maximum, "min": op.minimum}


def stacked(name: str, count: int, axis: int = 0, reduce_axis: int | list[int] = 0) -> tvm.IRModule:
    def body(_builder: relax.BlockBuilder, *inputs: relax.Var) -> relax.Expr:
        return getattr(op, name)(op.stack(list(inputs), axis=axis), axis=reduce_axis)

    return module(body, "float32", **{f"x{number}": (2, 3) for number in range(count)})


@pytest.mark.parametrize("name", BINARY)
def test_two_operands_become_one_operation(name: str) -> None:
    becomes(stacked(name, 2), module(lambda _builder, x0, x1: BINARY[name](x0, x1), x0=(2, 3), x1=(2, 3)))


def test_three_operands_become_a_chain_in_the_order_of_the_stack() -> None:
    shapes = {f"x{number}": (2, 3) for number in range(3)}
    becomes(stacked("sum", 3), module(lambda _builder, a, b, c: op.add(op.add(a, b), c), "float32", **shapes))


def test_one_operand_is_itself() -> None:
    assert not ops(prepare(stacked("sum", 1)))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_mean_divides_the_chain(count: int) -> None:
    before = stacked("mean", count)
    after = prepare(before)
    assert ops(after) == {"add": count - 1, "divide": 1}
    arrays = [values(2, 3, seed=seed) for seed in range(count)]
    np.testing.assert_allclose(run(after, *arrays)[0], run(before, *arrays)[0], rtol=1e-6)


@pytest.mark.parametrize(("axis", "reduce_axis"), [(1, 1), (-1, 2), (2, -1), (0, [0])])
def test_equal_axes_are_found_however_they_are_written(axis: int, reduce_axis: int | list[int]) -> None:
    assert ops(prepare(stacked("sum", 2, axis, reduce_axis))) == {"add": 1}


@pytest.mark.parametrize(("axis", "reduce_axis"), [(0, 1), (1, 0), (0, [0, 1])])
def test_another_axis_is_another_matter(axis: int, reduce_axis: int | list[int]) -> None:
    stays(stacked("sum", 2, axis, reduce_axis))


def test_a_reduction_that_keeps_its_axis_stays() -> None:
    stays(module(lambda _builder, x, y: op.sum(op.stack([x, y]), axis=0, keepdims=True), x=(2,), y=(2,)))


def test_the_mean_of_integers_stays() -> None:
    stays(module(lambda _builder, x, y: op.mean(op.stack([x, y]), axis=0), "int32", x=(2,), y=(2,)))


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
@pytest.mark.parametrize("name", BINARY)
def test_integers_come_out_the_same(name: str, dtype: str) -> None:
    """Sums and products too large for their type included."""

    def body(_builder: relax.BlockBuilder, *inputs: relax.Var) -> relax.Expr:
        return getattr(op, name)(op.stack(list(inputs)), axis=0)

    before = module(body, dtype, x=(40,), y=(40,), z=(40,))
    after = prepare(before)
    assert ops(after) == {str(BINARY[name].__name__): 2}
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(4)
    arrays = [rng.integers(limits.min, limits.max, 40, dtype=dtype, endpoint=True) for _ in range(3)]
    function = getattr(np, name)
    options = {"dtype": dtype} if name in ("sum", "prod") else {}
    wanted = function(np.stack(arrays), axis=0, **options)
    np.testing.assert_array_equal(run(after, *arrays)[0], wanted)


def test_a_stack_read_elsewhere_stays_there() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Expr:
        stack = builder.emit(op.stack([x, y]))
        return relax.Tuple([stack, builder.emit(op.sum(stack, axis=0))])

    before = module(body, x=(2, 3), y=(2, 3))
    after = prepare(before)
    assert ops(after) == {"stack": 1, "add": 1}
    for now, then in zip(run(after, *[values(2, 3)] * 2), run(before, *[values(2, 3)] * 2), strict=True):
        np.testing.assert_array_equal(now, then)


def test_the_importers_broadcasts_go_with_the_stack() -> None:
    def imported(_builder: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Expr:
        return op.sum(op.stack([op.broadcast_to(x, (2, 3)), op.broadcast_to(y, (2, 3))]), axis=0)

    becomes(
        module(imported, x=(2, 3), y=(1, 3)),
        module(lambda _builder, x, y: op.add(x, y), x=(2, 3), y=(1, 3)),
    )
