"""The view of one op that rules get: name, attributes, arguments, types, constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from annotated_region.arrays import array_of
from annotated_region.op_info.attributes import attributes_of
from annotated_region.op_info.raising import single_call
from annotated_region.targets.extents import extents, size_of
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["OpView"]


@dataclass(frozen=True, slots=True)
class OpView:
    """One operation as rules, cost models and code generators read it.

    The view is the same whether the module contains the operation as a Relax op or as a ``call_tir`` whose
    PrimFunc has op info.

    Attributes
    ----------
    name
        The Relax name of the operation, such as ``"relax.nn.conv2d"``.
    attrs
        Its attributes as Python values: numbers, strings, None, tuples of these.
    args
        Its arguments as Relax expressions (variables, constants, tuples, shapes).
    call
        The call itself; for a ``call_tir``, the call of the equivalent Relax op.
    """

    name: str
    attrs: Mapping[str, Any]
    args: tuple[relax.Expr, ...]
    call: relax.Call = field(repr=False)

    @staticmethod
    def of(call: relax.Expr, mod: tvm.IRModule | None = None) -> OpView | None:
        """The view of a call to a Relax op; None for any other expression.

        Parameters
        ----------
        call
            The call, with its type.
        mod
            The module with the PrimFunc of a ``call_tir``. If given, and the PrimFunc has op info of a single
            op, attached or inferred, the view is of that op.

        Raises
        ------
        OpInfoError
            The PrimFunc carries malformed op info.
        """
        if not isinstance(call, relax.Call):
            return None
        raised = None if mod is None else single_call(call, mod)
        call = call if raised is None else raised
        if not isinstance(call.op, tvm.ir.Op):
            return None
        return OpView(call.op.name, attributes_of(call.attrs), tuple(call.args[:]), call)

    @property
    def arg_types(self) -> tuple[tvm.ir.Type, ...]:
        """The type of each argument, such as ``relax.TensorType``."""
        return tuple(arg.ty for arg in self.args)

    def arg_tensor(self, index: int) -> relax.TensorType:
        """The type of an argument that must be a tensor."""
        return tensor_type(self.args[index])

    def arg_extents(self, index: int) -> list[int]:
        """The shape of an argument as `targets.extents` estimates it; empty if it is not a tensor."""
        return extents(self.args[index].ty)

    @property
    def tensor_extents(self) -> list[list[int]]:
        """The estimated shape of each argument that is a tensor."""
        return [extents(ty) for ty in self.arg_types if isinstance(ty, relax.TensorType)]

    @property
    def arg_bytes(self) -> int:
        """The estimated bytes of all arguments."""
        return sum(map(size_of, self.arg_types))

    @property
    def out_extents(self) -> list[list[int]]:
        """The estimated shape of each result."""
        ty = self.out_type
        return [extents(part) for part in (ty.fields if isinstance(ty, tvm.ir.TupleType) else [ty])]

    @property
    def out_bytes(self) -> int:
        """The estimated bytes of all results."""
        return size_of(self.out_type)

    @property
    def out_type(self) -> tvm.ir.Type:
        """The type of the result."""
        return self.call.ty

    @property
    def out_tensor(self) -> relax.TensorType:
        """The type of a result that must be a single tensor."""
        return tensor_type(self.call)

    def constant(self, index: int) -> np.ndarray | None:
        """Argument `index` as a numpy array if it is a constant, else None.

        The array is read-only, because it may share the memory of the constant. Dtypes that numpy lacks
        (bfloat16, float8) have their ``ml_dtypes`` equivalents.
        """
        argument = self.args[index]
        if isinstance(argument, Constant) and isinstance(argument.value, tvm.runtime.Tensor):
            return array_of(argument.value)
        return None
