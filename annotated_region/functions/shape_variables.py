"""Shape variables: those of numbers, and those of a function, bound to the shapes of its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import tvm
from tvm import relax, tirx

from annotated_region.expr_map import ExprMap
from annotated_region.tvm_adapter.arithmetic import visit
from annotated_region.tvm_adapter.types import expect, shape_vars_of

__all__ = ["in_order_of_appearance", "types_with", "variables_in", "with_shapes_of"]


def variables_in(*numbers: relax.Expr | int) -> list[tirx.Var]:
    """The variables in numbers that are computed from extents, each once, in the order of their first use."""
    found: dict[tirx.Var, None] = {}
    for number in numbers:
        visit(number, [(tirx.Var, found.setdefault)])
    return list(found)


def in_order_of_appearance(found: Sequence[relax.Var], types: Iterable[tvm.ir.Type]) -> list[relax.Var]:
    """The variables that TVM found, in address order, in the order of their first use in the types."""
    if len(found) < 2:
        return list(found)
    rank: ExprMap[int] = ExprMap()
    for ty in types:
        for var in shape_vars_of(ty):
            rank.setdefault(var, len(rank))
    return sorted(found, key=lambda var: (rank.get(var, len(rank)), var.name))


def types_with(types: Sequence[tvm.ir.Type], extents: Mapping[tirx.Var, relax.Expr]) -> list[tvm.ir.Type]:
    """The types with extents in the places of shape variables."""
    if not extents:
        return list(types)
    scopes = [relax.ShapeType(list(extents)), relax.ShapeType(variables_in(*extents.values()))]
    params = [relax.Var(f"x{number}", ty) for number, ty in enumerate([*scopes, *types])]
    func = relax.Function.create_empty(params, relax.TupleType([])).bind_symbolic_vars(extents)
    return [param.ty for param in func.params[len(scopes) :]]


def with_shapes_of(func: relax.Function, args: Sequence[relax.Expr]) -> relax.Function:
    """The function with its shape variables bound to the shapes of the arguments."""
    known: dict[relax.Var, relax.Expr] = {}
    for param, arg in zip(func.params, args, strict=True):
        for var, value in _matched(param.ty, arg.ty):
            known.setdefault(var, value)
    return func.bind_symbolic_vars(known) if known else func


def _matched(ty: tvm.ir.Type, given: tvm.ir.Type) -> Iterator[tuple[relax.Var, relax.Expr]]:
    """The shape variables that are extents of a type, with the extents of another type in their place."""
    if isinstance(ty, tvm.ir.TupleType):
        for part, given_part in zip(ty.fields, expect(tvm.ir.TupleType, given).fields, strict=True):
            yield from _matched(part, given_part)
        return
    extents, given_extents = (_extents(each) for each in (ty, given))
    for extent, value in zip(extents, given_extents, strict=False):
        if isinstance(extent, relax.Var):
            yield extent, value


def _extents(ty: tvm.ir.Type) -> Sequence[relax.Expr]:
    shape = ty.shape if isinstance(ty, relax.TensorType) else ty
    return list(getattr(shape, "values", None) or ())
