"""Constant folding of nodes at import, with ONNX's reference implementation.

Exporters emit shape arithmetic as nodes. If one of them stays an op, like `Not`, `And` and `Mod` of
constants in TVM's importer, the shape is only known at run time, and its user (`Reshape`, `Expand`) becomes a
call that a dataflow block cannot contain::

    Shape(q) = (2, 3, 4)  ->  Gather 1 = 3  ->  Mul 2 = 6  ->  Concat = (2, 6, 4)  ->  Reshape

Each of these ops is exact or rounds once, so folding does not change the result. Integer divisions by
zero, overflows and out-of-range conversions are not folded, nor are large tensors, which are not shapes.
Of what is dequantized a single number is folded, such as the value of a `Pad`; weights stay bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, tirx

from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

if TYPE_CHECKING:
    import onnx

__all__ = ["folded", "known_numbers"]

_MOST_READ = 2**10
_MOST_MADE = 2**16

_FOLDED = frozenset(
    {
        *(
            "Abs",
            "Add",
            "And",
            "Cast",
            "Ceil",
            "Clip",
            "Concat",
            "ConstantOfShape",
            "DequantizeLinear",
            "Div",
        ),
        *("Equal", "Expand", "Floor", "Gather", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max"),
        *("MelWeightMatrix",),
        *("Min", "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or", "Range", "Reciprocal", "ReduceMax"),
        *("ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Round", "ScatterElements", "ScatterND", "Sign"),
        *("Size", "Slice", "Split", "Sqrt", "Squeeze", "Sub", "Tile", "TopK", "Transpose", "Trilu", "Unique"),
        *("Unsqueeze", "Where", "Xor"),
    }
)

# Operators whose results may have more elements than their operands.
_LARGER = frozenset({"ConstantOfShape", "Expand", "MelWeightMatrix", "OneHot", "Range", "Tile"})

# The first version that ONNX's reference has of an operator that meant the same before.
_FIRST = {"DequantizeLinear": 19}

# Errors of ONNX's reference for incompatible operands, which are left to TVM's importer to report.
_UNFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def folded(node: onnx.NodeProto, inputs: Sequence[relax.Expr | None], opset: int) -> relax.Expr | None:
    """The result of a node as a constant, or a tuple of them; None if it cannot be folded.

    Parameters
    ----------
    node
        A node of the default domain.
    inputs
        The converted inputs, None for an omitted one.
    opset
        The opset version of the default domain.
    """
    if node.op_type not in _FOLDED:
        return None
    if node.op_type == "Size":
        return _size(inputs)
    numbers = [None if each is None else known_numbers(each) for each in inputs]
    given = [each for each in numbers if each is not None]
    missing = sum(1 for each in inputs if each is None)
    if len(given) + missing < len(inputs) or not given or not _is_small(node, given):
        return None
    if not _is_right(node, given):
        return None
    results = _evaluated(node, _clamped(node, numbers), opset)
    if results is None or any(each.size > _MOST_MADE or each.dtype.kind not in "biuf" for each in results):
        return None
    constants = [relax.const(each, str(each.dtype)) for each in results]
    return constants[0] if len(constants) == 1 else relax.Tuple(constants)


def known_numbers(expr: relax.Expr) -> np.ndarray | None:
    """The numbers of a constant or of a static shape; None if unknown, or too many."""
    if isinstance(expr, Constant):
        return expr.value.numpy() if math.prod(expr.value.shape) <= _MOST_READ else None
    if isinstance(expr, relax.ShapeExpr) and all(isinstance(each, tirx.IntImm) for each in expr.values):
        return np.array([int(expect(tirx.IntImm, each)) for each in expr.values], "int64")
    if isinstance(expr, tirx.IntImm):
        return np.array(int(expr), str(expr.ty))
    return None


def _size(inputs: Sequence[relax.Expr | None]) -> relax.Expr | None:
    """The number of elements of a tensor of static shape, which need not be constant."""
    ty = inputs[0].ty if inputs and inputs[0] is not None else None
    shape = ty.shape if isinstance(ty, relax.TensorType) else None
    numbers = known_numbers(shape) if isinstance(shape, relax.ShapeExpr) else None
    return None if numbers is None else relax.const(math.prod(numbers.tolist()), "int64")


def _is_small(node: onnx.NodeProto, given: Sequence[np.ndarray]) -> bool:
    """Whether the result is small; small operands may request large results."""
    if any(each.dtype.kind not in "biuf" or each.size > _MOST_READ for each in given):
        return False
    match node.op_type, [[float(number) for number in each.ravel()] for each in given]:
        case "ConstantOfShape", [extents]:
            count = math.prod(extents)
        case "OneHot", [indices, [depth], _]:
            count = len(indices) * max(depth, 0)
        case "DequantizeLinear", [data, *_]:
            count = 1 if len(data) == 1 else math.inf
        case (("Expand" | "Tile"), [_, factors]):
            count = given[0].size * math.prod(factors)
        case "MelWeightMatrix", [[bands], [length], [_], [low], [high]]:
            # The reference would take a negative frequency for one from the end.
            count = bands * (length // 2 + 1) if min(low, high) >= 0 else math.inf
        case "Range", [[start], [limit], [delta]]:
            count = (limit - start) / delta if delta else math.inf
        case name, _:
            count = math.inf if name in _LARGER else 0
    return count <= _MOST_MADE


def _is_right(node: onnx.NodeProto, given: Sequence[np.ndarray]) -> bool:
    """Whether the reference computes the node as ONNX says.

    Places of a single number, which has no axis, are not, nor are different numbers in the order in which
    they stand; NaN has no order.
    """
    data, names = given[0], {each.name: each.i for each in node.attribute}
    match node.op_type:
        case "NonZero":
            return data.ndim > 0
        case "Unique" if not names.get("sorted", 1):
            return False
        case "TopK" | "Unique":
            return data.dtype.kind != "f" or not bool(np.isnan(data).any())
    return True


def _clamped(node: onnx.NodeProto, numbers: Sequence[np.ndarray | None]) -> Sequence[np.ndarray | None]:
    """The operands; those of a slice backwards that begins before its axis begin with its first element.

    The reference slices as Python does, which takes nothing there.
    """
    if node.op_type != "Slice" or len(numbers) < 5:
        return numbers
    data, starts, ends, axes, steps = numbers
    if data is None or not data.ndim or starts is None or steps is None:
        return numbers
    places = np.arange(starts.size) if axes is None else axes
    if not starts.shape == steps.shape == places.shape:
        return numbers
    first = -np.array([data.shape[place % data.ndim] for place in places.tolist()], starts.dtype)
    return data, np.where(steps < 0, np.maximum(starts, first), starts), ends, axes, steps


def _evaluated(
    node: onnx.NodeProto, numbers: Sequence[np.ndarray | None], opset: int
) -> list[np.ndarray] | None:
    from onnx import helper  # noqa: PLC0415 - an extra
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415

    operands = {name: each for name, each in zip(node.input, numbers, strict=True) if each is not None}
    outputs = [name for name in node.output if name]
    graph = helper.make_graph(
        [node],
        "folded",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
            for name, each in operands.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    version = max(opset, _FIRST.get(node.op_type, opset))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    try:
        with np.errstate(all="raise", under="ignore"):
            results = ReferenceEvaluator(model).run(None, operands)
    except _UNFIT:
        return None
    return [np.asarray(each) for each in results]
