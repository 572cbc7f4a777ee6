"""Arithmetic on symbolic extents."""

import tvm_ffi

from .ir import Expr

class Analyzer(tvm_ffi.Object):
    def simplify(self, expr: Expr, steps: int = 2) -> Expr: ...
    def can_prove(self, expr: Expr) -> bool: ...
    def can_prove_equal(self, lhs: Expr | int, rhs: Expr | int) -> bool: ...
