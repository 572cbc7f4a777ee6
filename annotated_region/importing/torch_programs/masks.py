"""Assignments to the places at which a mask is true, as assignments by the mask.

PyTorch records ``x[torch.where(mask)] = value``, as OneFormer has it, by the places themselves, of which each
call has another number::

    places = nonzero(mask)
    x      = index_put(x, [squeeze(slice(places, 1, 0, 1), [1]), squeeze(slice(places, 1, 1, 2), [1])], value)
           = index_put(x, [mask], value)

Both assign the same values to the same elements, in the order of the places, if the mask has the extents of
the tensor; TVM has no tensor of places for the first.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["assign_by_masks"]


def assign_by_masks(graph: torch.fx.Graph) -> None:
    """Replace the places of masks by the masks wherever they are assigned to; the places may be dead then."""
    for node in graph.nodes:
        if str(node.target) != "aten.index_put.default" or (len(node.args) > 3 and node.args[3]):
            continue
        data, indices = node.args[:2]
        columns = [each for each in indices if each is not None]
        before = len(indices) - len(columns)
        mask = _mask_of(columns)
        if mask is not None and indices[before:] == columns and _fits(mask, data, before):
            node.args = (data, [*[None] * before, mask], *node.args[2:])


def _mask_of(columns: Sequence[torch.fx.Node]) -> torch.fx.Node | None:
    """The mask of whose places these are all coordinates, in their order."""
    origins = [_column(each) for each in columns]
    places = origins[0][0] if origins and origins[0] is not None else None
    if places is None or origins != [(places, number) for number in range(len(columns))]:
        return None
    (mask,) = places.args
    value = mask.meta["val"]
    is_whole = value.ndim == len(columns) and str(value.dtype) == "torch.bool"
    return mask if is_whole else None


def _column(node: torch.fx.Node) -> tuple[torch.fx.Node, int] | None:
    """The places, and which of their coordinates this is."""
    if str(node.target) == "aten.select.int":
        places, axis, number = node.args
        return (places, number) if axis == 1 and _is_places(places) else None
    if str(node.target) not in ("aten.squeeze.dims", "aten.squeeze.dim") or node.args[1] not in ([1], 1):
        return None
    part = node.args[0]
    if str(part.target) != "aten.slice.Tensor" or len(part.args) != 4:
        return None
    places, axis, begin, end = part.args
    return (places, begin) if axis == 1 and end == begin + 1 and _is_places(places) else None


def _is_places(node: torch.fx.Node) -> bool:
    return str(node.target) == "aten.nonzero.default"


def _fits(mask: torch.fx.Node, data: torch.fx.Node, before: int) -> bool:
    """Whether the mask has the extents of the tensor behind its first axes in each call."""
    shapes = importlib.import_module(
        "torch.fx.experimental.symbolic_shapes"
    )  # installed, since there is a graph
    extents, wanted = data.meta["val"].shape[before:], mask.meta["val"].shape
    pairs = zip(extents, wanted, strict=False)
    return len(extents) >= len(wanted) and all(shapes.statically_known_true(a == b) for a, b in pairs)
