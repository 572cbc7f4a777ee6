"""Constant folding: every evaluator against TVM's own FoldConstant, which compiles and runs the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.passes.preparation.preparation_kit import (
    becomes,
    constant,
    constants,
    module,
    ops,
    prepare,
    run,
    stays,
    values,
)
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from annotated_region.passes.preparation import fold_constants
from annotated_region.passes.preparation.constant_evaluation import EVALUATORS
from annotated_region.passes.preparation.tensors import rounded_once

op = relax.op
FLOATS = ("float16", "bfloat16", "float32", "float64")


def of(numbers: float | Sequence[Any] | np.ndarray | np.floating[Any], dtype: str = "float32") -> relax.Expr:
    """A constant; given its dtype, relax.const keeps 64 bits."""
    return relax.const(np.asarray(numbers).astype(dtype), dtype)


def returning(expr: relax.Expr) -> tvm.IRModule:
    """A module that returns a value which no input has a part in."""
    return module(lambda _builder, _x: expr, x=(1,))


def folded_by_tvm(mod: tvm.IRModule) -> np.ndarray:
    (result,) = constants(relax.transform.CanonicalizeBindings()(relax.transform.FoldConstant()(mod)))
    return result


def folded_by_us(mod: tvm.IRModule) -> np.ndarray:
    prepared = prepare(mod)
    assert not ops(prepared), prepared.script()
    (result,) = constants(prepared)
    return result


def assert_folds_as_in_tvm(expr: relax.Expr) -> None:
    expected, result = folded_by_tvm(returning(expr)), folded_by_us(returning(expr))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


SIGNED = [-2.75, -1.0, -0.5, 0.0, 0.1, 1.5, 3.0]
INTEGERS = of([-7, 7, -7, 7], "int64"), of([2, 2, -2, -2], "int64")
BOOLEANS = of([1, 0, 1, 0], "bool"), of([1, 1, 0, 0], "bool")


def cases() -> Iterator[relax.Expr]:
    """At least one call for each evaluator."""
    yield op.reshape(constant(2, 6), (3, -1))
    yield op.flatten(constant(2, 3))
    yield op.expand_dims(constant(2, 3), [0, -1])
    yield op.squeeze(constant(1, 3, 1), [0])
    yield op.broadcast_to(constant(3, 1), (2, 3, 4))
    yield op.permute_dims(constant(2, 3, 4), [2, 0, 1])
    yield op.permute_dims(constant(2, 3, 4))
    yield op.concat([constant(2, 3), constant(2, 1, seed=1)], axis=-1)
    yield op.stack([constant(2, 3), constant(2, 3, seed=1)], axis=1)
    yield op.strided_slice(constant(5, 6), [1, 0], [1, 0], [6, 3], [2, 1])
    yield op.strided_slice(constant(5, 6), [1], [4], [99])
    yield op.take(constant(5, 3), of([4, 0, 0], "int64"), axis=0)
    yield op.where(of([1, 0, 1], "bool"), constant(3), constant(3, seed=1))
    yield op.zeros((2, 3), "int8")
    yield op.ones((2, 3), "bfloat16")
    yield op.zeros_like(constant(2, 3))
    yield op.ones_like(constant(2, 3), "int32")
    yield op.full((2, 3), of(2.5), "float16")
    yield op.full_like(constant(2, 3), of(2.5), "float16")
    for triangle in (op.tril, op.triu):
        for diagonal in (-1, 0, 2):
            yield triangle(constant(3, 4), diagonal)
    for dtype in FLOATS:
        for binary in (op.add, op.subtract, op.multiply, op.divide, op.maximum, op.minimum):
            yield binary(of(values(3, 5), dtype), of(values(5, seed=1), dtype))
        for unary in (op.negative, op.abs, op.square, op.floor, op.ceil, op.trunc):
            yield unary(of(SIGNED, dtype))
        yield op.sqrt(of(values(9), dtype))
        yield op.floor_divide(
            of([2.75, -2.75, 3.0, -0.5, 0.0], dtype), of([2.0, 0.5, -0.25, 4.0, 1.0], dtype)
        )
        yield op.divide(of([1.0, -1.0, 0.0], dtype), of([0.0, 0.0, 0.0], dtype))
        for source in FLOATS:
            yield op.astype(of([-2.75, 0.1, 1.0009765, 3.9990234, 1e-7], source), dtype)
        for target in ("int32", "int8", "bool"):
            yield op.astype(of([-2.75, 0.1, 0.0, 100.5], dtype), target)
    for binary in (op.add, op.subtract, op.multiply, op.floor_divide, op.floor_mod, op.maximum, op.minimum):
        yield binary(*INTEGERS)
    for comparison in (op.equal, op.not_equal, op.less, op.less_equal, op.greater, op.greater_equal):
        yield comparison(of(SIGNED), of(SIGNED[::-1]))
    for question in (op.isnan, op.isinf, op.isfinite):
        for dtype in ("float32", "float16"):
            yield question(of([0.0, float("nan"), float("inf"), -float("inf"), 1.5], dtype))
    for connective in (op.logical_and, op.logical_or, op.logical_xor):
        yield connective(*BOOLEANS)
    yield op.logical_not(BOOLEANS[0])
    for number, zero, dtype in ((200, 3, "uint8"), (-128, 127, "int8"), (123_456_789, 0, "int32")):
        yield op.dequantize(of(number, dtype), of(0.0123), of(zero, dtype), axis=0)
    yield op.dequantize(of(np.array([[7]]), "int8"), of([0.3]), of([0], "int8"))
    yield op.astype(INTEGERS[0], "float16")
    for dtype in ("float32", "float16"):
        yield op.round(of([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.51], dtype))
        yield op.sign(of(SIGNED, dtype))
        yield op.nn.relu(of(SIGNED, dtype))
        yield op.clip(of(SIGNED, dtype), -0.7, 1.2)
    yield op.clip(INTEGERS[0], -3, 3)
    yield op.clip(of(SIGNED, "float32"), 2.0, 1.0)  # bounds that cross
    yield op.clip(INTEGERS[0], 2, 1)
    for binary in (op.divide, op.mod, op.bitwise_and, op.bitwise_or, op.bitwise_xor):
        yield binary(*INTEGERS)
    yield op.bitwise_not(INTEGERS[0])
    for shift in (op.left_shift, op.right_shift):
        yield shift(of([5, 9, 77], "int32"), of([0, 1, 3], "int32"))
    matrix = of([[3, -7, 5], [2, 9, -7]], "int64")
    for reduction in (op.sum, op.prod, op.max, op.min):
        yield reduction(matrix, [1], True)
        yield reduction(matrix)
    for search in (op.argmax, op.argmin):
        yield search(matrix, 1)
        yield search(of([[1.0, 3.0, 3.0], [0.0, -1.0, 0.5]]), 0, True)
    yield op.strided_slice(constant(5), [0], [-2], [5])
    yield op.strided_slice(constant(5), [0], [-99], [-1])
    yield op.strided_slice(constant(5), [0], [4], [0], [-1])
    yield op.strided_slice(constant(5, 3), [0], [-1], [-99], [-2])
    yield op.tile(matrix, (2, 1, 2))
    yield op.repeat(matrix, 3, 1)
    yield op.flip(matrix, 1)
    yield op.gather_elements(matrix, of([[0, 2], [1, 1]], "int64"), 1)
    yield op.gather_elements(matrix, of([[2, 0, 1, 1]], "int64"), 1)
    yield op.gather_elements(matrix, of([[1, 0]], "int64"), 0)
    yield op.gather_nd(matrix, of([[1, 2], [0, 0], [1, 1]], "int64"))
    yield op.scatter_nd(matrix, of([[1, 2], [0, 0]], "int64"), of([50, 60], "int64"))
    yield op.scatter_nd(matrix, of([[1]], "int64"), of([[8, 9, 10]], "int64"))
    yield op.scatter_elements(matrix, of([[2, 0], [1, 2]], "int64"), of([[1, 2], [3, 4]], "int64"), 1)
    yield op.scatter_elements(matrix, of([[1, 0, 0]], "int64"), of([[7, 8, 9]], "int64"), -2)
    yield op.one_hot(of([2, 0], "int64"), relax.prim_value(3), relax.prim_value(1), 4, -1)
    yield op.nn.pad(of([[1.5, 2.0]]), [1, 0, 0, 2], "constant", 3.0)
    yield op.astype(BOOLEANS[0], "float32")


def approximated() -> Iterator[relax.Expr]:
    """Calls for which compiled code has an approximation, or an order, of its own."""
    x = of(np.linspace(-3, 3, 25))
    positive, near_one = of(np.linspace(0.01, 9, 25)), of(np.linspace(-0.97, 0.97, 25))
    for function in (op.exp, op.sin, op.cos, op.tan, op.sinh, op.cosh, op.tanh, op.atan, op.asinh, op.erf):
        yield function(x)
    for function in (op.sigmoid, op.nn.gelu, op.nn.gelu_tanh, op.nn.silu):
        yield function(x)
    for function in (op.log, op.rsqrt):
        yield function(positive)
    for function in (op.asin, op.acos, op.atanh):
        yield function(near_one)
    yield op.acosh(of(np.linspace(1.1, 9, 25)))
    yield op.power(positive, of(2.3))
    for reduction in (op.mean, op.variance, op.std, op.sum):
        yield reduction(of(values(5, 7)), [1], True)
    yield op.nn.softmax(of(values(5, 7)), -1)
    yield op.matmul(of(values(2, 5, 7)), of(values(7, 3, seed=1)))
    yield op.nn.conv1d(of(values(2, 4, 9)), of(values(6, 2, 3, seed=1)), 2, (1, 2), 2, 2)
    yield op.nn.conv2d(of(values(2, 3, 6, 7)), of(values(4, 3, 1, 1, seed=1)))
    yield op.nn.conv2d(of(values(2, 4, 6, 7)), of(values(4, 1, 3, 2, seed=1)), 2, (1, 0, 2, 1), (1, 3), 4)
    yield op.nn.conv3d(of(values(1, 2, 4, 5, 3)), of(values(3, 2, 2, 3, 2, seed=1)), 1, (1, 0, 1, 0, 2, 0))


NEAR = [
    pytest.param(call, id=f"{call.op.name.removeprefix('relax.')}-{n}")
    for n, call in enumerate(approximated())
]


@pytest.mark.parametrize("call", NEAR)
def test_an_approximated_call_folds_close_to_what_compiled_code_computes(call: relax.Call) -> None:
    expected, result = folded_by_tvm(returning(call)), folded_by_us(returning(call))
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=3e-6, atol=3e-6)


LONG: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("dtype", FLOATS[:3])
@pytest.mark.parametrize("name", LONG)
def test_an_approximated_call_folds_to_the_nearest_number(name: str, dtype: str) -> None:
    """Computed once more, in the extended precision that numpy has."""
    numbers = np.random.default_rng(5).uniform(0.01, 9, 3000).astype(np.float32)
    given = of(numbers, dtype)
    exact = LONG[name](given.value.numpy().astype(np.longdouble))
    result = folded_by_us(returning(getattr(op, name)(given)))
    assert result.dtype.name == dtype
    wide = result.astype(np.float64)
    # Half of the distance to the next number of that dtype; bfloat16 has 8 bits. The logarithm of 1 is exact.
    wide, exact = wide[exact != 0], exact[exact != 0]
    digits = {"float32": 23, "float16": 10, "bfloat16": 7}[dtype]
    spacing = 2.0 ** (np.floor(np.log2(np.abs(exact))) - digits)
    assert (result.astype(np.float64) == 0).sum() == result.size - wide.size
    assert (np.abs(wide - exact) <= 0.5000001 * spacing).all()


def test_a_tie_of_bfloat16_is_decided_by_the_digits_behind_float32() -> None:
    """Both sums are 1 + 2**-8 in float32, half way between two bfloat16."""
    for tail, wanted in ((2.0**-40, 1 + 2.0**-7), (-(2.0**-40), 1.0), (0.0, 1.0)):
        rounded = rounded_once(np.array([1 + 2.0**-8 + tail]), np.dtype("bfloat16"))
        assert float(rounded[0]) == wanted


def test_buckets_of_relative_positions_are_those_of_onnx_runtime() -> None:
    """T5: whole numbers from logarithms; where the ratio is a power of the base an error of one bit shows."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    positions = np.arange(1, 4097, dtype="float32")
    nodes = [
        helper.make_node("Div", ["x", "eight"], ["ratio"]),
        helper.make_node("Log", ["ratio"], ["log"]),
        helper.make_node("Div", ["log", "base"], ["turns"]),
        helper.make_node("Mul", ["turns", "eight"], ["place"]),
        helper.make_node("Cast", ["place"], ["bucket"], to=TensorProto.INT64),
    ]
    numbers = {"eight": np.float32(8), "base": np.float32(np.log(16))}
    graph = helper.make_graph(
        nodes,
        "buckets",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4096])],
        [helper.make_tensor_value_info("bucket", TensorProto.INT64, [4096])],
        [numpy_helper.from_array(np.asarray(number), name) for name, number in numbers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": positions})
    turns = op.divide(op.log(op.divide(of(positions), of(8.0))), of(numbers["base"]))
    result = folded_by_us(returning(op.astype(op.multiply(turns, of(8.0)), "int64")))
    np.testing.assert_array_equal(result, wanted)


CASES = [
    pytest.param(call, id=f"{call.op.name.removeprefix('relax.')}-{n}") for n, call in enumerate(cases())
]


@pytest.mark.sweep
@pytest.mark.parametrize("call", CASES)
def test_a_constant_call_folds_to_what_compiled_code_computes(call: relax.Call) -> None:
    assert_folds_as_in_tvm(call)


COUNTED = [
    op.arange(3, 11, 2, "int32"),
    op.arange(9, 0, -4, "int64"),
    op.arange(5),
    op.arange(0.0, 6.0, 1.5, "float32"),
    op.arange(0, 7, 1, "float32"),
    op.eye(3, 4, 1),
    op.index_tensor(of([[3, -7, 5], [2, 9, -7]]), [of([[0, 1], [1, 1]], "int64"), of([2, 0], "int64")]),
    op.cumsum(of([1, 0, 1, 1], "bool"), 0, "int64"),
    op.cumsum(of([[0.5, -7.0], [2.25, 9.0]]), 0),
    *(
        running(of([[3, -7, 5], [2, 9, -7]], "int64"), axis, exclusive=exclusive)
        for running in (op.cumsum, op.cumprod)
        for axis in (1, -2, None)
        for exclusive in (False, True)
    ),
]


@pytest.mark.parametrize("call", COUNTED)
def test_a_range_folds_to_what_compiled_code_counts(call: relax.Call) -> None:
    """TVM's ``FoldConstant`` leaves a call without tensors alone, and takes a running sum for its operand."""
    before = returning(call)
    (expected,) = run(before, values(1))
    np.testing.assert_array_equal(folded_by_us(before), expected)


def test_every_evaluator_has_a_case() -> None:
    covered = {call.op.name for call in (*cases(), *approximated())}
    assert covered | {call.op.name for call in COUNTED} == set(EVALUATORS)


REFUSED = {
    "the mean of integers": lambda: op.mean(of([1, 2], "int32")),
    "a cast that does not fit": lambda: op.astype(of([300.0, 1.0]), "int8"),
    "a cast of NaN": lambda: op.astype(of([float("nan")]), "int32"),
    "a division by zero": lambda: op.floor_divide(of([1], "int32"), of([0], "int32")),
    "a quotient that rounds": lambda: op.floor_divide(of([1.0]), of([0.1])),
    "a quotient that is too large": lambda: op.divide(of([-(2**31)], "int32"), of([-1], "int32")),
    "the sign of NaN": lambda: op.sign(of([float("nan")])),
    "an exponent below zero": lambda: op.power(of([2], "int32"), of([-1], "int32")),
    "the maximum of NaN": lambda: op.maximum(of([float("nan")]), of([1.0])),
    "an index out of bounds": lambda: op.take(constant(3), of([3], "int64"), axis=0),
    "a place written twice": lambda: op.scatter_nd(
        constant(3), of([[1], [1]], "int64"), of([1.0, 2.0]), "update"
    ),
    "a place counted from the end": lambda: op.scatter_elements(
        constant(3), of([-1], "int64"), of([1.0]), 0, "update"
    ),
    "a sum with what is there": lambda: op.scatter_nd(constant(3), of([[1]], "int64"), of([1.0]), "add"),
    "what int8 is computed with": lambda: op.dequantize(of([1, 2], "int8"), of(0.5), of(0, "int8")),
    "a scale of another type": lambda: op.dequantize(of(1, "int8"), of(0.5, "float16"), of(0, "int8")),
    "a difference beyond int32": lambda: op.dequantize(of(-(2**31), "int32"), of(0.5), of(1, "int32")),
    "an 8-bit float": lambda: op.astype(of([1.0, 448.0]), "float8_e4m3fn"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_numpy_may_do_differently_stays(reason: str) -> None:
    stays(returning(REFUSED[reason]()))


def test_a_call_with_an_input_stays() -> None:
    stays(module(lambda _builder, x: op.maximum(x, constant(3)), x=(3,)))


def test_a_large_result_folds_only_from_large_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_constants, "FREE_ELEMENTS", 10)
    stays(returning(op.zeros((11,), "float32")))
    stays(returning(op.add(constant(1, 4), constant(4, 1))))
    assert not ops(prepare(returning(op.zeros((10,), "float32"))))
    assert not ops(prepare(returning(op.permute_dims(constant(4, 5)))))


def test_64_bit_constants_keep_their_64_bits() -> None:
    large = of([2**40 + 1], "int64")
    result = folded_by_us(returning(op.add(large, large)))
    assert result.dtype == np.int64
    assert result[0] == 2**41 + 2


def test_a_chain_folds_and_stands_right_at_its_user() -> None:
    weight = constant(4, 3)
    before = module(
        lambda _builder, x: op.matmul(x, op.multiply(op.permute_dims(weight), relax.const(2.0))), x=(2, 3)
    )
    folded = relax.const(values(4, 3).T * np.float32(2))
    becomes(before, module(lambda _builder, x: op.matmul(x, folded), x=(2, 3)))


OPERATORS = [op.add, op.subtract, op.multiply, op.divide, op.maximum, op.minimum]


@st.composite
def constant_graphs(draw: st.DrawFn) -> relax.Expr:
    """A small expression of constants: arithmetic, reshapes, transposes, casts, in one of four dtypes."""
    dtype = draw(st.sampled_from(FLOATS))
    available = [of(values(2, 3, seed=seed), dtype) for seed in range(3)]
    for _ in range(draw(st.integers(1, 6))):
        left, right = draw(st.sampled_from(available)), draw(st.sampled_from(available))
        kind = draw(st.integers(0, 8))
        if kind < len(OPERATORS):
            made = OPERATORS[kind](left, right)
        elif kind == 6:
            made = op.permute_dims(op.reshape(left, (3, 2)))
        elif kind == 7:
            made = op.astype(op.astype(left, draw(st.sampled_from(FLOATS))), dtype)
        else:
            made = op.strided_slice(op.concat([left, right], axis=0), [0], [1], [3])
        available.append(made)
    return available[-1]


@settings(max_examples=25, deadline=None)
@given(constant_graphs())
def test_any_graph_of_constants_folds_as_in_tvm(expr: relax.Expr) -> None:
    assert_folds_as_in_tvm(expr)
