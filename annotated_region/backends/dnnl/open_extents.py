"""Extents that a plan leaves open: the number of earlier tokens, where only attention depends on it.

The steps of a plan know the extents of all tensors, so a region needs a plan for each combination of them.
Steps of a language model differ in the number of earlier tokens, and only attention reads these, through
views of the inputs::

    past keys [n, heads, part] --> permute, reshape --> attention <-- reshape <-- mask [s, n + s]

An extent is open if nothing else depends on it. No step makes such views: the runtime has a kernel for few
queries that computes their strides in each call, from the extents of the inputs and the axes in `OpenView`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from tvm import relax

from annotated_region.backends.dnnl.graph import DataType, Dim, Graph, Kind, Node, TensorId
from annotated_region.backends.dnnl.parameters import Permutation
from annotated_region.backends.dnnl.views import NEW_AXIS, axes_kept
from annotated_region.functions.shape_variables import variables_in

__all__ = ["OpenView", "open_views"]

KEYS, VALUES, MASK = 1, 3, 5
"""The operands of attention to two parts that may have an open extent: earlier keys and values, the mask."""

OPEN_AXES = {KEYS: 3, VALUES: 2, MASK: 3}
DENSE_AXES = {KEYS: 2, VALUES: 3}
"""The axes of these operands that are open, and those along which the kernel reads runs of memory."""


@dataclass(frozen=True, slots=True)
class OpenView:
    """A tensor that is an input, or a view of one, with an open extent.

    Attributes
    ----------
    tensor
        The tensor.
    source
        The input.
    axes
        For each axis of the tensor that of the input, or `NEW_AXIS`.
    """

    tensor: TensorId
    source: TensorId
    axes: tuple[int, ...]


def open_views(graph: Graph) -> dict[relax.Var, tuple[OpenView, ...]]:
    """The open extents, each with all tensors that have it.

    Notes
    -----
    Linear in the number of nodes, for each extent that earlier keys have.
    """
    past = (graph.shape(node.inputs[KEYS])[OPEN_AXES[KEYS]] for node in graph.nodes if _is_parted(node))
    candidates = dict.fromkeys(extent for extent in past if isinstance(extent, relax.Var))
    found = {extent: _views(graph, extent) for extent in candidates}
    return {extent: views for extent, views in found.items() if views is not None}


def _is_parted(node: Node) -> bool:
    return node.kind is Kind.PARTED_ATTENTION


def _views(graph: Graph, extent: relax.Var) -> tuple[OpenView, ...] | None:
    """The tensors with an extent; None if one of them is read or made by anything but attention and views."""
    views: dict[TensorId, OpenView] = {}
    for tensor in graph.inputs:
        if _has(graph, tensor, extent):
            views[tensor] = OpenView(tensor, tensor, tuple(range(len(graph.shape(tensor)))))
    for node in graph.nodes:
        if not any(_has(graph, tensor, extent) for tensor in (*node.operands, node.output)):
            if _is_parameter(node, extent):
                return None
            continue
        if _is_parted(node) and _are_readable(graph, node, extent, views):
            continue
        view = _view(graph, node, views)
        if view is None:
            return None
        views[node.output] = view
    is_seen = any(_has(graph, tensor, extent) for tensor in graph.outputs)
    return None if is_seen else tuple(views.values())


def _has(graph: Graph, tensor: TensorId, extent: relax.Var) -> bool:
    return any(_mentions(each, extent) for each in graph.shape(tensor))


def _mentions(number: Dim, extent: relax.Var) -> bool:
    return any(each.same_as(extent) for each in variables_in(number))


def _is_parameter(node: Node, extent: relax.Var) -> bool:
    values = (getattr(node.parameters, field.name) for field in fields(node.parameters))
    numbers = (each for value in values for each in (value if isinstance(value, tuple) else (value,)))
    return any(isinstance(number, relax.Expr) and _mentions(number, extent) for number in numbers)


def _view(graph: Graph, node: Node, views: dict[TensorId, OpenView]) -> OpenView | None:
    """The result of a permutation, or of a reshape that adds or removes axes of extent one, of a view."""
    source = views.get(node.inputs[0]) if node.inputs else None
    if source is None or node.post_ops:
        return None
    axes: tuple[int, ...] | None = None
    if node.kind is Kind.PERMUTE and isinstance(node.parameters, Permutation):
        axes = node.parameters.axes
    if node.kind is Kind.RESHAPE:
        axes = axes_kept(graph.shape(node.inputs[0]), graph.shape(node.output))
    if axes is None:
        return None
    composed = tuple(NEW_AXIS if axis == NEW_AXIS else source.axes[axis] for axis in axes)
    return OpenView(node.output, source.source, composed)


def _are_readable(graph: Graph, node: Node, extent: relax.Var, views: dict[TensorId, OpenView]) -> bool:
    """Whether attention reads its operands with an extent through views that its kernel can follow."""
    if _has(graph, node.output, extent):
        return False
    having = [index for index, tensor in enumerate(node.operands) if _has(graph, tensor, extent)]
    return all(_is_readable(graph, index, views.get(node.operands[index]), extent) for index in having)


def _is_readable(graph: Graph, index: int, view: OpenView | None, extent: relax.Var) -> bool:
    if view is None or index not in OPEN_AXES:
        return False
    source = graph.tensors[view.source]
    others = (each for axis, each in enumerate(graph.shape(view.tensor)) if axis != OPEN_AXES[index])
    is_dense = index == MASK or view.axes[DENSE_AXES[index]] == len(source.shape) - 1
    is_float = source.dtype is DataType.FLOAT32 and source.half is None
    return is_dense and is_float and not any(_mentions(each, extent) for each in others)
