"""Element rules of elementwise operations on integers and booleans."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from annotated_region.passes.preparation.elements.element_reader import (
    ElementReader,
    ElementRule,
    Index,
    whole,
)
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["COMPUTING"]

Combine = Callable[..., PrimExpr]


def _operands(view: OpView, index: Index, reader: ElementReader) -> list[PrimExpr] | None:
    extents = reader.shape(view.call)
    if extents is None:
        return None
    found = [reader.operand(arg, index, extents) for arg in view.args]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def _elementwise(combine: Combine, kind: str) -> ElementRule:
    """The rule of an elementwise operation; `kind` is "bool" for booleans, else it is for integers."""

    def rule(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
        if any((dtype_of(arg) == "bool") != (kind == "bool") for arg in view.arg_types):
            return None
        found = _operands(view, index, reader)
        return None if found is None else combine(*found)

    return rule


def _compared(combine: Combine) -> ElementRule:
    """The rule of a comparison, with booleans as 0 and 1."""

    def rule(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
        found = _operands(view, index, reader)
        return None if found is None else combine(*map(_number, found))

    return rule


def _number(expr: PrimExpr) -> PrimExpr:
    return tirx.Cast("int64", expr) if str(expr.ty) == "bool" else expr


def _divided(combine: Combine) -> ElementRule:
    """The rule of a division; it applies only if the divisor is proved positive."""

    def rule(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
        found = _operands(view, index, reader)
        if found is None or not reader.proves(tirx.GT(found[1], whole(0))):
            return None
        return combine(*found)

    return rule


def _where(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    found = _operands(view, index, reader)
    if found is None or str(found[0].ty) != "bool":
        return None
    condition, one, other = found
    return tirx.Select(condition, one, other)


def _astype(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    """Casts; for integer dtypes the reader checks that the value fits."""
    found = reader.element(view.args[0], index)
    if found is None:
        return None
    if str(view.out_tensor.dtype) != "bool":
        return _number(found)
    if isinstance(found, tirx.Cast) and str(found.value.ty) == "bool":
        return found.value
    return found if str(found.ty) == "bool" else tirx.NE(found, whole(0))


def _cumsum(view: OpView, index: Index, reader: ElementReader) -> PrimExpr | None:
    """If every element along the axis is a constant ``c``, the sum up to index ``i`` is ``(i + 1) * c``.

    With a bool result, which TVM cannot compute, only sums of false are supported.
    """
    axis = view.attrs["axis"]
    if axis is None or view.attrs["exclusive"]:
        return None
    found = reader.element(view.args[0], index)
    if not isinstance(found, tirx.IntImm):
        return None
    if str(view.out_tensor.dtype) == "bool":
        return found if str(found.ty) == "bool" and found.value == 0 else None
    count = tirx.Add(index[int(axis) % len(index)], whole(1))
    return tirx.Mul(count, whole(found.value))


def _exclusive_or(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    return tirx.Or(tirx.And(left, tirx.Not(right)), tirx.And(tirx.Not(left), right))


_CONNECTIVES: dict[str, Combine] = {"and": tirx.And, "or": tirx.Or, "xor": _exclusive_or, "not": tirx.Not}

COMPUTING: dict[str, ElementRule] = {
    "relax.add": _elementwise(tirx.Add, "number"),
    "relax.subtract": _elementwise(tirx.Sub, "number"),
    "relax.multiply": _elementwise(tirx.Mul, "number"),
    "relax.maximum": _elementwise(tirx.Max, "number"),
    "relax.minimum": _elementwise(tirx.Min, "number"),
    "relax.negative": _elementwise(lambda each: tirx.Sub(whole(0), each), "number"),
    "relax.floor_divide": _divided(tirx.FloorDiv),
    "relax.floor_mod": _divided(tirx.FloorMod),
    "relax.equal": _compared(tirx.EQ),
    "relax.not_equal": _compared(tirx.NE),
    "relax.less": _compared(tirx.LT),
    "relax.less_equal": _compared(tirx.LE),
    "relax.greater": _compared(tirx.GT),
    "relax.greater_equal": _compared(tirx.GE),
    **{f"relax.logical_{name}": _elementwise(op, "bool") for name, op in _CONNECTIVES.items()},
    **{f"relax.bitwise_{name}": _elementwise(op, "bool") for name, op in _CONNECTIVES.items()},
    "relax.where": _where,
    "relax.astype": _astype,
    "relax.cumsum": _cumsum,
}
