"""The attributes of a call as plain Python values."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi

from annotated_region.tvm_adapter.nodes import TextConstant
from annotated_region.tvm_adapter.ops import field_names

__all__ = ["attributes_of"]


def attributes_of(attrs: tvm.ir.Attrs | None) -> dict[str, Any]:
    """The attributes of a call as a dict of Python values, in the order they are declared."""
    if attrs is None:
        return {}
    if isinstance(attrs, tvm.ir.DictAttrs):
        return {str(key): _to_python(value) for key, value in attrs.items()}
    return {name: _to_python(getattr(attrs, name)) for name in _field_names(type(attrs))}


_FIELD_NAMES: dict[type, tuple[str, ...]] = {}


def _field_names(kind: type) -> tuple[str, ...]:
    if kind not in _FIELD_NAMES:
        _FIELD_NAMES[kind] = field_names(kind)
    return _FIELD_NAMES[kind]


def _to_python(value: object) -> object:
    """An FFI value as a plain Python value; values without a plain counterpart are unchanged."""
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm | TextConstant):
        return value.value
    if isinstance(value, tvm_ffi.Array):
        return tuple(_to_python(item) for item in value[:])  # a slice is faster than its iterator
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tvm.ir.PrimType):
        return str(value)
    return value
