"""Selected rows that are scattered into a table: all rows, of which the others go to a row that is dropped.

Graph networks drop the edges from a node to itself, append one for each node, look up nodes by the edges, and
scatter what they compute (`GCNConv` and `GATConv` of PyTorch Geometric)::

    edges = cat([edges[:, mask], loops], 1)
    table.scatter_add(0, edges[1], x[edges[0]])

How many edges are left depends on data, and Relax has no extent for that. All are computed with: those that
the mask does not select look up the first row, and are scattered to a row before those of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annotated_region.importing.torch_programs.listed_rows import ListedRows, Listing
from annotated_region.importing.torch_programs.nodes import name_of
from annotated_region.importing.torch_programs.row_ops import selected_extents

if TYPE_CHECKING:
    from torch import fx

__all__ = ["scatter_all_rows"]

_TO_THE_END = (1 << 63) - 1


def scatter_all_rows(graph: fx.Graph) -> None:
    """Scatter all rows where selected ones are scattered; the selections may be dead then."""
    listing = Listing(graph)
    for node in list(graph.nodes):
        if name_of(node) not in ("scatter_add", "scatter_reduce", "index_add", "index_put"):
            continue
        with graph.inserting_before(node):
            result = _scattered(listing, node)
        if result is not None:
            node.replace_all_uses_with(result)


def _scattered(listing: Listing, node: fx.Node) -> fx.Node | None:
    """The table of all rows; None if no selected rows are scattered, or in another way."""
    table, place, rows, value = _operands(node)
    if rows is None or selected_extents(table) or not selected_extents(rows):
        return None
    listed = listing.rows(rows)
    axis = place % table.meta["val"].ndim
    is_list = name_of(node).startswith("index")
    if listed is None or listed.parts is None or listed.axis != (0 if is_list else axis):
        return None
    whole = _value(listing, value, listed, axis if is_list else listed.axis)
    if whole is None:
        return None
    aten, dtype = listing.aten, table.meta["val"].dtype
    extents = listing.extents(table)
    nothing = listing.call(
        node, aten.full.default, [*extents[:axis], 1, *extents[axis + 1 :]], 0, dtype=dtype
    )
    longer = listing.call(node, aten.cat.default, [nothing, table], axis)
    moved = listing.call(node, aten.add.Tensor, listed.whole, 1)
    if name_of(node) == "index_put":  # numbers from the end stay as they are
        is_from_end = listing.call(node, aten.lt.Scalar, listed.whole, 0)
        moved = listing.call(node, aten.where.self, is_from_end, listed.whole, moved)
    moved = listing.chosen(node, listed, moved)
    if name_of(node) == "index_put":
        args = [longer, [moved], whole, *node.args[3:]]
    else:
        args = [longer, place, moved, whole, *node.args[4:]]
    result = listing.call(node, node.target, *args, **node.kwargs)
    return listing.call(node, aten.slice.Tensor, result, axis, 1, _TO_THE_END)


def _operands(node: fx.Node) -> tuple[fx.Node, int, fx.Node | None, object]:
    """The table, its axis, the numbers of its rows, and what is scattered to them."""
    if name_of(node) != "index_put":
        table, place, rows, value = node.args[:4]
        return table, place, rows, value
    table, indices, value = node.args[:3]
    return table, 0, indices[0] if len(indices) == 1 else None, value


def _value(listing: Listing, value: object, listed: ListedRows, axis: int) -> object:
    """What is scattered of all rows; None if it has rows of another list."""
    if not selected_extents(value):
        is_alike = not getattr(getattr(value, "meta", {}).get("val"), "ndim", 0)
        return value if is_alike else None
    found = listing.rows(value)
    return found.whole if found is not None and found.axis == axis and listed.is_beside(found) else None
