"""What every node of TVM has."""

import tvm_ffi

class Node(tvm_ffi.Object): ...

class SourceName(tvm_ffi.Object):
    name: str
    def __init__(self, name: str) -> None: ...

class Span(tvm_ffi.Object):
    source_name: SourceName
    line: int
    def __init__(
        self, source_name: SourceName, line: int, end_line: int, column: int, end_column: int
    ) -> None: ...

def assert_structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> None: ...
def save_json(node: object) -> str: ...
