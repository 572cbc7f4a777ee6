"""Functions of single numbers that TVM 0.27's importer lacks, or refuses for integers and booleans.

PyTorch returns floats for these. The importer computes the reciprocals of integers as whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, dtype_of_tensor

_NAMES = "acos acosh asin asinh atan atanh cos cosh erf exp log rsqrt sigmoid sin sinh sqrt tan tanh"
_FUNCTIONS: Mapping[str, Callable[[relax.Expr], relax.Expr]] = {
    f"{name}.default": getattr(relax.op, name) for name in _NAMES.split()
}
_BASES: Mapping[str, float] = {"log2.default": 2.0, "log10.default": 10.0}


@converts(*_FUNCTIONS)
def of_whole_numbers(node: TorchNode) -> relax.Expr | None:
    """A function of integers or booleans in the type of PyTorch's result; that of floats is left to TVM."""
    data = node.tensor(0)
    if dtype_of_tensor(data) == node.dtype:
        return None
    return node.emit(_FUNCTIONS[node.name](node.cast(data, node.dtype)))


@converts(*_BASES)
def logarithm_of_whole_numbers(node: TorchNode) -> relax.Expr | None:
    """A logarithm to the base 2 or 10 of integers or booleans."""
    data = node.tensor(0)
    if dtype_of_tensor(data) == node.dtype:
        return None
    found = node.emit(relax.op.log(node.cast(data, node.dtype)))
    return node.emit(relax.op.multiply(found, relax.const(1 / log(_BASES[node.name]), node.dtype)))


@converts("reciprocal.default")
def reciprocal_of_whole_numbers(node: TorchNode) -> relax.Expr | None:
    """``1 / x`` of integers or booleans."""
    data = node.tensor(0)
    if dtype_of_tensor(data) == node.dtype:
        return None
    return node.emit(relax.op.divide(relax.const(1.0, node.dtype), node.cast(data, node.dtype)))


@converts("exp2.default")
def power_of_two(node: TorchNode) -> relax.Expr:
    """``2 ** x``."""
    data = node.cast(node.tensor(0), node.dtype)
    return node.emit(relax.op.power(relax.const(2.0, node.dtype), data))


@converts("signbit.default")
def sign_bit(node: TorchNode) -> relax.Expr:
    """Whether numbers are negative, or -0.0."""
    return is_negative(node, node.tensor(0))


def is_negative(node: TorchNode, data: relax.Expr) -> relax.Expr:
    """Whether the signs of numbers are negative; that of -0.0 is, that of NaN is taken as positive."""
    dtype = dtype_of_tensor(data)
    if dtype == "bool":
        return node.emit(relax.op.less(node.cast(data, "int8"), relax.const(0, "int8")))
    zero = relax.const(0, dtype)
    below = node.emit(relax.op.less(data, zero))
    if "float" not in dtype:
        return below
    inverse = node.emit(relax.op.divide(relax.const(1, dtype), data))
    is_zero = node.emit(relax.op.equal(data, zero))
    is_below_zero = node.emit(relax.op.logical_and(is_zero, node.emit(relax.op.less(inverse, zero))))
    return node.emit(relax.op.logical_or(below, is_below_zero))
