"""Layouts: transposes data, kernels and results to ONNX's order of axes and back."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.targets.translation import require

__all__ = ["SPATIAL", "relayout", "require_same_axes"]

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
"""The letters of the spatial axes, by their count."""


def relayout(emission: Emission, value: str, given: str, wanted: str) -> str:
    """The value with its axes in another order; layouts are strings with one letter per axis."""
    require_same_axes(given, wanted)
    if given == wanted:
        return value
    return emission.node("Transpose", value, perm=[given.index(letter) for letter in wanted])


def require_same_axes(given: str, wanted: str) -> None:
    """Decline an op with a layout that is not a permutation of another one, such as a blocked one."""
    require(sorted(given) == sorted(wanted), f"the layout {given} is not a permutation of {wanted}")
