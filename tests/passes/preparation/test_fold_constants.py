"""Constant folding: every evaluator against TVM's own FoldConstant, which compiles and runs the call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from preparation_kit import becomes, constant, constants, module, ops, prepare, run, stays, values
from tvm import relax

from annotated_region.passes.preparation import fold_constants
from annotated_region.passes.preparation.constant_evaluation import EVALUATORS

op = relax.op
FLOATS = ("float16", "bfloat16", "float32", "float64")


def of(numbers: float | Sequence[float] | np.ndarray, dtype: str = "float32") -> relax.Expr:
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
    yield op.astype(BOOLEANS[0], "float32")


CASES = [
    pytest.param(call, id=f"{call.op.name.removeprefix('relax.')}-{n}") for n, call in enumerate(cases())
]


@pytest.mark.parametrize("call", CASES)
def test_a_constant_call_folds_to_what_compiled_code_computes(call: relax.Call) -> None:
    assert_folds_as_in_tvm(call)


@pytest.mark.parametrize("call", [op.arange(3, 11, 2, "int32"), op.arange(9, 0, -4, "int64"), op.arange(5)])
def test_a_range_folds_to_what_compiled_code_counts(call: relax.Call) -> None:
    """TVM's ``FoldConstant`` leaves a call without tensors alone."""
    before = returning(call)
    (expected,) = run(before, values(1))
    np.testing.assert_array_equal(folded_by_us(before), expected)


def test_every_evaluator_has_a_case() -> None:
    assert {call.op.name for call in cases()} | {"relax.arange"} == set(EVALUATORS)


REFUSED = {
    "an approximation inside": lambda: op.exp(constant(3)),
    "the order of a sum": lambda: op.sum(constant(3)),
    "a cast that does not fit": lambda: op.astype(of([300.0, 1.0]), "int8"),
    "a cast of NaN": lambda: op.astype(of([float("nan")]), "int32"),
    "a division by zero": lambda: op.floor_divide(of([1], "int32"), of([0], "int32")),
    "a truncating division": lambda: op.divide(of([-7], "int32"), of([2], "int32")),
    "the maximum of NaN": lambda: op.maximum(of([float("nan")]), of([1.0])),
    "a slice from the end": lambda: op.strided_slice(constant(5), [0], [-2], [5]),
    "a slice backwards": lambda: op.strided_slice(constant(5), [0], [4], [0], [-1]),
    "an index out of bounds": lambda: op.take(constant(3), of([3], "int64"), axis=0),
    "what int8 is computed with": lambda: op.dequantize(of([1, 2], "int8"), of(0.5), of(0, "int8")),
    "a scale of another type": lambda: op.dequantize(of(1, "int8"), of(0.5, "float16"), of(0, "int8")),
    "a difference beyond int32": lambda: op.dequantize(of(-(2**31), "int32"), of(0.5), of(1, "int32")),
    "how floats are counted": lambda: op.arange(0.0, 1.0, 0.1, "float32"),
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
