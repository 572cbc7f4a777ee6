"""Converts nodes of exported programs; imports the converters, which registers them."""

from __future__ import annotations

from annotated_region.importing.torch_converters import (
    activations,
    arithmetic,
    assignment,
    clamps,
    copies,
    functions,
    group_norms,
    images,
    indexing,
    masks,
    norms,
    orders,
    padding,
    pairs,
    poolings,
    products,
    random_ops,
    reductions,
    scatters,
    slices,
    small_numbers,
    symbolic_floats,
    views,
)
from annotated_region.importing.torch_converters.registry import CONVERTERS

__all__ = ["CONVERTERS"]

_ROOM = (
    activations,
    arithmetic,
    assignment,
    clamps,
    copies,
    functions,
    group_norms,
    images,
    indexing,
    masks,
    norms,
    orders,
    padding,
    pairs,
    poolings,
    products,
    random_ops,
    reductions,
    scatters,
    slices,
    small_numbers,
    symbolic_floats,
    views,
)
