"""Recipes of ops that make a tensor of nothing but numbers."""

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
