"""The Relax ops that the backend claims, and what each becomes in its graph; one family a file."""

from annotated_region.backends.dnnl.ops import (
    arithmetic,
    attention,
    convolution,
    indexing,
    normalization,
    pooling,
    quantization,
    selection,
    shape,
    whole_numbers,
    whole_products,
)
from annotated_region.backends.dnnl.ops.registry import CONVERTERS, TARGET

__all__ = [
    "CONVERTERS",
    "TARGET",
    "arithmetic",
    "attention",
    "convolution",
    "indexing",
    "normalization",
    "pooling",
    "quantization",
    "selection",
    "shape",
    "whole_numbers",
    "whole_products",
]
