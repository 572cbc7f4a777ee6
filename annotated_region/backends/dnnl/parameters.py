"""The parameters of nodes, by name, and how each kind writes them into the row that the runtime reads.

A row holds an algorithm of oneDNN, whole numbers and numbers, in the order that the function of the runtime
for this kind documents (`runtime/primitives.h` and its neighbours). `Parameters.row` is the only place that
knows this order; everything that rewrites graphs goes by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "Arithmetic",
    "Attention",
    "BatchNorm",
    "Begins",
    "ChannelScales",
    "Concat",
    "Convolution",
    "Curve",
    "GroupNorm",
    "LocalResponse",
    "Mask",
    "NO_PARAMETERS",
    "Norm",
    "Padding",
    "Parameters",
    "Permutation",
    "Pooling",
    "Reduction",
    "Resampling",
    "Row",
    "Scale",
    "Softmax",
    "linear",
]


@dataclass(frozen=True, slots=True)
class Row:
    """The parameters of a node as the runtime's table holds them."""

    algorithm: str = "alg_kind_undef"
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameters:
    """Those of a kind that has none: matrix products, changes of extents, casts, choices."""

    def row(self) -> Row:
        """The row of the runtime's table."""
        return Row()


NO_PARAMETERS = Parameters()


@dataclass(frozen=True, slots=True)
class Convolution(Parameters):
    """Of a convolution or a transposed one, for each spatial axis; a dilation of zero takes every element."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def row(self) -> Row:
        """Strides, dilation, padding before and after."""
        return Row(ints=(*self.strides, *self.dilation, *self.before, *self.after))


@dataclass(frozen=True, slots=True)
class Pooling(Parameters):
    """A window for each spatial axis; a size of zero is the whole extent, known at the call."""

    algorithm: str
    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def row(self) -> Row:
        """Sizes, strides, dilation, padding before and after."""
        return Row(self.algorithm, (*self.size, *self.strides, *self.dilation, *self.before, *self.after))


@dataclass(frozen=True, slots=True)
class Curve(Parameters):
    """A function of one number, under oneDNN's name, with the two parameters that oneDNN knows for it."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0

    def row(self) -> Row:
        """The algorithm, alpha and beta."""
        return Row(self.algorithm, floats=(self.alpha, self.beta))

    @property
    def is_linear(self) -> bool:
        """Whether this is ``alpha * x + beta``."""
        return self.algorithm == "eltwise_linear"


def linear(scale: float, shift: float = 0.0) -> Curve:
    """``scale * x + shift``."""
    return Curve("eltwise_linear", scale, shift)


@dataclass(frozen=True, slots=True)
class Arithmetic(Parameters):
    """A function of two tensors, under oneDNN's name; the second is repeated along axes of extent one."""

    algorithm: str

    def row(self) -> Row:
        """The algorithm."""
        return Row(self.algorithm)


@dataclass(frozen=True, slots=True)
class Reduction(Arithmetic):
    """What becomes of the elements along the axes where the result has extent one."""


@dataclass(frozen=True, slots=True)
class Resampling(Arithmetic):
    """To other extents of the same image."""


@dataclass(frozen=True, slots=True)
class Norm(Parameters):
    """A normalisation over the last axis, with what is added to the variance."""

    epsilon: float

    def row(self) -> Row:
        """Epsilon."""
        return Row(floats=(self.epsilon,))


@dataclass(frozen=True, slots=True)
class GroupNorm(Norm):
    """A normalisation over groups of channels and all axes behind these."""

    groups: int

    def row(self) -> Row:
        """The groups; epsilon."""
        return Row(ints=(self.groups,), floats=(self.epsilon,))


@dataclass(frozen=True, slots=True)
class BatchNorm(Parameters):
    """By stored statistics; negative results become zero if `relu`."""

    epsilon: float
    relu: bool = False

    def row(self) -> Row:
        """Whether relu follows; epsilon."""
        return Row(ints=(int(self.relu),), floats=(self.epsilon,))


@dataclass(frozen=True, slots=True)
class Softmax(Parameters):
    """Over one axis; the algorithm tells softmax from its logarithm."""

    axis: int
    algorithm: str = "softmax_accurate"

    def row(self) -> Row:
        """The algorithm and the axis."""
        return Row(self.algorithm, (self.axis,))


@dataclass(frozen=True, slots=True)
class LocalResponse(Parameters):
    """``x / (shift + alpha / size * sum(x ** 2)) ** beta`` over `size` channels."""

    size: int
    alpha: float
    beta: float
    shift: float

    def row(self) -> Row:
        """The size; alpha, beta, shift."""
        return Row("lrn_across_channels", (self.size,), (self.alpha, self.beta, self.shift))


@dataclass(frozen=True, slots=True)
class Concat(Parameters):
    """Along one axis."""

    axis: int

    def row(self) -> Row:
        """The axis."""
        return Row(ints=(self.axis,))


@dataclass(frozen=True, slots=True)
class Permutation(Parameters):
    """Axis i of the result is axis ``axes[i]`` of the operand."""

    axes: tuple[int, ...]

    def row(self) -> Row:
        """The axes."""
        return Row(ints=self.axes)

    @property
    def inverse(self) -> tuple[int, ...]:
        """The axes of the permutation back."""
        return tuple(self.axes.index(axis) for axis in range(len(self.axes)))


@dataclass(frozen=True, slots=True)
class Begins(Parameters):
    """A part of a tensor: for each axis where it begins, and the step to the next element."""

    begins: tuple[int, ...]
    steps: tuple[int, ...]

    def row(self) -> Row:
        """Begins, then steps."""
        return Row(ints=(*self.begins, *self.steps))


@dataclass(frozen=True, slots=True)
class Padding(Parameters):
    """How many elements of one value stand before each axis; the extents tell how many stand behind it."""

    before: tuple[int, ...]
    value: float

    def row(self) -> Row:
        """Padding before each axis; the value."""
        return Row(ints=self.before, floats=(self.value,))


class Mask(Enum):
    """What hides scores of an attention; the values are the runtime's."""

    NONE = 0
    ADDED = 1
    SELECTED = 2


@dataclass(frozen=True, slots=True)
class Attention(Parameters):
    """Scaled dot-product attention.

    Attributes
    ----------
    scale
        The factor of the scores.
    mask
        Whether there is a fourth operand, and what it does.
    fill
        What a score becomes that a selecting mask hides.
    causal
        Which columns a row may look at: 0 all, 1 up to the diagonal from the upper left corner, 2 up to the
        one that ends in the lower right corner.
    guarded
        Whether a row that shows nothing has weights of zero.
    """

    scale: float
    mask: Mask = Mask.NONE
    fill: float = 0.0
    causal: int = 0
    guarded: bool = False

    def row(self) -> Row:
        """The kind of the mask, causal, guarded; scale and fill."""
        return Row(ints=(self.mask.value, self.causal, int(self.guarded)), floats=(self.scale, self.fill))


@dataclass(frozen=True, slots=True)
class Scale(Parameters):
    """Quantization with one scale and zero point: an element e stands for ``scale * (e - zero)``."""

    scale: float
    zero: int

    def row(self) -> Row:
        """The zero point; the scale."""
        return Row(ints=(self.zero,), floats=(self.scale,))


@dataclass(frozen=True, slots=True)
class ChannelScales(Parameters):
    """Quantization with a scale for each index of `count` neighbouring axes, in the second operand."""

    first: int
    count: int

    def row(self) -> Row:
        """The first of the axes, and how many they are."""
        return Row(ints=(self.first, self.count))
