"""The calls of primitive functions in a module: in all functions, branches and local functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.functions.modules import functions_to_partition

__all__ = ["CallSite", "PrimitiveCall", "primitive_calls"]

# The ops that call the primitive function that is their first argument.
_CALLING_OPS = ("relax.call_tir", "relax.call_tir_inplace", "relax.call_tir_with_grad")


@dataclass(frozen=True, slots=True, order=True)
class CallSite:
    """A call site: the enclosing function, and the variable that the call is bound to."""

    function: str
    binding: str


@dataclass(frozen=True, slots=True)
class PrimitiveCall:
    """A call of a primitive function, TensorIR or fused Relax, with its call site."""

    site: CallSite
    callee: tvm.ir.GlobalVar
    call: relax.Call


def primitive_calls(mod: tvm.IRModule) -> Iterator[PrimitiveCall]:
    """The calls of primitive functions: functions in order of their names, bindings in program order.

    External functions and primitive functions themselves are not visited. A function with several
    call sites is visited once: the count is static.

    Notes
    -----
    O(bindings). The traversal uses an explicit stack, so the depth of nested branches is not limited.
    """
    for name, function in functions_to_partition(mod):
        for var, call in _calls_within(function.body):
            callee = _callee(mod, call)
            if callee is not None:
                yield PrimitiveCall(CallSite(name.name_hint, var), callee, call)


def _calls_within(body: relax.Expr) -> Iterator[tuple[str, relax.Call]]:
    pending: list[Iterator[relax.Binding]] = [_bindings(body)]
    while pending:
        binding = next(pending[-1], None)
        if binding is None:
            pending.pop()
            continue
        value = binding.value
        if isinstance(value, relax.If):
            pending += [_bindings(value.false_branch), _bindings(value.true_branch)]
        elif isinstance(value, relax.Function):
            pending.append(_bindings(value.body))
        elif isinstance(value, relax.Call):
            yield binding.var.name, value


def _bindings(body: relax.Expr) -> Iterator[relax.Binding]:
    if isinstance(body, relax.SeqExpr):
        for block in body.blocks:
            yield from block.bindings


def _callee(mod: tvm.IRModule, call: relax.Call) -> tvm.ir.GlobalVar | None:
    """The callee, if it is a primitive function."""
    named = call.op
    if isinstance(named, tvm.ir.Op) and named.name in _CALLING_OPS:
        named = call.args[0]
    if not isinstance(named, tvm.ir.GlobalVar):
        return None
    return named if is_primitive(mod[named]) else None


def is_primitive(function: tvm.ir.BaseFunc) -> bool:
    """Whether a function is TensorIR that writes tensors, or was created by ``FuseOps``.

    TensorIR that returns a number computes extents and conditions.
    """
    if isinstance(function, relax.Function):
        return bool(function.attrs) and "Primitive" in function.attrs
    return isinstance(function, tvm.tirx.PrimFunc) and not isinstance(function.ret_type, tvm.ir.PrimType)
