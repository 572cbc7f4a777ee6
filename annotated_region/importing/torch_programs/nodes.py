"""Reads and makes nodes of graphs that ``torch.export`` has traced."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotated_region.tvm_adapter.types import expect

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["NodeMaker", "argument_of", "axes_of", "is_whole_division", "name_of"]

_DIVISIONS = {"div", "floor_divide", "remainder", "fmod"}


@dataclass(frozen=True, slots=True)
class NodeMaker:
    """Makes nodes with the values that tracing would note.

    Attributes
    ----------
    graph
        The graph; nodes are added where it inserts.
    like
        A node of a tensor, whose origin new nodes have.
    """

    graph: fx.Graph
    like: fx.Node

    @property
    def aten(self) -> torch._ops._OpNamespace:
        """The operators of ATen."""
        return importlib.import_module("torch").ops.aten  # installed, since there is a graph

    def call(self, target: Callable[..., object], *args: object, **kwargs: object) -> fx.Node:
        """A new node that calls an operator, or adds numbers of rows."""
        nodes = importlib.import_module("torch.fx.node")
        made = self.graph.call_function(target, args, kwargs)
        made.meta = {key: each for key, each in self.like.meta.items() if key not in ("val", "tensor_meta")}
        given, named = nodes.map_arg((args, kwargs), lambda each: each.meta["val"])
        with self.like.meta["val"].fake_mode:
            made.meta["val"] = target(*given, **named)
        return made

    def extents(self, tensor: fx.Node, first: int = 0) -> list[object]:
        """The extents of a tensor from an axis on: numbers, or nodes."""
        return [
            each if isinstance(each, int) else self.call(self.aten.sym_size.int, tensor, axis)
            for axis, each in enumerate(tensor.meta["val"].shape)
            if axis >= first
        ]

    def first(self, results: fx.Node) -> fx.Node:
        """The first of several results."""
        made = self.graph.call_function(operator.getitem, (results, 0))
        made.meta = {**results.meta, "val": results.meta["val"][0]}
        return made


def name_of(node: fx.Node) -> str:
    """The op of ATen without its overload, such as ``"add"``; empty for any other node."""
    target = str(node.target)
    return target.split(".")[1] if target.startswith("aten.") else ""


def is_whole_division(node: fx.Node) -> bool:
    """Whether a node divides integers, which is an error where the divisor is 0."""
    value = node.meta.get("val")
    return name_of(node) in _DIVISIONS and not value.dtype.is_floating_point


def argument_of(node: fx.Node, place: int, name: str, *, default: object = None) -> object:
    """An argument of a node by its place or its name."""
    return node.args[place] if place < len(node.args) else node.kwargs.get(name, default)


def axes_of(node: fx.Node, rank: int) -> list[int]:
    """The axes that the second argument of a node names, from the front; all if there are none."""
    given = argument_of(node, 1, "dim")
    named = given if isinstance(given, list | tuple) else [] if given is None else [given]
    return sorted(expect(int, axis) % rank for axis in named or range(rank))
