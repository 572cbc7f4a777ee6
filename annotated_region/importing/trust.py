"""Checks an untrusted module before it is built or run: its calls, types, and sizes.

The check of a syntax tree only sees names; this checks the resulting IR. It visits every function of a
module, for every reader, and rejects

1. packed functions, other than a few known pure ones: TVM's runtime has functions that start
   programs and load libraries, and any of them can be called by name;
2. calls of C functions, inline code and the like inside TensorIR functions;
3. types that a named function infers;
4. external functions without a symbol;
5. tensors whose size exceeds every machine or would overflow, and nesting deep enough to overflow the
   stack.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.tvm_adapter.arithmetic import visit
from annotated_region.tvm_adapter.types import expect

__all__ = ["require_harmless"]

# The calls that TVM's own lowering emits to read a shape and to view a tensor with another shape.
# Both are pure, and check their arguments.
_PURE_FUNCTIONS = frozenset({"vm.builtin.shape_of", "vm.builtin.reshape"})
_CALLS_BY_NAME = frozenset({"relax.call_pure_packed", "relax.call_dps_packed", "relax.call_inplace_packed"})
_REFUSED_OPS = frozenset(
    {
        "relax.assert_op",
        "relax.call_builtin_with_ctx",
        "relax.call_py_func",
        "relax.call_tir_with_grad",
        "relax.print",
        "relax.vm.call_tir_dyn",
    }
)
# A value of tvm::tirx::CallEffectKind; calls up to this kind are pure.
_PURE = 1
_FOREIGN_CODE = frozenset(
    {"tirx.call_llvm_pure_intrin", "tirx.call_pure_extern", "tirx.call_spirv_pure_glsl450", "tirx.address_of"}
)
_PRAGMAS = ("pragma_import", "pragma_debug", "import_")
_MOST_ELEMENTS = 2**46
_DEEPEST = 64
_MOST_FIELDS = 100_000


def require_harmless(mod: tvm.IRModule, name: str) -> None:
    """Check that a module only computes with tensors.

    Parameters
    ----------
    mod
        The module.
    name
        The name of the module in messages.

    Raises
    ------
    ModelError
        It may have other effects; the message names function, binding and callee.

    Notes
    -----
    O(size of the module). Memory accesses of kernels by indices from tensors are not checked: callers that
    run a model trust its values.
    """
    for global_var, func in sorted(mod.functions_items(), key=lambda item: item[0].name_hint):
        function = global_var.name_hint
        if isinstance(func, relax.Function):
            objection = _in_relax(func)
        elif isinstance(func, tirx.PrimFunc):
            objection = _in_kernel(func)
        else:
            objection = f"it is a {type(func).__name__}, which executes code outside of the file"
        if objection:
            raise ModelError(f"{name} is rejected: in function {function!r}, {objection}")


def _in_relax(func: relax.Function) -> str | None:
    if func.attrs and "Codegen" in func.attrs and "global_symbol" not in func.attrs:
        return "the attribute Codegen makes it a region's, but no global_symbol names it"
    for place, expr in _expressions(func):
        objection = _objection(expr)
        if objection:
            return f"{place}, {objection}"
    return None


def _expressions(func: relax.Function) -> Iterator[tuple[str, relax.Expr]]:
    """Every expression of a function, including branches, with the name of its binding."""
    waiting: list[tuple[str, relax.Expr, int]] = [("its result", func, 0)]
    while waiting:
        place, expr, depth = waiting.pop()
        if depth > _DEEPEST:
            raise ModelError(f"{place} is inside {_DEEPEST} nested branches, tuples or functions")
        yield place, expr
        waiting.extend((where or place, child, depth + 1) for where, child in _children(expr))


def _children(expr: relax.Expr) -> Iterator[tuple[str | None, relax.Expr]]:
    match expr:
        case relax.Function():
            yield from ((f"parameter {param.name!r}", param) for param in expr.params)
            yield None, expr.body
        case relax.SeqExpr():
            for block in expr.blocks:
                for binding in block.bindings:
                    yield f"binding {binding.var.name!r}", binding.var
                    yield f"binding {binding.var.name!r}", binding.value
            yield "its result", expr.body
        case relax.If():
            yield from ((None, part) for part in (expr.cond, expr.true_branch, expr.false_branch))
        case relax.Tuple():
            yield from ((None, field) for field in expr.fields)
        case relax.TupleGetItem():
            yield None, expr.tuple_value
        case relax.Call():
            yield None, expr.op
            yield from ((None, argument) for argument in expr.args)


def _objection(expr: relax.Expr) -> str | None:
    if isinstance(expr, relax.ExternFunc):
        return _packed(str(expr.global_symbol))
    if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
        called = _called_by_op(expr)
        if called:
            return called
    return None if expr.ty.is_missing() else _of_type(expr.ty)


def _packed(name: str) -> str | None:
    if name in _PURE_FUNCTIONS:
        return None
    known = ", ".join(sorted(_PURE_FUNCTIONS))
    return f"it calls the packed function {name!r}; of these only {known} may be called"


def _called_by_op(call: relax.Call) -> str | None:
    name = expect(tvm.ir.Op, call.op).name
    if name in _REFUSED_OPS:
        return f"it calls {name}, which executes code outside of the file"
    if name in _CALLS_BY_NAME and not isinstance(call.args[0], relax.ExternFunc | tvm.ir.GlobalVar):
        return f"it calls {name} with a function that is not a name"
    return None


def _of_type(ty: tvm.ir.Type) -> str | None:
    waiting, seen = [(ty, 0)], 0
    while waiting:
        each, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST_FIELDS:
            return f"its type has more than {_DEEPEST} nested tuples, or {_MOST_FIELDS} fields"
        match each:
            case relax.TupleType():
                waiting.extend((field, depth + 1) for field in each.fields)
            case relax.FuncType():
                if each.derive_func is not None:
                    return "a named function infers its type"
                waiting.extend((part, depth + 1) for part in (*(each.params or ()), each.ret))
            case relax.TensorType():
                objection = _of_shape(each)
                if objection:
                    return objection
    return None


def _of_shape(ty: relax.TensorType) -> str | None:
    """The reason why a tensor is too large, from its static extents and constant factors; None
    if it is not.
    """
    size = 1
    for extent in ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else ():
        if isinstance(extent, tirx.IntImm) and int(extent) < 0:
            return f"a tensor has the extent {int(extent)}, and none is less than 0"
        for factor in (extent.a, extent.b) if isinstance(extent, tirx.Mul) else (extent,):
            size *= max(int(factor), 1) if isinstance(factor, tirx.IntImm) else 1
    return (
        f"a tensor of at least {size} elements is larger than any machine" if size > _MOST_ELEMENTS else None
    )


def _in_kernel(func: tirx.PrimFunc) -> str | None:
    found: list[str] = []

    def call(node: relax.Call) -> None:
        if isinstance(node.op, tvm.ir.Op) and not _is_pure(node.op):
            found.append(f"it calls {node.op.name}, which may execute code outside of the file")

    def annotation(node: tirx.AttrStmt) -> None:
        if str(node.attr_key).startswith(_PRAGMAS):
            found.append(f"the annotation {node.attr_key!r} brings code along")

    visit(func.body, [(relax.Call, call), (tirx.AttrStmt, annotation)])
    return found[0] if found else None


def _is_pure(op: tvm.ir.Op) -> bool:
    effect = op.get_attr("TCallEffectKind")
    return effect is not None and int(effect) <= _PURE and op.name not in _FOREIGN_CODE
