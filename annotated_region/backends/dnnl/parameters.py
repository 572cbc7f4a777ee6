"""The parameters of nodes; in the C++ runtime `Curve` is the struct `CurveRow`, made of it by `rows.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "COMMUTATIVE",
    "Arithmetic",
    "Attention",
    "Begins",
    "Causal",
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
    "Scale",
    "Softmax",
    "linear",
]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Those of a kind that has none: matrix products, changes of extents, casts, choices."""


NO_PARAMETERS = Parameters()


@dataclass(frozen=True, slots=True)
class Convolution(Parameters):
    """Of a convolution or a transposed one, for each spatial axis; a dilation of zero takes every element."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pooling(Parameters):
    """A window for each spatial axis; a size of zero is the whole extent, known at the call."""

    algorithm: str
    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Curve(Parameters):
    """A function of one number, under oneDNN's name, with the two parameters that oneDNN knows for it."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0

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


COMMUTATIVE = ("binary_add", "binary_mul")
"""Of two numbers, one of which is none, `binary_max` and `binary_min` give the second, as TVM does."""


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


@dataclass(frozen=True, slots=True)
class GroupNorm(Norm):
    """A normalisation over groups of channels and all axes behind these."""

    groups: int


@dataclass(frozen=True, slots=True)
class Softmax(Parameters):
    """Over one axis; the algorithm tells softmax from its logarithm.

    A row of nothing but minus infinity has shares of zero if `guarded`.
    """

    axis: int
    algorithm: str = "softmax_accurate"
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class LocalResponse(Parameters):
    """``x / (shift + alpha / size * sum(x ** 2)) ** beta`` over `size` channels."""

    size: int
    alpha: float
    beta: float
    shift: float
    algorithm: str = "lrn_across_channels"


@dataclass(frozen=True, slots=True)
class Concat(Parameters):
    """Along one axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Permutation(Parameters):
    """Axis i of the result is axis ``axes[i]`` of the operand."""

    axes: tuple[int, ...]

    @property
    def inverse(self) -> tuple[int, ...]:
        """The axes of the permutation back."""
        return tuple(self.axes.index(axis) for axis in range(len(self.axes)))


@dataclass(frozen=True, slots=True)
class Begins(Parameters):
    """A part of a tensor: for each axis where it begins, and the step to the next element."""

    begins: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Padding(Parameters):
    """How many elements of one value stand before each axis; the extents tell how many stand behind it."""

    before: tuple[int, ...]
    value: float


class Mask(Enum):
    """What hides scores of an attention."""

    NONE = "none"
    ADDED = "added"
    SELECTED = "selected"


class Causal(Enum):
    """Which columns a row of scores may look at: up to a diagonal from one corner, or to the other one."""

    NONE = "none"
    FROM_UPPER_LEFT = "from_upper_left"
    TO_LOWER_RIGHT = "to_lower_right"


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
        Which columns a row may look at.
    guarded
        Whether a row that shows nothing has weights of zero.
    """

    scale: float
    mask: Mask = Mask.NONE
    fill: float = 0.0
    causal: Causal = Causal.NONE
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class Scale(Parameters):
    """Quantization with one scale and zero point: an element e stands for ``scale * (e - zero)``."""

    scale: float
    zero: int


@dataclass(frozen=True, slots=True)
class ChannelScales(Parameters):
    """Quantization with a scale for each index of `count` neighbouring axes, in the second operand."""

    first: int
    count: int
