"""Comparisons, logic and selection; booleans are the numbers 0 and 1 inside a region."""

from __future__ import annotations

import numpy as np

from annotated_region.backends.dnnl.graph import Kind, TensorId, same_shape
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.ops.checks import (
    MOVABLE,
    OPERANDS,
    TRUTH,
    Problems,
    operand_problem,
    tensor_problem,
)
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import Arithmetic, linear
from annotated_region.backends.dnnl.views import align_rank, along_axis, broadcast_to
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

COMPARISONS = {
    "relax.equal": ("binary_eq", "binary_eq"),
    "relax.not_equal": ("binary_ne", "binary_ne"),
    "relax.greater": ("binary_gt", "binary_lt"),
    "relax.greater_equal": ("binary_ge", "binary_le"),
    "relax.less": ("binary_lt", "binary_gt"),
    "relax.less_equal": ("binary_le", "binary_ge"),
}
"""oneDNN's algorithm, and the equivalent one for exchanged operands."""

MIRRORED = {"binary_gt": "binary_lt", "binary_ge": "binary_le"}
"""Comparisons that oneDNN evaluates to true for NaN."""

LOGIC = {
    "relax.logical_and": ("binary_mul", "binary_mul"),
    "relax.logical_or": ("binary_max", "binary_max"),
    "relax.logical_xor": ("binary_ne", "binary_ne"),
    "relax.bitwise_and": ("binary_mul", "binary_mul"),
    "relax.bitwise_or": ("binary_max", "binary_max"),
    "relax.bitwise_xor": ("binary_ne", "binary_ne"),
}
EQUALITY = ("relax.equal", "relax.not_equal")
"""These also accept booleans, which are numbers inside a region."""


def _is_equality_of_truth(op: OpView) -> bool:
    return str(getattr(op.arg_types[0], "dtype", None)) == TRUTH


def _comparison_problems(op: OpView) -> Problems:
    for index, what in enumerate(OPERANDS):
        yield operand_problem(op, index, what, infinite=True)


@converts(*EQUALITY, operands=OPERANDS, types=(TRUTH,), result=(TRUTH,), suits=_is_equality_of_truth)
@converts(*COMPARISONS, operands=(), result=(TRUTH,), unless=_comparison_problems)
@converts(*LOGIC, operands=OPERANDS, types=(TRUTH,), result=(TRUTH,))
def _pairwise(call: OpConversion) -> TensorId:
    graph, shape = call.graph, call.shape
    algorithm, exchanged = {**COMPARISONS, **LOGIC}[call.op.name]
    left, right = (align_rank(graph, each, len(shape)) for each in call.operands())
    if not same_shape(graph.shape(left), shape):
        left, right, algorithm = right, left, exchanged
    left = broadcast_to(graph, left, shape)
    if algorithm in MIRRORED:
        left, right = _mirrored(call, left, right)
    return call.add(Kind.BINARY, [left, right], Arithmetic(MIRRORED.get(algorithm, algorithm)))


def _mirrored(call: OpConversion, left: TensorId, right: TensorId) -> tuple[TensorId, TensorId]:
    """The operands of the mirrored comparison: exchanged, or negated if one has to be broadcast."""
    graph = call.graph
    if same_shape(graph.shape(left), graph.shape(right)):
        return right, left
    left, right = (
        graph.add(Kind.ELTWISE, (each,), graph.shape(each), linear(-1.0)) for each in (left, right)
    )
    return left, right


@converts("relax.logical_not", "relax.bitwise_not", types=(TRUTH,), result=(TRUTH,))
def _logical_not(call: OpConversion) -> TensorId:
    return call.add(Kind.ELTWISE, [call.operand(0)], linear(-1.0, 1.0))


def _choice_problems(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the condition", (TRUTH,))
    for index in (1, 2):
        yield tensor_problem(op.arg_types[index], "a choice", MOVABLE)


@converts("relax.where", operands=(), result=MOVABLE, unless=_choice_problems)
def _where(call: OpConversion) -> TensorId:
    rank = len(call.shape)
    condition, *choices = (align_rank(call.graph, each, rank) for each in call.operands())
    return call.add(Kind.SELECT, [condition, *choices], dtype=call.graph.dtype(choices[0]))


def _slopes_problems(op: OpView) -> Problems:
    slopes, rank = op.constant(1), len(extents_of(op.arg_types[0]) or ())
    if slopes is not None and not np.isfinite(slopes).all():
        yield "a slope is not finite"
    if op.attrs["axis"] % rank != 1:
        yield "the slopes are not along the channels"
    if not 2 <= rank <= 5:
        yield f"the data has rank {rank}; supported ranks are 2 to 5"


@converts("relax.nn.prelu", operands=("the data", "the slopes"), unless=_slopes_problems)
def _prelu(call: OpConversion) -> TensorId:
    data, slopes = call.operands()
    rank = len(call.shape)
    return call.add(Kind.PRELU, [data, along_axis(call.graph, slopes, call.attrs["axis"] % rank, rank)])
