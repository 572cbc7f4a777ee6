"""RaiseToOps: turns calls of lowered functions back into calls of Relax ops, where it is known what they are.

It runs on a module that was lowered too early, before annotation:

    lv = R.call_tir(cls.fused_conv2d_relu, (x, w))    ->    lv0 = R.nn.conv2d(x, w, strides=[2, 2], ...)
                                                            lv  = R.nn.relu(lv0)

1.  A PrimFunc with op info, attached or inferred: one op call for each op inside.
2.  A PrimFunc that nobody understands, or whose ops would give another type: stays ``call_tir``.
3.  A PrimFunc that nothing calls any more and nobody outside can name is removed.

Attached op info is believed; what is inferred is proved (see `annotated_region.op_info.infer`).
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.errors import OpInfoError
from annotated_region.modules import replace_functions
from annotated_region.op_info.calls import make_call
from annotated_region.op_info.infer import composition_of
from annotated_region.op_info.info import Composition, Result
from annotated_region.passes.module_pass import ModulePass, module_pass

__all__ = ["RaiseToOps"]


@module_pass
class RaiseToOps(ModulePass):
    """Replace ``call_tir`` of understood PrimFuncs by calls to Relax ops.

    Raises
    ------
    OpInfoError
        A PrimFunc carries malformed op info.
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    Each distinct PrimFunc is inferred once in a process, which takes some milliseconds.
    """

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        raised = replace_functions(mod, lambda _, func: _Raiser(mod).visit_expr(func))
        return _without_leftovers(mod, raised)


@relax.expr_functor.mutator
class _Raiser(relax.PyExprMutator):  # type: ignore[misc]
    """Rewrites the calls of one function."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.mod = mod

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Called for each call, whose operands are raised already."""
        call = super().visit_call_(call)
        if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.call_tir" or len(call.args) != 2:
            return call
        func = self.mod[call.args[0]]
        composition = composition_of(func) if isinstance(func, tvm.tirx.PrimFunc) else None
        plan = None if composition is None else _plan(call, composition)
        return call if plan is None else self.carried_out(plan)

    def carried_out(self, plan: _Plan) -> relax.Expr:
        """Bind all calls but one whose value, as it is, is the result."""
        values: dict[relax.Expr, relax.Expr] = {}
        for call, places in zip(plan.calls[:-1], plan.places[:-1], strict=True):
            value = self.builder_.emit(_with_values(call, values))
            values.update(self.fields(value, places))
        last = _with_values(plan.calls[-1], values)
        if plan.outputs == plan.places[-1]:
            return last
        values.update(self.fields(self.builder_.emit(last), plan.places[-1]))
        outputs = [values[output] for output in plan.outputs]
        return outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)

    def fields(self, value: relax.Var, places: list[relax.Var]) -> dict[relax.Expr, relax.Expr]:
        """The value of each place that an op fills."""
        if not isinstance(value.ty, tvm.ir.TupleType):
            return {places[0]: value}
        parts = range(len(places))
        return {places[i]: self.builder_.emit(relax.TupleGetItem(value, i)) for i in parts}


@dataclass(frozen=True, slots=True)
class _Plan:
    """The calls that take the place of one.

    Attributes
    ----------
    calls
        The op calls in order.
    places
        For each, a variable for its result, or for each field of it, which later calls use.
    outputs
        The places that make up the result.
    """

    calls: list[relax.Call]
    places: list[list[relax.Var]]
    outputs: list[relax.Var]


def _plan(call: relax.Call, composition: Composition) -> _Plan | None:
    """The calls that a composition describes; None if together they give another type than `call`."""
    arguments = dict(enumerate(call.args[1].fields))
    builder = relax.BlockBuilder()
    plan = _Plan([], [], [])
    results: dict[Result, relax.Var] = {}
    try:
        for number, info in enumerate(composition.ops):
            made = builder.normalize(make_call(info, arguments, results))
            is_tuple = isinstance(made.ty, tvm.ir.TupleType)
            places = {
                Result(number, field if is_tuple else None): relax.Var("place", ty)
                for field, ty in enumerate(made.ty.fields if is_tuple else [made.ty])
            }
            results |= places
            plan.calls.append(made)
            plan.places.append(list(places.values()))
        plan.outputs.extend(results[output] for output in composition.outputs)
    except (OpInfoError, KeyError, tvm.error.InternalError, TypeError, ValueError):
        return None  # an op of other times, or shapes that it no longer fits
    types = [output.ty for output in plan.outputs]
    # A tuple of one field is no tensor: compared as what the call says it is.
    is_tuple = isinstance(call.ty, tvm.ir.TupleType)
    result = tvm.ir.TupleType(types) if is_tuple or len(types) > 1 else types[0]
    return plan if tvm_ffi.structural_equal(result, call.ty) else None


def _with_values(call: relax.Call, values: dict[relax.Expr, relax.Expr]) -> relax.Call:
    """The call with the places among its arguments filled."""
    return relax.Call(call.op, [_filled(arg, values) for arg in call.args], call.attrs)


def _filled(expr: relax.Expr, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([_filled(field, values) for field in expr.fields])
    return values.get(expr, expr)


def _without_leftovers(before: tvm.IRModule, after: tvm.IRModule) -> tvm.IRModule:
    """`after` without the PrimFuncs that only the calls in `before` needed."""
    gone = _called(before) - _called(after)
    result = after.clone()
    for name in sorted(gone):
        global_var = result.get_global_var(name)
        func = result[global_var]
        if isinstance(func, tvm.tirx.PrimFunc) and not (func.attrs and "global_symbol" in func.attrs):
            del result[global_var]
    return result


def _called(mod: tvm.IRModule) -> set[str]:
    names: set[str] = set()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GlobalVar):
            names.add(expr.name_hint)

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return names
