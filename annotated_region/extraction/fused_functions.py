"""extract_fused_functions: the functions of a module after lowering and fusion.

A read-only analysis for tuning after fusion: an op that is tuned alone has another kernel than the one into
which it is fused with its neighbours.
"""

from __future__ import annotations

from contextlib import nullcontext

import tvm
from tvm import relax

from annotated_region.checked import checked
from annotated_region.extraction.call_sites import PrimitiveCall, primitive_calls
from annotated_region.functions.modules import require_well_formed
from annotated_region.host_targets import HostTarget, host_target
from annotated_region.serial import one_at_a_time
from annotated_region.tvm_adapter.types import expect, set_type

__all__ = ["extract_fused_functions", "fused"]


@checked
def extract_fused_functions(
    mod: tvm.IRModule, target: HostTarget | None = None, *, lowered: bool = True
) -> tvm.IRModule:
    """The fused primitive functions of a module.

    Parameters
    ----------
    mod
        Any well-formed module, lowered or not; it is not changed. Constants are not folded: run
        `PrepareForInference` first to extract the functions that remain after it.
    target
        The target of lowering, where that makes a difference; by default the current target, if any.
    lowered
        Whether the functions are TensorIR, as created by ``FuseTIR``, or Relax, as created by ``FuseOps``.

    Returns
    -------
    tvm.IRModule
        The functions. Each is public, has its name in the fused module, and can be built and run alone. With
        ``lowered=False`` the private TensorIR functions that they call are included.

    Raises
    ------
    InvalidModuleError
        The module is not well formed.
    UsageError
        An argument has the wrong type, or TVM does not know the target.

    Notes
    -----
    Linear in the size of the module, plus TVM's own lowering. Unreachable functions are omitted.
    """
    module = fused(mod, target, lowered=lowered)
    calls: dict[tvm.ir.GlobalVar, PrimitiveCall] = {}
    for call in primitive_calls(module):
        calls.setdefault(call.callee, call)
    return _lowered_module(module, calls) if lowered else _relax_module(module, calls)


@one_at_a_time
def fused(mod: tvm.IRModule, target: HostTarget | None = None, *, lowered: bool = True) -> tvm.IRModule:
    """The module after TVM's lowering and fusion; parameters are those of `extract_fused_functions`."""
    require_well_formed(mod)
    public = any(
        function.attrs and "global_symbol" in function.attrs for _, function in mod.functions_items()
    )
    # If all functions are private, nothing determines which of them are dead.
    entries = None if public else [name.name_hint for name in mod.get_global_vars()]
    passes = [
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        # Dead code is never called, and FuseOps fails on some of it.
        relax.transform.DeadCodeElimination(entries),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        *([relax.transform.FuseTIR()] if lowered else []),
    ]
    with host_target(target) if target is not None else nullcontext():
        return tvm.transform.Sequential(passes, name="fuse")(mod)


def _lowered_module(module: tvm.IRModule, calls: dict[tvm.ir.GlobalVar, PrimitiveCall]) -> tvm.IRModule:
    result = tvm.IRModule()
    for callee in calls:
        name = callee.name_hint
        result.update_func(tvm.ir.GlobalVar(name), module[callee].with_attr("global_symbol", name))
    return result


def _relax_module(module: tvm.IRModule, calls: dict[tvm.ir.GlobalVar, PrimitiveCall]) -> tvm.IRModule:
    """The functions in Relax, and the TensorIR functions that they call, under their names."""
    result = tvm.IRModule()
    bodies: dict[tvm.ir.GlobalVar, tvm.tirx.PrimFunc] = {}
    for callee, call in calls.items():
        function = module[callee]
        if isinstance(function, relax.Function):
            name = callee.name_hint
            function = function.without_attr("Primitive")
        else:
            name = _free_name(module, result, callee.name_hint)
            function = _alone(call.call)
        public = function.with_attr("global_symbol", name)
        symbol = tvm.ir.GlobalVar(name)
        set_type(symbol, public.ty)
        result.update_func(symbol, public)
        for needed in _called_by(public):
            bodies.setdefault(needed, expect(tvm.tirx.PrimFunc, module[needed]))
    for symbol, body in bodies.items():
        result.update_func(symbol, body)
    return result


def _free_name(module: tvm.IRModule, result: tvm.IRModule, name: str) -> str:
    taken = {symbol.name_hint for part in (module, result) for symbol in part.get_global_vars()}
    wanted, count = f"fused_{name}", 1
    while wanted in taken:
        wanted, count = f"fused_{name}_{count}", count + 1
    return wanted


def _alone(call: relax.Call) -> relax.Function:
    """A function that consists of one ``call_tir``."""
    operands = call.args[1]
    fields = list(operands.fields) if isinstance(operands, relax.Tuple) else [operands]
    params = [relax.Var(f"p{index}", field.ty) for index, field in enumerate(fields)]
    shapes = [relax.Var("shape", rest.ty) for rest in call.args[2:]]
    result = relax.Var("out", call.ty)
    inner = relax.Call(
        call.op, [call.args[0], relax.Tuple(params), *shapes], call.attrs, call.ty_args, ret_ty=call.ty
    )
    body = relax.SeqExpr([relax.DataflowBlock([relax.VarBinding(result, inner)])], result)
    set_type(body, call.ty)
    return _closed(relax.Function([*params, *shapes], body, call.ty))


def _closed(function: relax.Function) -> relax.Function:
    """The function with fresh shape variables, each defined by a parameter."""
    free = relax.analysis.free_symbolic_vars(function)
    if free:
        sizes = relax.Var("sizes", relax.ShapeType(list(free)))
        function = relax.Function([*function.params, sizes], function.body, function.ret_ty)
    return relax.utils.copy_with_new_vars(function)


def _called_by(function: relax.Function) -> list[tvm.ir.GlobalVar]:
    found: dict[tvm.ir.GlobalVar, None] = {}
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.Op):
                found.update(
                    (argument, None)
                    for argument in binding.value.args
                    if isinstance(argument, tvm.ir.GlobalVar)
                )
    return list(found)
