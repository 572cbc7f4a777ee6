"""extract_fused_functions: the functions of a module after lowering and fusion.

A read-only analysis for tuning after fusion: an op that is tuned alone has another kernel than the one into
which it is fused with its neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from itertools import chain, count

import tvm
from tvm import relax

from annotated_region.checked import checked
from annotated_region.errors import InvalidModuleError
from annotated_region.extraction.call_sites import PrimitiveCall, primitive_calls
from annotated_region.extraction.size_parameters import with_sizes_in_order
from annotated_region.functions.modules import (
    entries_of,
    functions_to_partition,
    passed,
    require_well_formed,
    updated,
)
from annotated_region.functions.shape_variables import in_order_of_appearance
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
        The module is not well formed, or a pass of TVM fails with it.
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
    lowering = [
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        # Dead code is never called, and FuseOps fails on some of it.
        relax.transform.DeadCodeElimination(),
        relax.transform.LegalizeOps(),
    ]
    fusion = [
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        *([relax.transform.FuseTIR()] if lowered else []),
    ]
    with host_target(target) if target is not None else nullcontext():
        module = with_sizes_in_order(passed(_with_entries(mod), *lowering))
        return with_sizes_in_order(passed(module, *fusion))


def _with_entries(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` with its functions public if none is; TVM removes those that no public function calls."""
    if entries_of(mod) is None:
        return mod
    functions = functions_to_partition(mod)
    return updated(mod, {name: func.with_attr("global_symbol", name.name_hint) for name, func in functions})


def _lowered_module(module: tvm.IRModule, calls: dict[tvm.ir.GlobalVar, PrimitiveCall]) -> tvm.IRModule:
    result = tvm.IRModule()
    for callee in calls:
        name = callee.name_hint
        result.update_func(tvm.ir.GlobalVar(name), module[callee].with_attr("global_symbol", name))
    return result


def _relax_module(module: tvm.IRModule, calls: dict[tvm.ir.GlobalVar, PrimitiveCall]) -> tvm.IRModule:
    """The functions in Relax, and the TensorIR functions that they call, under their names."""
    result = tvm.IRModule()
    taken = {symbol.name_hint for symbol in module.get_global_vars()}
    bodies: dict[tvm.ir.GlobalVar, tvm.tirx.PrimFunc] = {}
    for callee, call in calls.items():
        function = module[callee]
        if isinstance(function, relax.Function):
            name = callee.name_hint
            function = function.without_attr("Primitive")
        else:
            name = _free_name(f"fused_{callee.name_hint}", taken)
            function = _alone(call.call)
        taken.add(name)
        public = function.with_attr("global_symbol", name)
        symbol = tvm.ir.GlobalVar(name)
        set_type(symbol, public.ty)
        result.update_func(symbol, public)
        for needed in _called_by(public):
            bodies.setdefault(needed, expect(tvm.tirx.PrimFunc, module[needed]))
    for symbol, body in bodies.items():
        result.update_func(symbol, body)
    return result


def _free_name(wanted: str, taken: Collection[str]) -> str:
    names = chain([wanted], (f"{wanted}_{number}" for number in count(1)))
    return next(name for name in names if name not in taken)


def _alone(call: relax.Call) -> relax.Function:
    """A function that consists of one call: a ``call_tir``, or one that passes the results too."""
    if isinstance(call.op, tvm.ir.GlobalVar):
        params = [relax.Var(f"p{index}", argument.ty) for index, argument in enumerate(call.args)]
        return _calling(call, params, params, is_pure=False)
    operands = call.args[1]
    fields = list(operands.fields) if isinstance(operands, relax.Tuple) else [operands]
    params = [relax.Var(f"p{index}", field.ty) for index, field in enumerate(fields)]
    shapes = [relax.Var("shape", rest.ty) for rest in call.args[2:]]
    return _calling(call, [*params, *shapes], [call.args[0], relax.Tuple(params), *shapes], is_pure=True)


def _calling(
    call: relax.Call, params: Sequence[relax.Var], arguments: Sequence[relax.Expr], is_pure: bool
) -> relax.Function:
    result = relax.Var("out", call.ty)
    inner = relax.Call(call.op, arguments, call.attrs, call.ty_args, ret_ty=call.ty)
    block = relax.DataflowBlock if is_pure else relax.BindingBlock
    body = relax.SeqExpr([block([relax.VarBinding(result, inner)])], result)
    set_type(body, call.ty)
    return _closed(relax.Function(params, body, call.ty, is_pure))


def _closed(function: relax.Function) -> relax.Function:
    """The function with fresh shape variables, each defined by a parameter."""
    types = [*(param.ty for param in function.params), function.ret_ty]
    free = in_order_of_appearance(relax.analysis.free_symbolic_vars(function), types)
    if free:
        sizes = relax.Var("sizes", relax.ShapeType(free))
        function = relax.Function([*function.params, sizes], function.body, function.ret_ty)
    try:
        return relax.utils.copy_with_new_vars(function)
    except RuntimeError as error:  # TVM 0.27 infers no type of a condition in an extent
        raise InvalidModuleError(
            f"TVM cannot copy a call with its extents: {error}; use lowered=True"
        ) from error


def _called_by(function: relax.Function) -> list[tvm.ir.GlobalVar]:
    found: dict[tvm.ir.GlobalVar, None] = {}
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call):
                parts = (binding.value.op, *binding.value.args)
                found.update((part, None) for part in parts if isinstance(part, tvm.ir.GlobalVar))
    return list(found)
