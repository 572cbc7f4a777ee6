"""Inlines external functions at their calls: the inverse of partitioning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import tvm
from tvm import relax

from annotated_region.collector import paused_collector
from annotated_region.expr_map import ExprSet
from annotated_region.functions.inliner import FunctionOf, Inliner
from annotated_region.functions.marking import bindings_in
from annotated_region.tvm_adapter.types import set_type

__all__ = ["callees_among", "inline_functions", "is_inlinable", "opened"]


def is_inlinable(func: relax.Function) -> bool:
    """Whether a function, including its composites, is straight-line code."""
    return all(
        _is_composite(value) and is_inlinable(value)
        if isinstance(value, relax.Function)
        else not isinstance(value, relax.If)
        for block in func.body.blocks
        for value in (binding.value for binding in block.bindings)
    )


def _is_composite(func: relax.Function) -> bool:
    return bool(func.attrs) and "Composite" in func.attrs


def callees_among(chosen: Mapping[tvm.ir.GlobalVar, relax.Function]) -> FunctionOf:
    """Select exactly the calls of the chosen functions for inlining."""
    return lambda callee: chosen.get(callee) if isinstance(callee, tvm.ir.GlobalVar) else None


@paused_collector()
def inline_functions(mod: tvm.IRModule, chosen: Mapping[tvm.ir.GlobalVar, relax.Function]) -> tvm.IRModule:
    """The module with calls of the chosen functions inlined, and without chosen functions that have no caller
    left.

    Linear in the size of the result.
    """
    if not chosen:
        return mod
    result = mod.clone()
    shared = _shared(mod, chosen)
    for global_var, func in mod.functions_items():
        if isinstance(func, relax.Function) and global_var not in chosen:
            result.update_func(global_var, Inliner(callees_among(chosen), shared).inlined(func))
    _remove_unused(result, chosen)
    return result


def opened(func: relax.Function, given: Mapping[int, relax.Expr] | None = None) -> relax.Function:
    """An external function as a host function: straight-line code without composites or attributes.

    Parameters
    ----------
    func
        An inlinable function.
    given
        By parameter index, the constant that replaces the parameter. The parameter itself stays.
    """
    name = tvm.ir.GlobalVar("opened")
    set_type(name, func.ty)
    params = [relax.Var(param.name, param.ty) for param in func.params]
    out = relax.Var("out", func.ret_ty)
    arguments = [(given or {}).get(index, param) for index, param in enumerate(params)]
    call = relax.Call(name, arguments, ret_ty=func.ret_ty)
    body = relax.SeqExpr([relax.DataflowBlock([relax.VarBinding(out, call)])], out)
    set_type(body, func.ret_ty)
    return Inliner(callees_among({name: func})).inlined(relax.Function(params, body, func.ret_ty))


def _shared(mod: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, relax.Function]) -> ExprSet:
    """The functions that are called more than once."""
    calls = Counter(
        binding.value.op
        for func in mod.functions.values()
        if isinstance(func, relax.Function)
        for binding in bindings_in(func.body)
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.GlobalVar)
    )
    return ExprSet(func for global_var, func in functions.items() if calls[global_var] > 1)


def _remove_unused(mod: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, relax.Function]) -> None:
    """Remove those of `functions` that no other function refers to, directly or through others of them."""
    used = {
        global_var
        for caller, func in mod.functions_items()
        if isinstance(func, relax.Function) and caller not in functions
        for global_var in relax.analysis.all_global_vars(func)
    }
    waiting = [global_var for global_var in functions if global_var in used]
    for caller in waiting:
        for callee in relax.analysis.all_global_vars(functions[caller]):
            if callee in functions and callee not in used:
                used.add(callee)
                waiting.append(callee)
    for global_var in functions:
        if global_var not in used:
            del mod[global_var]
