"""Scatters to boxes of constant indices become concatenations, and others stay scatters."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import becomes, module, ops, prepare, run, stays, values
from tvm import relax

from annotated_region.passes.preparation import fold_constants

op = relax.op


def grid(*axes: range) -> np.ndarray:
    """The indices of a box, in row-major order."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).astype("int64")


def scattered(
    shape: tuple[int, ...], places: np.ndarray, reduction: str = "update", dtype: str = "float32"
) -> tvm.IRModule:
    updates = (*places.shape[:-1], *shape[places.shape[-1] :])
    return module(
        lambda _builder, x, u: op.scatter_nd(x, relax.const(places, "int64"), u, reduction),
        dtype,
        x=shape,
        u=updates,
    )


BOXES = {
    "rows and columns": (
        (1, 2, 4, 5),
        grid(range(1), range(2), range(1, 4), range(1, 5)),
        np.s_[:, :, 1:, 1:],
    ),
    "the first row": ((4, 3), grid(range(1)), np.s_[:1]),
    "the last column": ((4, 3), grid(range(4), range(2, 3)), np.s_[:, 2:]),
    "between others": ((5, 6), grid(range(1, 3), range(2, 4)), np.s_[1:3, 2:4]),
    "the whole": ((2, 3), grid(range(2), range(3)), np.s_[:, :]),
    "one axis of two that are indexed": ((3, 4, 2), grid(range(3), range(1, 2)), np.s_[:, 1:2]),
}


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("flat", [False, True])
def test_a_box_is_assigned_without_indices(name: str, flat: bool) -> None:
    shape, places, where = BOXES[name]
    if flat:
        places = places.reshape(-1, places.shape[-1])
    mod = scattered(shape, places)
    after = prepare(mod)
    assert set(ops(after)) <= {"concat", "strided_slice", "reshape"}
    data = values(*shape)
    updates = values(*(*places.shape[:-1], *shape[places.shape[-1] :]), seed=1)
    expected = data.copy()
    expected[where] = updates.reshape(expected[where].shape)
    np.testing.assert_array_equal(run(after, data, updates)[0], expected)


def test_indices_may_be_too_many_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an exporter computes them, from the places along each axis."""
    monkeypatch.setattr(fold_constants, "FREE_ELEMENTS", 4)

    def body(_builder: relax.BlockBuilder, x: relax.Var, u: relax.Var) -> relax.Expr:
        rows = op.broadcast_to(relax.const([[[0]], [[1]], [[2]]], "int64"), (3, 2, 1))
        columns = op.broadcast_to(relax.const([[[1], [2]]], "int64"), (3, 2, 1))
        return op.scatter_nd(x, op.concat([rows, columns], -1), u)

    assert ops(prepare(module(body, x=(3, 4), u=(3, 2)))) == {"strided_slice": 2, "concat": 1}
    monkeypatch.setattr(fold_constants, "MOST_ELEMENTS", 23)
    assert ops(prepare(module(body, x=(3, 4), u=(3, 2))))["scatter_nd"] == 1


def test_a_part_of_indices_that_is_read_twice_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed for each reader, these indices would take 2^40 steps."""
    monkeypatch.setattr(fold_constants, "FREE_ELEMENTS", 2)

    def body(builder: relax.BlockBuilder, x: relax.Var, u: relax.Var) -> relax.Expr:
        indices = builder.emit(op.reshape(builder.emit(op.eye(3, 3, dtype="int64")), (9, 1)))
        for _ in range(40):
            twice = builder.emit(op.concat([indices, indices], 0))
            indices = builder.emit(op.strided_slice(twice, [0], [4], [13]))
        return op.scatter_nd(x, indices, u)

    assert ops(prepare(module(body, x=(3, 4), u=(9, 4))))["scatter_nd"] == 1


def test_the_parts_around_a_box_are_as_small_as_they_can_be() -> None:
    """The columns beside the box are taken of its rows alone."""

    def after(builder: relax.BlockBuilder, x: relax.Var, u: relax.Var) -> relax.Expr:
        before = builder.emit(op.strided_slice(x, [0, 1], [1, 0], [3, 3]))
        rows = builder.emit(op.concat([before, u], 1))
        above = builder.emit(op.strided_slice(x, [0], [0], [1]))
        below = builder.emit(op.strided_slice(x, [0], [3], [4]))
        return op.concat([above, rows, below], 0)

    mod = scattered((4, 5), grid(range(1, 3), range(3, 5)))
    becomes(mod, module(after, x=(4, 5), u=(2, 2)))


STAYING = {
    "in another order": scattered((4, 3), np.array([[1], [0]])),
    "with a gap": scattered((4, 3), np.array([[0], [2]])),
    "one place twice": scattered((4, 3), np.array([[1], [1]])),
    "out of bounds": scattered((4, 3), np.array([[3], [4]])),
    "counted from the end": scattered((4, 3), np.array([[-1]])),
    "added": scattered((4, 3), np.array([[1]]), "add"),
    "three axes in part": scattered((4, 4, 4), grid(range(2), range(2), range(2))),
    "at places that are given": module(
        lambda _builder, x, i, u: op.scatter_nd(x, op.astype(i, "int64"), u), x=(4, 3), i=(1, 1), u=(1, 3)
    ),
}


@pytest.mark.parametrize("name", STAYING)
def test_others_stay(name: str) -> None:
    stays(STAYING[name])


def test_a_batch_of_any_size_keeps_its_symbol() -> None:
    """Of the axes behind the indexed ones."""
    n = tvm.tirx.Var("n", "int64")
    x, u = (
        relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in (("x", (3, n)), ("u", (1, n)))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, u]):
        with builder.dataflow():
            result = builder.emit_output(op.scatter_nd(x, relax.const([[1]], "int64"), u))
        builder.emit_func_output(result)
    after = prepare(builder.get())
    assert ops(after) == {"strided_slice": 2, "concat": 1}
    data, updates = values(3, 5), values(1, 5, seed=1)
    expected = np.concatenate([data[:1], updates, data[2:]])
    np.testing.assert_array_equal(run(after, data, updates)[0], expected)
