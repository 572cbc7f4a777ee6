"""Transposed convolutions of volumes, which TVM 0.27's importer lacks."""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor

_VOLUMES = 5  # the rank of a batch of volumes


@converts("convolution.default")
def transposed_of_volumes(node: TorchNode) -> relax.Expr | None:
    """A transposed convolution in three dimensions; others are left to TVM."""
    data, weight, bias = node.tensor(0), node.tensor(1), node.argument(2, "bias")
    if not bool(node.argument(6, "transposed")) or len(extents_of_tensor(data)) != _VOLUMES:
        return None
    found = node.emit(
        relax.op.nn.conv3d_transpose(
            data,
            weight,
            strides=node.argument(3, "stride"),
            padding=node.argument(4, "padding"),
            dilation=node.argument(5, "dilation"),
            output_padding=node.argument(7, "output_padding"),
            groups=node.argument(8, "groups"),
        )
    )
    if not isinstance(bias, relax.Expr):
        return found
    column = node.emit(relax.op.reshape(bias, relax.ShapeExpr([1, extents_of_tensor(found)[1], 1, 1, 1])))
    return node.emit(relax.op.add(found, column))
