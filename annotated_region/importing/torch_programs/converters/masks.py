"""Elements that are replaced in order where a mask is true, which TVM 0.27's importer lacks.

Models of texts and images put the vectors of images into those of words this way.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.torch_programs.converters.assignment import common_shape, counted_trues
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


@converts("masked_scatter.default")
def put_in_order(node: TorchNode) -> relax.Expr:
    """The first elements of the source where the mask is true, in the order of rows.

    Where there are more such places than elements, which PyTorch refuses, the last element is repeated.
    """
    data, mask, source = (node.tensor(place) for place in range(3))
    shape = relax.ShapeExpr(common_shape([extents_of_tensor(data), extents_of_tensor(mask)]))
    data, mask = (node.emit(relax.op.broadcast_to(each, shape)) for each in (data, mask))
    places = counted_trues(node, mask)
    elements = node.cast(node.emit(relax.op.flatten(source)), dtype_of_tensor(data))
    found = node.emit(relax.op.take(elements, places, 0, mode="clip"))
    return node.emit(relax.op.where(mask, node.emit(relax.op.reshape(found, shape)), data))
