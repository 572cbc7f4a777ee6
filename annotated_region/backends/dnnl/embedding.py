"""Makes large constants of a region data of the library; the runtime reads them once, to pack.

Small constants go through TVM's loader, unless some were joined (`rewriting/joining.py`) or packed
(`packed_weight.py`), which TVM does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tvm

from annotated_region.arrays import array_of
from annotated_region.backends.dnnl.graph import Graph
from annotated_region.compilation.constant_objects import ConstantData, constant_object

__all__ = ["constants_value", "embed"]

LEAST_BYTES = 1 << 20


def embed(
    graph: Graph, names: Sequence[str], values: Mapping[str, tvm.runtime.Tensor]
) -> tuple[ConstantData, tvm.runtime.Module | None] | None:
    """The constants of a region as data of the library; None if not worthwhile or not possible.

    Parameters
    ----------
    graph
        The region.
    names
        Its constants, in order; joined and packed constants are materialized here.
    values
        All other constants, by name.
    """
    arrays = [constants_value(graph, name, values) for name in names]
    if not graph.joined and not graph.packed and sum(array.nbytes for array in arrays) < LEAST_BYTES:
        return None
    return constant_object(f"annotated_region_constants_{graph.symbol}", arrays)


def constants_value(graph: Graph, name: str, values: Mapping[str, tvm.runtime.Tensor]) -> np.ndarray:
    """The elements of a constant of a region. Read-only: the array may share the constant's memory."""
    made = graph.joined.get(name) or graph.packed.get(name)
    return array_of(values[name]) if made is None else made.value(lambda part: array_of(values[part]))
