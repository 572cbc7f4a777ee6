"""Functions of all dialects."""

from collections.abc import Mapping
from typing import Self, overload

from .attrs import DictAttrs
from .expr import Expr

class BaseFunc(Expr):
    @property
    def attrs(self) -> DictAttrs: ...
    @overload
    def with_attr(self, attr_key_or_dict: str, attr_value: object) -> Self: ...
    @overload
    def with_attr(self, attr_key_or_dict: Mapping[str, object]) -> Self: ...
    def with_attrs(self, attr_map: DictAttrs | Mapping[str, object]) -> Self: ...
    def without_attr(self, attr_key: str) -> Self: ...
