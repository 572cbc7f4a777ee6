"""Serializes a module for transfer between processes: JSON, with the weights as raw bytes beside it.

TVM's own format stores weights as text (ResNet-50: 138 MB, 2.9 s to write and 2.7 s to read). So tensor
constants are extracted first: each is replaced by a free variable of its type, and its bytes are appended to
an in-memory file, aligned to 64 bytes. The text is JSON of [module, variables]; types and order of the
variables determine the offset of each tensor. The deserialized module uses the weights in place.

Deserialization executes no code from the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm_ffi import serialization

from annotated_region.errors import ModelError
from annotated_region.functions.rewriting import FunctionRewriter, rebind, replace_operands
from annotated_region.importing.confinement import shared_memory
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import fixed_extents, tensor_type

__all__ = ["packed", "unpacked"]

_ALIGNMENT = 64
_BITS = 8
# Smaller constants are cheaper inside the text.
_SMALLEST = 1024


def packed(mod: tvm.IRModule, weights: int, name: str) -> bytes:
    """The text of a module called `name`, whose weights are written to an in-memory file.

    Raises
    ------
    ModelError
        The weights exceed the file, or have elements smaller than a byte.
    """
    constants: dict[Constant, relax.Var] = {}

    def variable_of(expr: relax.Expr) -> relax.Expr:
        if not isinstance(expr, Constant):
            return expr
        _require_bytes(expr, name)
        if not _can_leave(expr):
            return expr
        if expr not in constants:
            constants[expr] = relax.Var(f"constant_{len(constants)}", expr.ty)
        return constants[expr]

    light = _rebuilt(mod, variable_of)
    variables = list(constants.values())
    positions, end = _positions(variables)
    room = shared_memory.room_in(weights)
    if end > room:
        raise ModelError(
            f"{name} cannot be imported: the module has more than {room} bytes, "
            "the limit of file; see --limits"
        )
    for position, constant in zip(positions, constants, strict=True):
        array = np.ascontiguousarray(np.from_dlpack(constant.value))
        shared_memory.write(weights, position, array.reshape(-1).view(np.uint8).data)
    # TVM's save_json and load_json do the same, and additionally support modules of older versions.
    text: str = serialization.to_json_graph_str([light, variables])
    return text.encode()


def unpacked(text: bytes, weights: int) -> tvm.IRModule:
    """The module from the text and the weights file of `packed`."""
    light, variables = serialization.from_json_graph_str(text.decode())
    positions, end = _positions(variables)
    memory = shared_memory.sealed(weights, end)
    constants = {}
    for position, variable in zip(positions, variables, strict=True):
        shape = _shape(variable)
        array = np.frombuffer(memory, str(variable.ty.dtype), math.prod(shape), position).reshape(shape)
        constants[variable] = relax.const(tvm.runtime.from_dlpack(array), str(variable.ty.dtype))
    return _rebuilt(light, lambda expr: constants.get(expr, expr))


def _positions(variables: Sequence[relax.Var]) -> tuple[list[int], int]:
    """The offset of each tensor, and the end of the last one."""
    positions, end = [], 0
    for variable in variables:
        end += -end % _ALIGNMENT
        positions.append(end)
        end += math.prod(_shape(variable)) * np.dtype(str(tensor_type(variable).dtype)).itemsize
    return positions, end


def _shape(variable: relax.Var) -> list[int]:
    return list(fixed_extents(variable))


def _require_bytes(constant: Constant, name: str) -> None:
    """Raise for 4-bit elements, such as float4_e2m1fn, for which TVM allocates too little memory."""
    tensor = constant.value
    if isinstance(tensor, tvm.runtime.Tensor) and tensor.dtype.bits < _BITS and str(tensor.dtype) != "bool":
        raise ModelError(
            f"{name} cannot be imported: TVM cannot transport a constant of type {tensor.dtype}, whose "
            "elements are smaller than a byte"
        )


def _can_leave(constant: Constant) -> bool:
    """Whether a constant is a large tensor of a numpy data type."""
    tensor = constant.value
    if not isinstance(tensor, tvm.runtime.Tensor) or not isinstance(constant.ty, relax.TensorType):
        return False
    known = str(tensor.dtype) in _DTYPES and isinstance(constant.ty.shape, relax.ShapeExpr)
    return (
        known and constant.ty.vdevice is None and math.prod(tensor.shape) * tensor.dtype.itemsize >= _SMALLEST
    )


_DTYPES = frozenset(
    [
        "bool",
        "float16",
        "float32",
        "float64",
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    ]
)


def _rebuilt(mod: tvm.IRModule, substitute: Callable[[relax.Expr], relax.Expr]) -> tvm.IRModule:
    """The module with its operands replaced in every Relax function."""
    result = mod.clone()

    def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterable[relax.Binding]:
        for binding in block.bindings:
            yield rebind(binding, rewriter.nested(replace_operands(binding.value, substitute)))

    rewriter = FunctionRewriter(bindings, substitute)
    for global_var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            result.update_func(global_var, rewriter.function(func))
    return result
