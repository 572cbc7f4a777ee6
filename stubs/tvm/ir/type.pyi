"""Types of expressions."""

from collections.abc import Sequence

from tvm_ffi import Array

from ..runtime import DataType, Scriptable
from .base import Node, Span

class Type(Node, Scriptable):
    span: Span | None
    @staticmethod
    def missing() -> Type: ...
    def is_missing(self) -> bool: ...
    def same_as(self, other: object) -> bool: ...

class PrimType(Type):
    dtype: DataType
    def __init__(self, dtype: str) -> None: ...

class TupleType(Type):
    fields: Array[Type]
    def __init__(self, fields: Sequence[Type], span: Span | None = None) -> None: ...

class FuncType(Type):
    arg_types: Array[Type]
    ret_type: Type
    def __init__(self, arg_types: Sequence[Type], ret_type: Type) -> None: ...
