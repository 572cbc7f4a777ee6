"""Which constants of a region lie in an object file: large ones, which the runtime reads once to pack them.

Small ones go through TVM's loader, unless some were joined (`rewriting/joining.py`) or packed
(`packed_weight.py`): TVM does not know those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tvm

from annotated_region.backends.dnnl.graph import Graph
from annotated_region.compilation.constant_objects import Embedded, constant_object

__all__ = ["constants_value", "embed"]

LEAST_BYTES = 1 << 20


def embed(
    graph: Graph, names: Sequence[str], values: Mapping[str, tvm.runtime.Tensor]
) -> tuple[Embedded, tvm.runtime.Module] | None:
    """The constants of a region as an object file; None where that does not pay or cannot be done.

    Parameters
    ----------
    graph
        The region.
    names
        Its constants, in order; those that the graph has joined or packed are made here.
    values
        All other constants, by name.
    """
    arrays = [constants_value(graph, name, values) for name in names]
    if not graph.joined and not graph.packed and sum(array.nbytes for array in arrays) < LEAST_BYTES:
        return None
    return constant_object(f"annotated_region_constants_{graph.symbol}", arrays)


def constants_value(graph: Graph, name: str, values: Mapping[str, tvm.runtime.Tensor]) -> np.ndarray:
    """The elements of a constant of a region. Not to be written to: they may lie in the constant itself."""
    made = graph.joined.get(name) or graph.packed.get(name)
    return _array(values[name]) if made is None else made.value(lambda part: _array(values[part]))


def _array(tensor: tvm.runtime.Tensor) -> np.ndarray:
    """The tensor where it lies, if numpy knows its type and can read its memory; a copy otherwise."""
    is_shared = str(tensor.dtype) != "bfloat16" and tensor.device.type == "cpu"
    return np.asarray(np.from_dlpack(tensor) if is_shared else tensor.numpy())
