"""Preserves op info through fusion: composes the infos of the calls in a fused Relax function.

``FuseOps`` makes a Relax function of ``call_tir``; ``FuseTIR`` merges their PrimFuncs into one, and drops all
attributes. So the infos of the parts are composed before:

    fused(x, w, b):  lv  = call_tir(conv2d, (x, w))       conv2d(parameter 0, parameter 1)
                     lv1 = call_tir(add, (lv, b))    ->   add(result 0, parameter 2)
                     return lv1                           outputs: result 1

References are by position, so renaming, deduplication and removal of other functions do not affect them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

import tvm
from tvm import relax

from annotated_region.op_info.extents import extent_at_call, extent_places, parameters_at_call
from annotated_region.op_info.info import (
    ArgRole,
    Composition,
    DerivedExtent,
    Extent,
    ExtentOf,
    OpInfo,
    Parameter,
    Result,
    Shape,
    Source,
    Sources,
    Value,
)
from annotated_region.tvm_adapter.types import expect

__all__ = ["compose"]

Describe = Callable[[tvm.ir.GlobalVar], Composition | None]
"""What the PrimFunc of that name computes."""


class _UnknownError(Exception):
    """A part of the function has no description."""


def compose(func: relax.Function, describe: Describe) -> Composition | None:
    """The ops that a Relax function computes, if it only calls PrimFuncs with known compositions.

    Parameters
    ----------
    func
        A function as made by ``FuseOps``.
    describe
        The composition of a PrimFunc.

    Returns
    -------
    The composition; None if a part is unknown, or a value is neither a parameter nor a result.
    """
    try:
        return _Composer(func, describe).composition()
    except _UnknownError:
        return None


class _Composer:
    """Walks the bindings once and remembers where each variable comes from."""

    def __init__(self, func: relax.Function, describe: Describe) -> None:
        self.func = func
        self.describe = describe
        self.ops: list[OpInfo] = []
        # FuseTIR flattens tuples, and makes integer parameters of the extents in the shapes at the end.
        tensors = list(takewhile(lambda param: isinstance(param.ty, relax.TensorType), func.params))
        scalars = [extent for param in func.params[len(tensors) :] for extent in _extents_in(param)]
        self.sources: dict[relax.Var, Source] = {var: Parameter(index) for index, var in enumerate(tensors)}
        self.extents = extent_places([*tensors, *scalars], func.ret_ty)

    def composition(self) -> Composition:
        body = self.func.body
        for block in body.blocks:
            for binding in block.bindings:
                self.sources[binding.var] = self.source_of(binding.value)
        outputs = self.source_of(body.body)
        fields = outputs.fields if isinstance(outputs, Sources) else (outputs,)
        results = tuple(field for field in fields if isinstance(field, Result))
        if len(results) != len(fields):
            raise _UnknownError
        return Composition(tuple(self.ops), results)

    def source_of(self, value: relax.Expr) -> Source:
        if isinstance(value, relax.Var) and value in self.sources:
            return self.sources[value]
        if isinstance(value, relax.Tuple):
            return Sources(tuple(self.source_of(part) for part in value.fields))
        if isinstance(value, relax.TupleGetItem):
            whole = self.source_of(value.tuple_value)
            if isinstance(whole, Sources):
                part: Source = whole.fields[value.index]
                return part
        if isinstance(value, relax.Call):
            return self.call(value)
        raise _UnknownError

    def call(self, call: relax.Call) -> Source:
        """The outputs of one ``call_tir``, whose ops are appended."""
        is_call_tir = isinstance(call.op, tvm.ir.Op) and call.op.name == "relax.call_tir"
        part = self.describe(expect(tvm.ir.GlobalVar, call.args[0])) if is_call_tir else None
        if part is None:
            raise _UnknownError
        moved = _Moved(self, call)
        first = len(self.ops)
        for info in part.ops:
            roles = tuple(ArgRole(role.role, moved.source(role.source, first)) for role in info.arg_roles)
            self.ops.append(replace(info, arg_roles=roles))
        outputs = tuple(Result(output.op + first, output.field) for output in part.outputs)
        return Sources(outputs) if isinstance(call.ty, tvm.ir.TupleType) else outputs[0]


def _extents_in(param: relax.Var) -> list[relax.Expr]:
    if not isinstance(param.ty, relax.ShapeType) or param.ty.values is None:
        raise _UnknownError
    return list(param.ty.values)


class _Moved:
    """The sources of a called function's ops, in the function that calls it."""

    def __init__(self, caller: _Composer, call: relax.Call) -> None:
        self.caller = caller
        self.parameters = parameters_at_call(call)

    def source(self, source: Source, first: int) -> Source:
        """The source, where `first` ops are before those of the called function."""
        match source:
            case Result(op, field):
                return Result(op + first, field)
            case Sources(fields):
                return Sources(tuple(self.source(part, first) for part in fields))
            case Shape(extents):
                return Shape(tuple(map(self.extent, extents)))
            case Parameter() | ExtentOf() | DerivedExtent():
                return self.given(source)
        return source

    def given(self, source: Parameter | ExtentOf | DerivedExtent) -> Source:
        """The source of an argument, or of an integer that is known from the arguments."""
        if isinstance(source, Parameter):
            argument = self.parameters[source.index]
            if not isinstance(argument.ty, tvm.ir.PrimType):
                return self.caller.source_of(argument)
        found = self.extent(source)
        return Value(found, "int64") if isinstance(found, int) else found

    def extent(self, extent: Extent) -> Extent:
        """An extent as the parameters of the caller tell it."""
        place = self.caller.extents.place(extent_at_call(extent, self.parameters))
        if place is None:
            raise _UnknownError
        return place
