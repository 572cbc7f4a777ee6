"""Means of boxes of images (`RoiAlign`), which half-pixel coordinates shift by half a pixel of the image.

TVM's importers shift a box before they scale it, which is right for a scale of 1 alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import relax

from annotated_region.tvm_adapter.types import expect, tensor_type

__all__ = ["BoxPooling"]


@dataclass(frozen=True, slots=True)
class BoxPooling:
    """How boxes are pooled.

    Attributes
    ----------
    size
        The rows and columns of parts into which each box is divided.
    scale
        The factor from the coordinates of boxes to those of the image; not 0.
    samples
        How many samples a part has along each axis; as many as it has pixels, if it is not positive.
    is_shifted
        Whether the centre of a pixel is half a pixel from its corner; boxes may then be smaller than a pixel.
    """

    size: tuple[int, int]
    scale: float
    samples: int
    is_shifted: bool

    def of(self, image: relax.Expr, rows: relax.Expr, emit: Callable[[relax.Expr], relax.Var]) -> relax.Expr:
        """The pooled boxes of images; a row has the number of its image and the corners of a box."""
        if self.is_shifted:
            half = 0.5 / self.scale
            shift = relax.const([0.0, half, half, half, half], str(tensor_type(rows).dtype))
            rows = emit(relax.op.subtract(rows, shift))
        pooled = relax.op.vision.roi_align(
            image, rows, self.size, self.scale, self.samples, self.is_shifted, "NCHW", "avg"
        )
        return expect(relax.Expr, pooled)
