"""The Relax ops that the backend claims and their conversions to graph nodes, one family per file."""

from annotated_region.backends.dnnl.ops import (
    arithmetic,
    attention,
    convolution,
    indexing,
    normalization,
    ordering,
    pooling,
    quantization,
    quantized_products,
    recurrence,
    resizing,
    sampling,
    scatters,
    selection,
    shape,
    whole_numbers,
    whole_products,
)
from annotated_region.backends.dnnl.ops.registry import CONVERTERS, TARGET

COMPOSITES = {quantized_products.COMPOSITE: quantized_products.convert}
"""The conversions of composites that are converted as a whole, by name."""

__all__ = [
    "COMPOSITES",
    "CONVERTERS",
    "TARGET",
    "arithmetic",
    "attention",
    "convolution",
    "indexing",
    "normalization",
    "ordering",
    "pooling",
    "quantization",
    "quantized_products",
    "resizing",
    "recurrence",
    "sampling",
    "scatters",
    "selection",
    "shape",
    "whole_numbers",
    "whole_products",
]
