"""Comparisons, logic and choices; truth values are the numbers 0 and 1 inside of a region."""

from __future__ import annotations

from annotated_region.backends.dnnl.conversions.arithmetic import broadcast_to
from annotated_region.backends.dnnl.graph import Graph, Kind, TensorId, same_shape
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.parameters import Arithmetic, linear
from annotated_region.backends.dnnl.views import align_rank, along_axis
from annotated_region.targets.op_view import OpView

__all__ = ["COMPARISONS", "CONVERTERS", "LOGIC"]

COMPARISONS = {
    "relax.equal": ("binary_eq", "binary_eq"),
    "relax.not_equal": ("binary_ne", "binary_ne"),
    "relax.greater": ("binary_gt", "binary_lt"),
    "relax.greater_equal": ("binary_ge", "binary_le"),
    "relax.less": ("binary_lt", "binary_gt"),
    "relax.less_equal": ("binary_le", "binary_ge"),
}
"""oneDNN's algorithm, and the one that means the same with the operands exchanged."""

MIRRORED = {"binary_gt": "binary_lt", "binary_ge": "binary_le"}
"""Comparisons that oneDNN finds true of what is no number."""

LOGIC = {
    "relax.logical_and": ("binary_mul", "binary_mul"),
    "relax.logical_or": ("binary_max", "binary_max"),
    "relax.logical_xor": ("binary_ne", "binary_ne"),
}


def _pairwise(importer: Importer, op: OpView) -> TensorId:
    graph, shape = importer.graph, importer.shape(op.call)
    algorithm, exchanged = {**COMPARISONS, **LOGIC}[op.name]
    left, right = (align_rank(graph, importer.operand(each), len(shape)) for each in op.args)
    if not same_shape(graph.shape(left), shape):
        left, right, algorithm = right, left, exchanged
    left = broadcast_to(graph, left, shape)
    if algorithm in MIRRORED:
        left, right, algorithm = _mirrored(graph, left, right, algorithm)
    return graph.add(Kind.BINARY, (left, right), shape, Arithmetic(algorithm))


def _mirrored(
    graph: Graph, left: TensorId, right: TensorId, algorithm: str
) -> tuple[TensorId, TensorId, str]:
    """The same comparison by what is less: with the operands exchanged, or negated where one is smaller."""
    if same_shape(graph.shape(left), graph.shape(right)):
        return right, left, MIRRORED[algorithm]
    left, right = (
        graph.add(Kind.ELTWISE, (each,), graph.shape(each), linear(-1.0)) for each in (left, right)
    )
    return left, right, MIRRORED[algorithm]


def _logical_not(importer: Importer, op: OpView) -> TensorId:
    shape = importer.shape(op.call)
    inputs = (importer.operand(op.args[0]),)
    return importer.graph.add(Kind.ELTWISE, inputs, shape, linear(-1.0, 1.0))


def _where(importer: Importer, op: OpView) -> TensorId:
    graph, shape = importer.graph, importer.shape(op.call)
    operands = [align_rank(graph, importer.operand(each), len(shape)) for each in op.args]
    return graph.add(Kind.SELECT, operands, shape)


def _astype(importer: Importer, op: OpView) -> TensorId:
    """To what it is already, or from truth values to the numbers that they are inside."""
    return importer.operand(op.args[0])


def _prelu(importer: Importer, op: OpView) -> TensorId:
    graph, shape = importer.graph, importer.shape(op.call)
    slopes = along_axis(graph, importer.operand(op.args[1]), op.attrs["axis"] % len(shape), len(shape))
    return graph.add(Kind.PRELU, (importer.operand(op.args[0]), slopes), shape)


CONVERTERS: dict[str, Convert] = {
    **dict.fromkeys((*COMPARISONS, *LOGIC), _pairwise),
    "relax.logical_not": _logical_not,
    "relax.where": _where,
    "relax.astype": _astype,
    "relax.nn.prelu": _prelu,
}
