"""Reductions of the elements that are scattered to each place, which TVM 0.27's importer lacks.

Graph networks reduce the messages of neighbours this way. The elements that are there before take part, or
not: then they are replaced by what a reduction begins with, where anything is scattered.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.scatters import OF_BOOLEANS, first_elements
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)

_REDUCTIONS: Mapping[object, str] = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


@converts("scatter_reduce.two")
def scattered_reduction(node: TorchNode) -> relax.Expr | None:
    """Reduces elements with those at positions along an axis; not scalars, which have none."""
    places = node.tensor(2)
    if not extents_of_tensor(places):
        return None
    elements = first_elements(node, node.tensor(3), extents_of_tensor(places))
    return _reduced(node, places, elements)


@converts("index_reduce.default")
def indexed_reduction(node: TorchNode) -> relax.Expr | None:
    """Reduces slices with those at indices of an axis; not scalars, which have none."""
    axis, indices, slices = node.argument(1), node.tensor(2), node.tensor(3)
    if not extents_of_tensor(slices):
        return None
    assert isinstance(axis, int)
    extents = extents_of_tensor(slices)
    column = [extent if place == axis % len(extents) else 1 for place, extent in enumerate(extents)]
    places = node.emit(relax.op.reshape(indices, relax.ShapeExpr(column)))
    return _reduced(node, node.emit(relax.op.broadcast_to(places, relax.ShapeExpr(extents))), slices)


def _reduced(node: TorchNode, places: relax.Expr, elements: relax.Expr) -> relax.Expr | None:
    name, axis = node.argument(4, "reduce"), node.argument(1)
    includes = bool(node.argument(5, "include_self", default=True))
    data, is_bool = node.tensor(0), dtype_of_tensor(node.tensor(0)) == "bool"
    reduction = _REDUCTIONS.get(name)
    if reduction is None or (is_bool and name == "mean"):
        return None
    if is_bool:  # of which TVM computes neither sums nor extremes
        reduction = OF_BOOLEANS.get(reduction, reduction)
        data, elements = node.cast(data, "int8"), node.cast(elements, "int8")
    dtype, places = dtype_of_tensor(data), node.cast(places, "int64")
    ones = node.emit(relax.op.ones_like(elements))
    if not includes:
        none = node.emit(relax.op.zeros_like(data))
        touched = node.emit(relax.op.scatter_elements(none, places, ones, axis, "update"))
        first = relax.const(_identity(reduction, dtype), dtype)
        data = node.emit(relax.op.where(node.cast(touched, "bool"), first, data))
    found = node.emit(relax.op.scatter_elements(data, places, elements, axis, reduction))
    if name == "mean":
        before = node.emit((relax.op.ones_like if includes else relax.op.zeros_like)(data))
        counts = node.emit(relax.op.scatter_elements(before, places, ones, axis, "add"))
        counts = node.emit(relax.op.maximum(counts, relax.const(1, dtype)))
        divide = relax.op.floor_divide if "int" in dtype else relax.op.divide
        found = node.emit(divide(found, counts))
    return node.cast(found, node.dtype)


def _identity(reduction: str, dtype: str) -> float:
    """What a reduction begins with."""
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    if "float" in dtype:
        return float("-inf") if reduction == "max" else float("inf")
    limits = np.iinfo(dtype)
    return int(limits.min if reduction == "max" else limits.max)
