"""Calls the code generators of a module in place of TVM's ``RunCodegen``, which fails on some modules.

TVM's pass (0.27) crashes on recursive functions, silently leaves external functions that only private
functions call to the host, drops the constants of previously generated code, and processes targets in hash
order. Here

1. each external function is passed to ``relax.ext.<target>`` once, sorted by name within its target;
2. each constant has one name, even if several functions use it;
3. calls are replaced by ``call_dps_packed`` at any nesting depth, and the external functions removed;
4. existing modules and constants are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tvm
from tvm import relax

from annotated_region.errors import AnnotatedRegionError, BuildError, CodegenError, InvalidModuleError
from annotated_region.functions.rewriting import FunctionRewriter, rebind
from annotated_region.progress import show
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["external_functions", "generate_code"]

Externals = Mapping[tvm.ir.GlobalVar, relax.Function]


def external_functions(mod: tvm.IRModule) -> dict[str, dict[tvm.ir.GlobalVar, relax.Function]]:
    """The external functions of a module by target, both in alphabetical order of the functions.

    Raises
    ------
    InvalidModuleError
        One of them has no ``global_symbol``, so its generated code could not be called.
    """
    found: dict[str, dict[tvm.ir.GlobalVar, relax.Function]] = {}
    for global_var, func in mod.functions_items():
        if isinstance(func, relax.Function) and func.attrs and "Codegen" in func.attrs:
            if "global_symbol" not in func.attrs:
                raise InvalidModuleError(
                    f"function {global_var.name_hint!r} has the attribute Codegen, but no global_symbol; "
                    "make it public, as PartitionGraph does"
                )
            found.setdefault(str(func.attrs["Codegen"]), {})[global_var] = func
    return found


def generate_code(mod: tvm.IRModule, options: Mapping[str, Mapping[str, object]]) -> tvm.IRModule:
    """The module with its external functions replaced by generated code.

    Parameters
    ----------
    mod
        A module whose targets all have code generators.
    options
        The options of each target's code generator.

    Raises
    ------
    BuildError
        The shape of a result is not determined by the shapes of the arguments, so callers cannot allocate it.
    """
    by_target = external_functions(mod)
    externals = {name: func for functions in by_target.values() for name, func in functions.items()}
    if not externals:
        return mod
    for func in externals.values():
        _require_shapes(func)
    constants = _named_constants(externals)
    modules: list[tvm.runtime.Module] = []
    ended = 0
    for target, functions in by_target.items():
        show(f"for {target}", ended)
        generate = tvm.get_global_func(f"relax.ext.{target}")
        try:
            modules += list(generate(list(functions.values()), dict(options.get(target, {})), constants))
        except AnnotatedRegionError:
            raise
        except Exception as error:
            names = ", ".join(map(_symbol, functions.values()))
            raise CodegenError(
                f"the code generator of target {target!r} failed on {names}: {type(error).__name__}: {error}"
            ) from error
        ended += len(functions)
        show("the host's functions", ended)
    return _with_generated(_without_externals(mod, externals), modules, constants)


def _require_shapes(func: relax.Function) -> None:
    types = func.ret_ty.fields if isinstance(func.ret_ty, tvm.ir.TupleType) else [func.ret_ty]
    for index, ty in enumerate(types):
        if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
            raise BuildError(
                f"{_symbol(func)}: result {index} has the type {ty}, whose shape is known only at run time; "
                "let the rules of its target decline such ops, or give the value a shape with match_cast"
            )


def _symbol(func: relax.Function) -> str:
    return str(func.attrs["global_symbol"])


def _named_constants(externals: Externals) -> dict[Constant, str]:
    """A name for each tensor constant, after the first function that uses it."""
    names: dict[Constant, str] = {}
    for func in externals.values():
        stem = f"{_symbol(func)}_{func.attrs['Codegen']}_const"
        for count, constant in enumerate(_constants(func)):
            names.setdefault(constant, f"{stem}_{count}")
    return names


def _constants(func: relax.Function) -> list[Constant]:
    found: dict[Constant, None] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, Constant) and isinstance(expr.value, tvm.runtime.Tensor):
            found[expr] = None

    relax.analysis.post_order_visit(func, visit)
    return list(found)


def _without_externals(mod: tvm.IRModule, externals: Externals) -> tvm.IRModule:
    """The module without its external functions, with their calls replaced by calls of generated code."""

    def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        for binding in block.bindings:
            value = binding.value
            callee = value.op if isinstance(value, relax.Call) else None
            if isinstance(value, relax.Call) and isinstance(callee, tvm.ir.GlobalVar) and callee in externals:
                yield rebind(binding, _packed_call(_symbol(externals[callee]), value))
            else:
                yield rebind(binding, rewriter.nested(value))

    rewriter = FunctionRewriter(bindings, lambda var: var)
    result = mod.clone()
    for global_var, func in mod.functions_items():
        if global_var in externals:
            del result[global_var]
        elif isinstance(func, relax.Function):
            result.update_func(global_var, rewriter.function(func))
    return result


def _packed_call(symbol: str, call: relax.Call) -> relax.Call:
    arguments = [relax.ExternFunc(symbol), relax.Tuple(call.args)]
    op = tvm.ir.Op.get("relax.call_dps_packed")
    return relax.Call(op, arguments, ty_args=[call.ty], ret_ty=call.ty)


def _wanted_constants(modules: Sequence[tvm.runtime.Module]) -> set[str] | None:
    """The constants that TVM must load for the generated modules; None if a module does not list them."""
    asked = [module.get_function("get_const_vars") for module in modules if module.kind == "c"]
    if len(asked) < len(modules):
        return None
    return {str(name) for ask in asked for name in ask()}


def _with_generated(
    mod: tvm.IRModule, modules: Sequence[tvm.runtime.Module], constants: Mapping[Constant, str]
) -> tvm.IRModule:
    """The module with generated modules and constants appended to its own."""
    known = dict(mod.attrs.get("const_name_to_constant", {}))
    wanted = _wanted_constants(modules)
    new = {name: constant.value for constant, name in constants.items() if wanted is None or name in wanted}
    named = {**known, **new}
    earlier = list(mod.attrs.get("external_mods", []))
    mod = mod.with_attr("external_mods", [*earlier, *modules])
    return mod.with_attr("const_name_to_constant", named) if named else mod
