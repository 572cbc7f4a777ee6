"""Relax's attention op as ONNX products, scale, bias, mask and softmax."""

from __future__ import annotations

import math

import numpy as np

from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require

__all__: list[str] = []

_HEADS_FIRST = [0, 2, 1, 3]


@converter("relax.nn.attention", "relax.nn.attention_bias")
def _attention(emission: Emission, op: OpView) -> str:
    """Operands are (batch, length, heads, width); the bias is (batch, heads, length, length of the keys)."""
    require(op.attrs["window_size"] is None, "windowed attention")
    shapes = [extents_of(type_) for type_ in op.arg_types[:3]]
    require(len({shape[2] for shape in shapes if isinstance(shape[2], int)}) == 1, "shared heads")
    query, key, value = (emission.operand(argument) for argument in op.args[:3])
    scores = emission.node(
        "MatMul", _moved(emission, query, _HEADS_FIRST), _moved(emission, key, [0, 2, 3, 1])
    )
    scores = emission.node("Mul", scores, emission.like(_scale(op, shapes[0][3]), scores))
    if len(op.args) > 3:
        scores = emission.node("Add", scores, emission.operand(op.args[3]))
    if op.attrs["causal_mask"]:
        scores = _masked(emission, scores, str(op.attrs["causal_mask"]), shapes[0][1], shapes[1][1])
    weights = emission.node("Softmax", scores, axis=-1)
    mixed = emission.node("MatMul", weights, _moved(emission, value, _HEADS_FIRST))
    return _moved(emission, mixed, _HEADS_FIRST)


def _moved(emission: Emission, value: str, order: list[int]) -> str:
    return emission.node("Transpose", value, perm=order)


def _scale(op: OpView, width: Dim) -> float:
    if op.attrs["scale"] is not None:
        return float(op.attrs["scale"])
    if not isinstance(width, int):
        raise Declined("the width of a head is symbolic")
    return float(width**-0.5)


def _masked(emission: Emission, scores: str, mask: str, rows: Dim, columns: Dim) -> str:
    require(isinstance(rows, int) and isinstance(columns, int), "a mask over a symbolic length")
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    if mask not in ("TopLeft", "BottomRight"):
        raise Declined(f"the mask {mask}")
    # TVM shifts the diagonal by the absolute difference of the lengths, so that every row has visible keys.
    last = 0 if mask == "TopLeft" else abs(columns - rows)
    seen = np.tri(rows, columns, last, dtype=bool)
    require(emission.dtype(scores) == "float32", "a mask over scores of another type than float32")
    # Minus infinity, so that a row whose visible scores are all minus infinity gets NaN weights, as in TVM.
    return emission.node("Where", emission.graph.constant(seen), scores, emission.like(-math.inf, scores))
