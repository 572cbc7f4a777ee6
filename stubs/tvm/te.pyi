"""Tensor expressions."""

from collections.abc import Callable, Sequence

from tvm_ffi import Array

from .ir import Expr, Range
from .ir import Var as _Var
from .ir.expr import ExprOperand
from .tirx import IterVar, PrimFunc

_Index = ExprOperand | int

class Tensor(Expr):
    shape: Array[Expr]
    dtype: str
    name: str
    ndim: int
    def __getitem__(self, indices: _Index | tuple[_Index, ...]) -> Expr: ...
    def __call__(self, *indices: _Index) -> Expr: ...

def placeholder(
    shape: Sequence[Expr | int], dtype: str | None = None, name: str = "placeholder"
) -> Tensor: ...
def compute(
    shape: Sequence[Expr | int], fcompute: Callable[..., Expr], name: str = "compute", tag: str = ""
) -> Tensor: ...
def reduce_axis(
    dom: Range | tuple[Expr | int, Expr | int], name: str = "rv", thread_tag: str = ""
) -> IterVar: ...
def sum(expr: Expr, axis: IterVar | Sequence[IterVar], where: Expr | None = None) -> Expr: ...
def create_prim_func(ops: Sequence[Tensor | _Var]) -> PrimFunc: ...
