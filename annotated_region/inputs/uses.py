"""What the values of a parameter are used for: as indices, truth values, lengths, or as numbers.

Names say nothing reliable, so the function itself is asked: from the parameter on, through ops that only move
or convert values, to the ops that use them.

    ids: int64[1, 8] -> reshape -> take(table[30522, 64], ids)     indices below 30522
    mask: int64[1, 8] -> astype float32 -> subtract(1, mask)       truth values
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
    """What the values of a parameter are for."""

    NUMBERS = auto()
    """Numbers of any sign."""
    POSITIVE = auto()
    """Numbers that a root, a logarithm or a quotient is taken of."""
    TRUTH = auto()
    """Truth values, as such or as zero and one."""
    INDICES = auto()
    """Places along an axis, from zero to below the bound."""
    LENGTHS = auto()
    """Counts, from one to the bound."""


@dataclass(frozen=True, slots=True)
class ParameterUse:
    """What a parameter is for, and up to where its values may go."""

    kind: UseKind
    bound: int = 0


# Ops that hand values on, by the positions of the operands whose values they hand on.
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
    # Indices below zero count from the end: ``where(less(ids, 0), add(ids, extent), ids)``.
    "relax.where": (1, 2),
}
# Ops that take indices: the position of the indices, and that of what they point into.
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
_LARGE = 1e3  # what masks multiply by, or put in the place of scores
_TRIED = 256  # values behind a parameter that are looked at

Reader = tuple[relax.Var, relax.Call, int]


def uses_of_parameters(func: relax.Function) -> list[ParameterUse]:
    """What each parameter of a function of fixed shapes is for. O(bindings + parameters)."""
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
    """What the values are used for, at every op that they reach by ops that hand them on."""
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
    """Whether a call makes ``ids + extent``, or ``1 - x``, by which masks are turned around."""
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
    """How many places there are along the axis that indices point into; 0 if that is not known."""
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
    """The largest magnitude in a constant; 0 for what is none."""
    value = getattr(expr, "value", None) if isinstance(expr, Constant) else None
    array = value.numpy() if isinstance(value, tvm.runtime.Tensor) else np.zeros(1)
    return float(np.abs(array.astype("float64")).max(initial=0.0))


def _most(expr: relax.Expr) -> float:
    """How far the numbers of a constant, or of ``arange``, go; 0 for others."""
    if isinstance(expr, relax.Call) and _name(expr) == "relax.arange":
        shape = getattr(expr.ty, "shape", None)
        extents = [each for each in getattr(shape, "values", None) or () if isinstance(each, tvm.tirx.IntImm)]
        return float(int(extents[0])) if extents else 0.0
    return _largest(expr)
