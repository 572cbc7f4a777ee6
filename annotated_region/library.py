"""The external functions of a module under construction: named, and shared where they are equal."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr import _update_type

__all__ = ["FunctionLibrary"]


class FunctionLibrary:
    """Collects the functions of a module while a pass replaces and adds some; the module stays as it is."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self._mod = mod
        self._replaced: dict[tvm.ir.GlobalVar, relax.Function] = {}
        self._added: dict[tvm.ir.GlobalVar, relax.Function] = {}
        self._equal: dict[tuple[str, int], list[tvm.ir.GlobalVar]] = {}
        self._counts: dict[str, int] = {}
        self._names = {global_var.name_hint for global_var in mod.get_global_vars()}
        for func in mod.functions.values():
            if func.attrs and "global_symbol" in func.attrs:
                self._names.add(str(func.attrs["global_symbol"]))

    def replace(self, global_var: tvm.ir.GlobalVar, func: relax.Function) -> None:
        """Put `func` in the place of the function called `global_var`."""
        if not func.same_as(self._mod[global_var]):
            self._replaced[global_var] = func

    def add(self, func: relax.Function, target: str, caller: str, share: bool) -> tvm.ir.GlobalVar:
        """Add an external function, or find an equal one, and give what calls it.

        Names are ``<target>_<caller>_<number>``, numbered in the order of the calls.
        """
        key = (target, int(tvm_ffi.structural_hash(func, skip_tensor_content=True)))
        if share:
            for known in self._equal.get(key, ()):
                if _equal(func, self._added[known].without_attr("global_symbol")):
                    return known
        name = self._fresh(f"{target}_{caller}".replace(".", "_").replace("-", "_"))
        global_var = tvm.ir.GlobalVar(name)
        named = func.with_attr("global_symbol", name)
        _update_type(global_var, named.ty)
        self._added[global_var] = named
        if share:
            self._equal.setdefault(key, []).append(global_var)
        return global_var

    def module(self) -> tvm.IRModule:
        """The module with everything replaced and added."""
        if not self._replaced and not self._added:
            return self._mod
        result = self._mod.clone()
        for global_var, func in (*self._replaced.items(), *self._added.items()):
            result.update_func(global_var, func)
        return result

    def _fresh(self, stem: str) -> str:
        while True:
            number = self._counts.get(stem, 0)
            self._counts[stem] = number + 1
            name = f"{stem}_{number}"
            if name not in self._names:
                self._names.add(name)
                return name


def _equal(func: relax.Function, other: relax.Function) -> bool:
    """Structural equality; the contents of constants, which are slow to compare, are looked at last."""
    if not tvm_ffi.structural_equal(func, other, skip_tensor_content=True):
        return False
    return all(
        np.array_equal(_bytes_of(left), _bytes_of(right))
        for left, right in zip(_constants(func), _constants(other), strict=True)
    )


def _constants(func: relax.Function) -> list[tvm.ir.GenericConst]:
    found: list[tvm.ir.GenericConst] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.value, tvm.runtime.Tensor):
            found.append(expr)

    relax.analysis.post_order_visit(func, visit)
    return found


def _bytes_of(constant: tvm.ir.GenericConst) -> np.ndarray:
    """The content as bytes, so that not-a-number equals itself."""
    return np.ascontiguousarray(constant.value.numpy()).view(np.uint8)
