"""Recipes of gathers and scatters. Writes without a reduction go to distinct positions."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import EXTENTS, Recipe, Workbench, extents_of, rank_of
from annotated_region.tvm_adapter.nodes import prim_value

__all__ = ["recipes"]

_REDUCTIONS = ("update", "add", "mul", "max", "min")


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {
        "relax.gather_elements": _gather_elements,
        "relax.gather_nd": _gather_nd,
        "relax.scatter_elements": _scatter_elements,
        "relax.scatter_nd": _scatter_nd,
        "relax.one_hot": _one_hot,
        "relax.index_tensor": _index_tensor,
        "relax.index_put": _index_put,
        "relax.slice_scatter": _slice_scatter,
        "relax.reverse_sequence": _reverse_sequence,
    }


def _gather_elements(bench: Workbench) -> relax.Expr | None:
    """Fewer or more elements than the extent along the axis, and at most the extents along the others."""
    value = bench.value()
    if value is None:
        return None
    extents = extents_of(value)
    axis = bench.draw(st.integers(0, len(extents) - 1))
    shape = [bench.draw(st.integers(1, extent)) for extent in extents]
    shape[axis] = bench.draw(st.sampled_from(EXTENTS))
    indices = bench.tensor(shape, below=extents[axis], dtype=bench.draw(st.sampled_from(("int32", "int64"))))
    return relax.op.gather_elements(value, indices, bench.draw(st.sampled_from((axis, axis - len(extents)))))


def _gather_nd(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    extents = extents_of(value)
    axes = bench.draw(st.integers(1, len(extents)))
    batches = bench.draw(st.integers(0, min(1, len(extents) - axes)))
    front = [*extents[:batches], *bench.draw(st.lists(st.sampled_from(EXTENTS), max_size=2))]
    below = min(extents[batches : batches + axes])
    indices = bench.tensor([*front, axes], below=below, dtype="int64")
    return relax.op.gather_nd(value, indices, batches)


def _scatter_elements(bench: Workbench) -> relax.Expr | None:
    """Along an axis, each position once, in a different order for each row."""
    value = bench.value()
    if value is None:
        return None
    extents = extents_of(value)
    axis = bench.draw(st.integers(0, len(extents) - 1))
    shape = list(extents)
    shape[axis] = bench.draw(st.integers(1, extents[axis]))
    numbers = np.indices(shape).sum(0) * bench.draw(st.sampled_from((1, -1))) % extents[axis]
    dtype = bench.draw(st.sampled_from(("int32", "int64")))
    indices = relax.const(numbers.astype(dtype))
    reduction = bench.draw(st.sampled_from(_REDUCTIONS))
    return relax.op.scatter_elements(value, indices, bench.tensor(shape), axis, reduction)


def _scatter_nd(bench: Workbench) -> relax.Expr | None:
    """Whole slices along the first axis, each once."""
    value = bench.value()
    if value is None:
        return None
    first, *rest = extents_of(value)
    chosen = bench.draw(st.lists(st.integers(0, first - 1), min_size=1, max_size=first, unique=True))
    indices = relax.const(np.asarray(chosen, "int64").reshape(-1, 1))
    updates = bench.tensor([len(chosen), *rest])
    return relax.op.scatter_nd(value, indices, updates, bench.draw(st.sampled_from(_REDUCTIONS)))


def _one_hot(bench: Workbench) -> relax.Expr | None:
    if bench.dtype != "float32":
        return None
    depth = bench.draw(st.sampled_from(EXTENTS))
    shape = bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=3))
    indices = bench.tensor(shape, below=depth, dtype="int64")
    axis = bench.draw(st.integers(-1, len(shape)))
    on, off = (prim_value(value) for value in bench.draw(st.sampled_from(((1.0, 0.0), (0.5, -2.0)))))
    return relax.op.one_hot(indices, on, off, depth, axis)


def _index_tensor(bench: Workbench) -> relax.Expr | None:
    """With one index tensor per axis, for the leading axes; the indices are broadcast together."""
    value = bench.value()
    if value is None:
        return None
    extents = extents_of(value)
    axes = bench.draw(st.integers(1, min(3, len(extents))))
    shapes = bench.draw(st.sampled_from((((3,), (3,), (3,)), ((2, 1), (1, 3), (1, 1)), ((4,), (1,), (4,)))))
    dtype = bench.draw(st.sampled_from(("int32", "int64")))
    indices = [
        bench.tensor(shape, below=extent, dtype=dtype, constant=bench.draw(st.booleans()))
        for shape, extent in zip(shapes[:axes], extents[:axes], strict=True)
    ]
    return relax.op.index_tensor(value, indices)


def _index_put(bench: Workbench) -> relax.Expr | None:
    """One element per position, all positions in different rows."""
    value = bench.value(2)
    if value is None or bench.dtype == "bool":
        return None
    rows, columns = extents_of(value)
    chosen = bench.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=rows, unique=True))
    dtype = bench.draw(st.sampled_from(("int32", "int64")))
    across = bench.tensor([len(chosen)], below=columns, dtype=dtype)
    places = (relax.const(np.asarray(chosen, dtype)), across)
    return relax.op.index_put(value, places, bench.tensor([len(chosen)]), bench.draw(st.booleans()))


def _slice_scatter(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    shape = list(extents_of(value))
    axis = bench.draw(st.integers(0, len(shape) - 1))
    begin = bench.draw(st.integers(0, shape[axis] - 1))
    end = bench.draw(st.integers(begin + 1, shape[axis]))
    step = bench.draw(st.integers(1, 2))
    shape[axis] = len(range(begin, end, step))
    return relax.op.slice_scatter(value, bench.tensor(shape), begin, end, step, axis)


def _reverse_sequence(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None or rank_of(value) < 2:
        return None
    along = bench.draw(st.sampled_from((0, 1)))
    extents = extents_of(value)
    lengths = [bench.draw(st.integers(1, extents[along])) for _row in range(extents[1 - along])]
    return relax.op.reverse_sequence(value, relax.const(np.asarray(lengths, "int64")), along, 1 - along)
