"""Reductions over an extent that is 0 when they run are numpy's, not what the memory of the result held."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.passes.host_repairs.repairing import repaired

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
REDUCTIONS: dict[str, tuple[Callable[..., relax.Expr], Callable[..., np.ndarray]]] = {
    "sum": (lambda x: op.sum(x, [0]), lambda x: x.sum(0)),
    "sum_of_all": (op.sum, np.sum),
    "sum_that_keeps": (lambda x: op.sum(x, [-1, 0], True), lambda x: x.sum((2, 0), keepdims=True)),
    "prod": (lambda x: op.prod(x, [2]), lambda x: x.prod(2)),
    "mean": (lambda x: op.mean(x, [0]), lambda x: np.full(x.shape[1:], np.nan) if len(x) == 0 else x.mean(0)),
    "product": (
        lambda x: op.matmul(x, op.permute_dims(x, [0, 2, 1])),
        lambda x: x @ x.transpose(0, 2, 1),
    ),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_what_reduces_nothing_is_written(name: str) -> None:
    compute, expected = REDUCTIONS[name]
    x = var("x", (N, 3, M), "float32")
    machine = relax.VirtualMachine(ar.build(module([x], lambda _: compute(x))), tvm.cpu())
    for shape in ((0, 3, 2), (2, 3, 0), (2, 3, 2), (0, 3, 0), (2, 3, 0)):
        given = np.random.default_rng(4).standard_normal(shape).astype("float32")
        found = machine["main"](tvm.runtime.tensor(given)).numpy()
        np.testing.assert_allclose(found, expected(given), rtol=1e-5, atol=1e-6)


def test_numbers_need_no_repair() -> None:
    x = var("x", (N, 0, 3), "float32")
    made = module([x], lambda _: op.sum(x, [1, 2]))
    tvm.ir.assert_structural_equal(repaired(made), made)
