"""Converts nodes of exported programs; imports the converters, which registers them."""

from __future__ import annotations

from annotated_region.importing.torch_converters import (
    arithmetic,
    assignment,
    images,
    indexing,
    reductions,
    scatters,
    slices,
    views,
)
from annotated_region.importing.torch_converters.registry import CONVERTERS

__all__ = ["CONVERTERS"]

_ROOM = (arithmetic, assignment, images, indexing, reductions, scatters, slices, views)
