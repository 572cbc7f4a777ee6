"""The parameters of nodes; `rows.py` generates the C++ structs from them, such as `CurveRow` from `Curve`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tvm import relax

__all__ = [
    "COMMUTATIVE",
    "Arithmetic",
    "Attention",
    "Begins",
    "Causal",
    "ChannelScales",
    "Combination",
    "Comparing",
    "Comparison",
    "Concat",
    "Convolution",
    "Cumulation",
    "Curve",
    "Elementary",
    "FloatPair",
    "Border",
    "BorderPadding",
    "GroupNorm",
    "LocalResponse",
    "Mask",
    "NO_PARAMETERS",
    "Norm",
    "PackedProduct",
    "Padding",
    "PairFunction",
    "Parameters",
    "Permutation",
    "Pooling",
    "Predicate",
    "Property",
    "Range",
    "Reduction",
    "Requantization",
    "ScalarFunction",
    "Scale",
    "Softmax",
    "Whole",
    "WholeConvolution",
    "WholeFunction",
    "WholeProduct",
    "WholeReduction",
    "linear",
]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a kind that has none: matrix products, reshapes, casts, selections."""


NO_PARAMETERS = Parameters()


@dataclass(frozen=True, slots=True)
class Convolution(Parameters):
    """A convolution or transposed convolution, by spatial axis; a dilation of zero means dense kernels."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pooling(Parameters):
    """A window for each spatial axis; a size of zero is the whole extent, known at run time."""

    algorithm: str
    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Curve(Parameters):
    """An element-wise unary function, by oneDNN's name, with oneDNN's two parameters."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def is_linear(self) -> bool:
        """Whether this is ``alpha * x + beta``."""
        return self.algorithm == "eltwise_linear"


def linear(scale: float, shift: float = -0.0) -> Curve:
    """``scale * x + shift``; the default shift keeps the sign of zero, which adding 0.0 would change."""
    return Curve("eltwise_linear", scale, shift)


@dataclass(frozen=True, slots=True)
class Arithmetic(Parameters):
    """A binary function, by oneDNN's name; the second operand is broadcast along axes of extent one."""

    algorithm: str


COMMUTATIVE = ("binary_add", "binary_mul")
"""`binary_max` and `binary_min` are not listed: with NaN they return the second operand, as TVM does."""


@dataclass(frozen=True, slots=True)
class Reduction(Arithmetic):
    """A reduction along the axes on which the result has extent one."""


@dataclass(frozen=True, slots=True)
class Norm(Parameters):
    """A normalisation over the last axis, with the epsilon added to the variance."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class GroupNorm(Norm):
    """A normalisation over groups of channels and all axes after the channels."""

    groups: int


@dataclass(frozen=True, slots=True)
class Softmax(Parameters):
    """Softmax or log-softmax, by the algorithm, over one axis.

    If `guarded`, a row of only minus infinity gives zeros.
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
    """The axis of a concatenation."""

    axis: int


@dataclass(frozen=True, slots=True)
class Permutation(Parameters):
    """Axis i of the result is axis ``axes[i]`` of the operand."""

    axes: tuple[int, ...]

    @property
    def inverse(self) -> tuple[int, ...]:
        """The axes of the inverse permutation."""
        return tuple(self.axes.index(axis) for axis in range(len(self.axes)))


@dataclass(frozen=True, slots=True)
class Begins(Parameters):
    """A strided slice: the begin and step on each axis; a begin may depend on extents."""

    begins: tuple[int | relax.Expr, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Padding(Parameters):
    """Constant padding: the number of elements before each axis; the extents imply the number after it."""

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
    """Quantization with one scale and zero point: an element e represents ``scale * (e - zero)``."""

    scale: float
    zero: int


@dataclass(frozen=True, slots=True)
class ChannelScales(Parameters):
    """Quantization with scales in the second operand, one per index of `count` adjacent axes.

    If `count` is zero, there is a single scale, computed in the region.
    """

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Requantization(Parameters):
    """Quantization with ``scale`` and ``zero`` of numbers that have a factor and a term for each channel.

    Attributes
    ----------
    scale, zero
        The parameters of the result.
    source_scale, source_zero
        Those of the operand, if it is int8; otherwise it is float32.
    has_factors, has_terms
        Whether the second operand is a vector of factors, and the last one a vector of terms.
    """

    scale: float
    zero: int
    source_scale: float
    source_zero: int
    has_factors: bool
    has_terms: bool


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
    halves
        Whether scales and zero points are stored as float16.
    digits
        How many digits of 8 bits a number of the rows has, where they are multiplied in whole numbers.
    rounds
        Whether many rows and the weights are rounded to bfloat16, where products of those are faster.
    """

    bits: int
    group: int
    depth: int
    columns: int
    zeros: bool
    halves: bool
    digits: int = 3
    rounds: bool = False


class WholeFunction(Enum):
    """A function of one or two integers; overflow wraps around."""

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
    """Integer arithmetic, broadcast along axes of extent one; divisors are nonzero."""

    function: WholeFunction


class PairFunction(Enum):
    """A function of two floats, with TVM's formula."""

    FLOORED_QUOTIENT = "floored_quotient"
    FLOORED_REMAINDER = "floored_remainder"
    TRUNCATED_REMAINDER = "truncated_remainder"
    POWER = "power"


@dataclass(frozen=True, slots=True)
class FloatPair(Parameters):
    """A function of two floats, broadcast along axes of extent one."""

    function: PairFunction


@dataclass(frozen=True, slots=True)
class WholeProduct(Parameters):
    """An integer matrix product; overflow wraps around.

    Attributes
    ----------
    narrow
        Whether the right operand is a constant whose elements fit int8 once `zero` is added to them.
    zero
        0 if they fit as they are.
    small
        Whether it is a constant whose elements are differences of bytes.
    """

    narrow: bool
    zero: int
    small: bool


@dataclass(frozen=True, slots=True)
class WholeConvolution(Convolution):
    """A convolution of int32; overflow wraps around.

    Attributes
    ----------
    narrow
        Whether the kernel is a constant whose elements fit int8.
    small
        Whether it is a constant whose elements are differences of bytes.
    """

    narrow: bool
    small: bool


class Comparison(Enum):
    """A comparison of two numbers; other comparisons exchange the operands."""

    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    LESS = "less"
    LESS_EQUAL = "less_equal"


@dataclass(frozen=True, slots=True)
class Comparing(Parameters):
    """An integer comparison, broadcast along axes of extent one; the result is 0 or 1 in float32."""

    comparison: Comparison


class Property(Enum):
    """A predicate on a number."""

    NOT_ZERO = "not_zero"
    UNDEFINED = "undefined"
    INFINITE = "infinite"
    FINITE = "finite"


@dataclass(frozen=True, slots=True)
class Predicate(Parameters):
    """An element-wise predicate; the result is 0 or 1 in float32."""

    property: Property


class ScalarFunction(Enum):
    """A function of single numbers that is computed one by one, by the C++ library."""

    ARC_COSINE = "arc_cosine"
    ARC_HYPERBOLIC_COSINE = "arc_hyperbolic_cosine"
    ARC_SINE = "arc_sine"
    ARC_HYPERBOLIC_SINE = "arc_hyperbolic_sine"
    ARC_TANGENT = "arc_tangent"
    ARC_HYPERBOLIC_TANGENT = "arc_hyperbolic_tangent"
    HYPERBOLIC_COSINE = "hyperbolic_cosine"
    HYPERBOLIC_SINE = "hyperbolic_sine"
    TANGENT = "tangent"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Elementary(Parameters):
    """An element-wise function of float32."""

    function: ScalarFunction


@dataclass(frozen=True, slots=True)
class Cumulation(Parameters):
    """Cumulative sums or products along an axis, including each element unless `exclusive`."""

    axis: int
    exclusive: bool
    multiplies: bool


@dataclass(frozen=True, slots=True)
class Range(Parameters):
    """An arithmetic progression from `start` in steps of `step`; `start` may depend on extents."""

    start: int | relax.Expr
    step: int


class Combination(Enum):
    """How a partial result and an operand, or an element and its update, become one number."""

    UPDATE = "update"
    ADD = "add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class WholeReduction(Parameters):
    """A reduction of integers along the last axis to one element."""

    combination: Combination


class Border(Enum):
    """The values beyond the edge of a tensor."""

    REFLECT = "reflect"
    REPLICATE = "replicate"
    CIRCULAR = "circular"


@dataclass(frozen=True, slots=True)
class BorderPadding(Parameters):
    """Padding with elements of the tensor: the number of elements before each axis."""

    before: tuple[int, ...]
    border: Border
