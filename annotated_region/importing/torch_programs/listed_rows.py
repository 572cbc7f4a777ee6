"""Tensors of rows that a mask selects, and of others behind or before them, as tensors of all these rows."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from annotated_region.importing.torch_programs.nodes import NodeMaker, axes_of, name_of
from annotated_region.importing.torch_programs.row_ops import (
    is_counted,
    is_elementwise,
    is_same,
    selected_extents,
)
from annotated_region.tvm_adapter.types import expect

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["ListedRows", "Listing"]


RowPart: TypeAlias = "tuple[fx.Node, int | None]"
"""A mask, or a tensor of rows without a mask with their axis."""


@dataclass(frozen=True, slots=True)
class ListedRows:
    """A tensor of all rows.

    Attributes
    ----------
    whole
        The tensor.
    axis
        The axis of the rows.
    parts
        What the rows are joined of, in their order. None if all rows are alike: their order says nothing.
    """

    whole: fx.Node
    axis: int
    parts: tuple[RowPart, ...] | None

    def is_beside(self, other: ListedRows) -> bool:
        """Whether the rows of two tensors are those of the same list."""
        if self.parts is None or other.parts is None:
            return True
        pairs = zip(self.parts, other.parts, strict=False)
        return len(self.parts) == len(other.parts) and all(_is_alike(*pair) for pair in pairs)

    def with_whole(self, whole: fx.Node, axis: int | None = None) -> ListedRows:
        """Another tensor of these rows."""
        return ListedRows(whole, self.axis if axis is None else axis, self.parts)


@dataclass(frozen=True)
class Listing:
    """Computes with all rows what a program computes with lists of selected ones.

    Attributes
    ----------
    graph
        The graph; nodes are added where it inserts.
    """

    graph: fx.Graph
    _known: dict[fx.Node, ListedRows | None] = field(default_factory=dict)

    @property
    def aten(self) -> torch._ops._OpNamespace:
        """The operators of ATen."""
        return importlib.import_module("torch").ops.aten

    def call(self, like: fx.Node, target: Callable[..., object], *args: object, **kwargs: object) -> fx.Node:
        """A new node with the origin of another one."""
        return NodeMaker(self.graph, like).call(target, *args, **kwargs)

    def extents(self, tensor: fx.Node) -> list[object]:
        """The extents of a tensor: numbers, or nodes."""
        return NodeMaker(self.graph, tensor).extents(tensor)

    def kept(self, like: fx.Node, rows: ListedRows) -> fx.Node:
        """Whether each row is one of the program's."""
        assert rows.parts is not None
        torch = importlib.import_module("torch")
        masks = [
            part
            if axis is None
            else self.call(like, self.aten.full.default, [self.extents(part)[axis]], True, dtype=torch.bool)
            for part, axis in rows.parts
        ]
        return masks[0] if len(masks) == 1 else self.call(like, self.aten.cat.default, masks, 0)

    def chosen(self, like: fx.Node, rows: ListedRows, whole: fx.Node) -> fx.Node:
        """Numbers of rows, with 0 for the rows that the program does not have."""
        behind = whole.meta["val"].ndim - rows.axis - 1
        kept = self.kept(like, rows)
        if behind:
            kept = self.call(like, self.aten.view.default, kept, [-1, *[1] * behind])
        zero = self.call(like, self.aten.full.default, [], 0, dtype=whole.meta["val"].dtype)
        return self.call(like, self.aten.where.self, kept, whole, zero)

    def rows(self, node: fx.Node) -> ListedRows | None:
        """What a node computes of all rows; None if those of the program might differ."""
        if node not in self._known:
            listed = _BY_ROWS.get(name_of(node)) or (_elementwise if is_elementwise(node) else None)
            self._known[node] = listed(self, node) if listed else None
        return self._known[node]

    def number(self, value: object) -> object:
        """A number of rows, with all of them counted; None if it cannot be said."""
        if not selected_extents(value):
            return value
        node = expect(importlib.import_module("torch.fx").Node, value)
        if name_of(node) == "sym_size":
            tensor, axis = node.args
            rows = self.rows(tensor)
            if rows is None or rows.axis != axis:
                return None
            return self.call(tensor, self.aten.sym_size.int, rows.whole, axis)
        terms = [self.number(each) for each in node.args] if node.target is operator.add else [None]
        return None if None in terms else self.call(_tensor_behind(node), operator.add, *terms)


def _is_alike(one: RowPart, other: RowPart) -> bool:
    """Whether two parts are as many rows, selected by the same mask."""
    if one[1] is None or other[1] is None:
        return one[1] is other[1] and is_same(one[0], other[0])
    shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    extents = [node.meta["val"].shape[axis] for node, axis in ((one[0], one[1]), (other[0], other[1]))]
    return bool(shapes.statically_known_true(extents[0] == extents[1]))


def _tensor_behind(number: fx.Node) -> fx.Node:
    """The tensor whose extent a number is, or contains."""
    while name_of(number) != "sym_size":
        number = next(each for each in number.all_input_nodes if selected_extents(each))
    tensor: fx.Node = number.args[0]
    return tensor


def _indexed(listing: Listing, node: fx.Node) -> ListedRows | None:
    data, indices = node.args
    *before, last = indices
    if selected_extents(data) or any(each is not None for each in before):
        return None
    if str(last.meta["val"].dtype) == "torch.bool":
        is_selection = last.meta["val"].ndim == 1 and not selected_extents(last)
        return ListedRows(data, len(before), ((last, None),)) if is_selection else None
    return _looked_up(listing, node, data, len(before), last)


def _index_selected(listing: Listing, node: fx.Node) -> ListedRows | None:
    data, axis, rows = node.args
    return None if selected_extents(data) else _looked_up(listing, node, data, axis, rows)


def _looked_up(
    listing: Listing, node: fx.Node, data: fx.Node, axis: int, numbers: fx.Node
) -> ListedRows | None:
    """Rows of a table; a row that the program does not look up is its first one."""
    shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    rows, axis = listing.rows(numbers), axis % data.meta["val"].ndim
    is_list = rows is not None and rows.parts is not None and rows.whole.meta["val"].ndim == 1
    if rows is None or not is_list or not shapes.statically_known_true(data.meta["val"].shape[axis] > 0):
        return None
    found = listing.chosen(node, rows, rows.whole)
    args = [data, [*[None] * axis, found]] if name_of(node) == "index" else [data, axis, found]
    return rows.with_whole(listing.call(node, node.target, *args), axis)


def _joined(listing: Listing, node: fx.Node) -> ListedRows | None:
    tensors, axis = node.args[0], (node.args[1] if len(node.args) > 1 else 0) % node.meta["val"].ndim
    found = [listing.rows(each) if selected_extents(each) else None for each in tensors]
    known = [each for each in found if each is not None]
    if len(known) != sum(map(selected_extents, tensors)):
        return None
    wholes = [each if rows is None else rows.whole for each, rows in zip(tensors, found, strict=True)]
    first = known[0]
    if axis != first.axis:
        is_alike = all(each.axis == first.axis and first.is_beside(each) for each in known)
        if len(known) < len(found) or not is_alike:
            return None
        exact = next((each for each in known if each.parts is not None), first)
        return exact.with_whole(listing.call(node, listing.aten.cat.default, wholes, axis))
    parts: list[RowPart] = []
    for each, rows in zip(tensors, found, strict=True):
        if rows is not None and (rows.parts is None or rows.axis != axis):
            return None
        parts += [(each, axis)] if rows is None or rows.parts is None else rows.parts
    return ListedRows(listing.call(node, listing.aten.cat.default, wholes, axis), axis, tuple(parts))


def _filled(listing: Listing, node: fx.Node) -> ListedRows | None:
    """The same number in all rows."""
    axis = _counted_axis(node)
    extents = [listing.number(each) for each in node.args[0]]
    if axis is None or None in extents or any(map(selected_extents, node.args[1:])):
        return None
    return ListedRows(listing.call(node, node.target, extents, *node.args[1:], **node.kwargs), axis, None)


def _expanded(listing: Listing, node: fx.Node) -> ListedRows | None:
    data, extents = node.args
    rows, axis = listing.rows(data) if selected_extents(data) else None, _counted_axis(node)
    if rows is None or axis is None or axis - len(extents) != rows.axis - rows.whole.meta["val"].ndim:
        return None
    wanted = [-1 if place == axis else each for place, each in enumerate(extents)]
    return rows.with_whole(listing.call(node, node.target, rows.whole, wanted), axis)


def _viewed(listing: Listing, node: fx.Node) -> ListedRows | None:
    """A reshape that keeps the first axis."""
    data, extents = node.args
    rows = listing.rows(data) if selected_extents(data) else None
    is_first = rows is not None and rows.axis == 0 and _counted_axis(node) == 0
    (one, *_), (other, *behind) = (each.meta["val"].shape for each in (data, node))
    if rows is None or not is_first or one != other:
        return None
    others = behind if all(isinstance(each, int) for each in behind) else extents[1:]
    if any(map(selected_extents, others)) or -1 in others:
        return None
    return rows.with_whole(listing.call(node, node.target, rows.whole, [-1, *others]))


def _selected(listing: Listing, node: fx.Node) -> ListedRows | None:
    data, place, number = node.args
    rows, axis = listing.rows(data), place % data.meta["val"].ndim
    if rows is None or axis == rows.axis:
        return None
    whole = listing.call(node, node.target, rows.whole, axis, number)
    return rows.with_whole(whole, rows.axis - (axis < rows.axis))


def _sliced(listing: Listing, node: fx.Node) -> ListedRows | None:
    data, place, *others = node.args
    rows, axis = listing.rows(data), place % data.meta["val"].ndim
    if rows is None or axis == rows.axis or any(map(selected_extents, others)):
        return None
    return rows.with_whole(listing.call(node, node.target, rows.whole, axis, *others))


def _squeezed(listing: Listing, node: fx.Node) -> ListedRows | None:
    data = node.args[0]
    rows, axes = listing.rows(data), axes_of(node, data.meta["val"].ndim)
    if rows is None or rows.axis in axes:
        return None
    lost = sum(axis < rows.axis for axis in axes if data.meta["val"].shape[axis] == 1)
    return rows.with_whole(listing.call(node, node.target, rows.whole, axes), rows.axis - lost)


def _unsqueezed(listing: Listing, node: fx.Node) -> ListedRows | None:
    rows, axis = listing.rows(node.args[0]), node.args[1] % node.meta["val"].ndim
    if rows is None:
        return None
    return rows.with_whole(listing.call(node, node.target, rows.whole, axis), rows.axis + (axis <= rows.axis))


def _permuted(listing: Listing, node: fx.Node) -> ListedRows | None:
    rows = listing.rows(node.args[0])
    if rows is None:
        return None
    order = [each % node.meta["val"].ndim for each in node.args[1]]
    return rows.with_whole(listing.call(node, node.target, rows.whole, order), order.index(rows.axis))


def _reduced(listing: Listing, node: fx.Node) -> ListedRows | None:
    """A reduction or a softmax along other axes, all of them behind the rows."""
    data, *others = node.args
    rows = listing.rows(data) if selected_extents(data) else None
    if rows is None or any(axis <= rows.axis for axis in axes_of(node, data.meta["val"].ndim)):
        return None
    return rows.with_whole(listing.call(node, node.target, rows.whole, *others, **node.kwargs))


def _multiplied(listing: Listing, node: fx.Node) -> ListedRows | None:
    """A product of rows with a matrix, maybe with a bias."""
    *bias, data, matrix = node.args
    rows = listing.rows(data) if selected_extents(data) else None
    if rows is None or rows.axis != 0 or any(map(selected_extents, [*bias, matrix])):
        return None
    return rows.with_whole(listing.call(node, node.target, *bias, rows.whole, matrix, **node.kwargs))


def _elementwise(listing: Listing, node: fx.Node) -> ListedRows | None:
    axis = _counted_axis(node)
    if axis is None:
        return None
    behind = node.meta["val"].ndim - axis
    parts: dict[fx.Node, ListedRows] = {}
    for each in node.all_input_nodes:
        if not selected_extents(each):
            shape = getattr(each.meta["val"], "shape", ())
            if len(shape) >= behind and shape[-behind] != 1:
                return None
            continue
        rows = listing.rows(each)
        if rows is None or rows.whole.meta["val"].ndim - rows.axis != behind:
            return None
        parts[each] = rows
    first = next((each for each in parts.values() if each.parts is not None), next(iter(parts.values())))
    if not all(map(first.is_beside, parts.values())):
        return None
    nodes = importlib.import_module("torch.fx.node")
    wholes = {each: rows.whole for each, rows in parts.items()}
    args, kwargs = nodes.map_arg((node.args, node.kwargs), lambda each: wholes.get(each, each))
    return first.with_whole(listing.call(node, node.target, *args, **kwargs), axis)


def _counted_axis(node: fx.Node) -> int | None:
    """The only axis with selected rows; None if there are several, or none."""
    axes = [axis for axis, each in enumerate(node.meta["val"].shape) if is_counted(each)]
    return axes[0] if len(axes) == 1 else None


_BY_ROWS: Mapping[str, Callable[[Listing, fx.Node], ListedRows | None]] = {
    "index": _indexed,
    "index_select": _index_selected,
    "cat": _joined,
    "full": _filled,
    "expand": _expanded,
    "view": _viewed,
    "select": _selected,
    "slice": _sliced,
    "squeeze": _squeezed,
    "unsqueeze": _unsqueezed,
    "permute": _permuted,
    **dict.fromkeys(("_softmax", "_log_softmax", "sum", "mean", "amax", "amin"), _reduced),
    **dict.fromkeys(("mm", "addmm"), _multiplied),
}
"""Ops that are no elementwise functions."""
