"""Op calls on symbolic sizes, and the ways to run their code and the ops it is taken for at given sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.op_info.calls import make_call
from annotated_region.tvm_adapter.nodes import BufferType
from kits.host_machines import host_machine
from kits.op_info.op_info_kit import tensor

__all__ = ["LIMIT", "SYMBOLIC", "difference_at", "extent_at", "sizes_of"]

n, m = (tirx.Var(name, "int64") for name in "nm")
op, nn, image = relax.op, relax.op.nn, relax.op.image
ON, OFF = (tirx.FloatImm("float32", number) for number in (1.0, 0.0))
LIMIT = 2**63 - 1

SYMBOLIC = {
    "heads apart": op.reshape(tensor(n, m, 8), (n, m, 2, 4)),
    "rows in one": op.reshape(tensor(n, m, 4), (n * m, 4)),
    "rows of one": op.reshape(tensor(n * m, 4), (n, m, 4)),
    "windows": op.reshape(tensor(n * 4, 6), (n, 2, 2, 6)),
    "axes in another order": op.reshape(tensor(n, m, 4), (m, n, 4)),
    "reshape a sum": op.reshape(tensor(2, 2, n + m, 3), (4, n + m, 3)),
    "more of one": op.broadcast_to(tensor(1, m, 3), (n, m, 3)),
    "a new axis": op.broadcast_to(tensor(m, 1), (n, m, 3)),
    "broadcast a sum": op.broadcast_to(tensor(2, 1, n + m, 3), (2, 2, n + m, 3)),
    "copy": op.broadcast_to(tensor(n, m), (n, m)),
    "join": op.concat([tensor(n, m, 2), tensor(n, 1, 2)], 1),
    "join two": op.concat([tensor(n, 2), tensor(m, 2)], 0),
    "zeros": op.zeros((n, m), "float32"),
    "numbers": op.full((n, m), relax.const(2.5, "float32"), "float32"),
    "positions": op.arange(0, n, 1, "int64"),
    "odd numbers": op.arange(1, n * 2, 2, "int64"),
    "one-hot": op.one_hot(tensor(n, m, dtype="int64"), ON, OFF, 5, -1),
    "tile": op.tile(tensor(n, 1, 3), (1, 3, 1)),
    "repeat": op.repeat(tensor(n, m, 2), 2, 1),
    "flip": op.flip(tensor(n, m, 2), 1),
    "pad": nn.pad(tensor(n, m, 2), [0, 0, 1, 2, 0, 0]),
    "upper triangle": op.triu(tensor(n, m, m), 1),
    "lower triangle": op.tril(tensor(n, m), -1),
    "shape": op.shape_to_tensor(relax.ShapeExpr([n, m, 3])),
    "window of a row": nn.conv1d(tensor(n, 2, m), tensor(3, 2, 3), padding=1),
    "every second window": nn.conv2d(tensor(n, 2, m, m), tensor(3, 2, 3, 3), padding=1, strides=2),
    "pool": nn.max_pool2d(tensor(n, 2, m + 1, m + 1), (2, 2), (2, 2)),
    "nearest": image.resize2d(
        tensor(n, 1, m, 3),
        (m * 2, 6),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    "linear": image.resize2d(tensor(n, 1, m, 3), (m * 2, 6), method="linear"),
    "product over a sum": op.matmul(tensor(n, 2, m + 1), tensor(n, m + 1, 3)),
    "softmax of a sum": nn.softmax(tensor(n, m + 1), -1),
    "choice of a sum": op.where(tensor(n, m + 1, dtype="bool"), tensor(n, m + 1), tensor(n, 1)),
    "axis before a sum": op.expand_dims(tensor(n, n + m), [1]),
    "first": op.strided_slice(tensor(n, m, 3), [1], [0], [1]),
    "last": op.strided_slice(tensor(n, m, 3), [1], [-1], [LIMIT]),
    "every second": op.strided_slice(tensor(n, m, 3), [1], [0], [LIMIT], [2]),
    "inside": op.strided_slice(tensor(n, m, 6), [2], [2], [5]),
}  # fmt: skip
"""Each is the op that its code must be taken for, or one that computes the same."""


def sizes_of(func: tirx.PrimFunc) -> list[tirx.Var]:
    """The variables in the shapes of a PrimFunc, and its integer parameters."""
    found: dict[tirx.Var, None] = {}
    for param in func.params:
        if isinstance(param.ty, BufferType):
            found.update(dict.fromkeys(relax.analysis.tir_vars_in_type(_tensor_type(param))))
        else:
            found[param] = None
    return list(found)


def _tensor_type(param: tirx.Var) -> relax.TensorType:
    return relax.TensorType(list(param.shape), str(param.dtype))


_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.Min: min,
    tirx.Max: max,
}


def extent_at(extent, sizes: Mapping[tirx.Var, int]) -> int:
    """The value of an extent."""
    if isinstance(extent, int | tirx.IntImm):
        return int(extent)
    if isinstance(extent, tirx.Var):
        return sizes[extent]
    return _OPERATORS[type(extent)](extent_at(extent.a, sizes), extent_at(extent.b, sizes))


def difference_at(func, info, numbers, seed=0) -> float | None:
    """How far the op is from the code where the sizes are `numbers`; None if a tensor is empty then."""
    sizes = dict(zip(sizes_of(func), numbers, strict=False))
    shapes = [_shape_at(param, sizes) for param in func.params if isinstance(param.ty, BufferType)]
    if any(extent < 1 for shape in shapes for extent in shape):
        return None
    generator = np.random.default_rng(seed)
    given = [param for param in func.params[:-1] if isinstance(param.ty, BufferType)]
    arrays = [_values(generator, _shape_at(param, sizes), str(param.dtype)) for param in given]
    code, claimed = _of_code(func, sizes, arrays), _of_op(func, info, sizes, arrays)
    assert code.shape == claimed.shape
    return float(np.max(np.abs(code.astype("float64") - claimed.astype("float64"))))


def _shape_at(param, sizes):
    return tuple(extent_at(extent, sizes) for extent in param.shape)


def _values(generator, shape, dtype):
    if dtype == "float32":
        return generator.uniform(0.5, 2, shape).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def _of_code(func, sizes, arrays):
    library = tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), UNOPTIMIZED)
    out = func.params[-1]
    made = tvm.runtime.tensor(np.zeros(_shape_at(out, sizes), str(out.dtype)))
    tensors = iter(arrays)
    library["main"](
        *(
            tvm.runtime.tensor(next(tensors)) if isinstance(param.ty, BufferType) else sizes[param]
            for param in func.params[:-1]
        ),
        made,
    )
    return made.numpy()


def _of_op(func, info, sizes, arrays):
    variables = {
        number: relax.Var("p", _tensor_type(param)) if isinstance(param.ty, BufferType) else param
        for number, param in enumerate(func.params)
    }
    *_, last = variables
    given = [
        var for number, var in variables.items() if number != last and isinstance(var.ty, relax.TensorType)
    ]
    named = relax.Var("sizes", relax.ShapeType(list(sizes)))
    builder = relax.BlockBuilder()
    with builder.function("main", [*given, named]):
        with builder.dataflow():
            out = builder.emit_output(make_call(info, variables, {}))
        builder.emit_func_output(out)
    machine = host_machine(builder.get())
    return machine["main"](*map(tvm.runtime.tensor, arrays), tvm_ffi.Shape(tuple(sizes.values()))).numpy()
