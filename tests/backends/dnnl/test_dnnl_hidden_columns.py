"""Attention of a prompt: later tokens, which a mask hides, are not read unless they make a difference."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload
from tvm import relax
from tvm.relax import op

TOKENS, HEADS, DEPTH = 300, 2, 8  # two blocks of rows
SHAPE = (1, TOKENS, HEADS, DEPTH)


@cache
def built(causal: bool) -> Offloaded:
    """Attention with a mask that is added, or one that sees the earlier tokens."""
    given = [relax.Var(name, relax.TensorType(SHAPE, "float32")) for name in "qkv"]
    bias = relax.Var("bias", relax.TensorType((1, 1, TOKENS, TOKENS), "float32"))
    parameters = given if causal else [*given, bias]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            result = op.nn.attention(*parameters, causal_mask="TopLeft" if causal else None)
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    return offload(builder.finalize())


def drawn(hidden: float = -1e30) -> list[np.ndarray]:
    """Queries, keys, values, and a mask of later tokens."""
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(SHAPE).astype("float32") for _ in range(3)]
    mask = np.triu(np.full((TOKENS, TOKENS), hidden, "float32"), 1)
    return [*data, mask[None, None]]


def expected_of(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The formula, in double precision."""
    q, k, v = (np.moveaxis(each[0], 1, 0).astype("float64") for each in (q, k, v))
    with np.errstate(invalid="ignore", over="ignore"):
        scores = q @ np.swapaxes(k, 1, 2) / np.sqrt(DEPTH) + mask[0].astype("float64")
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        result = powers / powers.sum(axis=2, keepdims=True) @ v
    rows: np.ndarray = np.moveaxis(result, 0, 1)[None]
    return rows


def hidden_by(value: float) -> list[np.ndarray]:
    return drawn(value)


def with_an_infinite_value() -> list[np.ndarray]:
    given = drawn()
    given[2][0, -1, 1, 3] = np.inf
    return given


def with_a_key_that_is_none() -> list[np.ndarray]:
    given = drawn()
    given[1][0, -1, 0, 3] = np.nan
    return given


def with_a_key_above_the_mask() -> list[np.ndarray]:
    given = drawn(-1e20)
    given[0][0, 5, 0], given[1][0, -1, 0] = 1e15, 1e15
    return given


def with_rows_that_see_nothing_else() -> list[np.ndarray]:
    given = drawn(-1e25)
    given[3][..., 7, :] = -1e25
    return given


CASES = {
    "added": hidden_by(-1e30),
    "infinite": hidden_by(-np.inf),
    "least": hidden_by(float(np.finfo("float32").min)),
    "infinite_value": with_an_infinite_value(),
    "key_is_none": with_a_key_that_is_none(),
    "key_above_the_mask": with_a_key_above_the_mask(),
    "sees_nothing_else": with_rows_that_see_nothing_else(),
}


@needs_onednn
@pytest.mark.parametrize("case", CASES)
def test_hidden_columns_make_the_difference_of_the_formula(case):
    (found,) = built(False).call("main", *CASES[case])
    np.testing.assert_allclose(found, expected_of(*CASES[case]), rtol=1e-4, atol=1e-5)


@needs_onednn
@pytest.mark.parametrize("value", [1.0, np.nan])
def test_later_tokens_count_as_nothing_unless_they_are_no_numbers(value):
    q, k, v, mask = drawn(-np.inf)
    v[0, -1, 1, 3] = value
    (found,) = built(True).call("main", q, k, v)
    np.testing.assert_allclose(found, expected_of(q, k, v, mask), rtol=1e-4, atol=1e-5)
