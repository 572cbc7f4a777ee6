"""Recipes of data movement: reshapes, permutations, slices, concatenations, look-ups."""

from __future__ import annotations

from functools import partial
from math import prod

from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import (
    EXTENTS,
    Recipe,
    Workbench,
    call_of,
    extents_of,
    rank_of,
)

__all__ = ["recipes"]


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {
        "relax.concat": _concat,
        "relax.stack": _stack,
        "relax.split": _split,
        "relax.reshape": _reshape,
        "relax.flatten": _flatten,
        "relax.nn.batch_flatten": _batch_flatten,
        "relax.permute_dims": _permute,
        "relax.expand_dims": _expand,
        "relax.squeeze": _squeeze,
        "relax.broadcast_to": _broadcast_to,
        "relax.strided_slice": _slice,
        "relax.flip": _flip,
        "relax.tile": _tile,
        "relax.repeat": _repeat,
        "relax.take": _take,
        "relax.nn.pad": _pad,
        "relax.triu": partial(_triangle, "relax.triu"),
        "relax.tril": partial(_triangle, "relax.tril"),
        "relax.meshgrid": _meshgrid,
        "relax.nn.dropout": _dropout,
        "relax.size": _size,
        "relax.shape_of": _shape_of,
        "relax.shape_to_tensor": _shape_to_tensor,
    }


def _axis(bench: Workbench, value: relax.Expr) -> int:
    """Any axis, counted from either end."""
    rank = rank_of(value)
    return bench.draw(st.integers(-rank, rank - 1))


def _concat(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    shape = list(extents_of(value))
    axis = _axis(bench, value)
    shape[axis] = bench.draw(st.sampled_from(EXTENTS))
    return relax.op.concat([value, bench.tensor(shape)], axis=axis)


def _stack(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None or rank_of(value) > 4:
        return None
    return relax.op.stack(
        [value, bench.tensor(extents_of(value))], axis=bench.draw(st.integers(0, rank_of(value)))
    )


def _split(bench: Workbench) -> relax.Expr | None:
    """One field of a split into equal parts, or into two at an index."""
    value = bench.value()
    if value is None:
        return None
    axis = bench.draw(st.integers(0, rank_of(value) - 1))
    extent = extents_of(value)[axis]
    if extent < 2:
        return None
    where: int | list[int] = extent if bench.draw(st.booleans()) else [bench.draw(st.integers(1, extent - 1))]
    return relax.TupleGetItem(relax.op.split(value, where, axis), bench.draw(st.integers(0, 1)))


def _reshape(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    first, *rest = extents_of(value)
    shapes = ((first, prod(rest)), (first * prod(rest),), (1, first, prod(rest)))
    return relax.op.reshape(value, bench.draw(st.sampled_from(shapes)))


def _flatten(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else relax.op.flatten(value)


def _batch_flatten(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None or rank_of(value) < 2 else relax.op.nn.batch_flatten(value)


def _permute(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    return relax.op.permute_dims(value, bench.draw(st.permutations(range(rank_of(value)))))


def _expand(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None or rank_of(value) > 4:
        return None
    return relax.op.expand_dims(value, bench.draw(st.integers(-1, rank_of(value))))


def _squeeze(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    ones = [axis for axis, extent in enumerate(extents_of(value)) if extent == 1] if value is not None else []
    if not 0 < len(ones) < (0 if value is None else rank_of(value)):
        return None
    return relax.op.squeeze(value, [bench.draw(st.sampled_from(ones))])


def _broadcast_to(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    wide = [bench.draw(st.sampled_from((1, 3))) if extent == 1 else extent for extent in extents_of(value)]
    front = [2] if rank_of(value) < 4 and bench.draw(st.booleans()) else []
    return relax.op.broadcast_to(value, [*front, *wide])


def _slice(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    axis = bench.draw(st.integers(0, rank_of(value) - 1))
    extent = extents_of(value)[axis]
    begin = bench.draw(st.integers(0, extent - 1))
    end = bench.draw(st.integers(begin + 1, extent))
    return relax.op.strided_slice(value, [axis], [begin], [end], [bench.draw(st.integers(1, 2))])


def _flip(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else relax.op.flip(value, _axis(bench, value))


def _tile(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None or prod(extents_of(value)) > 500:
        return None
    return relax.op.tile(value, [bench.draw(st.integers(1, 2)) for _axis in extents_of(value)])


def _repeat(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None or prod(extents_of(value)) > 500:
        return None
    return relax.op.repeat(
        value, bench.draw(st.integers(1, 3)), bench.draw(st.integers(0, rank_of(value) - 1))
    )


def _take(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    axis = bench.draw(st.integers(0, rank_of(value) - 1))
    shape = bench.draw(st.sampled_from(((1,), (3,), (2, 2))))
    dtype = bench.draw(st.sampled_from(("int32", "int64")))
    constant = bench.draw(st.booleans())
    indices = bench.tensor(shape, below=extents_of(value)[axis], dtype=dtype, constant=constant)
    return relax.op.take(value, indices, axis)


def _pad(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    widths = [bench.draw(st.integers(0, 2)) for _side in range(2 * rank_of(value))]
    return relax.op.nn.pad(value, widths, pad_value=bench.draw(st.sampled_from((0, 1))))


def _triangle(name: str, bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return (
        None if value is None or rank_of(value) < 2 else call_of(name)(value, bench.draw(st.integers(-1, 1)))
    )


def _meshgrid(bench: Workbench) -> relax.Expr | None:
    """One of two or three grids."""
    vectors = [
        bench.tensor([bench.draw(st.sampled_from(EXTENTS))]) for _axis in range(bench.draw(st.integers(2, 3)))
    ]
    return relax.TupleGetItem(relax.op.meshgrid(vectors, "ij"), bench.draw(st.integers(0, len(vectors) - 1)))


def _dropout(bench: Workbench) -> relax.Expr | None:
    """Its first field, which equals the operand at inference."""
    value = bench.value()
    return None if value is None else relax.TupleGetItem(relax.op.nn.dropout(value), 0)


def _size(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else relax.op.size(value)


def _shape_of(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else relax.op.shape_of(value)


def _shape_to_tensor(bench: Workbench) -> relax.Expr:
    extents = bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4))
    return relax.op.shape_to_tensor(relax.ShapeExpr(extents))
