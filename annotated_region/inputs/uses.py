"""Infers the use of each parameter's values: indices, booleans, lengths, or numbers.

Names are not reliable, so uses are followed through the function: from the parameter, through ops that only
move or convert values, to the ops that consume them.

    ids: int64[1, 8] -> reshape -> take(table[30522, 64], ids)     indices below 30522
    mask: int64[1, 8] -> astype float32 -> subtract(1, mask)       booleans
    n: int64[1] -> less(arange(128), n)                            a length up to 128
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
import tvm
from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["ParameterUse", "UseKind", "uses_of_parameters"]


class UseKind(Enum):
    """The use of a parameter's values."""

    NUMBERS = auto()
    """Numbers of any sign."""
    POSITIVE = auto()
    """Operands of a root or a logarithm, or divisors."""
    TRUTH = auto()
    """Booleans, or numbers zero and one."""
    INDICES = auto()
    """Indices along an axis, from zero to below the bound."""
    LENGTHS = auto()
    """Counts, from one to the bound."""


@dataclass(frozen=True, slots=True)
class ParameterUse:
    """The use of a parameter, and the bound of its values."""

    kind: UseKind
    bound: int = 0


# Ops that pass values through, with the positions of the operands that they pass through.
_CARRIERS: Mapping[str, Sequence[int]] = {
    **{
        f"relax.{name}": (0,)
        for name in [
            "astype",
            "broadcast_to",
            "expand_dims",
            "flatten",
            "flip",
            "permute_dims",
            "repeat",
            "reshape",
            "squeeze",
            "strided_slice",
            "tile",
        ]
    },
    # Normalization of negative indices: ``where(less(ids, 0), add(ids, extent), ids)``.
    "relax.where": (1, 2),
}
# Ops that take indices: the positions of the indices and of the data that they index.
_INDEXERS: Mapping[str, tuple[int, int]] = {
    "relax.take": (1, 0),
    "relax.gather_elements": (1, 0),
    "relax.gather_nd": (1, 0),
    "relax.scatter_elements": (1, 0),
    "relax.scatter_nd": (1, 0),
    "relax.one_hot": (0, 0),
}
_COMPARISONS = frozenset(f"relax.{name}" for name in ("less", "less_equal", "greater", "greater_equal"))
_POSITIVE = frozenset(f"relax.{name}" for name in ("log", "log2", "log10", "sqrt", "rsqrt", "power"))
_LARGE = 1e3  # the least magnitude of factors and replacement values of masks
_TRIED = 256  # the maximum number of values that are followed from a parameter

Reader = tuple[relax.Var, relax.Call, int]


def uses_of_parameters(func: relax.Function) -> list[ParameterUse]:
    """The use of each parameter of a function of static shapes. O(bindings + parameters)."""
    readers, values = _readers_and_values(func)
    return [_use(param, readers, values) for param in func.params]


def _readers_and_values(func: relax.Function) -> tuple[ExprMap[list[Reader]], ExprMap[relax.Expr]]:
    readers: ExprMap[list[Reader]] = ExprMap()
    values: ExprMap[relax.Expr] = ExprMap()
    for block in func.body.blocks:
        for binding in block.bindings:
            values[binding.var] = binding.value
            for position, operand in _operands(binding.value):
                if isinstance(operand, relax.Var) and isinstance(binding.value, relax.Call):
                    readers.setdefault(operand, []).append((binding.var, binding.value, position))
                elif isinstance(operand, relax.Var):
                    values[binding.var] = operand
                    call = relax.Call(tvm.ir.Op.get("relax.astype"), [operand])
                    readers.setdefault(operand, []).append((binding.var, call, 0))
    return readers, values


def _operands(value: relax.Expr) -> Iterator[tuple[int, relax.Expr]]:
    if isinstance(value, relax.Call):
        yield from enumerate(value.args)
    elif isinstance(value, relax.Var):
        yield 0, value


def _use(param: relax.Var, readers: ExprMap[list[Reader]], values: ExprMap[relax.Expr]) -> ParameterUse:
    dtype = str(getattr(param.ty, "dtype", None))
    if dtype == "bool":
        return ParameterUse(UseKind.TRUTH)
    found = list(_found(param, readers, values))
    if "float" in dtype:
        kinds = {each.kind for each in found}
        return ParameterUse(
            next((kind for kind in (UseKind.TRUTH, UseKind.POSITIVE) if kind in kinds), UseKind.NUMBERS)
        )
    for kind in (UseKind.INDICES, UseKind.LENGTHS):
        bounds = [each.bound for each in found if each.kind is kind and each.bound > 0]
        if bounds:
            return ParameterUse(kind, min(bounds))
    return ParameterUse(UseKind.NUMBERS if dtype in ("int8", "uint8") else UseKind.TRUTH)


def _found(
    param: relax.Var, readers: ExprMap[list[Reader]], values: ExprMap[relax.Expr]
) -> Iterator[ParameterUse]:
    """The uses at every op that the values reach through ops that pass them on."""
    waiting: dict[relax.Var, None] = {param: None}
    for count, var in enumerate(_growing(waiting)):
        if count == _TRIED:
            return
        for result, call, position in readers.get(var, []):
            yield from _used_by(call, position, values)
            if position in _CARRIERS.get(_name(call), ()) or _is_shifted(call):
                waiting.setdefault(result)


def _growing(waiting: dict[relax.Var, None]) -> Iterator[relax.Var]:
    done = 0
    while done < len(waiting):
        yield list(waiting)[done]
        done += 1


def _is_shifted(call: relax.Call) -> bool:
    """Whether a call is ``ids + extent``, or ``1 - x``, which inverts a mask."""
    is_complement = _name(call) == "relax.subtract" and _largest(call.args[0]) == 1.0
    return is_complement or (
        _name(call) == "relax.add" and any(isinstance(arg, Constant) for arg in call.args)
    )


def _used_by(call: relax.Call, position: int, values: ExprMap[relax.Expr]) -> Iterator[ParameterUse]:
    name = _name(call)
    if name in _INDEXERS and _INDEXERS[name][0] == position:
        yield ParameterUse(UseKind.INDICES, _places(call, _INDEXERS[name][1]))
    if (name in _POSITIVE and position == 0) or (name == "relax.divide" and position == 1):
        yield ParameterUse(UseKind.POSITIVE)
    if name in _COMPARISONS:
        other = call.args[1 - position]
        yield ParameterUse(UseKind.LENGTHS, int(_most(values.get(other, other))))
    if name == "relax.multiply" and _largest(call.args[1 - position]) >= _LARGE:
        yield ParameterUse(UseKind.TRUTH)


def _name(call: relax.Call) -> str:
    return str(call.op.name) if isinstance(call.op, tvm.ir.Op) else ""


def _places(call: relax.Call, position: int) -> int:
    """The extent of the axis that indices refer to; 0 if unknown."""
    depth = getattr(call.attrs, "depth", None)
    if depth is not None:
        return int(depth)
    shape = getattr(call.args[position].ty, "shape", None)
    values = list(getattr(shape, "values", None) or ())
    extents = [int(each) for each in values if isinstance(each, tvm.tirx.IntImm)]
    if not extents or len(extents) < len(values):
        return 0
    if _name(call) in ("relax.gather_nd", "relax.scatter_nd"):
        return min(extents)
    axis = getattr(call.attrs, "axis", None)
    return math.prod(extents) if axis is None else extents[int(axis)]


def _largest(expr: relax.Expr) -> float:
    """The largest magnitude in a constant; 0 for other expressions."""
    value = getattr(expr, "value", None) if isinstance(expr, Constant) else None
    array = value.numpy() if isinstance(value, tvm.runtime.Tensor) else np.zeros(1)
    return float(np.abs(array.astype("float64")).max(initial=0.0))


def _most(expr: relax.Expr) -> float:
    """The upper end of the numbers in a constant or an ``arange``; 0 for other expressions."""
    if isinstance(expr, relax.Call) and _name(expr) == "relax.arange":
        shape = getattr(expr.ty, "shape", None)
        extents = [each for each in getattr(shape, "values", None) or () if isinstance(each, tvm.tirx.IntImm)]
        return float(int(extents[0])) if extents else 0.0
    return _largest(expr)
