"""Plants faults in the functions that a code generator gets, whichever engine that is for.

    options={"dnnl": planted(Fault("step", "lv12"))}

The option is one of the tests: a generator that stands in front of the real one takes it off. What asks a
target about its options before that would refuse it; such a target is `spoiled` without.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from annotated_region.functions.rewriting import typed
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect
from kits.checking.faults import EXCHANGED, SATURATED, WRONG_STEP, Fault
from kits.checking.op_kernels import call_names

__all__ = ["FUNCTION_FAULTS", "Generate", "planted", "planting", "spoiled", "spoiled_functions"]

OPTION = "planted"

Functions = Sequence[relax.Function]
Names = Mapping[Constant, str]
Made = Callable[[np.ndarray], Constant]
Spoiled = tuple[Sequence[relax.Binding], relax.Call]
Generate = Callable[[Functions, Mapping[str, Any], Names], Sequence[tvm.runtime.Module]]


def planted(fault: Fault) -> dict[str, object]:
    """The options of a target that plant a fault."""
    return {OPTION: json.dumps(asdict(fault))}


@contextmanager
def planting(
    target: str, generate_wrong: Callable[[Generate, Fault], Generate] | None = None
) -> Iterator[None]:
    """Inside the ``with`` block a target knows the option.

    Parameters
    ----------
    target
        Which.
    generate_wrong
        Makes a generator with a fault that is not one of `FUNCTION_FAULTS`.
    """
    name = f"relax.ext.{target}"
    real = tvm.get_global_func(name)

    def generate(functions: Functions, options: Mapping[str, Any], names: Names) -> Any:
        given = {str(key): value for key, value in options.items()}
        said = given.pop(OPTION, None)
        if said is None:
            return real(functions, given, names)
        fault = Fault(**json.loads(str(said)))
        if fault.kind in FUNCTION_FAULTS:
            wrong, more = spoiled_functions(functions, fault)
            return real(wrong, given, {**dict(names.items()), **more})
        assert generate_wrong is not None, "the target has no such fault"
        return generate_wrong(real, fault)(functions, given, names)

    tvm_ffi.register_global_func(name, generate, override=True)
    try:
        yield
    finally:
        tvm_ffi.register_global_func(name, real, override=True)


@contextmanager
def spoiled(target: str, fault: Fault) -> Iterator[None]:
    """Inside the ``with`` block a target that refuses unknown options has one of `FUNCTION_FAULTS`."""
    name = f"relax.ext.{target}"
    real = tvm.get_global_func(name)

    def generate(functions: Functions, options: Mapping[str, Any], names: Names) -> Any:
        wrong, more = spoiled_functions(functions, fault)
        return real(wrong, options, {**dict(names.items()), **more})

    tvm_ffi.register_global_func(name, generate, override=True)
    try:
        yield
    finally:
        tvm_ffi.register_global_func(name, real, override=True)


def spoiled_functions(functions: Functions, fault: Fault) -> tuple[list[relax.Function], dict[Constant, str]]:
    """The functions, wrong at the op of the fault in those that have what it needs, and new constants."""
    made: dict[Constant, str] = {}

    def constant(array: np.ndarray) -> Constant:
        new = expect(Constant, relax.const(array, str(array.dtype)))
        made[new] = f"planted_{len(made)}"
        return new

    has = [fault.is_in(list(call_names(function).values())) for function in functions]
    spoiled = [
        _spoiled(function, fault, constant) if is_wrong else function
        for function, is_wrong in zip(functions, has, strict=True)
    ]
    return spoiled, made


def _spoiled(function: relax.Function, fault: Fault, constant: Made) -> relax.Function:
    blocks = []
    for block in function.body.blocks:
        bindings: list[relax.Binding] = []
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Function):
                value = _spoiled(value, fault, constant)
            elif binding.var.name == fault.op and isinstance(value, relax.Call):
                more, value = FUNCTION_FAULTS[fault.kind](value, fault, constant)
                bindings += more
            bindings.append(relax.VarBinding(binding.var, value))
        blocks.append(type(block)(bindings))
    result = function.body.body
    body = typed(relax.SeqExpr(blocks, result), result.ty)
    return relax.Function(function.params, body, result.ty, True, function.attrs)


def _with(call: relax.Call, operands: Sequence[relax.Expr]) -> relax.Call:
    """The call with other operands, of the same type."""
    return relax.Call(call.op, operands, call.attrs, call.ty_args, ret_ty=call.ty)


def _exchanged(call: relax.Call, _fault: Fault, _constant: Made) -> Spoiled:
    operands = list(call.args)
    if isinstance(operands[0], relax.Tuple):
        return [], _with(call, [relax.Tuple(list(reversed(operands[0].fields))), *operands[1:]])
    left, right = EXCHANGED[str(call.op.name)]
    operands[left], operands[right] = operands[right], operands[left]
    return [], _with(call, operands)


def _step(call: relax.Call, _fault: Fault, constant: Made) -> Spoiled:
    scale = expect(Constant, call.args[1]).value.numpy()
    wrong = constant(np.asarray(WRONG_STEP * scale, scale.dtype))
    return [], _with(call, [call.args[0], wrong, *call.args[2:]])


def _clipped(call: relax.Call, fault: Fault, _constant: Made) -> Spoiled:
    data, bound = call.args[0], SATURATED * fault.largest
    clip = relax.op.clip(data, -bound, bound)
    var = relax.Var(f"{fault.op}_clipped", data.ty)
    value = relax.Call(clip.op, clip.args, clip.attrs, clip.ty_args, ret_ty=data.ty)
    return [relax.VarBinding(var, value)], _with(call, [var, *call.args[1:]])


FUNCTION_FAULTS: Mapping[str, Callable[[relax.Call, Fault, Made], Spoiled]] = {
    "exchanged": _exchanged,
    "step": _step,
    "clipped": _clipped,
}
"""By kind, the wrong call in the place of a call, and what is bound before it."""
