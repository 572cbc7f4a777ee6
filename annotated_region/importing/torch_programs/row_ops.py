"""Ops of selected rows as ops of all rows, where each row of a result depends on its own row only."""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING

from annotated_region.importing.torch_programs.nodes import NodeMaker, axes_of, is_whole_division, name_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["AllRows", "is_counted", "is_elementwise", "is_same", "selected_extents"]

_COPIES = {"_to_copy", "clone", "alias"}


@dataclass(frozen=True)
class AllRows:
    """Computes with all rows what a program computes with those that a mask selects.

    Attributes
    ----------
    nodes
        Makes the nodes.
    mask
        The truth values of the first axes.
    """

    nodes: NodeMaker
    mask: fx.Node
    _known: dict[fx.Node, fx.Node | None] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: fx.Graph, mask: object) -> AllRows | None:
        """With a mask; None if it is another index."""
        value = getattr(mask, "meta", {}).get("val")
        return cls(NodeMaker(graph, mask), mask) if str(getattr(value, "dtype", "")) == "torch.bool" else None

    @classmethod
    def behind(cls, graph: fx.Graph, value: fx.Node) -> AllRows | None:
        """With the mask that selects the rows from which a value is computed; None if there is none."""
        waiting, seen = [value], {value}
        while waiting:
            node = waiting.pop()
            if name_of(node) == "index":
                return cls.of(graph, node.args[1][0]) if len(node.args[1]) == 1 else None
            fresh = [each for each in node.all_input_nodes if each not in seen and selected_extents(each)]
            seen.update(fresh)
            waiting += fresh
        return None

    @property
    def is_joined(self) -> bool:
        """Whether the mask has several axes, which become one."""
        return bool(self.mask.meta["val"].ndim > 1)

    def flat(self, data: fx.Node) -> fx.Node | None:
        """A tensor with one axis in place of those of the mask; None if it may have other extents."""
        shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
        wanted = self.mask.meta["val"].shape
        found = data.meta["val"].shape[: len(wanted)]
        if len(found) < len(wanted) or not all(
            shapes.statically_known_true(one == other) for one, other in zip(found, wanted, strict=True)
        ):
            return None
        if not self.is_joined:
            return data
        return self.nodes.call(
            self.nodes.aten.view.default, data, [-1, *self.nodes.extents(data, len(wanted))]
        )

    def spread(self, whole: fx.Node) -> fx.Node:
        """The mask with an axis for each axis of a tensor of all rows."""
        rank = whole.meta["val"].ndim
        if rank == 1 and not self.is_joined:
            return self.mask
        return self.nodes.call(self.nodes.aten.view.default, self.mask, [-1, *[1] * (rank - 1)])

    def count(self, whole: fx.Node, axes: Sequence[int]) -> fx.Node | None:
        """The number of selected elements along the rows and other axes; None if one is symbolic."""
        extents = [whole.meta["val"].shape[axis] for axis in axes]
        if not all(isinstance(each, int) for each in extents):
            return None
        rows = self.nodes.call(
            self.nodes.aten.sum.dim_IntList, self.mask, list(range(self.mask.meta["val"].ndim))
        )
        return self.nodes.call(self.nodes.aten.mul.Tensor, rows, math.prod(extents))

    def whole(self, node: fx.Node) -> fx.Node | None:
        """What a node computes of selected rows, of all rows; None if the selected ones might differ."""
        if node not in self._known:
            self._known[node] = self._whole(node)
        return self._known[node]

    def _whole(self, node: fx.Node) -> fx.Node | None:
        if name_of(node) == "index":
            indices = node.args[1]
            return self.flat(node.args[0]) if len(indices) == 1 and is_same(indices[0], self.mask) else None
        if name_of(node) == "sym_size":
            tensor = self.whole(node.args[0]) if node.args[1] == 0 else None
            return None if tensor is None else self.nodes.call(self.nodes.aten.sym_size.int, tensor, 0)
        if node.target is operator.getitem:
            return self._normalized(*node.args)
        if not _has_rows(node) or not _keeps_rows(node):
            return None
        parts: dict[fx.Node, fx.Node] = {}
        for each in node.all_input_nodes:
            part = self.whole(each) if selected_extents(each) else each
            if part is None:
                return None
            parts[each] = part
        nodes = importlib.import_module("torch.fx.node")
        args, kwargs = nodes.map_arg((node.args, node.kwargs), lambda each: parts[each])
        return self.nodes.call(node.target, *args, **kwargs)

    def _normalized(self, norm: fx.Node, number: int) -> fx.Node | None:
        """The rows that a layer norm normalizes one by one."""
        if name_of(norm) != "native_layer_norm" or number != 0:
            return None
        data, extents, *others = norm.args
        is_by_rows = _has_rows(data) and len(extents) < data.meta["val"].ndim
        whole = self.whole(data) if is_by_rows and not any(map(selected_extents, others)) else None
        if whole is None:
            return None
        return self.nodes.first(self.nodes.call(norm.target, whole, extents, *others))


def _torch() -> ModuleType:
    return importlib.import_module("torch")  # installed, since there is a graph


def selected_extents(node: object) -> bool:
    """Whether an extent of a tensor, or a number, depends on how many elements a mask selects."""
    value = getattr(node, "meta", {}).get("val")
    return any(map(is_counted, getattr(value, "shape", (value,))))


def is_same(one: object, other: object) -> bool:
    """Whether two arguments are computed alike from the same nodes."""
    if one is other:
        return True
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    kind = importlib.import_module("torch.fx").Node
    if isinstance(one, kind) and isinstance(other, kind):
        return _is_same_call(one, other)
    return type(one) is type(other) and bool(one == other)


def _is_same_call(one: fx.Node, other: fx.Node) -> bool:
    return (
        one.op == "call_function"
        and one.target is other.target
        and not _is_random(one)
        and is_same(one.args, other.args)
        and one.kwargs.keys() == other.kwargs.keys()
        and all(is_same(one.kwargs[name], other.kwargs[name]) for name in one.kwargs)
    )


def _is_random(node: fx.Node) -> bool:
    return bool(_torch().Tag.nondeterministic_seeded in getattr(node.target, "tags", ()))


def _has_rows(node: fx.Node) -> bool:
    """Whether a tensor has the selected rows in its first axis, and other extents in the others."""
    shape = getattr(node.meta.get("val"), "shape", ())
    if not shape or isinstance(shape[0], int) or not shape[0].node.expr.is_Symbol:
        return False
    return is_counted(shape[0]) and not any(map(is_counted, shape[1:]))


def is_counted(number: object) -> bool:
    """Whether a number depends on how many elements masks select."""
    shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    return getattr(number, "node", None) is not None and bool(shapes.free_unbacked_symbols(number))


def _keeps_rows(node: fx.Node) -> bool:
    """Whether each row of the result depends on its own row only, and is an error for no row."""
    name, value = name_of(node), node.meta["val"]
    if is_elementwise(node):
        return all(map(_is_beside(value.ndim), node.all_input_nodes))
    return name in _ALONG and _ALONG[name](node)


def is_elementwise(node: fx.Node) -> bool:
    """Whether a node computes each element by itself, and is an error for none."""
    is_pointwise = _torch().Tag.pointwise in getattr(node.target, "tags", ())
    return (is_pointwise or name_of(node) in _COPIES) and not (is_whole_division(node) or _is_random(node))


def _is_beside(rank: int) -> Callable[[fx.Node], bool]:
    """Whether an operand has the rows of a result of this rank, or none."""

    def is_beside(operand: fx.Node) -> bool:
        shape = getattr(operand.meta["val"], "shape", None)
        if shape is None:
            return not selected_extents(operand)
        if selected_extents(operand):
            return len(shape) == rank and _has_rows(operand)
        return len(shape) < rank or shape[0] == 1

    return is_beside


def _is_along_others(node: fx.Node) -> bool:
    """Whether an op works along axes behind the rows."""
    return _has_rows(node.args[0]) and 0 not in axes_of(node, node.args[0].meta["val"].ndim)


def _is_new_behind(node: fx.Node) -> bool:
    return _has_rows(node.args[0]) and 0 not in axes_of(node, node.meta["val"].ndim)


def _is_product(place: int) -> Callable[[fx.Node], bool]:
    """Whether only one operand of a product, at this place, has selected rows."""

    def is_product(node: fx.Node) -> bool:
        having = [index for index, each in enumerate(node.args) if selected_extents(each)]
        return having == [place] and _has_rows(node.args[place])

    return is_product


def _is_view(node: fx.Node) -> bool:
    """Whether a reshape keeps the rows apart."""
    return _has_rows(node.args[0]) and not any(map(selected_extents, node.args[1][1:]))


_ALONG: Mapping[str, Callable[[fx.Node], bool]] = {
    **dict.fromkeys(
        (
            "_softmax",
            "_log_softmax",
            "cumsum",
            "slice",
            "select",
            "squeeze",
            "sum",
            "mean",
            "amax",
            "amin",
            "var",
        ),
        _is_along_others,
    ),
    "unsqueeze": _is_new_behind,
    "mm": _is_product(0),
    "addmm": _is_product(1),
    "view": _is_view,
}
"""Ops that are no elementwise functions, and when they keep rows apart."""
