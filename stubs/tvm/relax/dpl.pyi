"""Relax's dataflow patterns."""

from collections.abc import Mapping, Sequence

import tvm_ffi
from tvm_ffi import Array, Map

from ..ir import Attrs, Expr, Node, Type, Var

class DFPattern(Node):
    def __call__(self, *args: DFPattern, varg_default_wildcard: bool = False) -> CallPattern: ...
    def __or__(self, other: DFPattern) -> OrPattern: ...
    def __and__(self, other: DFPattern) -> AndPattern: ...
    def __invert__(self) -> NotPattern: ...
    def has_attr(self, attrs: Mapping[str, object]) -> AttrPattern: ...
    def has_dtype(self, dtype: str) -> DataTypePattern: ...
    def has_shape(self, shape: Sequence[Expr | int]) -> ShapePattern: ...
    def has_ty(self, ty: Type) -> TypePattern: ...
    def dup(self) -> DFPattern: ...
    def match(self, expr: Expr, var2val: Mapping[Var, Expr] | None = None) -> bool: ...
    def extract_matched_expr(
        self, expr: Expr, var2val: Mapping[Var, Expr] | tvm_ffi.Object | None = None
    ) -> Map[DFPattern, Expr] | None: ...

class ExprPattern(DFPattern):
    expr: Expr

class VarPattern(DFPattern):
    name: str

class DataflowVarPattern(VarPattern): ...
class GlobalVarPattern(DFPattern): ...
class ExternFuncPattern(DFPattern): ...
class ConstantPattern(DFPattern): ...
class WildcardPattern(DFPattern): ...

class CallPattern(DFPattern):
    op: DFPattern
    args: Array[DFPattern]

class FunctionPattern(DFPattern):
    params: Array[DFPattern]
    body: DFPattern
    def __init__(self, params: Sequence[DFPattern], body: DFPattern) -> None: ...

class TuplePattern(DFPattern):
    fields: Array[DFPattern]
    def __getitem__(self, index: int | None) -> TupleGetItemPattern: ...
    def __len__(self) -> int: ...

class UnorderedTuplePattern(DFPattern):
    fields: Array[DFPattern]

class TupleGetItemPattern(DFPattern):
    tuple: DFPattern
    index: int

class OrPattern(DFPattern):
    left: DFPattern
    right: DFPattern

class AndPattern(DFPattern):
    left: DFPattern
    right: DFPattern

class NotPattern(DFPattern):
    reject: DFPattern

class TypePattern(DFPattern):
    pattern: DFPattern

class DataTypePattern(DFPattern):
    pattern: DFPattern

class ShapePattern(DFPattern):
    pattern: DFPattern

class AttrPattern(DFPattern):
    pattern: DFPattern
    attrs: Attrs

class PrimArrPattern(DFPattern):
    fields: Array[Expr]

def is_const() -> ConstantPattern: ...
def is_op(op_name: str) -> ExprPattern: ...
def is_tuple(
    fields: Sequence[DFPattern], unordered: bool = False
) -> TuplePattern | UnorderedTuplePattern: ...
def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern: ...
def wildcard() -> WildcardPattern: ...
