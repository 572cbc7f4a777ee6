"""Replaces lowered calls by the Relax ops that they compute.

    lv = R.call_tir(cls.fused_conv2d_relu, (x, w))    ->    lv_conv2d = R.nn.conv2d(x, w, strides=[2, 2], ...)
                                                            lv        = R.nn.relu(lv_conv2d)

The last op keeps the variable of the call, so that nothing else in the function changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.errors import OpInfoError
from annotated_region.functions.rewriting import FunctionRewriter, rebind
from annotated_region.op_info.calls import make_call
from annotated_region.op_info.extents import is_same_tensor, parameters_at_call
from annotated_region.op_info.infer import composition_of
from annotated_region.op_info.info import Composition, Result
from annotated_region.origins import origin_of, span_of
from annotated_region.tvm_adapter.types import expect, set_type

__all__ = ["LoweredCalls", "bindings_in_blocks", "called_composition", "is_call_tir", "single_call"]

Understand = Callable[[tvm.tirx.PrimFunc], Composition | None]
"""The composition of a PrimFunc; None if unknown, or not to be used."""


def is_call_tir(expr: relax.Expr) -> TypeGuard[relax.Call]:
    """Whether an expression calls a PrimFunc with only tensor arguments."""
    if not isinstance(expr, relax.Call) or not isinstance(expr.op, tvm.ir.Op):
        return False
    return expr.op.name == "relax.call_tir" and len(expr.args) == 2


def called_composition(
    call: relax.Expr, mod: tvm.IRModule, understand: Understand = composition_of
) -> Composition | None:
    """The composition of a ``call_tir``; None for other expressions, or if it is unknown."""
    if not is_call_tir(call) or not isinstance(call.args[1], relax.Tuple):
        return None
    func = mod[expect(tvm.ir.GlobalVar, call.args[0])]
    return understand(func) if isinstance(func, tvm.tirx.PrimFunc) else None


def single_call(call: relax.Expr, mod: tvm.IRModule) -> relax.Call | None:
    """The op call equivalent to a ``call_tir``, with its type; None if unknown, or several ops."""
    composition = called_composition(call, mod)
    if composition is None or len(composition.ops) != 1:
        return None
    bindings = _bindings(relax.VarBinding(relax.Var("lowered", call.ty), call), composition, relax.Var)
    return expect(relax.Call, bindings[0].value) if bindings is not None and len(bindings) == 1 else None


@dataclass(frozen=True, slots=True)
class LoweredCalls:
    """The calls of one function that can be raised.

    Attributes
    ----------
    func
        The function.
    bindings
        For the variable of each such call, the bindings that replace it; the last one binds the same
        variable.
    """

    func: relax.Function
    bindings: Mapping[relax.Var, tuple[relax.VarBinding, ...]] = field(repr=False)

    @staticmethod
    def of(func: relax.Function, mod: tvm.IRModule, understand: Understand = composition_of) -> LoweredCalls:
        """Analyze every ``call_tir`` of `func`, a function of `mod`.

        Raises
        ------
        OpInfoError
            A PrimFunc carries malformed op info.

        Notes
        -----
        Linear in the bindings. Each distinct PrimFunc is inferred once in a process.
        """
        bindings = {}
        for block, binding in bindings_in_blocks(func.body):
            composition = called_composition(binding.value, mod, understand)
            if composition is not None and isinstance(binding, relax.VarBinding):
                kind = relax.DataflowVar if isinstance(block, relax.DataflowBlock) else relax.Var
                raised = _bindings(binding, composition, kind)
                if raised is not None:
                    bindings[binding.var] = raised
        return LoweredCalls(func, bindings)

    def raised(self, chosen: Collection[relax.Var] | None = None) -> relax.Function:
        """The function with the calls of the `chosen` variables raised, or all of them."""
        chosen = self.bindings if chosen is None else chosen
        if not chosen:
            return self.func

        def rewritten(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
            for binding in block.bindings[:]:
                if binding.var in chosen:
                    yield from self.bindings[binding.var]
                else:
                    yield rebind(binding, rewriter.nested(binding.value))

        return FunctionRewriter(rewritten, lambda expr: expr).function(self.func)


def bindings_in_blocks(body: relax.Expr) -> Iterator[tuple[relax.BindingBlock, relax.Binding]]:
    """All bindings of a body, each with its block; bindings nested in a value follow the value."""
    if not isinstance(body, relax.SeqExpr):
        return
    for block in body.blocks:
        for binding in block.bindings[:]:
            yield block, binding
            value = binding.value
            if isinstance(value, relax.Call):  # first, because it is the usual case
                continue
            if isinstance(value, relax.If):
                yield from bindings_in_blocks(value.true_branch)
                yield from bindings_in_blocks(value.false_branch)
            elif isinstance(value, relax.Function):
                yield from bindings_in_blocks(value.body)


def _bindings(
    binding: relax.VarBinding, composition: Composition, kind: type[relax.Var]
) -> tuple[relax.VarBinding, ...] | None:
    """The bindings of a composition; None if their type differs from that of the call."""
    try:
        return _Placement(binding, kind).bindings_of(composition)
    except (OpInfoError, KeyError, tvm.error.InternalError, TypeError, ValueError):
        return None  # an op of other times, or shapes that it no longer fits


class _Placement:
    """Creates the bindings that replace one binding."""

    def __init__(self, binding: relax.VarBinding, kind: type[relax.Var]) -> None:
        self.binding = binding
        self.kind = kind
        self.builder = relax.BlockBuilder()
        self.span = span_of(origin_of(binding.var, binding.value))
        self.made: list[relax.VarBinding] = []

    def bindings_of(self, composition: Composition) -> tuple[relax.VarBinding, ...] | None:
        """The bindings of a composition; the last one binds the old variable."""
        lowered = expect(relax.Call, self.binding.value)
        arguments = parameters_at_call(lowered)
        results: dict[Result, relax.Expr] = {}
        for number, info in enumerate(composition.ops):
            call = expect(relax.Call, self.builder.normalize(make_call(info, arguments, results)))
            fitted = self.fitted(call) if composition.outputs == _results_of(number, call) else None
            if fitted is not None:
                return self.ended_by(fitted)
            results.update(self.placed(number, call, info.name.rpartition(".")[2]))
        outputs = [results[output] for output in composition.outputs]
        # What counts is what the call says: a tuple of one field is no tensor.
        whole = len(outputs) > 1 or isinstance(self.binding.value.ty, tvm.ir.TupleType)
        result = relax.Tuple(outputs) if whole else outputs[0]
        fitted = self.fitted(result)
        return None if fitted is None else self.ended_by(fitted)

    def placed(self, number: int, call: relax.Call, name: str) -> Iterator[tuple[Result, relax.Expr]]:
        """Bind a call, and each field of it."""
        value = self.bind(name, call)
        for result in _results_of(number, call):
            index = result.field
            yield result, value if index is None else self.bind(name, relax.TupleGetItem(value, index))

    def bind(self, name: str, value: relax.Expr) -> relax.Var:
        var = self.kind(f"{self.binding.var.name}_{name}", value.ty, self.span)
        self.made.append(relax.VarBinding(var, value))
        return var

    def fitted(self, value: relax.Expr) -> relax.Expr | None:
        """The result with the type of the lowered call; None if it has another type."""
        wanted = self.binding.value.ty
        if tvm_ffi.structural_equal(value.ty, wanted):
            return value
        if not isinstance(value, relax.Call) or not is_same_tensor(value.ty, wanted):
            return None
        # An extent is ``2 * n`` in one and ``n * 2`` in the other; readers know that of the lowered call.
        made = relax.Call(value.op, list(value.args), value.attrs, value.ty_args)
        set_type(made, wanted)
        return made

    def ended_by(self, value: relax.Expr) -> tuple[relax.VarBinding, ...]:
        return (*self.made, relax.VarBinding(self.binding.var, value, self.binding.span))


def _results_of(number: int, call: relax.Call) -> tuple[Result, ...]:
    if not isinstance(call.ty, tvm.ir.TupleType):
        return (Result(number),)
    return tuple(Result(number, index) for index in range(len(call.ty.fields)))
