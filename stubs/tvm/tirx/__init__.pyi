"""Primitive functions: loops over buffers."""

from collections.abc import Sequence
from enum import IntEnum

from tvm_ffi import Array, Map, Object

from ..ir import BaseFunc, DictAttrs, PrimType, Range, Span, TensorLoad, Type
from ..ir import Constant as _Constant
from ..ir import Expr as Expr
from ..ir import Var as Var
from ..ir.expr import ExprOperand
from ..runtime import Scriptable
from . import analysis as analysis

class BufferType(Type):
    dtype: PrimType
    shape: Array[Expr]
    strides: Array[Expr]
    elem_offset: Expr
    storage_scope: str

Buffer = Var

class IntImm(_Constant):
    value: int
    def __init__(self, dtype: str | PrimType, value: int, span: Span | None = None) -> None: ...
    def __int__(self) -> int: ...

class FloatImm(_Constant):
    value: float
    def __init__(self, dtype: str | PrimType, value: float, span: Span | None = None) -> None: ...

class _Binary(Expr):
    a: Expr
    b: Expr
    def __init__(self, a: Expr, b: Expr, span: Span | None = None) -> None: ...

class Add(_Binary): ...
class Sub(_Binary): ...
class Mul(_Binary): ...
class Div(_Binary): ...
class Mod(_Binary): ...
class FloorDiv(_Binary): ...
class FloorMod(_Binary): ...
class Min(_Binary): ...
class Max(_Binary): ...
class EQ(_Binary): ...
class NE(_Binary): ...
class LT(_Binary): ...
class LE(_Binary): ...
class GT(_Binary): ...
class GE(_Binary): ...
class And(_Binary): ...
class Or(_Binary): ...
class BitwiseAnd(_Binary): ...
class BitwiseOr(_Binary): ...
class BitwiseXor(_Binary): ...
class LShift(_Binary): ...
class RShift(_Binary): ...

class Not(Expr):
    a: Expr
    def __init__(self, a: Expr, span: Span | None = None) -> None: ...

class BitwiseNot(Expr):
    a: Expr
    def __init__(self, a: Expr, span: Span | None = None) -> None: ...

class Cast(Expr):
    value: Expr
    def __init__(self, dtype: str | PrimType, value: Expr, span: Span | None = None) -> None: ...

class Select(Expr):
    condition: Expr
    true_value: Expr
    false_value: Expr
    def __init__(
        self, condition: Expr, true_value: Expr, false_value: Expr, span: Span | None = None
    ) -> None: ...

class IterVar(ExprOperand, Object, Scriptable):
    DataPar: int
    ThreadIndex: int
    CommReduce: int
    dom: Range
    var: Var
    iter_type: int
    thread_tag: str

class Stmt(Object, Scriptable):
    span: Span | None

class Bind(Stmt):
    var: Var
    value: Expr

class BufferStore(Stmt):
    buffer: Buffer
    value: Expr
    indices: Array[Expr]
    def __init__(
        self, buffer: Var, value: Expr, indices: Sequence[Expr], span: Span | None = None
    ) -> None: ...

class AssertStmt(Stmt):
    def __init__(self, condition: Expr, kind: Expr, message_parts: Sequence[Expr]) -> None: ...

class AttrStmt(Stmt):
    node: Object
    attr_key: str
    value: Expr
    body: Stmt

class SeqStmt(Stmt):
    seq: Array[Stmt]
    def __init__(self, seq: Sequence[Stmt], span: Span | None = None) -> None: ...

class ForKind(IntEnum):
    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4

class For(Stmt):
    loop_var: Var
    min: Expr
    extent: Expr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None
    annotations: Map[str, object]
    step: Expr | None
    def __init__(self, loop_var: Var, min: Expr, extent: Expr, kind: ForKind, body: Stmt) -> None: ...

class While(Stmt):
    condition: Expr
    body: Stmt

class IfThenElse(Stmt):
    condition: Expr
    then_case: Stmt
    else_case: Stmt | None
    def __init__(
        self,
        condition: Expr,
        then_case: Stmt,
        else_case: Stmt | None,
        span: Span | None = None,
    ) -> None: ...

class AllocBuffer(Stmt):
    buffer: Buffer
    def __init__(self, buffer: Buffer) -> None: ...

class DeclBuffer(Stmt):
    buffer: Buffer

class Evaluate(Stmt):
    value: Expr

class PrimFunc(BaseFunc):
    params: Array[Var]
    body: Stmt
    ret_type: Type
    def __init__(
        self,
        params: Sequence[Var],
        body: Stmt,
        ret_type: Type | None = None,
        attrs: DictAttrs | None = None,
        span: Span | None = None,
    ) -> None: ...
    def with_body(self, new_body: Stmt, span: Span | None = None) -> PrimFunc: ...

def BufferLoad(buffer: Buffer, indices: Sequence[Expr], span: Span | None = None) -> TensorLoad: ...
def floordiv(a: Expr | int, b: Expr | int, span: Span | None = None) -> Expr: ...
def floormod(a: Expr | int, b: Expr | int, span: Span | None = None) -> Expr: ...
def const(
    value: float, dtype: str | PrimType | None = None, span: Span | None = None
) -> IntImm | FloatImm: ...
def decl_buffer(
    shape: Sequence[Expr | int], dtype: str | None = None, name: str = "buffer", *, scope: str = ""
) -> Buffer: ...
def exp(x: Expr) -> Expr: ...
def log(x: Expr) -> Expr: ...
def nearbyint(x: Expr) -> Expr: ...
def sigmoid(x: Expr) -> Expr: ...
def tanh(x: Expr) -> Expr: ...
