"""Resolves negative indices, which count from the end in PyTorch.

Nothing is computed for indices that are never negative: nonnegative constants, and results of ``arange``,
``argmax``, ``topk``, ..., also through views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, dtype_of_tensor

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["from_the_front", "known_tensor", "known_values"]

_NEVER_NEGATIVE = frozenset(("argmax.default", "argmin.default", "argsort.default", "bucketize.Tensor"))
_PLACES_OF_TWO = frozenset(("topk.default", "sort.default", "max.dim", "min.dim"))
_MOVES = frozenset(
    [f"{name}.default" for name in ("view", "unsqueeze", "expand", "permute", "clone", "_to_copy", "alias")]
    + ["squeeze.dim", "squeeze.dims", "slice.Tensor", "select.int", "flip.default", "repeat.default"]
)
_LONGEST_CHAIN = 32


def from_the_front(
    node: TorchNode, places: relax.Expr, extent: int | relax.Expr, origin: object
) -> relax.Expr:
    """The nonnegative indices along an axis of an extent; `origin` is the node that computed them."""
    values = known_values(node, origin)
    if values is not None and isinstance(extent, int) and (values < 0).any():
        return relax.const(np.where(values < 0, values + extent, values), dtype_of_tensor(places))
    if (values is not None and not (values < 0).any()) or _is_never_negative(origin):
        return places
    dtype = dtype_of_tensor(places)
    length = node.number_as_tensor(extent, dtype)
    assert length is not None, extent
    behind = node.emit(relax.op.less(places, relax.const(0, dtype)))
    return node.emit(relax.op.where(behind, node.emit(relax.op.add(places, length)), places))


def known_values(node: TorchNode, origin: object) -> np.ndarray | None:
    """The indices if they are constants of the program; None if they are computed."""
    found = known_tensor(node, origin)
    return None if found is None else found.detach().numpy()


def known_tensor(node: TorchNode, origin: object) -> torch.Tensor | None:
    """A constant of the program, also behind copies; None if it is computed."""
    return node.constants.get(_source(origin).name) if hasattr(origin, "name") else None


def _source(origin: fx.Node) -> fx.Node:
    """The source of copies and views."""
    while _name(origin) in ("lift_fresh_copy.default", "clone.default", "alias.default", "detach.default"):
        origin = origin.all_input_nodes[0]
    return origin


def _is_never_negative(origin: object) -> bool:
    """Whether the results of a node are never negative."""
    for _ in range(_LONGEST_CHAIN):
        if not hasattr(origin, "all_input_nodes"):
            return False
        if _name(origin) not in _MOVES:
            return _makes_places(origin)
        origin = origin.all_input_nodes[0]
    return False


def _makes_places(origin: fx.Node) -> bool:
    name = _name(origin)
    if name == "getitem":
        return origin.args[1] == 1 and _name(origin.all_input_nodes[0]) in _PLACES_OF_TWO
    if name.startswith("arange."):
        return all(not isinstance(each, int | float) or each >= 0 for each in origin.args)
    if name.startswith("clamp"):
        least = origin.args[1] if len(origin.args) > 1 else origin.kwargs.get("min")
        return name != "clamp_max.default" and isinstance(least, int) and least >= 0
    return name in _NEVER_NEGATIVE


def _name(origin: object) -> str:
    return str(getattr(getattr(origin, "target", None), "__name__", ""))
