"""Kernels that do neighbouring runs, or parts of one, at once: blocks of columns, their tails, short runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import answered, needs_onednn
from tvm import relax
from tvm.relax import op

pytestmark = needs_onednn

COLUMNS = (2, 21, 7, 11)
"""A block of 64 columns inside of axis 1, and 13 more."""
LENGTHS = (1, 3, 20, 64, 65, 150)


def numbers(*shape: int) -> np.ndarray:
    """Few different numbers, both zeros, infinities and NaN, which some columns and rows lack."""
    lots = np.random.default_rng(3)
    drawn = lots.integers(-4, 5, shape).astype("float32") / np.float32(2)
    drawn[drawn == 0] *= lots.choice(np.asarray([1, -1], "float32"), (drawn == 0).sum())
    for odd in (np.nan, np.inf, -np.inf):
        drawn[lots.random(shape) < 0.02] = odd
    return drawn


IMAGE, ROWS = numbers(*COLUMNS), {length: numbers(70, length) for length in LENGTHS}
SMOOTH = np.random.default_rng(5).standard_normal(COLUMNS).astype("float32")
WIDE = numbers(3, 600)
OTHER = numbers(3, 1)

Case = tuple[Callable[[relax.Expr], relax.Expr], np.ndarray, np.ndarray]


def first(x: np.ndarray, axis: int, *, largest: bool, count: int = 1) -> np.ndarray:
    """NaN counts as the largest number; of equal numbers, the first one comes first."""
    keys = np.where(np.isnan(x), np.float32(1e9), np.nan_to_num(x, posinf=1e8, neginf=-1e8))
    order = np.argsort(-keys if largest else keys, axis, kind="stable")
    found: np.ndarray = order.take(np.arange(count), axis)
    return found


def topk(axis: int, largest: bool, count: int) -> Callable[[relax.Expr], relax.Expr]:
    return lambda x: op.topk(x, count, axis, "indices", largest, "int64")


def cumulated(x: np.ndarray, exclusive: bool) -> np.ndarray:
    whole = np.cumsum(x, 1, dtype="float32")
    return np.concatenate([np.zeros_like(whole[:, :1]), whole[:, :-1]], 1) if exclusive else whole


def shares(x: np.ndarray) -> np.ndarray:
    powers: np.ndarray = np.exp(x - x.max(1, keepdims=True), dtype="float64")
    found: np.ndarray = powers / powers.sum(1, keepdims=True)
    return found


@cache
def cases() -> dict[str, Case]:
    with np.errstate(invalid="ignore"):
        return made_cases()


def made_cases() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for largest in (True, False):
        name = "largest" if largest else "least"
        for count in (1, 2, 9):
            made[f"{count} {name} of columns"] = (
                topk(1, largest, count),
                IMAGE,
                first(IMAGE, 1, largest=largest, count=count),
            )
        for length, rows in ROWS.items():
            for count in {1, min(4, length), length}:
                made[f"{count} {name} of {length}"] = (
                    topk(1, largest, count),
                    rows,
                    first(rows, 1, largest=largest, count=count),
                )
    for name, reduce, by in (
        ("max", op.max, np.max),
        ("min", op.min, np.min),
        ("sum", op.sum, np.sum),
        ("product", op.prod, np.prod),
    ):
        made[f"{name} of columns"] = (lambda x, reduce=reduce: reduce(x, 1), IMAGE, by(IMAGE, 1))
        for length, rows in ROWS.items():
            made[f"{name} of {length}"] = (lambda x, reduce=reduce: reduce(x, 1), rows, by(rows, 1))
    for exclusive in (False, True):
        made[f"cumulated, exclusive {exclusive}"] = (
            lambda x, exclusive=exclusive: op.cumsum(x, 1, exclusive=exclusive),
            SMOOTH,
            cumulated(SMOOTH, exclusive),
        )
    made["softmax"] = (lambda x: op.nn.softmax(x, 1), SMOOTH, shares(SMOOTH))
    made["log softmax"] = (lambda x: op.nn.log_softmax(x, 1), SMOOTH, np.log(shares(SMOOTH)))
    zero, other = relax.const(0, "float32"), relax.const(OTHER)
    made["selected by numbers"] = (
        lambda x: op.where(op.greater(x, zero), x, zero),
        WIDE,
        np.where(WIDE > 0, WIDE, np.float32(0)),
    )
    made["selected by rows"] = (
        lambda x: op.where(op.greater(other, zero), x, other),
        WIDE,
        np.where(OTHER > 0, WIDE, OTHER),
    )
    made["selected from rows"] = (
        lambda x: op.where(op.less(x, zero), other, x),
        WIDE,
        np.where(WIDE < 0, OTHER, WIDE),
    )
    return made


@cache
def results() -> dict[str, np.ndarray]:
    """Of all cases, as one function of a few inputs."""
    inputs = {id(given): given for _, given, _ in cases().values()}

    def make(*params: relax.Var) -> relax.Expr:
        of = dict(zip(inputs, params, strict=True))
        return relax.Tuple([function(of[id(given)]) for function, given, _ in cases().values()])

    found, _ = answered(make, *inputs.values())
    return dict(zip(cases(), found, strict=True))


@pytest.mark.parametrize("name", cases())
def test_runs(name):
    _, _, expected = cases()[name]
    np.testing.assert_allclose(results()[name], expected, rtol=1e-5, atol=1e-6)


def test_a_cube_is_two_products():
    x = np.asarray([-2.5, -1.0, -0.0, 0.0, 0.3, 7.0, np.inf, -np.inf, np.nan], "float32")
    (found,), plan = answered(lambda base: relax.Tuple([op.power(base, relax.const(3.0, "float32"))]), x)
    np.testing.assert_allclose(found, x**3, rtol=1e-6)
    assert np.signbit(found[2])
    assert "multiply" in plan
