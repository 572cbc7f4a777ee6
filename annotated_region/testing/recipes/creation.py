"""Recipes of ops that create tensors without tensor operands."""

from __future__ import annotations

from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import EXTENTS, Recipe, Workbench

__all__ = ["recipes"]


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {
        "relax.zeros": lambda bench: relax.op.zeros(_shape(bench), bench.dtype),
        "relax.ones": lambda bench: relax.op.ones(_shape(bench), bench.dtype),
        "relax.full": _full,
        "relax.arange": _arange,
        "relax.eye": _eye,
        "relax.eye_like": _eye_like,
        "relax.hamming_window": _hamming_window,
    }


def _shape(bench: Workbench) -> list[int]:
    return bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4))


def _full(bench: Workbench) -> relax.Expr:
    return relax.op.full(_shape(bench), relax.const(1, bench.dtype), bench.dtype)


def _arange(bench: Workbench) -> relax.Expr | None:
    if bench.dtype == "bool":
        return None
    start, step = bench.draw(st.integers(0, 3)), bench.draw(st.integers(1, 3))
    return relax.op.arange(start, start + step * bench.draw(st.integers(1, 5)), step, bench.dtype)


def _eye(bench: Workbench) -> relax.Expr:
    rows, columns = (bench.draw(st.sampled_from(EXTENTS)) for _axis in range(2))
    return relax.op.eye(rows, columns, bench.draw(st.integers(-2, 2)), bench.dtype)


def _eye_like(bench: Workbench) -> relax.Expr | None:
    value = bench.value(2)
    return None if value is None else relax.op.eye_like(value, bench.draw(st.integers(-2, 2)))


def _hamming_window(bench: Workbench) -> relax.Expr | None:
    if not bench.dtype.startswith("float"):
        return None
    count = bench.draw(st.integers(2, 9))
    return relax.op.hamming_window(count, bench.draw(st.booleans()), 0.54, 0.46, bench.dtype)
