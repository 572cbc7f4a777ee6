"""Rows that a mask selects, computed with and then put back or summed: all rows, and then the choice.

How many rows a mask selects depends on data, and Relax has no extent for that. Where each row of a result
depends on its own row only, all rows can be computed, and the mask chooses afterwards::

    x[mask] = f(x[mask], y[mask])     x = where(mask, f(x, y), x)
    f(x[mask]).sum()                  where(mask, f(x), 0).sum()

What becomes of the other rows is discarded: it may be infinite or NaN, but not an error, so that divisions
of integers are left alone, as are lookups in tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annotated_region.importing.torch_programs.nodes import argument_of, axes_of, name_of
from annotated_region.importing.torch_programs.row_ops import AllRows, selected_extents

if TYPE_CHECKING:
    from torch import fx

__all__ = ["compute_all_rows"]


def compute_all_rows(graph: fx.Graph) -> None:
    """Compute all rows where selected ones are put back or summed; the selections may be dead then."""
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            result = _put_back(graph, node) if name_of(node) == "index_put" else _summed(graph, node)
        if result is not None:
            node.replace_all_uses_with(result)


def _put_back(graph: fx.Graph, node: fx.Node) -> fx.Node | None:
    data, indices, value = node.args[:3]
    rows = AllRows.of(graph, indices[0]) if len(indices) == 1 and selected_extents(value) else None
    if rows is None or argument_of(node, 3, "accumulate"):
        return None
    whole = rows.whole(value)
    before = None if whole is None else rows.flat(data)
    if before is None:
        return None
    nodes, aten = rows.nodes, rows.nodes.aten
    chosen = nodes.call(aten.where.self, rows.spread(whole), whole, before)
    return nodes.call(aten.view.default, chosen, nodes.extents(data)) if rows.is_joined else chosen


def _summed(graph: fx.Graph, node: fx.Node) -> fx.Node | None:
    """A sum or a mean of the selected rows, maybe along other axes, too."""
    if name_of(node) not in ("sum", "mean") or not selected_extents(node.args[0]):
        return None
    value = node.args[0]
    axes, rows = axes_of(node, value.meta["val"].ndim), AllRows.behind(graph, value)
    if rows is None or axes[0] != 0 or argument_of(node, 3, "dtype") is not None:
        return None
    whole = rows.whole(value)
    if whole is None:
        return None
    nodes, aten = rows.nodes, rows.nodes.aten
    nothing = nodes.call(aten.full.default, [], 0, dtype=whole.meta["val"].dtype)
    kept = nodes.call(aten.where.self, rows.spread(whole), whole, nothing)
    total = nodes.call(aten.sum.dim_IntList, kept, axes, bool(argument_of(node, 2, "keepdim")))
    if name_of(node) == "sum":
        return total
    count = rows.count(whole, axes[1:])
    return None if count is None else nodes.call(aten.div.Tensor, total, count)
