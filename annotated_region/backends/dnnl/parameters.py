"""The parameters of nodes, by name, and how each kind writes them into the row that the runtime reads.

A row holds an algorithm of oneDNN, whole numbers and numbers, in the order of the fields here, which is the
one that the function of the runtime for this kind documents (`runtime/primitives.h` and its neighbours).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum

__all__ = [
    "COMMUTATIVE",
    "Arithmetic",
    "Attention",
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
        """The row of the table: algorithm, whole numbers and numbers, each in the order of the fields."""
        algorithm = Row().algorithm
        ints: list[int] = []
        floats: list[float] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "str":
                algorithm = value
            elif field.type == "float":
                floats.append(float(value))
            else:
                ints += map(_number, value if isinstance(value, tuple) else (value,))
        return Row(algorithm, tuple(ints), tuple(floats))


def _number(value: int | Enum) -> int:
    return int(value.value if isinstance(value, Enum) else value)


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
    """Over one axis; the algorithm tells softmax from its logarithm."""

    axis: int
    algorithm: str = "softmax_accurate"


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
