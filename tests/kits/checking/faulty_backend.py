"""A target that is wrong where it is told to be: TVM runs its regions, with faults in their functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

import annotated_region as ar
from annotated_region.expr_map import ExprMap
from annotated_region.functions.rewriting import replace_operands
from annotated_region.testing.registry import claim_ops

__all__ = ["FAULTS", "NAME", "Fault", "register", "spoiled"]

NAME = "faulty"
Spoil = Callable[[relax.BlockBuilder, relax.Call, relax.Var], relax.Expr | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong.

    Attributes
    ----------
    kind
        How; one of `FAULTS`.
    op
        The binding whose value is wrong.
    needs
        Another binding that has to be in the same region for that; None for a fault of one op.
    """

    kind: str
    op: str
    needs: str | None = None


def register(
    ops: Iterable[str], fault: Fault | None = None, built: list[int] | None = None, **described: Any
) -> None:
    """Make the target known.

    Parameters
    ----------
    ops
        The ops that it claims.
    fault
        What it does wrong.
    built
        Gets the number of functions of each build.
    """
    numbers = itertools.count()

    def generate(
        functions: Sequence[relax.Function], _options: Mapping[str, Any], _names: Mapping[Any, str]
    ) -> list[Any]:
        if built is not None:
            built.append(len(functions))
        for function in functions:
            symbol = str(function.attrs["global_symbol"])
            tvm_ffi.register_global_func(symbol, _region(function, fault, next(numbers)), override=True)
        return []

    ar.register_backend(NAME, **described)
    claim_ops(NAME, *ops)
    tvm_ffi.register_global_func(f"relax.ext.{NAME}", generate, override=True)


def _region(function: relax.Function, fault: Fault | None, number: int) -> Callable[..., None]:
    # Not inlined: the variable of a result keeps its name.
    plain = function.without_attr("Codegen")
    func = plain if fault is None else spoiled(plain, fault)
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    count = len(plain.params)

    def region(*tensors: Any) -> None:
        given = [
            tvm.runtime.tensor(each.numpy()) if hasattr(each, "numpy") else each for each in tensors[:count]
        ]
        answer = machine["main"](*given)
        results = [answer] if isinstance(answer, tvm.runtime.Tensor) else list(answer)
        for result, room in zip(results, tensors[count:], strict=True):
            room.copyfrom(result)

    return region


def spoiled(func: relax.Function, fault: Fault) -> relax.Function:
    """The function with the fault in it; as it is where it does not hold the ops of the fault."""
    bindings = [binding for block in func.body.blocks for binding in block.bindings]
    names = {binding.var.name for binding in bindings}
    if fault.op not in names or (fault.needs is not None and fault.needs not in names):
        return func
    builder = relax.BlockBuilder()
    renamed: ExprMap[relax.Expr] = ExprMap()
    with builder.function("main", list(func.params)):
        with builder.dataflow():
            for binding in bindings:
                value = builder.emit(replace_operands(binding.value, lambda expr: renamed.get(expr, expr)))
                if binding.var.name == fault.op:
                    value = _wrong(builder, fault.kind, renamed, binding, value)
                renamed[binding.var] = value
            out = builder.emit_output(replace_operands(func.body.body, lambda expr: renamed.get(expr, expr)))
        builder.emit_func_output(out)
    return builder.get()["main"]


def _wrong(
    builder: relax.BlockBuilder,
    kind: str,
    renamed: ExprMap[relax.Expr],
    binding: relax.Binding,
    value: relax.Var,
) -> relax.Expr:
    call = replace_operands(binding.value, lambda expr: renamed.get(expr, expr))
    wrong = FAULTS[kind](builder, call, value)
    assert wrong is not None, f"{kind} does not fit {binding.var.name}"
    return builder.emit(builder.normalize(wrong))


def _const(value: float, like: relax.Var) -> relax.Expr:
    return relax.const(value, str(like.ty.dtype))


def _largest(builder: relax.BlockBuilder, value: relax.Var) -> relax.Expr:
    return builder.emit(relax.op.max(builder.emit(relax.op.abs(value))))


def _scale(_builder: relax.BlockBuilder, _call: relax.Call, value: relax.Var) -> relax.Expr | None:
    return relax.op.multiply(value, _const(1.3, value))


def _exchanged(builder: relax.BlockBuilder, call: relax.Call, value: relax.Var) -> relax.Expr | None:
    """Operands exchanged, where that is another value of the same type."""
    name = str(call.op.name)
    if name in ("relax.subtract", "relax.divide", "relax.matmul"):
        left, right = call.args
        if str(left.ty) != str(right.ty):
            return None
        return relax.Call(call.op, [right, left], call.attrs)
    if name == "relax.concat" and isinstance(call.args[0], relax.Tuple):
        return relax.Call(call.op, [relax.Tuple(list(reversed(call.args[0].fields)))], call.attrs)
    return None


def _saturating(builder: relax.BlockBuilder, _call: relax.Call, value: relax.Var) -> relax.Expr | None:
    """An int8 whose step is too small, so that the upper half of the range is cut off."""
    bound = builder.emit(relax.op.multiply(_largest(builder, value), _const(0.4, value)))
    below = builder.emit(relax.op.minimum(value, bound))
    return relax.op.maximum(below, builder.emit(relax.op.negative(bound)))


def _overflow(builder: relax.BlockBuilder, _call: relax.Call, value: relax.Var) -> relax.Expr | None:
    bound = builder.emit(relax.op.multiply(_largest(builder, value), _const(0.9, value)))
    beyond = builder.emit(relax.op.greater(value, bound))
    return relax.op.where(beyond, _const(float("inf"), value), value)


def _stride(builder: relax.BlockBuilder, _call: relax.Call, value: relax.Var) -> relax.Expr | None:
    """Every row begins one value too late."""
    extents = [int(each) for each in value.ty.shape.values]
    if not extents or extents[-1] < 2:
        return None
    axis, last = len(extents) - 1, extents[-1]
    tail = builder.emit(relax.op.strided_slice(value, [axis], [1], [last]))
    head = builder.emit(relax.op.strided_slice(value, [axis], [0], [1]))
    return relax.op.concat([tail, head], axis=axis)


def _mask(builder: relax.BlockBuilder, _call: relax.Call, value: relax.Var) -> relax.Expr | None:
    """The last place along the last axis is not seen."""
    extents = [int(each) for each in value.ty.shape.values]
    if not extents or extents[-1] < 2:
        return None
    seen = np.ones(extents[-1], str(value.ty.dtype))
    seen[-1] = 0
    return relax.op.multiply(value, relax.const(seen))


FAULTS: dict[str, Spoil] = {
    "scale": _scale,
    "exchanged": _exchanged,
    "saturating": _saturating,
    "overflow": _overflow,
    "stride": _stride,
    "mask": _mask,
}
"""What may be wrong with the value of an op: an expression in its place; None where that makes no sense."""
