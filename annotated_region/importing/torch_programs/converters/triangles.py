"""Places of triangles of matrices, which TVM 0.27's importer lacks; recommenders pick products by them."""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode


@converts("tril_indices.default", "triu_indices.default")
def places_of_triangle(node: TorchNode) -> relax.Expr | None:
    """The rows and columns of the elements below or above a diagonal; not of symbolic extents."""
    rows, columns, offset = node.argument(0), node.argument(1), node.argument(2, "offset", 0)
    if not isinstance(rows, int) or not isinstance(columns, int) or not isinstance(offset, int):
        return None
    of_triangle = np.tril_indices if node.name.startswith("tril") else np.triu_indices
    return relax.const(np.stack(of_triangle(rows, offset, columns)), node.dtype)
