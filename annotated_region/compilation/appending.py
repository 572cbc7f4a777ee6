"""Lets regions write results behind the past in memory of the caller, where `AppendInPlace` has asked for it.

::

    step(x, past [n, 4])             step(x, memory [rows, 4], filled: Shape([n])):
        -> (y [s], new [s, 4])  =>       past = view(memory, [n, 4])
                                         room = view(memory, [s, 4], byte n * 16)
                                         the region writes y and room; only y is returned

It runs after code generation. A call of generated code takes memory for its results after its arguments; TVM
allocates it for ``call_dps_packed``, and here views of the caller's memory are passed instead. TVM checks
that a view lies within the memory when it makes it, and all views are made before anything is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.errors import BuildError, InvalidModuleError, UsageError
from annotated_region.tvm_adapter.nodes import prim_value
from annotated_region.tvm_adapter.types import expect

__all__ = ["APPENDED", "append_in_place", "pasts_of"]

APPENDED = "annotated_region.appended"
"""The attribute of a function: for the name of each past the number of the result with the new rows."""

FORWARDING = (relax.Var, relax.Tuple, relax.TupleGetItem)
Made: TypeAlias = "tuple[relax.Expr, int]"
"""The variable of a call, and the number of one of its results."""


@dataclass(frozen=True, slots=True)
class Past:
    """A parameter ``[n, ...]`` with earlier rows, and the result ``[s, ...]`` that goes behind them."""

    parameter: relax.Var
    result: int

    @property
    def shape(self) -> list[relax.Expr]:
        """The extents of the parameter."""
        return _extents(self.parameter.ty)


def pasts_of(name: str, func: relax.Function, results: Mapping[str, int]) -> list[Past]:
    """The pasts of a function, from the names of parameters to the numbers of results.

    Raises
    ------
    UsageError
        There is no such parameter or result, or two pasts have the same result.
    InvalidModuleError
        The shapes or types of a past and its result do not fit, or pasts differ in the number of rows.
    """
    parameters = {param.name: param for param in func.params}
    types = _result_types(func)
    for parameter, result in results.items():
        if parameter not in parameters or not 0 <= result < len(types):
            raise UsageError(
                f"function {name!r} has the parameters {', '.join(parameters)} and {len(types)} results; "
                f"there is no {parameter!r} to which result {result} could be appended"
            )
    if len(set(results.values())) < len(results):
        raise UsageError(f"function {name!r}: a result is appended to two pasts; append each result to one")
    pasts = [Past(parameters[parameter], result) for parameter, result in results.items()]
    for past in pasts:
        _require_rows(name, past, types[past.result])
        if not past.shape[0].same_as(pasts[0].shape[0]):
            raise InvalidModuleError(
                f"function {name!r}: {past.parameter.name!r} has {past.shape[0]} rows and "
                f"{pasts[0].parameter.name!r} has {pasts[0].shape[0]}; all pasts have the same number"
            )
    return pasts


def _require_rows(name: str, past: Past, result: tvm.ir.Type) -> None:
    ty = past.parameter.ty
    if not _are_alike(ty, result):
        raise InvalidModuleError(
            f"function {name!r}: result {past.result} is {result}, and {past.parameter.name!r} is {ty}; "
            "new rows have the type and the shape of the earlier ones, but for the first extent"
        )
    if not isinstance(past.shape[0], relax.Var):
        raise InvalidModuleError(
            f"function {name!r}: {past.parameter.name!r} has {past.shape[0]} rows; make this symbolic"
        )


def _are_alike(left: tvm.ir.Type, right: tvm.ir.Type) -> bool:
    """Whether both are tensors of one type, whose extents are the same but for the first."""
    if not isinstance(left, relax.TensorType) or not isinstance(right, relax.TensorType):
        return False
    rows, new = _extents(left), _extents(right)
    is_same = left.dtype == right.dtype and len(rows) == len(new) > 0
    return is_same and all(map(tvm_ffi.structural_equal, rows[1:], new[1:]))


def _extents(ty: tvm.ir.Type) -> list[relax.Expr]:
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return []
    return list(ty.shape.values)


def _result_types(func: relax.Function) -> list[tvm.ir.Type]:
    return list(func.ret_ty.fields) if isinstance(func.ret_ty, tvm.ir.TupleType) else [func.ret_ty]


def append_in_place(mod: tvm.IRModule) -> tvm.IRModule:
    """The module, after code generation, with the functions rewritten that have the attribute `APPENDED`.

    Raises
    ------
    BuildError
        A result to be appended is not the output of a region.
    """
    asked = [
        (name, func)
        for name, func in mod.functions_items()
        if isinstance(func, relax.Function) and func.attrs and APPENDED in func.attrs
    ]
    if not asked:
        return mod
    made = mod.clone()
    for name, func in asked:
        # Writing is an effect, which dataflow blocks exclude.
        plain = relax.transform.ToNonDataflow()(tvm.IRModule({name: func}))[name]
        made.update_func(name, _Appending(name.name_hint, expect(relax.Function, plain)).function())
    return relax.transform.Normalize()(made)


class _Appending:
    """Rewrites one function, which has no dataflow blocks."""

    def __init__(self, name: str, func: relax.Function) -> None:
        self.name = name
        self.func = func
        numbers = {str(key): int(value) for key, value in func.attrs[APPENDED].items()}
        self.pasts = pasts_of(name, func, numbers)
        self.bindings = [each for block in func.body.blocks for each in block.bindings]
        self.values = {each.var: each.value for each in self.bindings}
        self.results = self.found_results()
        self.types = _result_types(func)
        self.rooms: dict[Made, relax.Var] = {}
        self.starts: dict[str, tuple[relax.Var, relax.Expr]] = {}

    def function(self) -> relax.Function:
        """The function that appends."""
        capacity = tirx.Var("capacity", "int64")
        memories = {
            past.parameter: relax.Var(past.parameter.name, _with_rows(past.parameter.ty, capacity))
            for past in self.pasts
        }
        views = [each for past in self.pasts for each in self.views(past, memories[past.parameter])]
        starts = [relax.VarBinding(var, value) for var, value in self.starts.values()]
        body = [each for binding in self.bindings for each in self.written(binding)]
        appended = {past.result for past in self.pasts}
        kept = [number for number in range(len(self.types)) if number not in appended]
        is_one = len(kept) == 1
        result = self.results[kept[0]] if is_one else relax.Tuple([self.results[number] for number in kept])
        ret_ty = self.types[kept[0]] if is_one else tvm.ir.TupleType([self.types[number] for number in kept])
        filled = relax.Var("filled", relax.ShapeType([self.pasts[0].shape[0]]))
        params = [*(memories.get(each, each) for each in self.func.params), filled]
        whole = relax.SeqExpr([relax.BindingBlock([*starts, *views, *body])], result)
        made = relax.Function(params, whole, ret_ty, False, self.func.attrs, self.func.span)
        return made.without_attr(APPENDED)

    def found_results(self) -> list[relax.Expr]:
        """The results, one by one."""
        whole = self.func.body.body
        if not isinstance(whole.ty, tvm.ir.TupleType):
            return [whole]
        value = self.resolved(whole)
        if isinstance(value, relax.Tuple):
            return list(value.fields)
        return [relax.TupleGetItem(whole, number) for number in range(len(whole.ty.fields))]

    def resolved(self, expr: relax.Expr) -> relax.Expr:
        """What an expression stands for, through aliases and fields of tuples."""
        value = self.values.get(expr) if isinstance(expr, relax.Var) else expr
        if value is not None and not value.same_as(expr) and isinstance(value, FORWARDING):
            return self.resolved(value)
        if not isinstance(expr, relax.TupleGetItem):
            return expr
        whole = self.resolved(expr.tuple_value)
        if isinstance(whole, relax.Tuple):
            return self.resolved(whole.fields[expr.index])
        return relax.TupleGetItem(whole, expr.index)

    def views(self, past: Past, memory: relax.Var) -> Iterator[relax.Binding]:
        """The rows of a past, and the room behind them, in its memory."""
        yield relax.VarBinding(past.parameter, op.memory.view(memory, relax.ShapeExpr(past.shape)))
        ty = expect(relax.TensorType, self.types[past.result])
        room = relax.Var(f"room_{past.parameter.name}", ty)
        view = op.memory.view(memory, relax.ShapeExpr(_extents(ty)), None, self.start(past))
        yield relax.VarBinding(room, view)
        self.rooms[self.maker(past)] = room

    def start(self, past: Past) -> relax.Var:
        """The byte where the room of a past begins, computed once for all pasts with rows of one size."""
        value = prim_value(reduce(mul, past.shape) * _bytes(expect(relax.TensorType, past.parameter.ty)))
        known = self.starts.setdefault(str(value), (relax.Var("start", value.ty), value))
        return known[0]

    def maker(self, past: Past) -> Made:
        """The call of generated code that makes the new rows, by its variable, and which of its results."""
        value = self.resolved(self.results[past.result])
        made = (value.tuple_value, value.index) if isinstance(value, relax.TupleGetItem) else (value, 0)
        call = self.values.get(made[0]) if isinstance(made[0], relax.Var) else None
        if call is None or not _is_generated(call):
            raise BuildError(
                f"function {self.name!r}: result {past.result} is not the output of a region, so no "
                f"region appends it to {past.parameter.name!r}; let a target claim the op that "
                "computes it, or append what the function returns with KeyValueCache.append"
            )
        if made in self.rooms:
            raise BuildError(
                f"function {self.name!r}: result {past.result} and another one are the same result of a "
                "region, which writes it once; return it once"
            )
        return expect(relax.Var, made[0]), made[1]

    def written(self, binding: relax.Binding) -> Iterator[relax.Binding]:
        """A binding; a call of generated code that writes rows gets memory for all of its results."""
        var, call = binding.var, binding.value
        if not any(var.same_as(maker) for maker, _ in self.rooms):
            yield binding
            return
        is_tuple = isinstance(var.ty, tvm.ir.TupleType)
        types = list(var.ty.fields) if isinstance(var.ty, tvm.ir.TupleType) else [var.ty]
        outputs = []
        for number, ty in enumerate(types):
            room = self.rooms.get((var, number))
            if room is None:
                room = relax.Var(f"{var.name}_{number}", ty)
                yield relax.VarBinding(room, _allocated(expect(relax.TensorType, ty)))
            outputs.append(room)
        symbol, arguments = expect(relax.Call, call).args
        values = [*expect(relax.Tuple, arguments).fields, *outputs]
        nothing = tvm.ir.TupleType([])
        yield relax.VarBinding(relax.Var("_", nothing), relax.Call(symbol, values, ty_args=[nothing]))
        yield relax.VarBinding(var, relax.Tuple(outputs) if is_tuple else outputs[0])


def _is_generated(value: relax.Expr) -> bool:
    if not isinstance(value, relax.Call) or value.op != tvm.ir.Op.get("relax.call_dps_packed"):
        return False
    return isinstance(value.args[1], relax.Tuple)


def _allocated(ty: relax.TensorType) -> relax.Call:
    return op.builtin.alloc_tensor(expect(relax.ShapeExpr, ty.shape), str(ty.dtype), 0)


def _with_rows(ty: tvm.ir.Type, rows: relax.Expr) -> relax.TensorType:
    return relax.TensorType([rows, *_extents(ty)[1:]], expect(relax.TensorType, ty).dtype)


def _bytes(ty: relax.TensorType) -> int:
    return (expect(tvm.ir.PrimType, ty.dtype).dtype.bits + 7) // 8
