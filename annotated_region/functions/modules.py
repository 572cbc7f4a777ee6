"""Selects the functions of a module that passes work on, and replaces them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import tvm
from tvm import relax

from annotated_region.errors import InvalidModuleError

__all__ = [
    "entries_of",
    "functions_to_partition",
    "passed",
    "replace_functions",
    "require_well_formed",
    "updated",
    "without_uncalled",
]

# What TVM's passes, and legalizations in Python, raise for modules that they do not expect.
_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

# Attributes of functions that a code generator or kernel already owns.
_OWNED = ("Codegen", "Composite", "Primitive", "kCodegen")


def functions_to_partition(mod: tvm.IRModule) -> Iterator[tuple[tvm.ir.GlobalVar, relax.Function]]:
    """The Relax functions that no code generator owns yet, in alphabetical order."""
    for global_var, func in sorted(mod.functions_items(), key=lambda item: item[0].name_hint):
        owned = isinstance(func, relax.Function) and func.attrs and any(key in func.attrs for key in _OWNED)
        if isinstance(func, relax.Function) and not owned:
            yield global_var, func


def replace_functions(
    mod: tvm.IRModule, rewrite: Callable[[str, relax.Function], relax.Function]
) -> tvm.IRModule:
    """The module with each function replaced by `rewrite(name, function)`; `mod` is not changed.

    Raises
    ------
    InvalidModuleError
        `mod` is not well formed.
    """
    require_well_formed(mod)
    functions = functions_to_partition(mod)
    return updated(mod, {name: rewrite(name.name_hint, func) for name, func in functions})


def updated(mod: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, tvm.ir.BaseFunc]) -> tvm.IRModule:
    """The module with these functions; `mod` itself if it already has them all."""
    changed = {name: func for name, func in functions.items() if not func.same_as(mod[name])}
    if not changed:
        return mod
    result = mod.clone()
    for global_var, func in changed.items():
        result.update_func(global_var, func)
    return result


def passed(mod: tvm.IRModule, *passes: tvm.transform.Pass) -> tvm.IRModule:
    """The module after TVM's passes.

    Raises
    ------
    InvalidModuleError
        A pass fails with the module.
    """
    for each in passes:
        try:
            mod = tvm.transform.Sequential([each])(mod)
        except _FAULTS as error:
            raise InvalidModuleError(f"TVM's pass {each.info.name} fails with the module: {error}") from error
    return mod


def entries_of(mod: tvm.IRModule) -> list[str] | None:
    """The functions from which dead code is determined, as ``DeadCodeElimination`` expects them.

    None stands for the public ones. With private functions of Relax only, every function counts as an entry:
    none can be shown to be dead.
    """
    functions = (function for function in mod.functions.values() if isinstance(function, relax.Function))
    public = any(function.attrs and function.attrs.get("global_symbol") for function in functions)
    return None if public else [name.name_hint for name in mod.get_global_vars()]


def without_uncalled(before: tvm.IRModule, after: tvm.IRModule) -> tvm.IRModule:
    """`after` without the private PrimFuncs and composites that are called in `before` but not in `after`."""
    lowered = [
        global_var
        for global_var, func in after.functions_items()
        if (isinstance(func, tvm.tirx.PrimFunc) or _is_composite(func))
        and not (func.attrs and "global_symbol" in func.attrs)
    ]
    gone = _called(before) - _called(after) if lowered else set()
    leftovers = [global_var for global_var in lowered if global_var.name_hint in gone]
    result = after.clone() if leftovers else after
    for global_var in leftovers:
        del result[global_var]
    return result


def _is_composite(func: tvm.ir.BaseFunc) -> bool:
    return isinstance(func, relax.Function) and bool(func.attrs) and "Composite" in func.attrs


def _called(mod: tvm.IRModule) -> set[str]:
    return {
        global_var.name_hint
        for func in mod.functions.values()
        if isinstance(func, relax.Function)
        for global_var in relax.analysis.all_global_vars(func)
    }


def require_well_formed(mod: tvm.IRModule) -> None:
    """Raise `InvalidModuleError`, with TVM's diagnosis, unless `mod` is a well-formed IRModule."""
    if not isinstance(mod, tvm.IRModule):
        raise InvalidModuleError(
            f"expected a tvm.IRModule, got {type(mod).__name__}; make one as IRModule({{'main': func}})"
        )
    try:
        relax.analysis.well_formed(mod)
    except Exception as error:
        why = str(error).strip().rstrip(".")
        raise InvalidModuleError(
            f"the module is not well formed: {why}; repair it before it is partitioned"
        ) from error
