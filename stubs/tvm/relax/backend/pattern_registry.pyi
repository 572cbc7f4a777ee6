"""The registry of patterns that TVM's backends claim."""

import tvm_ffi
from tvm_ffi import Map

from ..dpl import DFPattern
from ..transform import PatternCheckContext

class FusionPattern(tvm_ffi.Object):
    name: str
    pattern: DFPattern
    annotation_patterns: Map[str, DFPattern]
    def check(self, context: PatternCheckContext, /) -> bool: ...

def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]: ...
