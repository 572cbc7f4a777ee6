"""Extents that are quotients, and the tensors that have them: read from a shape, they need no division.

The length behind a convolution with a stride is ``(n - 3) // 2 + 1``. OpenVINO divides integers in float32;
but a shape that an op further on needs usually has the length of some tensor before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm import relax, tirx

from annotated_region.tvm_adapter.arithmetic import provably_equal

__all__ = ["KnownExtents"]

_DIVIDING = (tirx.FloorDiv, tirx.FloorMod)
_ARITHMETIC = (*_DIVIDING, tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min)


@dataclass(frozen=True, slots=True)
class KnownExtents:
    """For each quotient among the extents of the tensors so far: a tensor and the index of the axis."""

    places: list[tuple[relax.Expr, str, int]] = field(default_factory=list)

    def note(self, name: str, extents: Sequence[int | relax.Expr]) -> None:
        """Record the extents of a tensor."""
        for axis, extent in enumerate(extents):
            if isinstance(extent, relax.Expr) and _divides(extent) and self.place_of(extent) is None:
                self.places.append((extent, name, axis))

    def place_of(self, extent: relax.Expr) -> tuple[str, int] | None:
        """The first tensor with this extent, and the axis; None for an extent without quotient."""
        if not _divides(extent):
            return None
        # Types hold simplified quotients, which are written otherwise.
        return next(
            ((name, axis) for known, name, axis in self.places if provably_equal(known, extent)), None
        )


def _divides(extent: relax.Expr) -> bool:
    if not isinstance(extent, _ARITHMETIC):
        return False
    return isinstance(extent, _DIVIDING) or _divides(extent.a) or _divides(extent.b)
