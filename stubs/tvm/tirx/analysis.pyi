"""Analyses of primitive functions."""

from tvm_ffi import Array

from ..ir import Expr, Var

def undefined_vars(node: Expr, defs: list[Var] | None = None) -> Array[Var]: ...
