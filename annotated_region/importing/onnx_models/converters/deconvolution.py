"""`ConvTranspose` to a given shape, and `SpaceToDepth` in both modes; TVM ignores these attributes.

Nor does TVM check that blocks divide the image of a `SpaceToDepth` and the channels of a `DepthToSpace`.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.windows import WINDOWS, window_attributes

__all__: list[str] = []


@converts("", "ConvTranspose", (2, 3), f"{WINDOWS} group output_padding output_shape")
def _transposed_convolution(node: OnnxNode) -> relax.Expr:
    """The output shape determines the padding: the excess of the full result, or the output padding."""
    wanted = node.integers("output_shape")
    if not wanted:
        return node.by_tvm()
    data, weights = node.tensor(0, (), (3, 4, 5)), node.tensor(1, (), (3, 4, 5))
    rank = rank_of(data) - 2
    node.require(len(wanted) == rank, f"has an output of {len(wanted)} extents, and the data {rank}")
    given = window_attributes(node)
    kernel = node.fixed_shape(1, weights)[2:]
    ones, zeros = (1,) * rank, (0,) * rank
    strides, dilations = (node.integers(name) or ones for name in ("strides", "dilations"))
    added = node.integers("output_padding") or zeros
    padding, extra = [], []
    for axis, extent in enumerate(node.shape(data)[2:]):
        if not isinstance(extent, int):
            raise node.declined(f"has an output of a given shape and the unknown extent {extent}")
        window = (kernel[axis] - 1) * dilations[axis] + 1
        total = strides[axis] * (extent - 1) + added[axis] + window - wanted[axis]
        padding.append(max(total, 0))
        extra.append(added[axis] + max(-total, 0))
    is_upper = node.text("auto_pad", "NOTSET") == "SAME_UPPER"
    begins = [total // 2 if is_upper else total - total // 2 for total in padding]
    ends = [total - begin for total, begin in zip(padding, begins, strict=True)]
    attributes = given | {"pads": (*begins, *ends), "output_padding": tuple(extra)}
    attributes.pop("auto_pad", None)
    return node.standard("ConvTranspose", node.inputs, attributes | {"group": node.integer("group", 1, 1)})


@converts("", "SpaceToDepth", (1, 1), "blocksize mode")
def _space_to_depth(node: OnnxNode) -> relax.Expr:
    """The positions within a block become the outer (DCR) or inner (CRD) part of the channel axis."""
    mode = node.text("mode", "DCR")
    node.require(mode in ("DCR", "CRD"), f"has the attribute 'mode' of {mode!r}, which is not supported")
    size = node.integer("blocksize", None, 1)
    batch, channels, height, width = node.shape(node.tensor(0, (), (4,)))
    rows, columns = height // size, width // size
    parts = (batch, channels, rows, size, columns, size)
    node.require_as_many((height, width), parts[2:])
    blocks = relax.op.reshape(node.tensor(0), parts)
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    moved = relax.op.permute_dims(node.emit(blocks), order)
    return relax.op.reshape(node.emit(moved), (batch, channels * size * size, rows, columns))


@converts("", "DepthToSpace", (1, 1), "blocksize mode")
def _depth_to_space(node: OnnxNode) -> relax.Expr:
    """TVM's; the channels are those of whole blocks."""
    size = node.integer("blocksize", None, 1) ** 2
    _, channels, *_ = node.shape(node.tensor(0, (), (4,)))
    node.require_as_many((channels,), (channels // size, size))
    return node.by_tvm()
