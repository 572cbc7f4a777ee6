"""The translation of each Relax op to nodes of the graph, by op name."""

from __future__ import annotations

from annotated_region.backends.dnnl.conversions import (
    arithmetic,
    attention,
    convolution,
    normalization,
    pooling,
    quantization,
    selection,
    shape,
)
from annotated_region.backends.dnnl.importer import Convert

__all__ = ["CONVERTERS"]

CONVERTERS: dict[str, Convert] = {
    **convolution.CONVERTERS,
    **pooling.CONVERTERS,
    **arithmetic.CONVERTERS,
    **normalization.CONVERTERS,
    **shape.CONVERTERS,
    **selection.CONVERTERS,
    **attention.CONVERTERS,
    **quantization.CONVERTERS,
}
