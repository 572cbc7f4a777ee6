"""The parameters of nodes that read, write or find elements by their indices or places."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from annotated_region.backends.dnnl.parameters import Combination, Parameters

__all__ = [
    "Bounds",
    "BoxMeans",
    "Coordinates",
    "Element",
    "ElementScatter",
    "Gather",
    "Ordering",
    "Outside",
    "PixelRounding",
    "ResizeMethod",
    "Resizing",
    "SampleMethod",
    "Sampling",
    "Scatter",
]


class Bounds(Enum):
    """The treatment of an index that is negative or not below the extent."""

    CHECKED = "checked"
    """The call fails with an error that names the index."""
    CLIPPED = "clipped"
    """The index is clamped to the first or last element."""
    WRAPPED = "wrapped"
    """The index is taken modulo the extent, as by Python's ``%``."""
    UNDEFINED = "undefined"
    """The result is NaN."""


@dataclass(frozen=True, slots=True)
class Gather(Parameters):
    """Elements at computed indices of consecutive axes, with one int64 operand per axis.

    Attributes
    ----------
    axis
        The first of the indexed axes.
    batched
        Whether there are separate indices for each element of the preceding axes.
    bounds
        The treatment of an index out of range.
    """

    axis: int
    batched: bool
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Element(Parameters):
    """Gather of elements: the second operand, of the result's shape, gives the index along one axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Scatter(Parameters):
    """Slices combined with updates; an int64 operand for each of the first axes gives their places.

    A negative index counts from the end.
    """

    combination: Combination


@dataclass(frozen=True, slots=True)
class ElementScatter(Parameters):
    """Elements combined with updates; an int64 operand of the updates' shape gives the place along one axis.

    A negative index counts from the end.
    """

    axis: int
    combination: Combination


@dataclass(frozen=True, slots=True)
class Ordering(Parameters):
    """The indices of the first elements in sorted order along an axis, as many as the result has.

    The sort is stable; NaN counts as the largest value.
    """

    axis: int
    descending: bool


class SampleMethod(Enum):
    """What a sample of an image is made of, by TVM's name."""

    NEAREST = "nearest"
    """The nearest pixel; halfway between two, the one with the even index."""
    LINEAR = "bilinear"
    """The two pixels around the place along each axis."""
    CUBIC = "bicubic"
    """Four pixels along each axis, with the coefficient -0.75."""


class Outside(Enum):
    """What a sample reads outside of an image, by TVM's name."""

    ZEROS = "zeros"
    BORDER = "border"
    """The pixels at the border."""
    REFLECTION = "reflection"
    """The image, mirrored at its borders again and again."""


@dataclass(frozen=True, slots=True)
class Sampling(Parameters):
    """Samples of the first operand at places that the second one states along its axis 1, from -1 to 1.

    Attributes
    ----------
    method
        What a sample is made of.
    outside
        What it reads outside of the image.
    is_aligned
        Whether -1 and 1 are the centers of the outer pixels, instead of their outer edges.
    """

    method: SampleMethod
    outside: Outside
    is_aligned: bool


@dataclass(frozen=True, slots=True)
class BoxMeans(Parameters):
    """Means of boxes of images: a row of the second operand has the number of an image and two corners.

    Attributes
    ----------
    scale
        The factor from the coordinates of boxes to those of the image.
    samples
        How many samples a part of a box has along each axis; 0 for as many as it has pixels, rounded up.
    is_exact
        Whether boxes smaller than a pixel are pooled as they are; otherwise they are widened to a pixel.
    """

    scale: float
    samples: int
    is_exact: bool


class ResizeMethod(Enum):
    """What a pixel of a resized image is made of, by TVM's name."""

    NEAREST = "nearest_neighbor"
    LINEAR = "linear"
    """The two pixels around its place along each axis."""
    CUBIC = "cubic"
    """Four pixels along each axis."""


class Coordinates(Enum):
    """The place of a pixel of a resized image in the image, by TVM's name."""

    HALF_PIXEL = "half_pixel"
    """Pixels are areas, and the areas of both images cover each other."""
    HALF_PIXEL_OF_PYTORCH = "pytorch_half_pixel"
    """The same, but the first pixel for an axis of one pixel."""
    HALF_PIXEL_UNCENTERED = "tf_half_pixel_for_nn"
    """The center of a pixel, counted from the outer edge of the first one."""
    CORNERS = "align_corners"
    """The first and the last pixels are the same."""
    ASYMMETRIC = "asymmetric"
    """The first pixels are the same."""


class PixelRounding(Enum):
    """The nearest pixel of a place, by TVM's name."""

    ROUND = "round"
    """Halfway between two, the one with the even index."""
    ROUND_DOWN = "round_prefer_floor"
    ROUND_UP = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


@dataclass(frozen=True, slots=True)
class Resizing(Parameters):
    """An image of other extents.

    Attributes
    ----------
    method
        What a pixel is made of.
    coordinates
        The place of a pixel in the image.
    rounding
        The nearest pixel of a place; of `ResizeMethod.NEAREST` alone.
    alpha
        The coefficient of cubic weights.
    """

    method: ResizeMethod
    coordinates: Coordinates
    rounding: PixelRounding
    alpha: float
