"""What a rule sees of one operation: name, attributes, arguments, types, constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

__all__ = ["OpView", "attributes_of"]


@dataclass(frozen=True, slots=True)
class OpView:
    """One operation as rules, cost models and code generators read it.

    The view is the same whether the operation stands in the module as a Relax op or as a
    ``call_tir`` whose PrimFunc carries op info.

    Attributes
    ----------
    name
        The Relax name of the operation, such as ``"relax.nn.conv2d"``.
    attrs
        Its attributes as Python values: numbers, strings, None, tuples of these.
    args
        Its arguments as Relax expressions (variables, constants, tuples, shapes).
    call
        The call itself.
    """

    name: str
    attrs: Mapping[str, Any]
    args: tuple[relax.Expr, ...]
    call: relax.Call = field(repr=False)

    @staticmethod
    def of(call: relax.Call) -> OpView | None:
        """The view of a call to a Relax op; None for calls to anything else."""
        if not isinstance(call.op, tvm.ir.Op):
            return None
        return OpView(call.op.name, attributes_of(call.attrs), tuple(call.args), call)

    @property
    def arg_types(self) -> tuple[tvm.ir.Type, ...]:
        """The type of each argument, such as ``relax.TensorType``."""
        return tuple(arg.ty for arg in self.args)

    @property
    def out_type(self) -> tvm.ir.Type:
        """The type of the result."""
        return self.call.ty

    def constant(self, index: int) -> np.ndarray | None:
        """Argument `index` as a numpy array if it is a constant, else None.

        Dtypes that numpy lacks (bfloat16, float8) come as their ``ml_dtypes`` counterparts.
        """
        argument = self.args[index]
        if isinstance(argument, tvm.ir.GenericConst) and isinstance(argument.value, tvm.runtime.Tensor):
            value: np.ndarray = argument.value.numpy()
            return value
        return None


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
        info = kind.__tvm_ffi_type_info__  # type: ignore[attr-defined]
        _FIELD_NAMES[kind] = tuple(declared.name for declared in info.fields)
    return _FIELD_NAMES[kind]


def _to_python(value: Any) -> Any:
    """An FFI value as a plain Python value; what has no plain counterpart stays as it is."""
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm | tvm.ir.StringImm):
        return value.value
    if isinstance(value, tvm_ffi.Array):
        return tuple(_to_python(item) for item in value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tvm.ir.PrimType):
        return str(value)
    return value
