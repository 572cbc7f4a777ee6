"""Recipes of attention: more keys than queries, both kinds of masks, values with another head size."""

from __future__ import annotations

from functools import partial

from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import Recipe, Workbench, extents_of

__all__ = ["recipes"]


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {
        "relax.nn.attention": partial(_attention, False),
        "relax.nn.attention_bias": partial(_attention, True),
    }


def _attention(has_bias: bool, bench: Workbench) -> relax.Expr | None:
    """Attention over a value with the axes batch, row, head, depth."""
    queries = bench.value(4) if bench.dtype.startswith("float") else None
    if queries is None:
        return None
    batch, rows, heads, depth = extents_of(queries)
    columns = rows + bench.draw(
        st.sampled_from((0, 1, 4))
    )  # no fewer, so that each row attends to at least one key
    keys = bench.tensor([batch, columns, heads, depth])
    values = bench.tensor([batch, columns, heads, bench.draw(st.sampled_from((depth, 3)))])
    bias = bench.tensor(_bias_shape(bench, batch, heads, rows, columns)) if has_bias else None
    scale = bench.draw(st.sampled_from((None, 0.5)))
    mask = bench.draw(st.sampled_from((None, "TopLeft", "BottomRight")))
    return relax.op.nn.attention(queries, keys, values, bias, scale, mask)


def _bias_shape(bench: Workbench, batch: int, heads: int, rows: int, columns: int) -> list[int]:
    """The shape of the scores, or one that broadcasts to it."""
    whole = (batch, heads, rows)
    return [*(bench.draw(st.sampled_from((1, extent))) for extent in whole), columns]
