"""Attention of a few queries to many keys, which may come in two parts, against numpy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload
from tvm import relax
from tvm.relax import op

from annotated_region.backends.dnnl.rewriting.rewriter import verification
from annotated_region.testing.dnnl_verifier import verify

CACHES = {"rows first": False, "heads first": True}
SHAPES = [(1, 4, 2, 16, 24), (2, 3, 3, 7, 5), (1, 10, 2, 64, 64), (3, 4, 1, 33, 17)]
"""Batch, heads, heads of keys, depth, width; of rows first, the batch is one."""


def module_of(shape: tuple[int, ...], heads_first: bool, masked: bool, is_result: bool) -> tvm.IRModule:
    """Keys and values [pairs, n, depth] or [n, pairs, depth], those of earlier tokens and of new ones."""
    batch, heads, pairs, depth, width = shape
    new, past = tvm.tirx.Var("s", "int64"), tvm.tirx.Var("n", "int64")

    def parameter(name: str, count: tvm.tirx.Expr, last: int) -> relax.Var:
        extents = [batch, pairs, count, last] if heads_first else [count, pairs, last]
        return relax.Var(name, relax.TensorType(extents, "float32"))

    queries = relax.Var("q", relax.TensorType([batch, heads, new, depth], "float32"))
    mask = relax.Var("mask", relax.TensorType([batch, 1, new, past + new], "float32"))
    cache = [parameter(*each) for each in (("pk", past, depth), ("pv", past, width))]
    fresh = [parameter(*each) for each in (("k", new, depth), ("v", new, width))]
    builder = relax.BlockBuilder()
    parameters = [queries, *cache, *fresh, *([mask] if masked else [])]
    with builder.function("main", parameters):
        with builder.dataflow():
            joined = [
                builder.emit(op.concat(parts, 2 if heads_first else 0))
                for parts in zip(cache, fresh, strict=True)
            ]
            keys, values = (
                _for_all_heads(builder, x, shape, last, heads_first, past + new)
                for x, last in zip(joined, (depth, width), strict=True)
            )
            scores = builder.emit(op.matmul(queries, builder.emit(op.permute_dims(keys, [0, 1, 3, 2]))))
            scores = builder.emit(op.multiply(scores, relax.const(np.float32(0.3))))
            if masked:
                scores = builder.emit(op.add(scores, mask))
            result = builder.emit(op.matmul(builder.emit(op.nn.softmax(scores, -1)), values))
            results = [result, *joined] if is_result else [result]
            outputs = [builder.emit_output(op.multiply(each, relax.const(np.float32(1)))) for each in results]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.finalize()


def _for_all_heads(builder, x, shape, last, heads_first, count):
    batch, heads, pairs = shape[:3]
    if not heads_first:
        x = builder.emit(op.permute_dims(x, [1, 0, 2]))
    x = builder.emit(op.reshape(x, [batch, pairs, 1, count, last]))
    x = builder.emit(op.broadcast_to(x, [batch, pairs, heads // pairs, count, last]))
    return builder.emit(op.reshape(x, [batch, heads, count, last]))


def drawn(shape, heads_first: bool, past: int, new: int, masked: bool) -> list[np.ndarray]:
    batch, heads, pairs, depth, width = shape
    rng = np.random.default_rng(past + new)

    def rows(count: int, last: int) -> np.ndarray:
        return rng.standard_normal((batch, pairs, count, last) if heads_first else (count, pairs, last))

    given = [rng.standard_normal((batch, heads, new, depth))]
    given += [rows(count, last) for count in (past, new) for last in (depth, width)]
    if masked:
        hidden = rng.random((batch, 1, new, past + new)) < 0.4
        hidden[..., past:] = False
        given.append(np.where(hidden, -np.inf, rng.standard_normal(hidden.shape)))
    return [each.astype("float32") for each in given]


def expected_of(shape, heads_first: bool, given: list[np.ndarray]) -> np.ndarray:
    queries, *parts = (each.astype("float64") for each in given)
    axis = 2 if heads_first else 0
    keys, values = (np.concatenate(parts[i:4:2], axis) for i in (0, 1))
    if not heads_first:
        keys, values = (each.transpose(1, 0, 2)[None] for each in (keys, values))
    keys, values = (np.repeat(each, shape[1] // shape[2], axis=1) for each in (keys, values))
    scores = np.einsum("bhsd,bhnd->bhsn", queries, keys) * 0.3 + (parts[4] if len(parts) > 4 else 0)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    found: np.ndarray = np.einsum("bhsn,bhnd->bhsd", shares / shares.sum(-1, keepdims=True), values)
    return found


def built(*settings) -> tuple[Offloaded, str]:
    with verification(verify):
        offloaded = offload(module_of(*settings))
    (symbol,) = offloaded.symbols_of("main")
    return offloaded, symbol


@needs_onednn
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_keys_in_two_parts_are_read_where_they_lie(shape, cache):
    """One new token, some, and a prompt; fewer keys than a thread takes at a time, and more."""
    heads_first = CACHES[cache]
    shape = shape if heads_first else (1, *shape[1:])
    offloaded, symbol = built(shape, heads_first, True, False)
    for past, new in ((1, 1), (300, 1), (1000, 1), (255, 2), (256, 8), (40, 9), (3, 70)):
        given = drawn(shape, heads_first, past, new, True)
        (found,) = offloaded.call("main", *given)
        np.testing.assert_allclose(found, expected_of(shape, heads_first, given), rtol=1e-4, atol=1e-5)
        plan = "\n".join(offloaded.plan(symbol))
        assert ("attention of few rows" in plan) == (new <= 8)
        assert "concat" not in plan


@needs_onednn
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("cache", CACHES)
def test_a_plan_serves_any_number_of_earlier_keys(cache, masked):
    """Also none, in the call that makes the plan; a prompt has plans of its own."""
    heads_first, shape = CACHES[cache], (1, 10, 2, 64, 40)
    offloaded, symbol = built(shape, heads_first, masked, False)
    plans, tokens = [], ((0, 1), (700, 1), (1, 1), (33, 1), (5000, 1), (7, 3), (0, 3), (600, 3))
    for past, new in (*tokens, (20, 9), (21, 9)):
        given = drawn(shape, heads_first, past, new, masked)
        (found,) = offloaded.call("main", *given)
        np.testing.assert_allclose(found, expected_of(shape, heads_first, given), rtol=1e-4, atol=1e-5)
        plans.append(offloaded.query(symbol, "plan_count"))
    assert plans == [1, 1, 1, 1, 1, 2, 2, 2, 3, 4]


@needs_onednn
def test_keys_that_something_else_reads_have_plans_of_their_own():
    """Something else than attention depends on the number of earlier keys: here the caller sees them."""
    offloaded, symbol = built(SHAPES[0], True, False, True)
    for past in (5, 6, 7):
        offloaded.call("main", *drawn(SHAPES[0], True, past, 1, False))
    assert offloaded.query(symbol, "plan_count") == 3


@needs_onednn
def test_keys_that_the_caller_wants_are_concatenated_and_read():
    shape = SHAPES[0]
    offloaded, symbol = built(shape, True, False, True)
    for past, new in ((300, 1), (20, 12)):
        given = drawn(shape, True, past, new, False)
        found, keys, values = offloaded.call("main", *given)
        np.testing.assert_allclose(found, expected_of(shape, True, given), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(keys, np.concatenate(given[1::2], 2))
        np.testing.assert_array_equal(values, np.concatenate(given[2::2], 2))
        assert ("attention of few rows" in "\n".join(offloaded.plan(symbol))) == (new == 1)


@needs_onednn
def test_rows_that_see_nothing_or_no_number_are_none():
    """The first keys are hidden in one query; another sees none, and a score of the third is no number."""
    shape = (1, 2, 1, 16, 16)
    offloaded, _symbol = built(shape, True, True, False)
    given = drawn(shape, True, 600, 3, True)
    given[5][0, 0, 0, :300] = -np.inf
    given[5][0, 0, 1] = -np.inf
    given[5][0, 0, 2, 5] = np.nan
    with np.errstate(invalid="ignore"):
        expected = expected_of(shape, True, given)
    (found,) = offloaded.call("main", *given)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.isnan(found[0, :, 1:]).all()


@needs_onednn
@pytest.mark.parametrize("stacks", [((1, 4), (1, 4)), ((1, 4), (3, 4)), ((3, 1), (3, 4))], ids=str)
def test_keys_of_one_batch_or_head_serve_all(stacks):
    """Whole keys and values, whose batches and heads are repeated for the queries."""
    extents = [(3, 4, 2, 16), (*stacks[0], 16, 50), (*stacks[1], 50, 16)]
    queries, keys, values = (
        relax.Var(name, relax.TensorType(each, "float32")) for name, each in zip("qkv", extents, strict=True)
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [queries, keys, values]):
        with builder.dataflow():
            shares = builder.emit(op.nn.softmax(builder.emit(op.matmul(queries, keys)), -1))
            output = builder.emit_output(op.matmul(shares, values))
        builder.emit_func_output(output)
    given = [np.random.default_rng(0).standard_normal(each).astype("float32") for each in extents]
    (found,) = offload(builder.finalize()).call("main", *given)
    scores = given[0].astype("float64") @ given[1]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ given[2]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
