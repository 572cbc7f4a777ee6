"""Plants faults in the functions that a code generator gets, whichever engine that is for.

They are planted in the module, so that wrong constants get their names as all others do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import tvm
from tvm import relax

from annotated_region.compilation import executable
from annotated_region.compilation.code_generation import external_functions, generate_code
from annotated_region.functions.rewriting import typed
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect
from kits.checking.faults import EXCHANGED, SATURATED, WRONG_STEP, Fault
from kits.checking.op_kernels import call_names

__all__ = ["FUNCTION_FAULTS", "spoiled", "spoiled_module"]

Spoiled = tuple[Sequence[relax.Binding], relax.Call]


@contextmanager
def spoiled(target: str, fault: Fault) -> Iterator[None]:
    """Inside the ``with`` block what a target generates has one of `FUNCTION_FAULTS`."""

    def generate(mod: tvm.IRModule, options: Mapping[str, Mapping[str, object]]) -> tvm.IRModule:
        return generate_code(spoiled_module(mod, target, fault), options)

    with patch.object(executable, "generate_code", generate):
        yield


def spoiled_module(mod: tvm.IRModule, target: str, fault: Fault) -> tvm.IRModule:
    """The module, wrong at the op of the fault in those functions of a target that have what it needs."""
    result = mod.clone()
    for name, function in external_functions(mod).get(target, {}).items():
        if fault.is_in(list(call_names(function).values())):
            result.update_func(name, _spoiled(function, fault))
    return result


def _spoiled(function: relax.Function, fault: Fault) -> relax.Function:
    blocks = []
    for block in function.body.blocks:
        bindings: list[relax.Binding] = []
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Function):
                value = _spoiled(value, fault)
            elif binding.var.name == fault.op and _is_of_an_op(value):
                more, value = FUNCTION_FAULTS[fault.kind](value, fault)
                bindings += more
            bindings.append(relax.VarBinding(binding.var, value))
        blocks.append(type(block)(bindings))
    result = function.body.body
    body = typed(relax.SeqExpr(blocks, result), result.ty)
    return relax.Function(function.params, body, result.ty, True, function.attrs)


def _is_of_an_op(value: relax.Expr) -> bool:
    """A composite has the name of its last op, which is within its function."""
    return isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op)


def _with(call: relax.Call, operands: Sequence[relax.Expr]) -> relax.Call:
    """The call with other operands, of the same type."""
    return relax.Call(call.op, operands, call.attrs, call.ty_args, ret_ty=call.ty)


def _exchanged(call: relax.Call, _fault: Fault) -> Spoiled:
    operands = list(call.args)
    if isinstance(operands[0], relax.Tuple):
        return [], _with(call, [relax.Tuple(list(reversed(operands[0].fields))), *operands[1:]])
    left, right = EXCHANGED[str(call.op.name)]
    operands[left], operands[right] = operands[right], operands[left]
    return [], _with(call, operands)


def _step(call: relax.Call, _fault: Fault) -> Spoiled:
    scale = expect(Constant, call.args[1]).value.numpy()
    wrong = relax.const(np.asarray(WRONG_STEP * scale, scale.dtype), str(scale.dtype))
    return [], _with(call, [call.args[0], wrong, *call.args[2:]])


def _clipped(call: relax.Call, fault: Fault) -> Spoiled:
    data, bound = call.args[0], SATURATED * fault.largest
    clip = relax.op.clip(data, -bound, bound)
    var = relax.Var(f"{fault.op}_clipped", data.ty)
    value = relax.Call(clip.op, clip.args, clip.attrs, clip.ty_args, ret_ty=data.ty)
    return [relax.VarBinding(var, value)], _with(call, [var, *call.args[1:]])


FUNCTION_FAULTS: Mapping[str, Callable[[relax.Call, Fault], Spoiled]] = {
    "exchanged": _exchanged,
    "step": _step,
    "clipped": _clipped,
}
"""By kind, the wrong call in the place of a call, and what is bound before it."""
