"""Extents of inputs that are written by others, such as ``8 * n``: variables, of which ``n`` is computed.

An exporter writes so where a model needs whole blocks, as ``8 * torch.export.Dim("n")``. TVM 0.27's importer
takes the expression over, but a Relax function may only use symbols that are extents of its inputs::

    main(x: Tensor((8 * n, 3)))    =>    main(input: Tensor((n_whole, 3))):
        ...                                  match_cast(shape([n_whole - 8 * (n_whole // 8)]), Shape([0]))
                                             match_cast(shape([n_whole // 8]), Shape([n]))
                                             x = match_cast(input, Tensor((8 * n, 3)))
                                             ...

The body keeps the exporter's expressions, so TVM and targets can still prove what they could. The first cast
is the check of `annotated_region.functions.extent_checks`: a call that breaks it says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count

import tvm_ffi
from tvm import relax, tirx
from tvm.sym import detect_linear_equation

from annotated_region.errors import ModelError
from annotated_region.functions.extent_bounds import LOWER_BOUNDS, UPPER_BOUNDS
from annotated_region.functions.extent_checks import extent_difference, with_extent_checks
from annotated_region.tvm_adapter.arithmetic import visit
from annotated_region.tvm_adapter.nodes import PrimExpr
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["with_derived_extents"]

_BOUNDS = (LOWER_BOUNDS, UPPER_BOUNDS)


@dataclass(frozen=True, slots=True)
class _Derived:
    """An extent of inputs: `factor` times `symbol`, which is no extent itself, plus `term`.

    Attributes
    ----------
    variable
        The variable in its place.
    """

    extent: PrimExpr
    symbol: tirx.Var
    factor: int
    term: int
    variable: tirx.Var

    @property
    def quotient(self) -> PrimExpr:
        """The symbol, computed from the variable."""
        return (self.variable - self.term) // self.factor


def with_derived_extents(function: relax.Function) -> relax.Function:
    """The function with a variable for each extent whose symbol is no extent itself; itself if it has none.

    Raises
    ------
    ModelError
        Such an extent is not a multiple of one symbol plus a number.
    """
    found = _derived_extents(function.params)
    if not found:
        return function
    builder = relax.BlockBuilder()
    solved = {each.symbol: each.quotient for each in reversed(found)}
    shape = relax.ShapeExpr(list(solved.values()))
    quotients = relax.Var("quotients", builder.normalize(shape).ty)
    symbols = relax.ShapeType(list(solved))
    params = [_parameter(param, found) for param in function.params]
    casts = [
        relax.MatchCast(old, new, old.ty)
        for old, new in zip(function.params, params, strict=True)
        if not old.same_as(new)  # each reading of `params` may make other objects of Python
    ]
    bindings = [
        relax.VarBinding(quotients, shape),
        relax.MatchCast(relax.Var("derived", symbols), quotients, symbols),
        *casts,
    ]
    blocks = [relax.BindingBlock(bindings), *function.body.blocks]
    body = builder.normalize(relax.SeqExpr(blocks, function.body.body, function.body.span))
    changed = relax.Function(params, body, function.ret_ty, function.is_pure, function.attrs, function.span)
    wanted = [
        extent_difference(each.variable, solved[each.symbol] * each.factor + each.term) for each in found
    ]
    return with_extent_checks(_with_bounds(changed, found), wanted)


def _derived_extents(params: Sequence[relax.Var]) -> list[_Derived]:
    """Each extent, once, whose symbol is no extent of a parameter."""
    known = [each for param in params for each in _extents(param) if isinstance(each, tirx.Var)]
    found: list[_Derived] = []
    names = {each.name for param in params for extent in _extents(param) for each in _symbols(extent)}
    for param in params:
        for extent in _extents(param):
            unknown = [each for each in _symbols(extent) if each not in known]
            if unknown and _found(extent, found) is None:
                found.append(_derived(param, extent, unknown, names))
                names.add(found[-1].variable.name)
    return found


def _derived(
    param: relax.Var, extent: PrimExpr, unknown: Sequence[tirx.Var], taken: Collection[str]
) -> _Derived:
    parts = detect_linear_equation(extent, [unknown[0]])
    numbers = [int(each) for each in parts if isinstance(each, tirx.IntImm)]
    if len(numbers) != 2 or numbers[0] < 1:
        raise ModelError(
            f"the extent {extent} of the input {param.name} is no multiple of one symbol plus a number; "
            "export it with other dynamic shapes"
        )
    # TVM finds the bounds of variables by their names, so no two have one.
    name = f"{unknown[0].name}_whole"
    free = (each for each in chain([name], (f"{name}_{number}" for number in count(1))) if each not in taken)
    variable = tirx.Var(next(free), "int64")
    return _Derived(extent, unknown[0], numbers[0], numbers[1], variable)


def _extents(param: relax.Var) -> Iterator[PrimExpr]:
    shape = param.ty.shape if isinstance(param.ty, relax.TensorType) else None
    yield from shape.values if isinstance(shape, relax.ShapeExpr) else ()


def _symbols(extent: PrimExpr) -> list[tirx.Var]:
    found: dict[tirx.Var, None] = {}
    visit(extent, [(tirx.Var, found.setdefault)])
    return list(found)


def _found(extent: PrimExpr, found: Sequence[_Derived]) -> _Derived | None:
    return next((each for each in found if tvm_ffi.structural_equal(extent, each.extent)), None)


def _parameter(param: relax.Var, found: Sequence[_Derived]) -> relax.Var:
    """A parameter with variables for such extents; itself if it has none."""
    places = {axis: _found(extent, found) for axis, extent in enumerate(_extents(param))}
    if not any(places.values()):
        return param
    shape = [
        extent if (derived := places[axis]) is None else derived.variable
        for axis, extent in enumerate(_extents(param))
    ]
    return relax.Var(param.name, relax.TensorType(shape, tensor_type(param).dtype), param.span)


def _with_bounds(function: relax.Function, found: Sequence[_Derived]) -> relax.Function:
    """The function with bounds of the variables where its attributes have some of their symbols."""
    for name in _BOUNDS:
        bounds = dict(function.attrs[name]) if function.attrs and name in function.attrs else {}
        more = {
            each.variable.name: int(bounds[each.symbol.name]) * each.factor + each.term
            for each in found
            if each.symbol.name in bounds
        }
        if more:
            function = function.with_attr(name, {**bounds, **more})
    return function
