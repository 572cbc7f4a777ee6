"""Expressions that all dialects share."""

from collections.abc import Mapping, Sequence

from tvm_ffi import Array

from ..runtime import Scriptable, Tensor
from .attrs import Attrs
from .base import Node, Span
from .type import Type

class ExprOperand:
    """The arithmetic of expressions, which TVM refuses at run time by the type of the operands."""

    def __add__(self, other: ExprOperand | float) -> Expr: ...
    def __radd__(self, other: ExprOperand | float) -> Expr: ...
    def __sub__(self, other: ExprOperand | float) -> Expr: ...
    def __rsub__(self, other: ExprOperand | float) -> Expr: ...
    def __mul__(self, other: ExprOperand | float) -> Expr: ...
    def __rmul__(self, other: ExprOperand | float) -> Expr: ...
    def __truediv__(self, other: ExprOperand | float) -> Expr: ...
    def __floordiv__(self, other: ExprOperand | float) -> Expr: ...
    def __rfloordiv__(self, other: ExprOperand | float) -> Expr: ...
    def __mod__(self, other: ExprOperand | float) -> Expr: ...
    def __neg__(self) -> Expr: ...
    def __lt__(self, other: ExprOperand | float) -> Expr: ...
    def __le__(self, other: ExprOperand | float) -> Expr: ...
    def __gt__(self, other: ExprOperand | float) -> Expr: ...
    def __ge__(self, other: ExprOperand | float) -> Expr: ...
    def astype(self, dtype: str, span: Span | None = None) -> Expr: ...

# TVM gives the arithmetic to all expressions but ops and global variables; extents are known as `Expr` alone.
class Expr(ExprOperand, Node, Scriptable):
    span: Span | None
    ty: Type

class GlobalVar(Expr):
    name_hint: str
    def __init__(self, name_hint: str) -> None: ...
    def __call__(self, *args: Expr) -> Expr: ...

class Tuple(Expr):
    fields: Array[Expr]
    def __init__(self, fields: Sequence[Expr], span: Span | None = None) -> None: ...
    def __getitem__(self, index: int) -> Expr: ...
    def __len__(self) -> int: ...

class TupleGetItem(Expr):
    tuple_value: Expr
    index: int
    def __init__(self, tuple_value: Expr, index: int, span: Span | None = None) -> None: ...

class TensorLoad(Expr):
    source: Var
    indices: Array[Expr]

class Constant(Expr): ...

class GenericConst(Constant):
    # What `relax.const` makes; TVM allows any value.
    value: Tensor
    def __init__(self, value: object, ty: Type, span: Span | None = None) -> None: ...

class StringImm(Constant):
    value: str
    def __init__(self, value: str, span: Span | None = None) -> None: ...

class Call(Expr):
    op: Expr
    args: Array[Expr]
    attrs: Attrs | None
    ty_args: Array[Type]
    def __init__(
        self,
        op: Expr | str,
        args: Sequence[Expr],
        attrs: Attrs | Mapping[str, object] | None = None,
        ty_args: Sequence[Type] | None = None,
        span: Span | None = None,
        ret_ty: Type | str | None = None,
    ) -> None: ...

class TensorRegion(Expr):
    source: Var
    region: Array[Range]

class Var(Expr):
    name: str
    # What a variable has whose type is a `tirx.BufferType`.
    shape: Array[Expr]
    strides: Array[Expr]
    dtype: str
    def __init__(
        self,
        name: str | None = None,
        ty: Type | str | None = None,
        span: Span | None = None,
        *,
        name_hint: str | None = None,
    ) -> None: ...
    def __call__(self, *args: Expr) -> Call: ...

class Range(Node, Scriptable):
    min: Expr
    extent: Expr
    def __init__(
        self, begin: Expr | int, end: Expr | int | None = None, span: Span | None = None
    ) -> None: ...
    @staticmethod
    def from_min_extent(min_value: Expr | int, extent: Expr | int, span: Span | None = None) -> Range: ...
