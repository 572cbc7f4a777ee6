"""Expressions of Relax."""

from collections.abc import Mapping, Sequence

import numpy as np
from tvm_ffi import Array

from ..ir import BaseFunc, Call, DictAttrs, Expr, GenericConst, Node, Span, Type, Var
from ..runtime import Scriptable, Tensor

class If(Expr):
    cond: Expr
    true_branch: SeqExpr
    false_branch: SeqExpr
    def __init__(
        self, cond: Expr, true_branch: Expr, false_branch: Expr, span: Span | None = None
    ) -> None: ...

class ShapeExpr(Expr):
    values: Array[Expr]
    def __init__(self, values: Sequence[Expr | int], span: Span | None = None) -> None: ...
    def __getitem__(self, index: int) -> Expr: ...
    def __len__(self) -> int: ...

class DataflowVar(Var): ...

class Binding(Node, Scriptable):
    """A `VarBinding` or a `MatchCast`; TVM declares `value` in each of the two."""

    span: Span | None
    var: Var
    value: Expr

class MatchCast(Binding):
    ty: Type
    def __init__(self, var: Var, value: Expr, ty: Type, span: Span | None = None) -> None: ...

class VarBinding(Binding):
    def __init__(self, var: Var, value: Expr, span: Span | None = None) -> None: ...

class BindingBlock(Node, Scriptable):
    span: Span | None
    bindings: Array[Binding]
    def __init__(self, bindings: Sequence[Binding], span: Span | None = None) -> None: ...

class DataflowBlock(BindingBlock): ...

class SeqExpr(Expr):
    blocks: Array[BindingBlock]
    body: Expr
    def __init__(self, blocks: Sequence[BindingBlock], body: Expr, span: Span | None = None) -> None: ...

class Function(BaseFunc):
    params: Array[Var]
    body: SeqExpr
    ret_ty: Type
    is_pure: bool
    def __init__(
        self,
        params: Sequence[Var],
        body: Expr,
        ret_ty: Type | None = None,
        is_pure: bool = True,
        attrs: DictAttrs | Mapping[str, object] | None = None,
        span: Span | None = None,
    ) -> None: ...
    @staticmethod
    def create_empty(
        params: Sequence[Var],
        ret_ty: Type,
        is_pure: bool = True,
        attrs: DictAttrs | None = None,
        span: Span | None = None,
    ) -> Function: ...
    def __call__(self, *args: Expr) -> Call: ...
    def bind_params(self, binding_map: Mapping[Var | str, object]) -> Function: ...
    def bind_symbolic_vars(
        self, binding_map: Mapping[Var, Expr | int] | Mapping[str, Expr | int]
    ) -> Function: ...

class ExternFunc(BaseFunc):
    global_symbol: str
    def __init__(self, global_symbol: str, ty: Type | None = None, span: Span | None = None) -> None: ...

def prim_value(value: Expr | float, dtype: str | None = None) -> Expr: ...
def const(
    value: np.ndarray | np.generic | Tensor | Sequence[object] | float, dtype: str | None = None
) -> GenericConst: ...
def _update_type(expr: Expr, ty: Type | None) -> None: ...
