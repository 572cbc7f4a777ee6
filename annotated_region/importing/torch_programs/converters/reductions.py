"""Reductions that TVM 0.27's importer lacks, or computes in the type of the operand.

It lacks extremes along axes, products along one axis, ``any`` of all elements, variance together with the
mean, minima with their places, and variance along symbolic axes. It computes cumulative sums of booleans in
bool, and ``any`` of numbers along axes as their maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import mul

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)

Reduction = Callable[..., relax.Expr]


@converts("amax.default")
def maximum(node: TorchNode) -> relax.Expr:
    """The maximum along some axes, or of all elements."""
    return _reduced(node, relax.op.max)


@converts("amin.default")
def minimum(node: TorchNode) -> relax.Expr:
    """The minimum along some axes, or of all elements."""
    return _reduced(node, relax.op.min)


@converts("min.dim")
def minimum_and_its_place(node: TorchNode) -> relax.Expr:
    """The minima along an axis, and the index of the first of each."""
    return _extreme_and_its_place(node, relax.op.min, relax.op.argmin)


@converts("max.dim")
def maximum_and_its_place(node: TorchNode) -> relax.Expr | None:
    """The maxima of booleans along an axis, or of one number, and their indices; others are left to TVM."""
    if dtype_of_tensor(node.tensor(0)) != "bool" and extents_of_tensor(node.tensor(0)):
        return None
    return _extreme_and_its_place(node, relax.op.max, relax.op.argmax)


def _extreme_and_its_place(node: TorchNode, extreme: Reduction, place_of: Reduction) -> relax.Expr:
    data, axis = node.tensor(0), node.argument(1, "dim")
    if not extents_of_tensor(data):
        return node.emit(relax.Tuple([data, relax.const(0, "int64")]))
    keeps = bool(node.argument(2, "keepdim", default=False))
    dtype = dtype_of_tensor(data)
    data = node.cast(data, "int8") if dtype == "bool" else data
    places = node.emit(place_of(data, axis, keeps))
    return node.emit(relax.Tuple([node.cast(node.emit(extreme(data, axis, keeps)), dtype), places]))


@converts("argmax.default", "argmin.default")
def place_of_scalar(node: TorchNode) -> relax.Expr | None:
    """The index of the only element; those of others are left to TVM."""
    return None if extents_of_tensor(node.tensor(0)) else relax.const(0, "int64")


@converts("max.default", "min.default")
def extreme_of_booleans(node: TorchNode) -> relax.Expr | None:
    """Whether any or all booleans are true; extremes of numbers are left to TVM."""
    if dtype_of_tensor(node.tensor(0)) != "bool":
        return None
    return _reduced(node, relax.op.max if node.name == "max.default" else relax.op.min)


@converts("prod.default", "prod.dim_int")
def product(node: TorchNode) -> relax.Expr:
    """The product of all elements or along an axis; in int64 for integers and booleans."""
    return _reduced(node, relax.op.prod)


def _reduced(node: TorchNode, reduction: Reduction) -> relax.Expr:
    axes = node.argument(1, "dim", [])
    data = node.cast(node.tensor(0), node.dtype) if node.dtype != "bool" else _as_bytes(node)
    # An empty list of axes means all axes.
    keeps = bool(node.argument(2, "keepdim", default=False))
    found = node.emit(reduction(data, None if axes == [] else axes, keepdims=keeps))
    return node.cast(found, node.dtype)


def _as_bytes(node: TorchNode) -> relax.Expr:
    """Booleans as int8, because TVM has no maximum of booleans."""
    data = node.tensor(0)
    if dtype_of_tensor(data) != "bool":
        data = node.emit(relax.op.not_equal(data, relax.const(0, dtype_of_tensor(data))))
    return node.cast(data, "int8")


@converts("any.default")
def any_of_all(node: TorchNode) -> relax.Expr:
    """Whether any element is true."""
    return _truth(node, node.emit(relax.op.max(_as_bytes(node))))


@converts("any.dim", "any.dims")
def any_along_axes(node: TorchNode) -> relax.Expr:
    """Whether any element along some axes is true, or differs from 0."""
    keeps = bool(node.argument(2, "keepdim", default=False))
    return _truth(node, node.emit(relax.op.max(_as_bytes(node), _axes(node), keepdims=keeps)))


def _truth(node: TorchNode, value: relax.Expr) -> relax.Expr:
    """Truth values in the type of the result: PyTorch's for bytes are bytes."""
    return node.cast(node.cast(value, "bool"), node.dtype)


@converts("cumsum.default", "cumprod.default")
def running(node: TorchNode) -> relax.Expr | None:
    """A cumulative sum or product; in int64 for integers and booleans."""
    data, axis = node.tensor(0), node.argument(1, "dim")
    if not extents_of_tensor(data):
        return node.cast(data, node.dtype)  # TVM's sums along the only axis, which a scalar lacks
    if dtype_of_tensor(data) == node.dtype:
        return None
    operation = relax.op.cumsum if node.name == "cumsum.default" else relax.op.cumprod
    return node.emit(operation(node.cast(data, node.dtype), axis))


@converts("var_mean.correction")
def variance_and_mean(node: TorchNode) -> relax.Expr:
    """The variance, divided by the number of elements minus a correction, and the mean."""
    mean = node.emit(relax.op.mean(node.tensor(0), _axes(node), keepdims=_keeps(node)))
    return node.emit(relax.Tuple([_variance(node), mean]))


@converts("var.correction")
def variance(node: TorchNode) -> relax.Expr | None:
    """The variance along symbolic axes; that of static axes is left to TVM's importer."""
    return None if isinstance(_count(node), int) else _variance(node)


def _axes(node: TorchNode) -> object:
    axes = node.argument(1, "dim")
    return None if axes == [] else axes


def _keeps(node: TorchNode) -> bool:
    return bool(node.node.kwargs.get("keepdim", False))


def _variance(node: TorchNode) -> relax.Expr:
    data, count = node.tensor(0), _count(node)
    given = node.node.kwargs.get("correction")
    correction = 1.0 if given is None else float(str(given))
    found = node.emit(relax.op.variance(data, _axes(node), keepdims=_keeps(node)))
    if correction == 0:
        return found
    dtype = dtype_of_tensor(data)
    if isinstance(count, int):
        factor = count / (count - correction) if count > correction else float("nan")  # as in PyTorch
        return node.emit(relax.op.multiply(found, relax.const(factor, dtype)))
    whole = node.number_as_tensor(count, dtype)
    assert whole is not None
    rest = node.emit(relax.op.subtract(whole, relax.const(correction, dtype)))
    return node.emit(relax.op.multiply(found, node.emit(relax.op.divide(whole, rest))))


def _count(node: TorchNode) -> int | relax.Expr:
    """The number of elements that are reduced to one."""
    extents = extents_of_tensor(node.tensor(0))
    axes = _axes(node)
    places = range(len(extents)) if axes is None else axes if isinstance(axes, list) else [axes]
    return reduce(mul, (extents[int(str(place))] for place in places), 1)


@converts("median.default", "median.dim")
def median_of_small_numbers(node: TorchNode) -> relax.Expr | None:
    """The median of integers that TVM does not sort, as int32; that of others is left to TVM's importer."""
    data, axis = node.tensor(0), node.argument(1, "dim")
    dtype = dtype_of_tensor(data)
    if dtype not in ("uint8", "int8", "int16"):
        return None
    if not extents_of_tensor(data):
        return data if axis is None else node.emit(relax.Tuple([data, relax.const(0, "int64")]))
    keeps = bool(node.argument(2, "keepdim", default=False))
    found = node.emit(relax.op.median(node.cast(data, "int32"), axis, keeps))
    if axis is None:
        return node.cast(found, dtype)
    value, place = (node.emit(relax.TupleGetItem(found, part)) for part in (0, 1))
    return node.emit(relax.Tuple([node.cast(value, dtype), place]))
