"""Reciprocals of integers and booleans, which TVM 0.27's importer computes as whole numbers."""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import TorchNode, dtype_of_tensor


@converts("reciprocal.default")
def reciprocal_of_whole_numbers(node: TorchNode) -> relax.Expr | None:
    """``1 / x`` in the floating type of PyTorch's result."""
    data = node.tensor(0)
    if dtype_of_tensor(data) == node.dtype:
        return None
    return node.emit(relax.op.divide(relax.const(1.0, node.dtype), node.cast(data, node.dtype)))
