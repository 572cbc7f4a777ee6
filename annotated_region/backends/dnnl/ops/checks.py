"""Checks shared by the rules: supported tensors and attributes, and the reasons to decline others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.backends.dnnl.graph import Dim
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.targets.op_view import OpView

__all__ = [
    "BYTES",
    "COUNTED",
    "DATA_LAYOUTS",
    "EITHER",
    "FLOAT",
    "FLOATS",
    "MOVABLE",
    "OPERANDS",
    "TRUTH",
    "WHOLE",
    "Problems",
    "epsilon_problem",
    "field_problems",
    "first_problem",
    "is_made_of_extents",
    "is_whole",
    "layout_problem",
    "number_of",
    "number_problem",
    "operand_problem",
    "symbolic_problem",
    "tensor_problem",
    "window_problem",
]

Problems: TypeAlias = Iterator[str | None]
"""Reasons to decline an op; None for each check that passed."""

HIGHEST_RANK = 8
FLOAT = "float32"
FLOATS = (FLOAT, "float16", "bfloat16")
"""The types that regions compute in float32."""

TRUTH = "bool"
EITHER = (*FLOATS, TRUTH)
WHOLE = ("int64", "int32")
BYTES = ("int8", "uint8")
COUNTED = (*EITHER, *WHOLE)
MOVABLE = (*COUNTED, *BYTES)
OPERANDS = ("the left operand", "the right operand")
DATA_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
"""oneDNN's order of the axes, by the number of spatial ones."""

COMPUTABLE = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min)


def first_problem(problems: Iterable[str | None]) -> bool | str:
    """The result of a rule: True if there is no problem, else the first problem."""
    return next((problem for problem in problems if problem), True)


def tensor_problem(type_: tvm.ir.Type, what: str, known: tuple[str, ...] = FLOATS) -> str | None:
    """Why the backend cannot process a tensor; None if its shape and its dtype, in `known`, are supported."""
    if not isinstance(type_, relax.TensorType):
        return f"{what} is no tensor"
    dtype = None if type_.dtype is None else str(type_.dtype)
    if dtype not in known:
        return f"{what} is of type {dtype or 'unknown'}; only {', '.join(known)} is known"
    extents = extents_of(type_)
    if extents is None:
        return f"{what} has no known shape"
    if len(extents) > HIGHEST_RANK:
        return f"{what} has rank {len(extents)}; supported ranks are 0 to {HIGHEST_RANK}"
    return next((problem for extent in extents if (problem := _extent_problem(extent, what))), None)


def field_problems(type_: tvm.ir.Type, whole: str, part: str, known: tuple[str, ...]) -> Problems:
    """Why the backend cannot process a tuple of tensors; messages name it `whole` and its fields `part`."""
    if not isinstance(type_, relax.TupleType):
        yield f"the types of {whole} are unknown"
        return
    for position, field in enumerate(type_.fields):
        yield tensor_problem(field, f"{part} {position}", known)


def _extent_problem(extent: Dim, what: str) -> str | None:
    if isinstance(extent, int):
        return f"{what} is empty" if extent == 0 else None
    if _is_computable(extent):
        return None
    return f"{what} has the extent {extent}, which cannot be computed at run time"


def _is_computable(extent: relax.Expr) -> bool:
    if isinstance(extent, tirx.IntImm | relax.Var):
        return True
    return isinstance(extent, COMPUTABLE) and _is_computable(extent.a) and _is_computable(extent.b)


def is_made_of_extents(expr: relax.Expr) -> bool:
    """Whether a possibly negative number can be computed from extents at run time."""
    if isinstance(expr, tirx.IntImm | relax.Var):
        return isinstance(expr, tirx.IntImm) or isinstance(expr.ty, tvm.ir.PrimType)
    return isinstance(expr, COMPUTABLE) and is_made_of_extents(expr.a) and is_made_of_extents(expr.b)


def is_whole(op: OpView) -> bool:
    """Whether the first operand is an integer tensor."""
    return str(getattr(op.arg_types[0], "dtype", None)) in WHOLE


def symbolic_problem(op: OpView, index: int, what: str) -> str | None:
    """Why an argument that must have a static shape cannot be used, or None."""
    extents = extents_of(op.arg_types[index]) or ()
    return None if all(isinstance(extent, int) for extent in extents) else f"{what} has a symbolic extent"


def operand_problem(op: OpView, index: int, what: str, *, infinite: bool = False) -> str | None:
    """Why an operand of arithmetic cannot be used, or None.

    A constant of rank 0 must be finite, or, if `infinite`, not NaN.
    """
    problem, value = tensor_problem(op.arg_types[index], what), op.constant(index)
    if problem is not None or value is None or value.ndim > 0:
        return problem
    return None if infinite and np.isinf(value) else number_problem(op, index, what)


def number_of(argument: object) -> float | None:
    """The value of an argument that is a constant scalar, or None."""
    return float(argument.value) if isinstance(argument, tirx.IntImm | tirx.FloatImm) else None


def number_problem(op: OpView, index: int, what: str) -> str | None:
    """Why argument `index` is not a finite constant scalar, or None."""
    value = op.constant(index)
    if value is None or value.size != 1:
        return f"{what} is not a constant scalar"
    return None if math.isfinite(value.reshape(-1)[0]) else f"{what} is not finite"


def window_problem(op: OpView) -> str | None:
    """Why the strides, dilations or paddings of a sliding window are invalid, or None."""
    for name, least in (("strides", 1), ("dilation", 1), ("padding", 0)):
        values = [int(value) for value in op.attrs[name]]
        if any(value < least for value in values):
            return f"the {name} {values} is below {least}"
    return None


def epsilon_problem(op: OpView) -> str | None:
    """Why the epsilon of a norm cannot be used, or None."""
    return None if math.isfinite(op.attrs["epsilon"]) else "the epsilon is not finite"


def layout_problem(given: str, expected: str, what: str) -> str | None:
    """Why a layout is not a plain permutation of `expected`, or None; an empty string is the default."""
    if not given or sorted(given) == sorted(expected):
        return None
    return f"{what} {given} is not a permutation of {expected}"
