"""`Split` into parts whose sizes are computed; TVM's importer takes constant sizes."""

from __future__ import annotations

from itertools import accumulate

from tvm import relax

from annotated_region.importing.onnx_models.converters.expand import extents_of_input
from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.slicing import require_order
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal

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
    whole = node.shape(data)[axis]
    if not provably_equal(ends[-1], whole):
        node.require(
            not all(isinstance(each, int) for each in (ends[-1], whole)),
            f"splits an axis of {whole} elements into {', '.join(map(str, sizes))}",
        )
        node.require_equal(ends[-1], whole)
    for size in sizes:
        require_order(node, 0, size)
    parts = [
        relax.op.strided_slice(data, [axis], [begin], [end], assume_inbound=True)
        for begin, end in zip([0, *ends], ends, strict=False)
    ]
    return relax.Tuple([node.emit(each) for each in parts])


def _axis(node: OnnxNode) -> int:
    rank = rank_of(node.tensor(0))
    node.require(rank > 0, "has an input of rank 0")
    return node.integer("axis", 0, -rank, rank - 1) % rank
