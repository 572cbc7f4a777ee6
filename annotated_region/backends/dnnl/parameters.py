"""The parameters of nodes; in the C++ runtime `Curve` is the struct `CurveRow`, made of it by `rows.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tvm import relax

__all__ = [
    "COMMUTATIVE",
    "Arithmetic",
    "Attention",
    "Begins",
    "Bounds",
    "Causal",
    "ChannelScales",
    "Comparing",
    "Comparison",
    "Concat",
    "Convolution",
    "Cumulation",
    "Curve",
    "Border",
    "BorderPadding",
    "Element",
    "Gather",
    "GroupNorm",
    "LocalResponse",
    "Mask",
    "NO_PARAMETERS",
    "Norm",
    "Ordering",
    "PackedProduct",
    "Padding",
    "Parameters",
    "Permutation",
    "Pooling",
    "Predicate",
    "Property",
    "Range",
    "Reduction",
    "Resampling",
    "Scale",
    "Softmax",
    "Whole",
    "WholeFunction",
    "WholeProduct",
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
    """Quantization with a scale for each index of `count` neighbouring axes, in the second operand.

    Where `count` is zero there is one scale for all, computed in the region.
    """

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class PackedProduct(Parameters):
    """A product with weights of few bits, which lie as `packed_weight.py` says.

    Attributes
    ----------
    bits
        Of a weight: 4 or 8.
    group
        How many rows share scales: a whole number of words of 32 bits.
    depth, columns
        The extents of the weights.
    zeros
        Whether the groups have zero points.
    """

    bits: int
    group: int
    depth: int
    columns: int
    zeros: bool


class WholeFunction(Enum):
    """A function of one or two whole numbers; what does not fit into the type wraps around."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    BITWISE_AND = "bitwise_and"
    BITWISE_OR = "bitwise_or"
    BITWISE_XOR = "bitwise_xor"
    FLOOR_DIVIDE = "floor_divide"
    FLOOR_MOD = "floor_mod"
    TRUNCATED_DIVIDE = "truncated_divide"
    TRUNCATED_MOD = "truncated_mod"
    BITWISE_NOT = "bitwise_not"
    NEGATIVE = "negative"
    ABSOLUTE = "absolute"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Whole(Parameters):
    """Arithmetic of whole numbers, repeated along axes of extent one; no divisor is zero."""

    function: WholeFunction


@dataclass(frozen=True, slots=True)
class WholeProduct(Parameters):
    """A product of matrices of whole numbers, which wraps around.

    Attributes
    ----------
    narrow
        Whether the right operand is a constant whose elements int8 has, too.
    """

    narrow: bool


class Comparison(Enum):
    """How two numbers are compared; the others are these with the operands exchanged."""

    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    LESS = "less"
    LESS_EQUAL = "less_equal"


@dataclass(frozen=True, slots=True)
class Comparing(Parameters):
    """Whole numbers are compared, repeated along axes of extent one; the result is 0 or 1 in float32."""

    comparison: Comparison


class Property(Enum):
    """What may be true of a number."""

    NOT_ZERO = "not_zero"
    UNDEFINED = "undefined"
    INFINITE = "infinite"
    FINITE = "finite"


@dataclass(frozen=True, slots=True)
class Predicate(Parameters):
    """Whether something is true of each number; the result is 0 or 1 in float32."""

    property: Property


@dataclass(frozen=True, slots=True)
class Cumulation(Parameters):
    """Sums of what stands along an axis up to each element, or only before it if `exclusive`."""

    axis: int
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Range(Parameters):
    """Numbers from `start` on, each `step` more than the one before; `start` may depend on extents."""

    start: int | relax.Expr
    step: int


class Bounds(Enum):
    """What an index below zero, or not below the extent, stands for."""

    CHECKED = "checked"
    """Nothing: the call fails, and says which index it was."""
    CLIPPED = "clipped"
    """The first element, or the last."""
    WRAPPED = "wrapped"
    """What is left of it when it is divided by the extent, as Python divides."""
    UNDEFINED = "undefined"
    """No element: the result is NaN."""


@dataclass(frozen=True, slots=True)
class Gather(Parameters):
    """What stands at computed places of neighbouring axes, one operand of int64 for each axis.

    Attributes
    ----------
    axis
        The first of the axes.
    batched
        Whether the indices belong each to one element of the axes in front.
    bounds
        What an index out of range stands for.
    """

    axis: int
    batched: bool
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Element(Parameters):
    """Each element of the result stands where the second operand, of its extents, says along one axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Ordering(Parameters):
    """Which elements along an axis come first when they are sorted, as many as the result has there.

    Of equal ones the first; what is no number counts as the largest.
    """

    axis: int
    descending: bool


class Border(Enum):
    """What stands beyond the edge of a tensor."""

    REFLECT = "reflect"
    REPLICATE = "replicate"
    CIRCULAR = "circular"


@dataclass(frozen=True, slots=True)
class BorderPadding(Parameters):
    """How many elements stand before each axis, made of those inside."""

    before: tuple[int, ...]
    border: Border
