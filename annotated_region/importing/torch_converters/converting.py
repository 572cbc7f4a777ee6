"""Converts nodes of exported programs; imports the converters, which registers them."""

from __future__ import annotations

from annotated_region.importing.torch_converters import (
    activations,
    arithmetic,
    assignment,
    images,
    indexing,
    padding,
    poolings,
    random_ops,
    reciprocals,
    reductions,
    scatters,
    side_results,
    slices,
    small_numbers,
    views,
)
from annotated_region.importing.torch_converters.registry import CONVERTERS

__all__ = ["CONVERTERS"]

_ROOM = (
    activations,
    arithmetic,
    assignment,
    images,
    indexing,
    padding,
    poolings,
    random_ops,
    reciprocals,
    reductions,
    scatters,
    side_results,
    slices,
    small_numbers,
    views,
)
