"""`Split` into parts whose sizes are computed; TVM's importer takes constant sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tvm import relax

from annotated_region.functions.polynomials import are_equal
from annotated_region.importing.onnx_models.converters.expand import extents_of_input
from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.slicing import require_order
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []


@converts("", "Split", (1, 2), "axis num_outputs split")
def _split(node: OnnxNode) -> relax.Expr:
    """Parts of known sizes are left to TVM, but for empty ones of an unknown extent, where it fails."""
    given = node.inputs[1] if node.has(1) else None
    sizes = None if given is None else _sizes(node, given)
    known = [each for each in sizes or () if isinstance(each, int)]
    is_empty = 0 in known and not isinstance(node.shape(node.tensor(0))[_axis(node)], int)
    if sizes is not None and (is_empty or len(known) < len(sizes)):
        return _parts(node, sizes)
    _require_whole(node, known or node.integers("split"))
    plain = node if given is None else node.with_input(1, relax.const(known, "int64"))
    return plain.by_tvm(tvm_custom={"num_outputs": len(node.proto.output)})


def _sizes(node: OnnxNode, given: relax.Expr) -> list[Extent]:
    """The sizes of all parts; variables where only the call computes them."""
    known = numbers_of(node.builder, given)
    return extents_of_input(node, 1, len(node.proto.output)) if known is None else known


def _parts(node: OnnxNode, sizes: list[Extent]) -> relax.Expr:
    data = node.tensor(0)
    axis = _axis(node)
    ends = list(accumulate(sizes))
    _require_sum(node, sizes, ends[-1])
    for size in sizes:
        require_order(node, 0, size)
    parts = [
        relax.op.strided_slice(data, [axis], [begin], [end], assume_inbound=True)
        for begin, end in zip([0, *ends], ends, strict=False)
    ]
    return relax.Tuple([node.emit(each) for each in parts])


def _require_whole(node: OnnxNode, sizes: Sequence[int]) -> None:
    """Check that parts of these sizes, or if there are none, of one size, are the whole axis.

    TVM reads beyond the data, or leaves some out. The last part may be smaller since operator set 18, but not
    less than empty, as of 5 elements in 4 parts: three of 2 elements are more than the axis has.
    """
    data, count = node.inputs[0], len(node.proto.output)
    if (
        data is None
        or not isinstance(data.ty, relax.TensorType)
        or not isinstance(data.ty.shape, relax.ShapeExpr)
    ):
        return
    if sizes:
        _require_sum(node, sizes, sum(sizes))
        return
    whole = node.shape(data)[_axis(node)]
    if node.opset < 18:
        size = whole // count
        _require_sum(node, [size] * count, size * count)
        return
    size = (whole + (count - 1)) // count
    last = whole - size * (count - 1)
    node.require(
        not isinstance(last, int) or last >= 0,
        f"splits an axis of {whole} elements into {count} parts of {size}",
    )
    if count > 2 and not are_equal(
        whole // count * count, whole
    ):  # half of an axis, rounded up, is part of it
        require_order(node, 0, last)


def _require_sum(node: OnnxNode, sizes: Sequence[Extent], total: Extent) -> None:
    whole = node.shape(node.tensor(0))[_axis(node)]
    if not are_equal(total, whole):
        node.require(
            not all(isinstance(each, int) for each in (total, whole)),
            f"splits an axis of {whole} elements into {', '.join(map(str, sizes))}",
        )
        node.require_equal(total, whole)


def _axis(node: OnnxNode) -> int:
    rank = rank_of(node.tensor(0))
    node.require(rank > 0, "has an input of rank 0")
    return node.integer("axis", 0, -rank, rank - 1) % rank
