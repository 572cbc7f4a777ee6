"""``clamp`` with bounds that TVM 0.27's importer applies otherwise than PyTorch.

The importer

*   repeats bounds that are tensors to the extents of the data, which may be the smaller ones;
*   clips integers by an infinite bound where one is missing, which TVM cannot compile;
*   applies the lower bound last, where PyTorch's upper bound counts if they cross.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    is_tensor,
)


@converts("clamp.default", "clamp_min.default", "clamp_max.default")
def clamped(node: TorchNode) -> relax.Expr | None:
    """By numbers; floats by bounds that do not cross are left to TVM's importer."""
    least, most = _bounds(node)
    numbers = [each for each in (least, most) if isinstance(each, int | float)]
    is_symbolic = len(numbers) < sum(each is not None for each in (least, most))
    is_whole = "int" in node.dtype
    if not is_whole and not is_symbolic and sorted(numbers) == numbers and _keeps_type(node):
        return None
    return _between(node, least, most)


@converts("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamped_by_tensors(node: TorchNode) -> relax.Expr | None:
    """By tensors, to whose extents the data is repeated, and the other way around."""
    return _between(node, *_bounds(node))


def _keeps_type(node: TorchNode) -> bool:
    return dtype_of_tensor(node.tensor(0)) == node.dtype


def _bounds(node: TorchNode) -> tuple[object, object]:
    if node.name.startswith("clamp_min"):
        return node.argument(1, "min"), None
    if node.name.startswith("clamp_max"):
        return None, node.argument(1, "max")
    return node.argument(1, "min"), node.argument(2, "max")


def _between(node: TorchNode, least: object, most: object) -> relax.Expr | None:
    """The data, at least one bound and then at most the other; None if one is neither tensor nor number."""
    # TVM has no extremes of booleans.
    dtype = "int8" if node.dtype == "bool" else node.dtype
    data = node.cast(node.tensor(0), dtype)
    for bound, operation in ((least, relax.op.maximum), (most, relax.op.minimum)):
        if bound is None:
            continue
        limit = (
            node.cast(bound, dtype)
            if isinstance(bound, relax.Expr) and is_tensor(bound)
            else node.number_as_tensor(bound, dtype)
        )
        if limit is None:
            return None
        data = node.emit(operation(data, limit))
    return node.cast(data, node.dtype)
