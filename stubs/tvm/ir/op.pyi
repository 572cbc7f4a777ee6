"""Operators and their registry."""

from typing import Any

from tvm_ffi import Array, Object

from .expr import Expr

class _ArgumentInfo(Object):
    name: str
    type_info: str
    description: str

class Op(Expr):
    name: str
    description: str
    arguments: Array[_ArgumentInfo]
    num_inputs: int
    attrs_type_key: str
    @staticmethod
    def get(op_name: str) -> Op: ...
    @staticmethod
    def list_op_names() -> Array[str]: ...
    # What is registered depends on the key.
    def get_attr(self, attr_name: str) -> Any: ...
    def has_attr(self, attr_name: str) -> bool: ...
    def add_argument(self, name: str, type: str, description: str) -> None: ...
    def set_num_inputs(self, n: int) -> None: ...
    def set_attrs_type_key(self, key: str) -> None: ...

def register_op_attr(op_name: str, attr_key: str, value: object = None, level: int = 10) -> object: ...
