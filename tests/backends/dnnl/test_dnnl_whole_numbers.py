"""Whole numbers and truth values in regions: TVM's answers, bit by bit; indices out of range."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import (
    Offloaded,
    external_functions,
    needs_onednn,
    offload,
    ops_on_host,
    run,
    single,
    tvm_alone,
)
from kits.backends.dnnl.whole_cases import WHOLE_CASES, WholeCase, whole_module
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl.rewriting.rewriter import verification
from annotated_region.testing.dnnl_verifier import verify


@cache
def offloaded() -> Offloaded:
    with verification(verify):
        return offload(whole_module())


@cache
def on_host() -> relax.VirtualMachine:
    return tvm_alone(whole_module())


@needs_onednn
@pytest.mark.parametrize("case", WHOLE_CASES, ids=lambda case: case.name)
def test_the_answer_is_that_of_tvm_to_the_last_bit(case: WholeCase) -> None:
    expected = run(on_host(), case.name, case.inputs)
    assert not ops_on_host(offloaded().module, case.name)
    for _ in range(2):
        for found, wanted in zip(offloaded().call(case.name, *case.inputs), expected, strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def var(name: str, dtype: str, *shape: object) -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


@needs_onednn
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_a_tensor_of_one_number_takes_its_extents_from_another(dtype: str) -> None:
    """Attention of an RWKV starts from one, and DETR adds one to its queries."""
    n = tirx.Var("n", "int64")
    x = var("x", "float32", n, 3)
    # Turned round, so that preparation does not let an operator repeat the number itself.
    filled = op.permute_dims(op.full_like(x, relax.const(-7, dtype), dtype))
    made = offload(single([x], relax.Tuple([filled, op.nn.relu(x)])))
    assert not ops_on_host(made.module)
    for rows in (1, 4):
        data = np.full((rows, 3), -1, "float32")
        found, rest = made.call("main", data)
        assert (found.dtype, rest.max()) == (np.dtype(dtype), 0)
        np.testing.assert_array_equal(found, np.full((3, rows), -7, dtype))


@needs_onednn
def test_truth_values_are_compared_although_tvm_cannot() -> None:
    x, y = var("x", "bool", 3, 1), var("y", "bool", 3, 4)
    left, right = np.random.default_rng(3).random((2, 3, 4)) < 0.5
    for compare, expected in ((op.equal, left[:, :1] == right), (op.not_equal, left[:, :1] != right)):
        (found,) = offload(single([x, y], compare(x, y))).call("main", left[:, :1].copy(), right)
        np.testing.assert_array_equal(found, expected)


@needs_onednn
@pytest.mark.parametrize("dtype", ["bool", "int32"])
def test_truth_values_add_up_although_tvm_cannot(dtype: str) -> None:
    x = var("x", dtype, 3, 7)
    given = np.random.default_rng(3).integers(0, 2, (3, 7)).astype(dtype)
    (found,) = offload(single([x], op.cumsum(x, 1, "int64"))).call("main", given)
    np.testing.assert_array_equal(found, np.cumsum(given, 1, "int64"))


@needs_onednn
@pytest.mark.parametrize("wrong", [-1, 5, 2**40, -(2**63)])
def test_an_index_out_of_range_is_an_error_that_names_it(wrong: int) -> None:
    """TVM reads what lies beside the tensor, or crashes."""
    x, i = var("x", "float32", 5, 4), var("i", "int64", 3)
    data, indices = np.ones((5, 4), "float32"), np.array([0, wrong, 2])
    for result in (
        op.take(x, i, 0),
        op.gather_elements(x, op.reshape(i, (3, 1)), 0),
        op.index_tensor(x, [i]),
    ):
        machine = offload(single([x, i], result))
        with pytest.raises(RuntimeError, match=f"index {wrong} is out of range for an axis of 5"):
            machine.call("main", data, indices)
        assert machine.call("main", data, np.array([0, 4, 2]))[0].all()


@needs_onednn
@pytest.mark.parametrize("wrong", [-6, 5, 2**40, -(2**63)])
def test_a_place_out_of_range_of_a_scatter_is_an_error_that_names_it(wrong: int) -> None:
    """TVM writes beside the tensor."""
    x, i, u = var("x", "float32", 5), var("i", "int64", 3), var("u", "float32", 3)
    data, indices, updates = np.ones(5, "float32"), np.array([0, wrong, 2]), np.array([7, 8, 9], "float32")
    for result in (
        op.scatter_elements(x, i, u),
        op.scatter_nd(x, op.expand_dims(i, 1), u),
        op.index_put(x, (i,), u),
    ):
        machine = offload(single([x, i, u], result))
        with pytest.raises(RuntimeError, match=f"index {wrong} is out of range for an axis of 5"):
            machine.call("main", data, indices, updates)
        assert machine.call("main", data, np.array([0, -1, 2]), updates)[0].tolist() == [7, 1, 9, 1, 8]


@needs_onednn
def test_fewer_places_than_elements_along_several_axes() -> None:
    """TVM takes the axes in front of that of the places, and those behind it, for one each."""
    rng = np.random.default_rng(4)
    data, updates = rng.standard_normal((4, 3, 5)), rng.standard_normal((2, 2, 3))
    places = rng.permuted(np.tile(np.arange(5), (2, 2, 1)), axis=2)[..., :3]
    x, i, u = var("x", "float32", 4, 3, 5), var("i", "int64", 2, 2, 3), var("u", "float32", 2, 2, 3)
    given = (data.astype("float32"), places, updates.astype("float32"))
    expected = given[0].copy()
    for row, column, item in np.ndindex(places.shape):
        expected[row, column, places[row, column, item]] = given[2][row, column, item]
    (found,) = offload(single([x, i, u], op.scatter_elements(x, i, u, 2))).call("main", *given)
    np.testing.assert_array_equal(found, expected)


@needs_onednn
def test_symbolic_axes_are_turned_round() -> None:
    n = tirx.Var("n", "int64")
    x = var("x", "float32", 2, n)
    made = offload(single([x], op.add(op.flip(x, 1), x)))
    assert not ops_on_host(made.module)
    for size in (3, 1, 5):
        data = np.random.default_rng(size).standard_normal((2, size)).astype("float32")
        np.testing.assert_array_equal(made.call("main", data)[0], data[:, ::-1] + data)


@needs_onednn
def test_reflection_of_more_than_a_short_axis_has_is_an_error() -> None:
    x = var("x", "float32", tirx.Var("n", "int64"))
    machine = offload(single([x], op.nn.pad(x, (2, 1), "reflect")))
    (found,) = machine.call("main", np.arange(4, dtype="float32"))
    assert found.tolist() == [2, 1, 0, 1, 2, 3, 2]
    with pytest.raises(RuntimeError, match="an axis of 2 cannot be padded with 2 of its reflected elements"):
        machine.call("main", np.arange(2, dtype="float32"))


@needs_onednn
def test_positions_and_a_causal_mask_of_any_length_are_part_of_the_region() -> None:
    length = tirx.Var("length", "int64")
    words, table = var("words", "int64", 2, length), np.random.default_rng(1).standard_normal((9, 8))
    positions = op.arange(0, length, 1, "int64")
    vectors = op.take(relax.const(table, "float32"), words, 0)
    seen = op.less_equal(op.expand_dims(positions, 0), op.expand_dims(positions, 1))
    masked = op.where(
        seen, op.matmul(vectors, op.permute_dims(vectors, [0, 2, 1])), relax.const(-1.0, "float32")
    )
    module = ar.partition(single([words], masked), ["dnnl"])
    assert len(external_functions(module)) == 1
    assert not ops_on_host(module)
    machine = relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())
    for size in (3, 1, 5):
        given = np.random.default_rng(size).integers(0, 9, (2, size))
        rows = table[given]
        expected = np.where(np.tri(size, dtype=bool), rows @ rows.transpose(0, 2, 1), -1)
        np.testing.assert_allclose(run(machine, "main", [given])[0], expected, rtol=1e-4, atol=1e-4)


def test_whole_numbers_alone_stay_on_the_host() -> None:
    """Shapes and masks are a few numbers, for which the call of a region is too much."""
    x, f = var("x", "int64", 3), var("f", "float32", 3)
    masks = op.less(op.add(x, x), x)
    module = single([x, f], op.where(masks, op.sin(op.nn.selu(f)), f))
    partitioned = ar.partition(module, ["dnnl"], prepare=False, cross_compile=True)
    (symbol,) = external_functions(partitioned)
    assert ops_on_host(partitioned) == {"nn.selu"}
    assert "sin" in ops_on_host(partitioned, symbol)
    lonely = single([x, f], relax.Tuple([op.add(x, x), op.nn.selu(f)]))
    assert not external_functions(ar.partition(lonely, ["dnnl"], prepare=False, cross_compile=True))


@pytest.mark.parametrize("like", [relax.op.full_like, relax.op.zeros_like, relax.op.ones_like])
def test_what_has_the_extents_of_doubles_stays_on_the_host(like) -> None:
    """A region would take the doubles as an input."""
    x = relax.Var("x", relax.TensorType((3, 4), "float64"))
    value = [relax.const(0.5, "float32")] if like is relax.op.full_like else []
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            filled = builder.emit(like(x, *value, dtype="float32"))
            out = builder.emit_output(relax.op.nn.relu(builder.emit(relax.op.exp(filled))))
        builder.emit_func_output(out)
    machine = relax.VirtualMachine(ar.build(ar.partition(builder.get(), ["dnnl"])).jit(), tvm.cpu())
    expected = np.exp({"full_like": 0.5, "zeros_like": 0.0, "ones_like": 1.0}[like.__name__])
    found = machine["main"](tvm.runtime.tensor(np.zeros((3, 4)))).numpy()
    np.testing.assert_allclose(found, np.full((3, 4), expected, "float32"), 1e-6)
