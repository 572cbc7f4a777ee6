"""Sorts of integers for which TVM has no kernel give what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.errors import BuildError

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "uint32")


def extremes(dtype: str) -> np.ndarray:
    """Distinct numbers in no order, the least and the greatest of the type among them."""
    if dtype == "bool":
        return np.array([[True, False], [False, True]])
    limits = np.iinfo(dtype)
    return np.array([[7, limits.max, 3, limits.min, 100], [limits.max, 2, limits.max - 1, 5, 1]], dtype)


def called(make, numbers: np.ndarray) -> list[np.ndarray]:
    x = var("x", numbers.shape, numbers.dtype.name)
    machine = relax.VirtualMachine(ar.build(module([x], lambda _: make(x))), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(numbers))
    return [found.numpy()] if hasattr(found, "numpy") else [part.numpy() for part in found]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_sorted(dtype: str, descending: bool) -> None:
    numbers = extremes(dtype)
    step = -1 if descending else 1
    (values,) = called(lambda x: op.sort(x, descending=descending), numbers)
    (places,) = called(lambda x: op.argsort(x, descending=descending), numbers)
    expected = np.sort(numbers, axis=1)[:, ::step]
    assert values.dtype == numbers.dtype
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.take_along_axis(numbers, places.astype("int64"), 1), expected)


@pytest.mark.parametrize("results", ["both", "values", "indices"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_numbers_are_found(dtype: str, results: str) -> None:
    numbers = extremes(dtype)
    found = called(lambda x: op.topk(x, 2, ret_type=results), numbers)
    expected = np.sort(numbers, axis=1)[:, :-3:-1]
    if results != "indices":
        assert found[0].dtype == numbers.dtype
        np.testing.assert_array_equal(found[0], expected)
    if results != "values":
        np.testing.assert_array_equal(np.take_along_axis(numbers, found[-1].astype("int64"), 1), expected)


def test_numbers_without_a_wider_type_are_refused_by_name() -> None:
    with pytest.raises(BuildError, match=r"relax\.sort of uint64: TVM cannot sort uint64"):
        called(op.sort, extremes("uint64"))
