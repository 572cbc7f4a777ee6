"""Extremes of rows that hold nothing but an infinity, or nothing at all, are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.passes.host_repairs.repairing import repaired

INF = np.inf
ROWS = np.array([[-INF, -INF], [INF, INF], [1, -INF], [INF, -2], [-INF, INF], [3, 4]], "float32")


def answer(op: str, x: np.ndarray, axis: int) -> np.ndarray:
    builder = relax.BlockBuilder()
    parameter = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    with builder.function("main", [parameter]):
        with builder.dataflow():
            result = builder.emit_output(getattr(relax.op, op)(parameter, axis=axis))
        builder.emit_func_output(result)
    machine = relax.VirtualMachine(ar.build(builder.get()).jit(), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(x)).numpy()
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_of_infinite_rows(op: str, dtype: str) -> None:
    rows = ROWS.astype(dtype)
    np.testing.assert_array_equal(answer(op, rows, 1), getattr(rows, op)(axis=1))


@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_of_booleans(op: str) -> None:
    rows = np.array([[False, False], [True, False], [True, True]])
    found = answer(op, rows, 1)
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, getattr(rows, op)(axis=1))


@pytest.mark.parametrize("op", ["max", "min"])
def test_rows_of_nan_have_no_extreme(op: str) -> None:
    rows = np.full((2, 3), np.nan, "float32")
    np.testing.assert_array_equal(answer(op, rows, 1), [np.nan, np.nan])


def windowed(rank: int, x: np.ndarray, **attributes: object) -> np.ndarray:
    """The largest number of each window of two along each of `rank` axes."""
    builder = relax.BlockBuilder()
    parameter = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    op = getattr(relax.op.nn, f"max_pool{rank}d")
    with builder.function("main", [parameter]):
        with builder.dataflow():
            result = builder.emit_output(op(parameter, [2] * rank, **attributes))
        builder.emit_func_output(result)
    machine = relax.VirtualMachine(ar.build(builder.get()).jit(), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(x)).numpy()
    return found


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_of_minus_infinity(rank: int, padding: int) -> None:
    least = np.finfo("float32").min
    x = np.full((1, 2, *[4] * rank), -INF, "float32")
    x[0, 0, ..., -1] = 3
    x[0, 1, ..., 0] = least
    around = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * rank], constant_values=-INF)
    views = np.lib.stride_tricks.sliding_window_view(around, [2] * rank, tuple(range(2, rank + 2)))
    found = windowed(rank, x, strides=[1] * rank, padding=[padding] * rank)
    np.testing.assert_array_equal(found, views.max(tuple(range(-rank, 0))))


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_places_of_extremes_of_infinite_rows(op: str) -> None:
    np.testing.assert_array_equal(answer(op, ROWS, 1), getattr(ROWS, op)(axis=1))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "bool"])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_places_in_rows_of_the_last_integer(op: str, dtype: str) -> None:
    ends = [0, 1] if dtype == "bool" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    rows = np.array([[ends[0], ends[0]], [ends[1], ends[1]], [ends[0], ends[1]], [ends[1], ends[0]]], dtype)
    np.testing.assert_array_equal(answer(op, rows, 1), getattr(rows, op)(axis=1))


@pytest.mark.parametrize(("op", "nothing"), [("max", -INF), ("min", INF)])
def test_extremes_of_empty_rows(op: str, nothing: float) -> None:
    np.testing.assert_array_equal(answer(op, np.zeros((2, 0), "float32"), 1), [nothing, nothing])


def test_whole_numbers_stay() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "int32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.max(x, axis=1))
        builder.emit_func_output(result)
    module = builder.get()
    assert repaired(module).same_as(module)
