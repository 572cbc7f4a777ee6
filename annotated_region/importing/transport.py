"""A module as bytes, to send it from one process to another: JSON, and the weights behind it as they are.

TVM's own form holds weights as text (ResNet-50: 138 MB, 2.9 s to write and 2.7 s to read). So tensor
constants leave the module first: each is replaced by a free variable of its type, and its bytes follow the
text.

    offset     what
    0          number of bytes of the JSON text, 8 bytes, little endian
    8          JSON of [module, variables], by `tvm.ir.save_json`
    aligned    the bytes of each variable's tensor in turn, each aligned to 64 bytes

Nothing is executed when such bytes are read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tvm
from tvm import relax

from annotated_region.functions.rewriting import FunctionRewriter, rebind, replace_operands
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["packed", "unpacked"]

_ALIGNMENT = 64
# Smaller ones cost less inside of the text.
_SMALLEST = 1024
_HEAD = struct.Struct("<Q")


def packed(mod: tvm.IRModule) -> Iterator[bytes | memoryview]:
    """The parts of a module; joined, they are what `unpacked` takes."""
    constants: dict[Constant, relax.Var] = {}

    def variable_of(expr: relax.Expr) -> relax.Expr:
        if not isinstance(expr, Constant) or not _can_leave(expr):
            return expr
        if expr not in constants:
            constants[expr] = relax.Var(f"constant_{len(constants)}", expr.ty)
        return constants[expr]

    light = _rebuilt(mod, variable_of)
    text = tvm.ir.save_json([light, list(constants.values())]).encode()
    yield _HEAD.pack(len(text)) + text
    position = _HEAD.size + len(text)
    for constant in constants:
        array = np.ascontiguousarray(constant.value.numpy())
        yield bytes(-position % _ALIGNMENT)
        yield array.reshape(-1).view(np.uint8).data
        position += -position % _ALIGNMENT + array.nbytes


def unpacked(content: bytes | bytearray | memoryview) -> tvm.IRModule:
    """The module that `packed` made these bytes of."""
    (length,) = _HEAD.unpack_from(content)
    position = _HEAD.size + length
    light, variables = tvm.ir.load_json(bytes(content[_HEAD.size : position]).decode())
    constants = {}
    for variable in variables:
        position += -position % _ALIGNMENT
        shape = [int(extent) for extent in variable.ty.shape.values]
        dtype = np.dtype(str(variable.ty.dtype))
        array = np.frombuffer(content, dtype, math.prod(shape), position).reshape(shape)
        constants[variable] = relax.const(array, str(dtype))
        position += array.nbytes
    return _rebuilt(light, lambda expr: constants.get(expr, expr))


def _can_leave(constant: Constant) -> bool:
    """Whether a constant is a large tensor of numbers that numpy knows by itself."""
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
