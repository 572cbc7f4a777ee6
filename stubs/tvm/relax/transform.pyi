"""TVM's own passes over Relax."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tvm_ffi
from tvm_ffi import Array, Map

from ..ir import Call, Expr, Var
from ..ir.transform import Pass
from ..runtime import Tensor
from .block_builder import BlockBuilder
from .dpl import DFPattern

class PatternCheckContext(tvm_ffi.Object):
    matched_expr: Expr
    annotated_expr: Map[str, Expr]
    matched_bindings: Map[Var, Expr]
    var_usages: Map[Var, Array[Var]]
    value_to_bound_var: Map[Expr, Var]

class FusionPattern(tvm_ffi.Object):
    name: str
    pattern: DFPattern
    annotation_patterns: Map[str, DFPattern]
    check: Callable[[PatternCheckContext], bool] | None
    attrs_getter: Callable[[Mapping[str, Expr]], Mapping[str, object]] | None
    def __init__(
        self,
        name: str,
        pattern: DFPattern,
        annotation_patterns: Mapping[str, DFPattern] | None = None,
        check: Callable[[PatternCheckContext], bool] | None = None,
        attrs_getter: Callable[[Mapping[str, Expr]], Mapping[str, object]] | None = None,
    ) -> None: ...

_Legalization = Callable[[BlockBuilder, Call], Expr]

def AnnotateTIROpPattern() -> Pass: ...
def BindParams(func_name: str, params: Mapping[str, Tensor] | Mapping[str, np.ndarray]) -> Pass: ...
def CanonicalizeBindings() -> Pass: ...
def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> Pass: ...
def DeadCodeElimination(entry_functions: Sequence[str] | None = None) -> Pass: ...
def DecomposeOpsForInference(func_name: str | None = None) -> Pass: ...
def FoldConstant() -> Pass: ...
def FuseOps(fuse_opt_level: int = -1) -> Pass: ...
def FuseOpsByPattern(
    patterns: Sequence[tuple[str, DFPattern] | object],
    bind_constants: bool = True,
    annotate_codegen: bool = False,
    entry_functions: Sequence[str] | None = None,
) -> Pass: ...
def FuseTIR() -> Pass: ...
def LegalizeOps(
    customize_legalize_map: Mapping[str, _Legalization] | None = None,
    skip_ops: Sequence[str] | None = None,
    enable_warning: bool = False,
) -> Pass: ...
def MergeCompositeFunctions() -> Pass: ...
def Normalize() -> Pass: ...
def RunCodegen(
    target_options: Mapping[str, object] | None = None, entry_functions: Sequence[str] | None = None
) -> Pass: ...
def ToNonDataflow() -> Pass: ...
