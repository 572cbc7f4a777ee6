"""Attention in a matrix unit: its operands are rounded to bfloat16, sums and exponentials are of float32."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
import tvm
from kits.backends import relax_kit
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload
from kits.backends.dnnl.processor_flags import processor_flags
from tvm import relax
from tvm.relax import op

UNIT = 2.0**-8
"""The largest relative error of rounding to bfloat16."""
UNIT_OF_SUMS = 2.0**-24
IN_TILES = "attention of bf16 in tiles"

in_a_matrix_unit = pytest.mark.skipif(
    not {"amx_tile", "amx_bf16"} <= processor_flags(), reason="the processor has no matrix unit for bfloat16"
)


@dataclass(frozen=True, slots=True)
class Case:
    """Attention of ``[batch, heads, rows, depth]`` to keys of `pairs` heads."""

    name: str
    batch: int
    heads: int
    pairs: int
    rows: int
    columns: int
    depth: int
    width: int
    mask: str = ""


CASES = [
    Case("whole tiles", 1, 2, 2, 64, 96, 32, 64),
    Case("a part of each tile", 2, 3, 3, 39, 41, 17, 5),
    Case("a row and a column behind tiles", 1, 1, 1, 33, 65, 33, 33),
    Case("a row in front of half a block", 1, 2, 2, 17, 16, 8, 16),
    Case("heads that share keys", 2, 6, 2, 40, 70, 40, 24),
    Case("later keys are hidden", 1, 2, 1, 100, 100, 24, 24, "later"),
    Case("the last keys are hidden", 2, 2, 2, 48, 90, 24, 24, "last"),
    Case("each row hides others", 1, 2, 2, 50, 50, 24, 24, "some"),
]
ALL = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def module_of(case: Case, dtype: str = "float32") -> tvm.IRModule:
    """Softmax of scaled and masked scores, times values."""
    shapes = (case.rows, case.depth), (case.columns, case.depth), (case.columns, case.width)
    heads = (case.heads, case.pairs, case.pairs)
    params = [
        relax_kit.var(name, (case.batch, count, *shape), dtype)
        for name, count, shape in zip("qkv", heads, shapes, strict=True)
    ]
    if case.mask:
        params.append(relax_kit.var("mask", (case.batch, 1, case.rows, case.columns), dtype))

    def make(builder: relax.BlockBuilder) -> relax.Expr:
        keys = _for_all_heads(builder, case, params[1], case.depth)
        values = _for_all_heads(builder, case, params[2], case.width)
        scores = op.multiply(
            op.matmul(params[0], op.permute_dims(keys, [0, 1, 3, 2])),
            relax.const(np.asarray(scale_of(case), "float32").astype(dtype), dtype),
        )
        if case.mask:
            scores = op.add(scores, params[3])
        return op.matmul(op.nn.softmax(scores, -1), values)

    return relax_kit.module(params, make)


def _for_all_heads(builder: relax.BlockBuilder, case: Case, x: relax.Expr, last: int) -> relax.Expr:
    if case.heads == case.pairs:
        return x
    each = case.heads // case.pairs
    x = builder.emit(op.reshape(x, [case.batch, case.pairs, 1, case.columns, last]))
    x = builder.emit(op.broadcast_to(x, [case.batch, case.pairs, each, case.columns, last]))
    return builder.emit(op.reshape(x, [case.batch, case.heads, case.columns, last]))


def scale_of(case: Case) -> float:
    return 0.25 if case.depth >= 16 else 0.5


def drawn(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(case.rows)
    given = [
        rng.standard_normal((case.batch, count, size, last))
        for count, size, last in (
            (case.heads, case.rows, case.depth),
            (case.pairs, case.columns, case.depth),
            (case.pairs, case.columns, case.width),
        )
    ]
    if case.mask:
        row, column = np.ogrid[: case.rows, : case.columns]
        hidden = {
            "later": column > row,
            "last": column >= 37,
            "some": rng.random((case.rows, case.columns)) < 0.5,
        }
        mask = np.where(hidden[case.mask] & (column > 0), np.finfo("float32").min, 0)
        given.append(np.broadcast_to(mask, (case.batch, 1, case.rows, case.columns)))
    return [np.ascontiguousarray(each, "float32") for each in given]


def expected_of(case: Case, given: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The result in double precision, and how far rounded operands may be from it.

    Each factor of a score is off by a unit, so that a weight is off by the power of what its score and the
    largest one are off; weights, their sum and the values are off by a unit each.
    """
    queries, keys, values = (each.astype("float64") for each in given[:3])
    keys, values = (np.repeat(each, case.heads // case.pairs, axis=1) for each in (keys, values))
    mask = given[3].astype("float64") if case.mask else 0.0
    scale = scale_of(case)
    scores = np.einsum("bhsd,bhnd->bhsn", queries, keys) * scale + mask
    sizes = np.einsum("bhsd,bhnd->bhsn", np.abs(queries), np.abs(keys)) * scale
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    off = np.where(shares > 0, sizes, 0).max(-1, keepdims=True) * ((1 + UNIT) ** 2 - 1)
    largest = np.einsum("bhsn,bhnd->bhsd", shares, np.abs(values))
    allowed = (np.exp(2 * off) * (1 + UNIT) ** 2 - 1 + 2 * case.columns * UNIT_OF_SUMS) * largest
    return np.einsum("bhsn,bhnd->bhsd", shares, values), allowed


def plan_of(offloaded: Offloaded) -> str:
    (symbol,) = offloaded.symbols_of("main")
    return "\n".join(offloaded.plan(symbol))


@needs_onednn
@in_a_matrix_unit
@ALL
def test_the_error_is_that_of_rounded_operands(case):
    given = drawn(case)
    offloaded = offload(module_of(case), precision="bf16")
    (found,) = offloaded.call("main", *given)
    assert IN_TILES in plan_of(offloaded)
    expected, allowed = expected_of(case, given)
    assert (np.abs(found - expected) <= allowed).all()
    rms = np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2))
    assert UNIT / 64 < rms < 2 * UNIT  # rounded, but not wrong within a bound that counts the worst case


@needs_onednn
@in_a_matrix_unit
@ALL
def test_a_module_of_bfloat16_needs_no_option(case):
    given = [each.astype(ml_dtypes.bfloat16) for each in drawn(case)]
    offloaded = offload(module_of(case, "bfloat16"))
    (found,) = offloaded.call("main", *given)
    assert IN_TILES in plan_of(offloaded)
    expected, allowed = expected_of(case, [each.astype("float32") for each in given])
    assert (np.abs(found.astype("float32") - expected) <= allowed + UNIT * np.abs(expected)).all()


@needs_onednn
def test_without_the_option_nothing_is_rounded():
    case = CASES[0]
    given = drawn(case)
    offloaded = offload(module_of(case))
    (found,) = offloaded.call("main", *given)
    assert IN_TILES not in plan_of(offloaded)
    np.testing.assert_allclose(found, expected_of(case, given)[0], rtol=1e-4, atol=1e-5)


@needs_onednn
@in_a_matrix_unit
def test_what_is_hidden_may_be_no_number():
    """A value that is no number times a weight of zero is none."""
    case = next(each for each in CASES if each.mask == "last")
    given = drawn(case)
    given[2][0, 1, 60, 3] = np.nan
    (found,) = offload(module_of(case), precision="bf16").call("main", *given)
    expected = np.zeros(found.shape, bool)
    expected[0, 1, :, 3] = True
    np.testing.assert_array_equal(np.isnan(found), expected)


@needs_onednn
@in_a_matrix_unit
def test_a_row_without_shown_keys_reads_all_of_them():
    """All scores are masked by the same number, so that each key has a weight again."""
    case = next(each for each in CASES if each.mask == "last")
    given = drawn(case)
    given[3][0, 0, 5] = -1e20
    given[0][0, :, 5] = 0
    (found,) = offload(module_of(case), precision="bf16").call("main", *given)
    np.testing.assert_allclose(found[0, :, 5], given[2][0].mean(1), atol=UNIT)


@needs_onednn
@in_a_matrix_unit
def test_few_rows_stay_in_float32():
    """They are bound by memory, and a tile has sixteen rows."""
    case = Case("few rows", 1, 2, 2, 3, 90, 24, 24)
    given = drawn(case)
    offloaded = offload(module_of(case), precision="bf16")
    (found,) = offloaded.call("main", *given)
    assert IN_TILES not in plan_of(offloaded)
    np.testing.assert_allclose(found, expected_of(case, given)[0], rtol=1e-4, atol=1e-5)
