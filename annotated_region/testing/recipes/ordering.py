"""Recipes of sorting, medians, and positions in a sorted vector.

Sorted values are new and distinct, because the order of equal ones is unspecified.
"""

from __future__ import annotations

from functools import partial

import numpy as np
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
        "relax.topk": _topk,
        "relax.sort": partial(_sorted, "relax.sort"),
        "relax.argsort": partial(_sorted, "relax.argsort"),
        "relax.median": _median,
        "relax.bucketize": _bucketize,
    }


def _different(bench: Workbench, most_axes: int = 4) -> relax.Expr | None:
    """A new tensor of distinct floats."""
    if not bench.dtype.startswith("float"):
        return None
    return bench.tensor(bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=most_axes)))


def _topk(bench: Workbench) -> relax.Expr | None:
    value = _different(bench)
    if value is None:
        return None
    axis = bench.draw(st.integers(0, rank_of(value) - 1))
    count = bench.draw(st.integers(1, extents_of(value)[axis]))
    dtype = bench.draw(st.sampled_from(("int32", "int64")))
    both = relax.op.topk(value, count, axis, "both", bench.draw(st.booleans()), dtype)
    return relax.TupleGetItem(both, bench.draw(st.integers(0, 1)))


def _sorted(name: str, bench: Workbench) -> relax.Expr | None:
    value = _different(bench)
    if value is None:
        return None
    axis = bench.draw(st.integers(-1, rank_of(value) - 1))
    return call_of(name)(value, axis, bench.draw(st.booleans()))


def _median(bench: Workbench) -> relax.Expr | None:
    """Along one axis, the median or its index."""
    value = _different(bench, 3)
    if value is None:
        return None
    axis = bench.draw(st.integers(0, rank_of(value) - 1))
    both = relax.op.median(value, axis, bench.draw(st.booleans()))
    return relax.TupleGetItem(both, bench.draw(st.integers(0, 1)))


def _bucketize(bench: Workbench) -> relax.Expr | None:
    """Boundaries in steps of a half, so that integer values can equal a boundary."""
    if bench.dtype in ("bool", "uint8"):
        return None
    value = bench.tensor(bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=3)))
    step = 0.5 if bench.dtype.startswith("float") else 1
    boundaries = (np.arange(bench.draw(st.integers(1, 6))) - 2) * step
    narrow, right = bench.draw(st.booleans()), bench.draw(st.booleans())
    return relax.op.bucketize(value, relax.const(boundaries.astype(bench.dtype)), narrow, right)
