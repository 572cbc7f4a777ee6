"""Tensors of float16 and bfloat16: what crosses the border is rounded once, what is between is float32."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, ops_on_host, single
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

DTYPES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The largest relative error of one rounding."""

halves = pytest.mark.parametrize("dtype", DTYPES)


def var(name: str, shape: tuple[int, ...], dtype: str) -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


def numbers(*shape: int, dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def constant(value: np.ndarray) -> relax.Expr:
    return relax.const(tvm.runtime.tensor(value), value.dtype.name)


def wide(array: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return array.astype("float64")


@needs_onednn
@halves
def test_every_number_enters_and_leaves_as_it_is(dtype: str) -> None:
    every = np.arange(1 << 16, dtype="uint16").view(DTYPES[dtype])
    x = var("x", every.shape, dtype)
    (result,) = offload(single([x], op.reshape(x, (256, 256)))).call("main", every)
    result, is_number = result.reshape(-1), ~np.isnan(wide(every))
    np.testing.assert_array_equal(result[is_number].view("uint16"), every[is_number].view("uint16"))
    assert np.isnan(wide(result[~is_number])).all()


@needs_onednn
@halves
def test_what_leaves_is_rounded_to_the_nearest_number(dtype: str) -> None:
    """Ties to even, below the smallest normal number and at the largest one, too."""
    neighbours = np.arange(1 << 16, dtype="uint16").view(DTYPES[dtype])
    exact = wide(neighbours)
    with np.errstate(all="ignore"):
        ties = ((exact[1:] + exact[:-1]) / 2).astype("float32")
        bits = np.random.default_rng(1).integers(0, 1 << 32, 1 << 17, dtype="uint32").view("float32")
        around = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), bits])
        wanted = around.astype(DTYPES[dtype])
    x = var("x", around.shape, "float32")
    (result,) = offload(single([x], op.astype(x, dtype))).call("main", around)
    is_number = ~np.isnan(wide(wanted))
    np.testing.assert_array_equal(result[is_number].view("uint16"), wanted[is_number].view("uint16"))
    assert np.isnan(wide(result[~is_number])).all()


@needs_onednn
@halves
@pytest.mark.parametrize("rows", [1, 7])
def test_a_product_is_off_by_the_rounding_of_its_result(dtype: str, rows: int) -> None:
    """The operands are exact in the type that is multiplied, and sums are of float32."""
    x, weights = var("x", (rows, 96), dtype), numbers(96, 40, dtype=dtype, seed=1)
    given = numbers(rows, 96, dtype=dtype)
    (result,) = offload(single([x], op.matmul(x, constant(weights)))).call("main", given)
    exact = wide(given) @ wide(weights)
    sums = np.abs(wide(given)) @ np.abs(wide(weights)) * 2.0**-20
    assert result.dtype == DTYPES[dtype]
    assert (np.abs(wide(result) - exact) <= UNITS[dtype] * np.abs(exact) + sums).all()


@needs_onednn
@halves
def test_running_sums_and_products_are_rounded_once(dtype: str) -> None:
    """Rounded at each step, sums of ones end at 2048 in float16, and at 256 in bfloat16."""
    x = var("x", (2, 3000), dtype)
    given = np.ones((2, 3000), DTYPES[dtype])
    given[1] = 1 + UNITS[dtype] * 2 * (np.arange(3000) % 2)
    module = single([x], relax.Tuple([op.cumsum(x, 1), op.cumprod(x, 1)]))
    assert not ops_on_host(ar.partition(module, ["dnnl"]))
    for found, expected in zip(
        offload(module).call("main", given),
        (np.cumsum(wide(given), 1), np.cumprod(wide(given), 1)),
        strict=True,
    ):
        assert found.dtype == DTYPES[dtype]
        np.testing.assert_allclose(wide(found), expected, UNITS[dtype] * 1.01)


@needs_onednn
@halves
def test_a_number_that_overflows_on_the_way_may_come_back(dtype: str) -> None:
    x = var("x", (4,), dtype)
    ten = constant(np.full((), 1024, DTYPES[dtype]))
    back = op.divide(op.divide(op.multiply(op.multiply(x, ten), ten), ten), ten)
    given = np.array([1, -3, 0.5, 60], DTYPES[dtype])
    (result,) = offload(single([x], back)).call("main", given)
    np.testing.assert_array_equal(wide(result), wide(given))


PARTS: dict[str, Callable[[relax.Expr, Callable[..., relax.Expr]], relax.Expr]] = {
    "reshaped": lambda x, c: op.matmul(x, op.reshape(c(4, 24, 16), (96, 16))),
    "turned": lambda x, c: op.matmul(x, op.permute_dims(c(16, 96))),
    "sliced": lambda x, c: op.matmul(x, op.strided_slice(c(96, 40), [1], [8], [24])),
    "beside": lambda x, c: op.concat([x, c(7, 5)], 1),
    "above": lambda x, c: op.concat([c(3, 96), x], 0),
    "chosen": lambda x, c: op.where(op.greater(x, c(96)), x, c(7, 96)),
    "divided": lambda x, c: op.divide(c(7, 96), op.add(op.abs(x), c(1))),
    "padded": lambda x, c: op.add(x, op.nn.pad(c(5, 90), [1, 1, 2, 4], pad_value=0.5)),
    "repeated": lambda x, c: op.add(x, op.broadcast_to(c(7, 1), (7, 96))),
}
"""Constants that are read by what is no product, or through views."""


def in_numpy(name: str, x: np.ndarray, constants: list[np.ndarray]) -> np.ndarray:
    c = constants
    made: dict[str, Callable[[], np.ndarray]] = {
        "reshaped": lambda: x @ c[0].reshape(96, 16),
        "turned": lambda: x @ c[0].T,
        "sliced": lambda: x @ c[0][:, 8:24],
        "beside": lambda: np.concatenate([x, c[0]], 1),
        "above": lambda: np.concatenate([c[0], x], 0),
        "chosen": lambda: np.where(x > c[0], x, c[1]),
        "divided": lambda: c[0] / (np.abs(x) + c[1]),
        "padded": lambda: x + np.pad(c[0], [(1, 1), (2, 4)], constant_values=0.5),
        "repeated": lambda: x + c[0],
    }
    return made[name]()


@pytest.mark.sweep
@needs_onednn
@halves
@pytest.mark.parametrize("name", PARTS)
def test_constants_are_read_as_numbers_wherever_they_stand(dtype: str, name: str) -> None:
    made: list[np.ndarray] = []

    def c(*shape: int) -> relax.Expr:
        made.append(numbers(*shape, dtype=dtype, seed=len(made) + 1))
        return constant(np.abs(made[-1]) + 1 if name == "divided" else made[-1])

    builder = relax.BlockBuilder()
    x = var("x", (7, 96), dtype)
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(builder.normalize(PARTS[name](x, c)))
        builder.emit_func_output(output)
    given = numbers(7, 96, dtype=dtype)
    offloaded = offload(builder.finalize())
    assert ops_on_host(offloaded.module) == set()
    (result,) = offloaded.call("main", given)
    values = [wide(np.abs(each) + 1 if name == "divided" else each) for each in made]
    expected = in_numpy(name, wide(given), values)
    assert (np.abs(wide(result) - expected) <= 4 * UNITS[dtype] * (np.abs(expected) + 1e-2)).all()


@needs_onednn
def test_a_cast_to_float16_rounds_unless_it_only_leads_back() -> None:
    """PyTorch exports functions of float16 as a cast to float32, the function, and a cast back."""
    x, y = var("x", (64,), "float16"), var("y", (64,), "float32")
    back = op.add(op.astype(op.exp(op.astype(x, "float32")), "float16"), x)
    rounded = op.astype(op.astype(op.exp(y), "float16"), "float32")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            output = builder.emit_output(relax.Tuple([builder.normalize(back), builder.normalize(rounded)]))
        builder.emit_func_output(output)
    offloaded = offload(builder.finalize())
    given, other = numbers(64, dtype="float16"), numbers(64, dtype="float16", seed=1).astype("float32")
    first, second = offloaded.call("main", given, other)
    exact = np.exp(wide(given)) + wide(given)
    assert (np.abs(wide(first) - exact) <= UNITS["float16"] * np.abs(exact) + 1e-7).all()
    assert (second == second.astype("float16")).all()
    assert not (second == np.exp(other)).all()


ROWS = {1: "few rows", 2: "few rows", 3: "", 1100: "unpack"}
"""What becomes of large weights of float16, by the rows that are multiplied with them."""


@needs_onednn
@halves
def test_large_weights_serve_any_number_of_rows(dtype: str) -> None:
    """The extents are no multiples of blocks; bias, bounds and residual sum are behind the product.

    A channel is NaN, which a clip makes the upper bound.
    """
    count, depth, width = tirx.Var("n", "int64"), 200, 136
    weights, bias = numbers(depth, width, dtype=dtype, seed=1), numbers(1, width, dtype=dtype, seed=2)
    bias[0, 77] = np.nan
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((count, depth), dtype))
    y = relax.Var("y", relax.TensorType((count, width), dtype))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            product = builder.emit(op.add(op.matmul(x, constant(weights)), constant(bias)))
            output = builder.emit_output(op.add(op.clip(product, -1, 2), y))
        builder.emit_func_output(output)
    offloaded = offload(builder.finalize())
    for rows in (*ROWS, 1, 1100):
        given, more = numbers(rows, depth, dtype=dtype, seed=rows), numbers(rows, width, dtype=dtype)
        (result,) = offloaded.call("main", given, more)
        product = wide(given) @ wide(weights) + wide(bias)
        sizes = np.abs(wide(given)) @ np.abs(wide(weights)) + np.abs(wide(more))
        expected = np.where(np.isnan(product), 2, product.clip(-1, 2)) + wide(more)
        assert (np.abs(wide(result) - expected) <= 2 * UNITS[dtype] * np.abs(expected) + 1e-6 * sizes).all()
        plan = "\n".join(offloaded.plan(offloaded.symbols_of("main")[0]))
        assert "ref:" not in plan or rows > 2
        if dtype == "float16":
            assert [word for word in ("few rows", "unpack") if word in plan] == [ROWS[rows]] * bool(
                ROWS[rows]
            )


@needs_onednn
def test_large_kernels_of_float16_are_unpacked_in_each_call() -> None:
    x, weights = var("x", (1, 64, 36, 36), "float16"), numbers(64, 64, 3, 3, dtype="float16", seed=1)
    given = numbers(1, 64, 36, 36, dtype="float16")
    offloaded = offload(single([x], op.nn.conv2d(x, constant(weights))))
    (first,), (second,) = offloaded.call("main", given), offloaded.call("main", given)
    windows = np.lib.stride_tricks.sliding_window_view(wide(given), (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, wide(weights))
    assert (np.abs(wide(first) - expected) <= UNITS["float16"] * np.abs(expected) + 1e-3).all()
    np.testing.assert_array_equal(first, second)
    assert any(line.startswith("unpack") for line in offloaded.plan(offloaded.symbols_of("main")[0]))


def exported_products(side: int, dtype: str, library: Path) -> tuple[list[np.ndarray], Path]:
    """Two square weights of a side, and the library of two products with them."""
    weights = [numbers(side, side, dtype=dtype, seed=seed) / DTYPES[dtype].type(32) for seed in (1, 2)]
    builder = relax.BlockBuilder()
    x = var("x", (4, side), dtype)
    with builder.function("main", [x]):
        with builder.dataflow():
            left, right = (builder.emit(op.matmul(x, constant(each))) for each in weights)
            output = builder.emit_output(op.matmul(op.reshape(left, (side, 4)), right))
        builder.emit_func_output(output)
    ar.build(ar.partition(builder.finalize(), ["dnnl"], prepare=False)).export_library(str(library))
    return weights, library


@needs_onednn
@halves
def test_a_library_holds_large_constants_once_in_half_the_bytes(dtype: str, tmp_path: Path) -> None:
    """Also those that are joined: two products of one operand become one."""
    side = 1040
    weights, library = exported_products(side, dtype, tmp_path / "halves.so")
    small = 16
    code = exported_products(small, dtype, tmp_path / "small.so")[1].stat().st_size - 2 * 2 * small * small
    assert library.stat().st_size < code + 2 * 2 * side * side + (1 << 15)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    given = numbers(4, side, dtype=dtype)
    result = wide(machine["main"](tvm.runtime.tensor(given)).numpy())
    left, right = (wide(given) @ wide(each) for each in weights)
    expected = left.reshape(side, 4) @ right
    assert (
        np.abs(result - expected) <= 8 * UNITS[dtype] * (np.abs(left.reshape(side, 4)) @ np.abs(right))
    ).all()


ON_OTHER_PROCESSORS = """
import sys
sys.path[:0] = {folders!r}
import numpy as np
from test_dnnl_halves import *
x, weights = var("x", (2, 16, 9, 9), {dtype!r}), numbers(24, 16, 3, 3, dtype={dtype!r}, seed=1)
given = numbers(2, 16, 9, 9, dtype={dtype!r})
offloaded = offload(single([x], op.nn.conv2d(x, constant(weights))))
(result,) = offloaded.call("main", given)
windows = np.lib.stride_tricks.sliding_window_view(wide(given), (3, 3), (2, 3))
expected = np.einsum("nchwij,ocij->nohw", windows, wide(weights))
assert (np.abs(wide(result) - expected) <= UNITS[{dtype!r}] * np.abs(expected) + 1e-4).all()
print("\\n".join(offloaded.plan(offloaded.symbols_of("main")[0])))
"""


@needs_onednn
@halves
def test_processors_without_instructions_for_bfloat16_compute_in_float32(dtype: str) -> None:
    """oneDNN is told not to use what AVX2 does not have."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    done = subprocess.run(
        [sys.executable, "-c", ON_OTHER_PROCESSORS.format(folders=folders, dtype=dtype)],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (product,) = [line for line in done.stdout.splitlines() if line.startswith("convolution")]
    assert ":avx2 f32:" in product
