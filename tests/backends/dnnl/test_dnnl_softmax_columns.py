"""Softmax along rows whose elements are apart in memory, for few columns and for many."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import Offloaded, joined, needs_onednn, offload, run
from kits.passes.preparation.preparation_kit import module
from tvm.relax import op

SHAPES = [(197, 3), (7, 4), (64, 8), (2, 16), (5, 13), (33, 40), (9, 64), (10, 70), (3, 130)]
KINDS = ("softmax", "log_softmax")
CASES = [(shape, kind) for shape in SHAPES for kind in KINDS]


@cache
def columns() -> Offloaded:
    return offload(
        joined(
            [
                module(lambda _builder, x, kind=kind: getattr(op.nn, kind)(x, 0), x=shape)
                for shape, kind in CASES
            ]
        )
    )


def right(data: np.ndarray, kind: str) -> np.ndarray:
    rest = data.astype("float64") - data.max(0)
    logarithms: np.ndarray = rest - np.log(np.exp(rest).sum(0))
    return logarithms if kind == "log_softmax" else np.exp(logarithms)


def found(data: np.ndarray, shape: tuple[int, int], kind: str) -> np.ndarray:
    return run(columns().machine, f"case{CASES.index((shape, kind))}", [data])[0]


@needs_onednn
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_columns(shape: tuple[int, int], kind: str) -> None:
    data = np.random.default_rng(0).normal(0, 4, shape).astype("float32")
    np.testing.assert_allclose(found(data, shape, kind), right(data, kind), rtol=2e-6, atol=1e-6)


@needs_onednn
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(197, 3), (5, 13)])
def test_what_is_no_number_stays_in_its_column(shape: tuple[int, int], kind: str) -> None:
    data = np.random.default_rng(1).standard_normal(shape).astype("float32")
    expected = right(data, kind)
    data[2, 1], expected[:, 1] = np.nan, np.nan
    np.testing.assert_allclose(found(data, shape, kind), expected, rtol=2e-6, atol=1e-6)
