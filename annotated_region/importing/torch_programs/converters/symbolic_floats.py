"""Numbers that are computed from symbolic extents, such as ``1 / n`` and ``n ** -0.5``: tensors of rank 0.

TVM 0.27's importer has extents only, which are whole numbers, and makes no tensor of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from tvm import relax

from annotated_region.importing.torch_programs.converters.plain_extents import is_symbolic
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.row_scales import (
    require_exact_factor,
    scaled_extent,
)
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, is_tensor

_DTYPE = "float64"  # Python's
_OPERATIONS: Mapping[str, Callable[[relax.Expr, relax.Expr], relax.Expr]] = {
    "truediv": relax.op.divide,
    "pow": relax.op.power,
}


@converts(*_OPERATIONS)
def quotient_or_power(node: TorchNode) -> relax.Expr | None:
    """A quotient of extents and numbers, or a power."""
    symbol = getattr(node.node.meta.get("val"), "node", None)
    if getattr(symbol, "pytype", float) is int:
        return None  # a power that is an extent, which must not become a tensor
    one, other = (_number(node, place) for place in (0, 1))
    return None if one is None or other is None else node.emit(_OPERATIONS[node.name](one, other))


@converts("ceil", "floor", "trunc")
def rounded_multiple(node: TorchNode) -> relax.Expr | None:
    """A quotient or a multiple of an extent as an extent: ``math.ceil(n / 4)``, ``int(n * 1.5)``."""
    source = node.given(0)
    name = getattr(getattr(source, "target", None), "__name__", "")
    if name not in ("truediv", "mul"):
        return None
    whole = TorchNode(source, node.importer, node.constants)
    extent, number = _extent_at(whole, 0), whole.argument(1)
    if extent is None or not isinstance(number, int | float) or number <= 0:
        return None
    factor = Fraction(number) if name == "mul" else 1 / Fraction(number)
    if isinstance(number, float):
        require_exact_factor(factor, extent)
    return scaled_extent(extent, factor, rounds_up=node.name == "ceil")


def _extent_at(node: TorchNode, place: int) -> relax.Expr | None:
    """The symbolic extent at a place, also behind its conversion to a float; None for other values."""
    given = node.given(place)
    if getattr(getattr(given, "target", None), "__name__", "") == "sym_float":
        return _extent_at(TorchNode(given, node.importer, node.constants), 0)
    value = node.argument(place)
    return value if is_symbolic(value) else None


@converts("sym_float")
def extent_as_float(node: TorchNode) -> relax.Expr | None:
    """An extent as a float."""
    return _number(node, 0)


@converts("sym_sqrt", "_sym_sqrt")
def root_of_extent(node: TorchNode) -> relax.Expr | None:
    """The square root of an extent."""
    number = _number(node, 0)
    return None if number is None else node.emit(relax.op.sqrt(number))


@converts("scalar_tensor.default")
def tensor_of_number(node: TorchNode) -> relax.Expr | None:
    """A number, an extent, or a float computed from extents, as a tensor."""
    value = node.argument(0)
    if isinstance(value, relax.Expr) and is_tensor(value):
        return node.cast(value, node.dtype)
    return node.number_as_tensor(value, node.dtype)


def _number(node: TorchNode, place: int) -> relax.Expr | None:
    value = node.argument(place)
    if isinstance(value, relax.Expr) and is_tensor(value):
        return node.cast(value, _DTYPE)
    return node.number_as_tensor(value, _DTYPE)
