"""The largest or smallest whole number so far along an axis, which TVM 0.27's importer lacks.

Grounding DINO finds the phrase of each word this way.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


@converts("cummax.default", "cummin.default")
def extremes_so_far(node: TorchNode) -> relax.Expr | None:
    """The extreme of each element and those before it, of whole numbers whose places nobody reads."""
    data, axis = node.tensor(0), node.argument(1, "dim")
    dtype, extents = dtype_of_tensor(data), extents_of_tensor(data)
    if not dtype.startswith("int") or not extents or node.are_read(1) or not isinstance(axis, int):
        return None
    axis %= len(extents)
    largest, count = node.name.startswith("cummax"), extents[axis]
    places = node.emit(relax.op.arange(0, count, 1, "int64"))
    here = node.emit(relax.op.reshape(places, [count, *[1] * (len(extents) - axis)]))
    before = node.emit(relax.op.reshape(places, [count, *[1] * (len(extents) - axis - 1)]))
    counts = node.emit(relax.op.less_equal(before, here))
    limits = np.iinfo(dtype)
    neutral = relax.const(limits.min if largest else limits.max, dtype)
    rows = node.emit(relax.op.expand_dims(data, [axis]))
    seen = node.emit(relax.op.where(counts, rows, neutral))
    extreme = (relax.op.max if largest else relax.op.min)(seen, [axis + 1])
    return node.emit(relax.Tuple([node.emit(extreme), node.emit(relax.op.zeros_like(data, "int64"))]))
