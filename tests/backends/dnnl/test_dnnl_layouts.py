"""Permuted operands with extents of one: each primitive reads and writes what its descriptors say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload
from tvm import relax
from tvm.relax import op

Shape = tuple[int, ...]
EXTENTS = (1, 1, 1, 2, 3, 4, 16)
RANDOM_CASES = 24


@dataclass(frozen=True, slots=True)
class Permuted:
    """What is computed of a permuted tensor `a` and of a tensor `b` as it is."""

    name: str
    a: Shape
    axes: Shape
    b: Shape
    make: Callable[[Any, Any], Any]
    exact: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(len(self.name) + sum(self.a))
        return [rng.integers(-8, 9, shape).astype("float32") / 4 for shape in (self.a, self.b)]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers: np.ndarray = np.exp(x - x.max(axis, keepdims=True))
    result: np.ndarray = np.divide(powers, powers.sum(axis, keepdims=True))
    return result


FORMS: dict[str, tuple[Callable[..., Any], Callable[..., np.ndarray]]] = {
    "product": (op.multiply, np.multiply),
    "sum_and_product": (
        lambda x, b: op.multiply(op.add(x, op.nn.relu(x)), b),
        lambda x, b: (x + np.maximum(x, 0)) * b,
    ),
    "prelu": (
        lambda x, b: op.nn.prelu(x, op.reshape(b, (b.ty.shape[1],)), 1),
        lambda x, b: np.where(x > 0, x, x * b),
    ),
    "softmax": (lambda x, b: op.add(op.nn.softmax(x, 1), b), lambda x, b: softmax(x, 1) + b),
    "sum": (lambda x, b: op.add(op.sum(x, 2, keepdims=True), b), lambda x, b: x.sum(2, keepdims=True) + b),
    "part": (
        lambda x, b: op.multiply(op.strided_slice(op.concat((x, x), 2), [2], [1], [2]), b),
        lambda x, b: np.concatenate((x, x), 2)[:, :, 1:2] * b,
    ),
}

NAMED = (
    ((1, 1, 4, 16), (0, 2, 1, 3), (1, 1, 1, 16)),
    ((1, 1, 4, 16), (0, 2, 1, 3), (1,)),
    ((1, 1, 4, 16), (0, 2, 1, 3), (1, 4, 1, 1)),
    ((1, 12, 4, 8), (1, 0, 2, 3), (12, 1, 1, 8)),
)


def random_cases() -> list[Permuted]:
    """For each form some shapes and permutations; `b` holds one number a channel."""
    rng = np.random.default_rng(16)
    cases = []
    for form, (make, exact) in FORMS.items():
        for index in range(RANDOM_CASES):
            rank = int(rng.integers(3, 6))
            shape = tuple(int(extent) for extent in rng.choice(EXTENTS, rank))
            axes = tuple(int(axis) for axis in rng.permutation(rank))
            channels = shape[axes[1]]
            b = (1, channels, *(1,) * (rank - 2))
            cases.append(Permuted(f"{form}_{index}", shape, axes, b, make, exact))
    return cases


CASES = [
    *(Permuted(f"named_{index}", *given, *FORMS["product"]) for index, given in enumerate(NAMED)),
    *random_cases(),
]


def module_of(cases: list[Permuted]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    for case in cases:
        a, b = (
            relax.Var(name, relax.TensorType(shape, "float32"))
            for name, shape in (("a", case.a), ("b", case.b))
        )
        with builder.function(case.name, [a, b]):
            with builder.dataflow():
                view = builder.emit(op.permute_dims(a, list(case.axes)))
                result = builder.emit_output(builder.normalize(case.make(view, b)))
            builder.emit_func_output(result)
    return builder.finalize()


@cache
def all_permuted() -> Offloaded:
    return offload(module_of(CASES))


@needs_onednn
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_permuted_operand(case: Permuted) -> None:
    """The result lies in memory full of NaN before, so that what is not written shows."""
    arrays = case.arrays()
    expected = case.exact(arrays[0].transpose(case.axes), arrays[1])
    (symbol,) = all_permuted().symbols_of(case.name)
    result = tvm.runtime.tensor(np.full(expected.shape, np.nan, "float32"))
    function = all_permuted().linked.get_function(symbol, query_imports=True)
    function(*(tvm.runtime.tensor(array) for array in arrays), result)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6, atol=1e-6)


def identity_and_relu(m: relax.Expr, builder: relax.BlockBuilder) -> list[relax.Expr]:
    """The mean over an extent of one shares its operand's memory, and is a result itself."""
    m = builder.emit(m)
    mean = builder.emit(op.mean(op.expand_dims(m, [1]), [4], keepdims=True))
    return [mean, builder.emit(op.nn.relu(op.reshape(m, (1, 1, 1, 1, 1))))]


def joined_twice(x: relax.Expr, builder: relax.BlockBuilder) -> list[relax.Expr]:
    """The parts have their columns one after the other, and the whole has not."""
    p = builder.emit(op.permute_dims(x, [1, 0]))
    return [builder.emit(op.concat((p, p, op.strided_slice(p, [0], [0], [1])), 0))]


def every_other(x: relax.Expr, builder: relax.BlockBuilder) -> list[relax.Expr]:
    """Two steps of two do not fit an extent of three."""
    return [builder.emit(op.nn.relu(op.strided_slice(x, [2], [0], [3], [2])))]


FOUND: dict[str, tuple[Callable[..., list[relax.Expr]], Shape, Callable[[np.ndarray], list[np.ndarray]]]] = {
    "identity_and_relu": (
        lambda x, builder: identity_and_relu(op.multiply(x, x), builder),
        (1, 1, 1, 1),
        lambda x: [(x * x)[None], (x * x)[None]],
    ),
    "joined_twice": (joined_twice, (2, 3), lambda x: [np.concatenate((x.T, x.T, x.T[:1]))]),
    "every_other": (every_other, (3, 3, 3), lambda x: [np.maximum(x[:, :, ::2], 0)]),
    "one_column": (
        lambda x, builder: [builder.emit(op.multiply(x, relax.const(np.array([[[[2, 3]]]], "float32"))))],
        (1, 2, 1, 2),
        lambda x: [x * np.array([2, 3], "float32")],
    ),
}
"""Graphs that random ones were cut down to."""


@cache
def all_found() -> Offloaded:
    builder = relax.BlockBuilder()
    for name, (make, shape, _) in FOUND.items():
        x = relax.Var("x", relax.TensorType(shape, "float32"))
        with builder.function(name, [x]):
            with builder.dataflow():
                results = [builder.emit_output(each) for each in make(x, builder)]
            builder.emit_func_output(relax.Tuple(results))
    return offload(builder.finalize())


@needs_onednn
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str) -> None:
    _, shape, exact = FOUND[name]
    x = np.random.default_rng(5).standard_normal(shape).astype("float32")
    for result, expected in zip(all_found().call(name, x), exact(x), strict=True):
        np.testing.assert_allclose(result, expected.reshape(result.shape), rtol=1e-6)
