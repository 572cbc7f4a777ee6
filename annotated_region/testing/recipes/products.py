"""Recipes of matrix products and of einsum."""

from __future__ import annotations

from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import EXTENTS, Recipe, Workbench, extents_of

__all__ = ["recipes"]


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {"relax.matmul": _matmul, "relax.einsum": _einsum, "relax.outer": _outer}


def _matmul(bench: Workbench) -> relax.Expr | None:
    left = bench.value(bench.draw(st.sampled_from((2, 2, 3, 4, 1))))
    if left is None:
        return None
    *outer, inner = extents_of(left)
    columns = bench.draw(st.sampled_from(EXTENTS))
    batch = outer[:-1] if bench.draw(st.booleans()) else []
    tail = [inner] if bench.draw(st.integers(0, 7)) == 7 and len(outer) > 1 else [*batch, inner, columns]
    return relax.op.matmul(left, bench.tensor(tail, constant=bench.draw(st.integers(0, 3)) < 3))


def _einsum(bench: Workbench) -> relax.Expr | None:
    """Products of two matrices, including outer, inner and transposed products."""
    left = bench.value(2)
    if left is None:
        return None
    rows, inner = extents_of(left)
    other = bench.draw(st.sampled_from(EXTENTS))
    notation, shape = bench.draw(
        st.sampled_from((
            ("ij,jk->ik", (inner, other)),
            ("ij,kj->ki", (other, inner)),
            ("ij,ij->i", (rows, inner)),
            ("ij,kl->ijkl", (other, 2)),
        ))
    )  # fmt: skip
    return relax.op.einsum([left, bench.tensor(shape)], notation)


def _outer(bench: Workbench) -> relax.Expr | None:
    left = bench.value(1)
    return (
        None if left is None else relax.op.outer(left, bench.tensor([bench.draw(st.sampled_from(EXTENTS))]))
    )
