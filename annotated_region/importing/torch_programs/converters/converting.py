"""Converts nodes of exported programs; imports the converters, which registers them."""

from __future__ import annotations

from annotated_region.importing.torch_programs.converters import (  # noqa: F401 - each registers its converters
    activations,
    arithmetic,
    assignment,
    bilinear,
    boxes,
    clamps,
    complementary_errors,
    convolutions,
    copies,
    deformed,
    distances,
    embedding_bags,
    fourier,
    functions,
    group_norms,
    grouped_products,
    histograms,
    images,
    indexing,
    inverse_errors,
    masks,
    norms,
    orders,
    padding,
    pairs,
    poolings,
    products,
    quantization,
    random_ops,
    ranges,
    reductions,
    running_extremes,
    scattered_reductions,
    scatters,
    slices,
    small_numbers,
    strided_views,
    symbolic_floats,
    triangles,
    views,
)
from annotated_region.importing.torch_programs.converters.registry import CONVERTERS

__all__ = ["CONVERTERS"]
