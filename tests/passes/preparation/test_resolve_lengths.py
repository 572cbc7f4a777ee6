"""Slices of tables to the length of an input: known by the bounds of a function, checked at its beginning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import ops, prepare, values
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED

op = relax.op
TABLE = values(8, 4)


def sliced(body: Callable[..., relax.Expr], most: int | None = 8, rows: int = 8) -> tvm.IRModule:
    """A module of x (n, 4) and a table of some rows, whose exporter says that n is at most `most`."""
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n, 4], "float32"))
    bounds = {} if most is None else {"tir_var_upper_bound": {"n": most}, "tir_var_lower_bound": {"n": 2}}
    with builder.function("main", [x], attrs=bounds):
        with builder.dataflow():
            output = builder.emit_output(body(builder, x, n, relax.const(values(rows, 4))))
        builder.emit_func_output(output)
    return builder.get()


def positions(builder: relax.BlockBuilder, x: relax.Expr, n: tvm.tirx.Var, table: relax.Expr) -> relax.Expr:
    part = builder.emit(op.strided_slice(table, [0], [0], [n], [1]))
    return op.nn.relu(builder.emit(op.add(x, part)))


def later(builder: relax.BlockBuilder, x: relax.Expr, n: tvm.tirx.Var, table: relax.Expr) -> relax.Expr:
    part = builder.emit(op.strided_slice(table, [0], [2], [n + 2], [1]))
    return op.add(x, builder.emit(op.reshape(part, relax.ShapeExpr([tvm.tirx.min(n, _of(6)), _of(4)]))))


def last(builder: relax.BlockBuilder, x: relax.Expr, n: tvm.tirx.Var, table: relax.Expr) -> relax.Expr:
    """From a computed row to the end, as PyTorch writes it."""
    begin = tvm.tirx.max(_of(8) - n, _of(0))
    return op.add(x, builder.emit(op.strided_slice(table, [0], [begin], [_of(2**63 - 1)], [1])))


def _of(number: int) -> tvm.tirx.Expr:
    return tvm.tirx.IntImm("int64", number)


def answer(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(ar.build(mod), tvm.cpu())
    result: np.ndarray = machine["main"](tvm.runtime.tensor(x)).numpy()
    return result


def test_a_sum_with_the_first_rows_has_the_shape_of_the_input() -> None:
    mod = sliced(positions)
    after = prepare(mod)
    (extent, _) = after["main"].ret_ty.shape.values
    assert extent.same_as(after["main"].params[0].ty.shape.values[0])
    assert ops(after) == {"arange": 1, "take": 1, "add": 1, "nn.relu": 1}
    for length in (1, 2, 8):
        x = -values(length, 4, seed=length)
        np.testing.assert_array_equal(answer(after, x), np.maximum(x + TABLE[:length], 0))


@pytest.mark.parametrize("way", ["partitioned", "as it is"])
def test_tvm_builds_what_it_could_not(way: str) -> None:
    mod = sliced(positions)
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        tvm.compile(mod, UNOPTIMIZED)
    x = values(5, 4, seed=1)
    built = ar.partition(mod, ["dnnl"]) if way == "partitioned" else mod
    np.testing.assert_array_equal(answer(built, x), np.maximum(x + TABLE[:5], 0))


def test_rows_further_down_and_a_shape_that_is_written_out() -> None:
    mod = sliced(later, most=6)
    x = values(5, 4, seed=1)
    np.testing.assert_array_equal(answer(prepare(mod), x), x + TABLE[2:7])


def test_the_last_rows_of_a_table() -> None:
    after = prepare(sliced(last))
    assert ops(after) == {"arange": 1, "take": 1, "add": 1}
    x = values(5, 4, seed=1)
    np.testing.assert_array_equal(answer(after, x), x + TABLE[3:])


def test_a_longer_input_is_refused_and_reads_nothing() -> None:
    """TVM does not hold callers to the bounds; without the check rows behind the table would be read."""
    machine = relax.VirtualMachine(ar.build(prepare(sliced(positions))), tvm.cpu())
    with pytest.raises(ValueError, match=r"n must be min\(n, 8\), where n is extent 0 of x"):
        machine["main"](tvm.runtime.tensor(values(9, 4)))


@pytest.mark.parametrize("most", [None, 9], ids=["no bound", "a bound that lets the table end"])
def test_a_length_that_is_not_certain_stays(most: int | None) -> None:
    after = prepare(sliced(positions, most))
    assert ops(after)["strided_slice"] == 1
    assert all(isinstance(block, relax.DataflowBlock) for block in after["main"].body.blocks)


def test_a_table_of_numbers_in_order_is_positions() -> None:
    """What the check says is known behind it: the numbers that are taken are the places."""

    def body(builder: relax.BlockBuilder, x: relax.Expr, n: tvm.tirx.Var, table: relax.Expr) -> relax.Expr:
        every = relax.const(np.arange(8))
        places = builder.emit(op.strided_slice(every, [0], [0], [n], [1]))
        return op.add(x, builder.emit(op.take(table, places, axis=0)))

    after = prepare(sliced(body))
    assert ops(after) == {"arange": 1, "take": 1, "add": 1}
    x = values(5, 4, seed=1)
    np.testing.assert_array_equal(answer(after, x), x + TABLE[:5])


@pytest.mark.parametrize("bounds", [{"n": [4]}, {"n": "4"}, 4, [4]], ids=str)
def test_bounds_that_are_no_integers_are_an_error_of_the_module(bounds):
    mod = sliced(lambda builder, x, n, table: builder.emit(op.nn.relu(x)))
    wrong = tvm.IRModule({"main": mod["main"].with_attr("tir_var_upper_bound", bounds)})
    with pytest.raises(ar.InvalidModuleError, match="the attribute tir_var_upper_bound of a function has"):
        ar.partition(wrong, ["dnnl"])
    with pytest.raises(ar.InvalidModuleError, match="the attribute tir_var_upper_bound of a function has"):
        ar.build(wrong)
