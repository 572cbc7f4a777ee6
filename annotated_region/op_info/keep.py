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

import tvm
from tvm import relax

from annotated_region.op_info.info import ArgRole, Composition, OpInfo, Parameter, Result, Source, Sources
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
        if any(not isinstance(param.ty, relax.TensorType) for param in func.params):
            raise _UnknownError  # FuseTIR flattens tuples and moves shapes to the end
        self.sources: dict[relax.Var, Source] = {
            var: Parameter(index) for index, var in enumerate(func.params)
        }

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
        arguments = self.source_of(call.args[1])
        assert isinstance(arguments, Sources)
        first = len(self.ops)
        for info in part.ops:
            roles = tuple(
                ArgRole(role.role, _moved(role.source, arguments.fields, first)) for role in info.arg_roles
            )
            self.ops.append(replace(info, arg_roles=roles))
        outputs = tuple(Result(output.op + first, output.field) for output in part.outputs)
        return Sources(outputs) if isinstance(call.ty, tvm.ir.TupleType) else outputs[0]


def _moved(source: Source, arguments: tuple[Source, ...], first: int) -> Source:
    match source:
        case Parameter(index):
            return arguments[index]
        case Result(op, field):
            return Result(op + first, field)
        case Sources(fields):
            return Sources(tuple(_moved(part, arguments, first) for part in fields))
        case _:
            return source
