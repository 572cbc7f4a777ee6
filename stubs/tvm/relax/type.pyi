"""Types of Relax expressions."""

from collections.abc import Sequence

import tvm_ffi
from tvm_ffi import Array

from ..ir import Expr, PrimType, Span, Type

class AnyType(Type):
    def __init__(self, span: Span | None = None) -> None: ...

class ShapeType(Type):
    values: Array[Expr] | None
    ndim: int
    def __init__(
        self, values: Sequence[Expr | int] | None = None, ndim: int = -1, span: Span | None = None
    ) -> None: ...

class TensorType(Type):
    shape: Expr | None
    dtype: PrimType | None
    vdevice: tvm_ffi.Object | None
    ndim: int
    def __init__(
        self,
        shape: Expr | Sequence[Expr | int] | None = None,
        dtype: PrimType | str | None = "float32",
        vdevice: object = None,
        ndim: int = -1,
        span: Span | None = None,
    ) -> None: ...

class FuncType(Type):
    params: Array[Type] | None
    ret: Type
    derive_func: tvm_ffi.Object | None
    purity: bool
    def __init__(
        self, params: Sequence[Type], ret: Type, purity: bool = True, span: Span | None = None
    ) -> None: ...
