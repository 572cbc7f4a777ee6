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
        calls = None if composition is None else _raised(call, composition)
        return call if composition is None or calls is None else self.emitted(calls, composition)

    def emitted(self, calls: list[relax.Call], composition: Composition) -> relax.Expr:
        """Bind all calls but the one whose value is the result."""
        (*_, last), outputs = calls, composition.outputs
        is_last = outputs[0].op == len(calls) - 1 and all(output.op == outputs[0].op for output in outputs)
        values: dict[relax.Expr, relax.Expr] = {}
        for call in calls[:-1] if is_last else calls:
            values[call] = self.builder_.emit(relax.Call(call.op, _replaced(call.args, values), call.attrs))
        if is_last:
            return relax.Call(last.op, _replaced(last.args, values), last.attrs)
        fields = [_field(values[calls[output.op]], output) for output in outputs]
        return fields[0] if len(fields) == 1 else relax.Tuple(fields)


def _raised(call: relax.Call, composition: Composition) -> list[relax.Call] | None:
    """The calls that a composition describes, each typed; None if together they give another type."""
    arguments = dict(enumerate(call.args[1].fields))
    builder = relax.BlockBuilder()
    calls: list[relax.Call] = []
    try:
        for info in composition.ops:
            calls.append(builder.normalize(make_call(info, arguments, list(calls))))
    except (OpInfoError, tvm.error.InternalError, TypeError, ValueError):
        return None  # an op of other times, or shapes that it no longer fits
    types = [_type(calls[output.op].ty, output) for output in composition.outputs]
    result = types[0] if len(types) == 1 else tvm.ir.TupleType(types)
    return calls if tvm_ffi.structural_equal(result, call.ty) else None


def _type(ty: tvm.ir.Type, output: Result) -> tvm.ir.Type:
    return ty if output.field is None else ty.fields[output.field]


def _field(value: relax.Expr, output: Result) -> relax.Expr:
    return value if output.field is None else relax.TupleGetItem(value, output.field)


def _replaced(args: list[relax.Expr], values: dict[relax.Expr, relax.Expr]) -> list[relax.Expr]:
    """Arguments with the calls among them replaced by the variables they are bound to."""
    return [_replaced_in(arg, values) for arg in args]


def _replaced_in(expr: relax.Expr, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
    if expr in values:
        return values[expr]
    if isinstance(expr, relax.Tuple):
        return relax.Tuple(_replaced(expr.fields, values))
    if isinstance(expr, relax.TupleGetItem):
        return relax.TupleGetItem(_replaced_in(expr.tuple_value, values), expr.index)
    return expr


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
