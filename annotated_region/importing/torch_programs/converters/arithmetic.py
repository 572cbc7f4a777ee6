"""Arithmetic with type promotion and scaled operands, as in PyTorch.

TVM 0.27's importer

*   gives a number the data type of the other operand, so ``arange(n) * 0.5`` is 0, and ``mask * -1e4`` for a
    boolean mask is 0 or 1;
*   divides integers as integers, where PyTorch's ``/`` returns floats;
*   ignores ``alpha``, the factor of the second operand of ``add``, ``sub`` and ``rsub``;
*   fails on ``div`` with a rounding mode, and on operands that are extents.

PyTorch records the data type of each result (`TorchNode.dtype`): both operands are cast to it, and a
comparison is computed in the type to which PyTorch promotes its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.held_numbers import computing_type
from annotated_region.importing.torch_programs.converters.quotients import floor_quotient, is_exact, remainder
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    is_tensor,
)
from annotated_region.tvm_adapter.types import expect

Operation = Callable[[relax.Expr, relax.Expr], relax.Expr]

_ARITHMETIC: Mapping[str, Operation] = {
    "add.Tensor": relax.op.add,
    "add.Scalar": relax.op.add,
    "sub.Tensor": relax.op.subtract,
    "sub.Scalar": relax.op.subtract,
    "mul.Tensor": relax.op.multiply,
    "mul.Scalar": relax.op.multiply,
    "div.Tensor": relax.op.divide,
    "div.Scalar": relax.op.divide,
    "floor_divide.default": relax.op.floor_divide,
    "remainder.Tensor": relax.op.floor_mod,
    "remainder.Scalar": relax.op.floor_mod,
    "fmod.Tensor": relax.op.mod,
    "fmod.Scalar": relax.op.mod,
    "maximum.default": relax.op.maximum,
    "minimum.default": relax.op.minimum,
    "pow.Tensor_Tensor": relax.op.power,
    "pow.Tensor_Scalar": relax.op.power,
    "pow.Scalar": relax.op.power,
}
_READING_NUMBERS = frozenset(("add", "sub", "mul", "div"))
"""The ops beside float16 that read numbers in float32; others, such as powers and remainders, round them."""
_COMPARISONS: Mapping[str, Operation] = {
    f"{name}.{kind}": operation
    for name, operation in (
        ("eq", relax.op.equal),
        ("ne", relax.op.not_equal),
        ("lt", relax.op.less),
        ("le", relax.op.less_equal),
        ("gt", relax.op.greater),
        ("ge", relax.op.greater_equal),
    )
    for kind in ("Tensor", "Scalar")
}
_QUOTIENTS: Mapping[str, Callable[[TorchNode, relax.Expr, relax.Expr], relax.Expr]] = {
    "floor_divide.default": floor_quotient,
    "remainder.Tensor": remainder,
    "remainder.Scalar": remainder,
}
_SHIFTS: Mapping[str, Operation] = {
    f"{name}.{kind}": operation
    for names, operation in (
        (("bitwise_left_shift", "__lshift__"), relax.op.left_shift),
        (("bitwise_right_shift", "__rshift__"), relax.op.right_shift),
    )
    for name in names
    for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor", "Scalar")
}
_OF_TRUTH_VALUES: Mapping[str, Operation] = {
    "add.Tensor": relax.op.logical_or,
    "mul.Tensor": relax.op.logical_and,
    "maximum.default": relax.op.logical_or,
    "minimum.default": relax.op.logical_and,
}
"""The logical op for an arithmetic op on booleans with a boolean result."""


@converts(*(name for name in _ARITHMETIC if name != "pow.Scalar"))
def arithmetic(node: TorchNode) -> relax.Expr | None:
    """Both operands in the type of the result; the second one times ``alpha``."""
    left, right = node.argument(0), node.argument(1)
    alpha = node.node.kwargs.get("alpha", 1)
    if node.dtype == "bool":
        return _of_booleans(node, left, right)
    if node.name in _QUOTIENTS and not is_exact(node, right):
        return _exact(node, left, right)
    reads_exactly = node.name.split(".")[0] in _READING_NUMBERS
    dtype = computing_type(node, 0, 1) if reads_exactly else node.dtype
    fits = all(_fits(each, dtype) for each in (left, right))
    if fits and alpha == 1 and not _is_extent(left) and not _is_extent(right):
        return None  # leave it to TVM
    operands = _operands(node, left, right, dtype)
    if operands is None or (node.name.startswith("pow") and "int" in dtype):
        return None
    first, second = operands
    return node.cast(node.emit(_ARITHMETIC[node.name](first, times(node, second, alpha))), node.dtype)


@converts("rsub.Tensor", "rsub.Scalar")
def reversed_difference(node: TorchNode) -> relax.Expr | None:
    """``other - alpha * self``; the other operand may be a number, and alpha may be the third argument."""
    left, right = node.argument(1), node.argument(0)
    operands = _operands(node, left, right, computing_type(node, 1))
    if operands is None:
        return None
    first, second = operands
    difference = node.emit(relax.op.subtract(first, times(node, second, node.argument(2, "alpha", 1))))
    return node.cast(difference, node.dtype)


@converts("div.Tensor_mode", "div.Scalar_mode")
def rounded_quotient(node: TorchNode) -> relax.Expr | None:
    """A quotient, optionally rounded down or towards zero."""
    mode = node.argument(2, "rounding_mode")
    left, right = node.argument(0), node.argument(1)
    operands = _operands(node, left, right, computing_type(node, 0, 1, exactly=True))
    return None if operands is None else node.cast(_rounded_quotient(node, mode, *operands), node.dtype)


def _rounded_quotient(node: TorchNode, mode: object, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    if mode == "floor":
        if not is_exact(node, node.argument(1)):
            return floor_quotient(node, left, right)
        return node.emit(relax.op.floor_divide(left, right))
    quotient = node.emit(relax.op.divide(left, right))  # integer division truncates already
    return node.emit(relax.op.trunc(quotient)) if mode == "trunc" and "float" in node.dtype else quotient


@converts(*_COMPARISONS)
def comparison(node: TorchNode) -> relax.Expr | None:
    """A comparison in the type to which PyTorch promotes both operands."""
    left, right = node.argument(0), node.argument(1)
    # TVM cannot order booleans, and compares those without axes wrongly.
    promoted = node.promoted(0, 1)
    dtype = "int8" if promoted == "bool" else promoted
    fits = all(_fits(each, dtype) for each in (left, right))
    if fits and not _is_extent(left) and not _is_extent(right):
        return None
    operands = _operands(node, left, right, dtype)
    return None if operands is None else node.emit(_COMPARISONS[node.name](*operands))


@converts("where.self")
def choice(node: TorchNode) -> relax.Expr | None:
    """A selection between operands that are cast to the type of the result."""
    operands = _operands(node, node.argument(1), node.argument(2), node.dtype)
    return None if operands is None else node.emit(relax.op.where(node.tensor(0), *operands))


@converts("pow.Scalar")
def power_of_even_number(node: TorchNode) -> relax.Expr | None:
    """Powers of an even whole number by whole numbers, looked up: TVM computes none.

    From the 64th on they are 0 in 64 bits, and so are, in PyTorch, those by negative numbers.
    """
    base, dtype = node.argument(0), node.dtype
    if not isinstance(base, int) or "int" not in dtype or base % 2 or isinstance(base, bool):
        return arithmetic(node)
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    table = np.array([base**exponent % 2**bits for exponent in range(bits)] + [0], f"uint{bits}").astype(
        dtype
    )
    exponents = node.cast(node.tensor(1), "int64")
    most = relax.const(bits, "int64")
    is_negative = node.emit(relax.op.less(exponents, relax.const(0, "int64")))
    places = node.emit(relax.op.where(is_negative, most, node.emit(relax.op.minimum(exponents, most))))
    return node.emit(relax.op.take(relax.const(table, dtype), places, axis=0))


@converts("sym_max", "sym_min")
def extreme_extent(node: TorchNode) -> relax.Expr:
    """The larger or smaller one of two extents."""
    one, other = (
        tirx.IntImm("int64", each) if isinstance(each, int) else expect(relax.Expr, each)
        for each in (node.argument(0), node.argument(1))
    )
    return tirx.Max(one, other) if node.name == "sym_max" else tirx.Min(one, other)


def _exact(node: TorchNode, left: object, right: object) -> relax.Expr | None:
    # PyTorch takes remainders by the rounded number.
    reads_exactly = node.name == "floor_divide.default"
    dtype = computing_type(node, 0, 1, exactly=True) if reads_exactly else node.dtype
    operands = _operands(node, left, right, dtype)
    return None if operands is None else node.cast(_QUOTIENTS[node.name](node, *operands), node.dtype)


def _of_booleans(node: TorchNode, left: object, right: object) -> relax.Expr | None:
    operation = _OF_TRUTH_VALUES.get(node.name)
    operands = _operands(node, left, right, "bool")
    return None if operation is None or operands is None else node.emit(operation(*operands))


def times(node: TorchNode, value: relax.Expr, factor: object) -> relax.Expr:
    """A tensor times a number."""
    assert isinstance(factor, int | float)
    if factor == 1:
        return value
    return node.emit(relax.op.multiply(value, relax.const(factor, dtype_of_tensor(value))))


def _fits(value: object, dtype: str) -> bool:
    """Whether an operand is a number, or a tensor of this type."""
    return not isinstance(value, relax.Expr) or not is_tensor(value) or dtype_of_tensor(value) == dtype


def _is_extent(value: object) -> bool:
    """Whether an operand is a symbolic extent."""
    return isinstance(value, relax.Expr) and not is_tensor(value)


def _operands(
    node: TorchNode, left: object, right: object, dtype: str
) -> tuple[relax.Expr, relax.Expr] | None:
    """Both operands as tensors of a type; None if one is neither a tensor nor a number."""
    first, second = (_operand(node, each, dtype) for each in (left, right))
    return None if first is None or second is None else (first, second)


def _operand(node: TorchNode, value: object, dtype: str) -> relax.Expr | None:
    if isinstance(value, relax.Expr) and is_tensor(value):
        return node.cast(value, dtype)
    return node.number_as_tensor(value, dtype)


@converts(*_SHIFTS)
def shifted(node: TorchNode) -> relax.Expr | None:
    """The bits of whole numbers moved to the left or to the right, as packed weights are taken apart."""
    count = node.argument(1)
    operands = _operands(node, node.argument(0), count, node.dtype)
    if operands is None or "int" not in node.dtype:
        return None
    bits = int(node.dtype.removeprefix("u").removeprefix("int"))
    if isinstance(count, int) and not 0 <= count < bits:
        raise ModelError(f"moving {bits} bits by {count} places is not supported")
    return node.emit(_SHIFTS[node.name](*operands))


@converts("neg.default")
def negated_bytes(node: TorchNode) -> relax.Expr | None:
    """``0 - x`` of unsigned integers, which wraps around; TVM multiplies by -1, which they lack."""
    data = node.tensor(0)
    if not dtype_of_tensor(data).startswith("uint"):
        return None
    return node.emit(relax.op.subtract(relax.const(0, dtype_of_tensor(data)), data))
