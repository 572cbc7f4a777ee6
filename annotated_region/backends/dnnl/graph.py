"""The intermediate graph of a region between Relax and C++: tensors, nodes, post-ops.

Nodes correspond to oneDNN's primitives, not to Relax ops: an NHWC convolution is an NCHW one between two
permutations (which are free, because they only rename the axes of a memory descriptor), a flatten is a
reshape, a scaled tensor is an element-wise linear function.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

import numpy as np
import tvm_ffi
from tvm import relax

from annotated_region.backends.dnnl.packed_weight import PackedWeight
from annotated_region.backends.dnnl.parameters import NO_PARAMETERS, Curve, Parameters, Permutation
from annotated_region.functions.polynomials import are_equal

__all__ = [
    "DataType",
    "Dim",
    "Graph",
    "HALVES",
    "Joined",
    "Kind",
    "Node",
    "Part",
    "PostOp",
    "Quantized",
    "Tensor",
    "TensorId",
    "same_dim",
    "same_shape",
    "volume",
]

Dim: TypeAlias = "int | relax.Expr"
"""An extent: a number, or an expression over the symbolic extents of the inputs."""

TensorId: TypeAlias = int
"""The index of a tensor in `Graph.tensors`."""


class DataType(Enum):
    """The element type of a tensor, by TVM's name; in the C++ runtime the members are lower case."""

    FLOAT32 = "float32"
    TRUTH = "bool"
    INT8 = "int8"
    UINT8 = "uint8"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


HALVES = (DataType.FLOAT16, DataType.BFLOAT16)
"""The 16-bit float types, which regions compute in float32."""


class Kind(Enum):
    """The operation of a node; the value is the name of its enumerator in the C++ runtime."""

    CONVOLUTION = "convolution"
    DECONVOLUTION = "deconvolution"
    MATMUL = "matmul"
    POOLING = "pooling"
    ELTWISE = "eltwise"
    BINARY = "binary"
    LAYER_NORM = "layer_norm"
    GROUP_NORM = "group_norm"
    SOFTMAX = "softmax"
    LRN = "lrn"
    REDUCTION = "reduction"
    CONCAT = "concat"
    RESHAPE = "reshape"
    PERMUTE = "permute"
    EXPAND = "expand"
    SLICE = "slice"
    CAST = "cast"
    SELECT = "select"
    ERROR_FUNCTION = "error_function"
    EXPONENTIAL = "exponential"
    LOGARITHM = "logarithm"
    GELU = "gelu"
    RECIPROCAL_ROOT = "reciprocal_root"
    SINE = "sine"
    COSINE = "cosine"
    FLOOR = "floor"
    CEILING = "ceiling"
    TRUNCATION = "truncation"
    ELEMENTARY = "elementary"
    FLOAT_PAIR = "float_pair"
    PAD = "pad"
    RMS_NORM = "rms_norm"
    ROTATION = "rotation"
    PRELU = "prelu"
    RESAMPLING = "resampling"
    ATTENTION = "attention"
    PARTED_ATTENTION = "parted_attention"
    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"
    REQUANTIZE = "requantize"
    LOOKUP = "lookup"
    WHOLE = "whole"
    WHOLE_MATMUL = "whole_matmul"
    WHOLE_CONVOLUTION = "whole_convolution"
    WHOLE_REDUCTION = "whole_reduction"
    COMPARISON = "comparison"
    PREDICATE = "predicate"
    CUMULATION = "cumulation"
    RANGE = "range"
    GATHER = "gather"
    GATHER_ELEMENTS = "gather_elements"
    SCATTER = "scatter"
    SCATTER_ELEMENTS = "scatter_elements"
    BORDER_PAD = "border_pad"
    PACKED_PRODUCT = "packed_product"
    ORDERING = "ordering"
    SAMPLING = "sampling"
    BOX_POOLING = "box_pooling"
    RESIZING = "resizing"
    PART_MEANS = "part_means"
    RECURRENCE = "recurrence"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the region.

    Attributes
    ----------
    shape
        Its extents.
    source
        ``None`` for the result of a node, the position for an input, the name for a constant.
    scalar
        The value of a constant with a single element.
    dtype
        The element type. TRUTH, FLOAT16 and BFLOAT16 exist only at the boundary of the region; inside,
        booleans are the numbers 0 and 1 and halves are float32.
    half
        FLOAT16 or BFLOAT16 if the module has this type and the region computes in float32. A constant is
        stored in it; another tensor may be rounded to it.
    """

    shape: tuple[Dim, ...]
    source: int | str | None = None
    scalar: float | None = None
    dtype: DataType = DataType.FLOAT32
    half: DataType | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the tensor is a constant of the region."""
        return isinstance(self.source, str)


@dataclass(frozen=True, slots=True)
class PostOp:
    """One step of the chain that a primitive applies to its result before storing it.

    Attributes
    ----------
    algorithm
        The name of the algorithm in oneDNN, such as ``"eltwise_relu"`` or ``"binary_add"``.
    alpha, beta
        The parameters of an element-wise algorithm; of ``"binary_min"`` without operand, the number.
    operand
        The second operand of a binary algorithm.
    """

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0
    operand: TensorId | None = None


@dataclass(frozen=True, slots=True)
class Quantized:
    """The quantization parameters of an int8 product: an element e represents scale * (e - zero).

    Attributes
    ----------
    scale
        The scale of the source, times that of the weights if these have a single scale.
    zero
        The zero point of the source.
    weights_zero
        The zero point of the weights.
    weights_scales
        A constant vector, if the weights have one scale per channel of the result.
    result_scale, result_zero
        The parameters of the result, if that is int8 too.
    source_zero
        A scalar integer tensor, if the zero point of the source is computed in the region.
    """

    scale: float
    zero: int
    weights_zero: int = 0
    weights_scales: TensorId | None = None
    result_scale: float = 1.0
    result_zero: int = 0
    source_zero: TensorId | None = None

    @property
    def operands(self) -> tuple[TensorId, ...]:
        """The parameters that are tensors."""
        return tuple(each for each in (self.weights_scales, self.source_zero) if each is not None)

    def with_operands(self, names: Callable[[TensorId], TensorId]) -> Quantized:
        """A copy with each tensor replaced by `names` of it."""
        found = {
            name: names(tensor)
            for name in ("weights_scales", "source_zero")
            if (tensor := getattr(self, name)) is not None
        }
        return replace(self, **found)


@dataclass(frozen=True, slots=True)
class Node:
    """One primitive, or one change of view.

    Attributes
    ----------
    kind
        The operation.
    inputs
        The operands, in the order that the runtime expects.
    output
        The only result.
    parameters
        The attributes of the operation.
    post_ops
        The chain applied to the result before it is stored.
    quantized
        The quantization parameters, if this is an int8 product.
    """

    kind: Kind
    inputs: tuple[TensorId, ...]
    output: TensorId
    parameters: Parameters = NO_PARAMETERS
    post_ops: tuple[PostOp, ...] = ()
    quantized: Quantized | None = None

    @property
    def operands(self) -> tuple[TensorId, ...]:
        """The inputs of the node, the operands of its post-ops, and its quantization tensors."""
        others = [post.operand for post in self.post_ops if post.operand is not None]
        return (*self.inputs, *others, *(self.quantized.operands if self.quantized is not None else ()))

    @property
    def algorithm(self) -> str | None:
        """OneDNN's name of the algorithm, for kinds that have several."""
        return getattr(self.parameters, "algorithm", None)

    @property
    def linear(self) -> Curve | None:
        """The parameters if the node is a linear function without post-ops, else None."""
        curve = self.parameters if self.kind is Kind.ELTWISE and not self.post_ops else None
        return curve if isinstance(curve, Curve) and curve.is_linear else None

    def with_operands(self, names: Callable[[TensorId], TensorId]) -> Node:
        """A copy with each operand replaced by `names` of it, which is called in the order of `operands`."""
        inputs = tuple(map(names, self.inputs))
        posts = tuple(
            post if post.operand is None else replace(post, operand=names(post.operand))
            for post in self.post_ops
        )
        quantized = None if self.quantized is None else self.quantized.with_operands(names)
        return replace(self, inputs=inputs, post_ops=posts, quantized=quantized)


@dataclass(frozen=True, slots=True)
class Part:
    """A constant, seen through views; zeros if it has no name. `width` is its last extent."""

    name: str | None
    views: tuple[Permutation | tuple[int, ...], ...]
    width: int

    def value(self, lookup: Callable[[str], np.ndarray], rows: int, dtype: np.dtype) -> np.ndarray:
        """Its elements as a matrix with `rows` rows; `dtype` is used for zeros only."""
        if self.name is None:
            return np.zeros((rows, self.width), dtype)
        array = lookup(self.name)
        for view in self.views:
            array = array.transpose(view.axes) if isinstance(view, Permutation) else array.reshape(view)
        return array.reshape(rows, self.width)


@dataclass(frozen=True, slots=True)
class Joined:
    """A constant created by code generation: other constants concatenated along the last axis."""

    parts: tuple[Part, ...]
    shape: tuple[int, ...]

    def value(self, lookup: Callable[[str], np.ndarray]) -> np.ndarray:
        """Its elements; `lookup` maps names of constants to their elements."""
        rows = math.prod(self.shape[:-1])
        dtype = next(lookup(part.name).dtype for part in self.parts if part.name is not None)
        parts = [part.value(lookup, rows, dtype) for part in self.parts]
        return np.concatenate(parts, axis=1).reshape(self.shape)


@dataclass(slots=True)
class Graph:
    """A region as a graph of oneDNN primitives; nodes are in topological order."""

    symbol: str
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[TensorId] = field(default_factory=list)
    outputs: list[TensorId] = field(default_factory=list)
    joined: dict[str, Joined] = field(default_factory=dict)
    packed: dict[str, PackedWeight] = field(default_factory=dict)
    shapes: list[tuple[Dim, ...]] = field(default_factory=list)
    """Shapes that the function takes after its inputs, for extents that appear in no input shape."""
    finite_math: bool = False
    """Whether to use oneDNN's functions even if they differ from TVM on NaN and infinity."""
    in_floats: Graph | None = None
    """The same region without int8 products, for processors on which oneDNN's would saturate."""
    declared: DataType | None = None
    """The type in the module of the op that is being imported."""

    def tensor(
        self,
        shape: Iterable[Dim],
        source: int | str | None = None,
        scalar: float | None = None,
        dtype: DataType = DataType.FLOAT32,
        half: DataType | None = None,
    ) -> TensorId:
        """A new tensor."""
        self.tensors.append(Tensor(tuple(shape), source, scalar, dtype, half))
        return len(self.tensors) - 1

    def cast(self, tensor: TensorId, dtype: DataType) -> TensorId:
        """The tensor cast to another type; itself if it already has this type."""
        if self.dtype(tensor) is dtype:
            return tensor
        before = self.dtype(tensor)
        half = before if before in HALVES and dtype is DataType.FLOAT32 else None
        output = self.tensor(self.shape(tensor), dtype=dtype, half=half)
        self.nodes.append(Node(Kind.CAST, (tensor,), output))
        return output

    def add(
        self,
        kind: Kind,
        inputs: Sequence[TensorId],
        shape: Iterable[Dim],
        parameters: Parameters = NO_PARAMETERS,
        *,
        dtype: DataType | None = None,
    ) -> TensorId:
        """Append a node; returns its result, which has the type of the first operand unless given."""
        made = dtype or self.dtype(inputs[0])
        half = self.half_of(inputs) if self.declared is None else self.declared
        is_half = made is DataType.FLOAT32 and half in HALVES
        output = self.tensor(shape, dtype=made, half=half if is_half else None)
        self.nodes.append(Node(kind, tuple(inputs), output, parameters))
        return output

    def half_of(self, tensors: Iterable[TensorId]) -> DataType | None:
        """The common 16-bit float type of some tensors in the module, or None."""
        halves = {self.tensors[tensor].half for tensor in tensors}
        return halves.pop() if len(halves) == 1 else None

    def is_made_of(self, tensor: TensorId, half: DataType) -> bool:
        """Whether a tensor is computed from a non-constant tensor that has type `half` in the module."""
        sought = {tensor}
        for node in reversed(self.nodes):
            if node.output not in sought:
                continue
            found = (self.tensors[each] for each in (node.output, *node.operands))
            if any(each.half is half and not each.is_constant for each in found):
                return True
            sought.update(node.operands)
        return False

    def shape(self, tensor: TensorId) -> tuple[Dim, ...]:
        """The extents of a tensor."""
        return self.tensors[tensor].shape

    def dtype(self, tensor: TensorId) -> DataType:
        """The element type of a tensor."""
        return self.tensors[tensor].dtype

    def remove_dead_nodes(self) -> None:
        """Remove the nodes whose results have no reader."""
        live = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if node.output in live:
                live.update(node.operands)
                kept.append(node)
        self.nodes = kept[::-1]

    def compact(self) -> None:
        """Renumber the tensors so that unused ones disappear, and equal parts of the graph differ by a shift.

        The inputs come first, then the constants that several nodes read; then, node by node, the constants
        that only this node reads, and its result.
        """
        readers = Counter(tensor for node in self.nodes for tensor in dict.fromkeys(node.operands))
        shared = [each for each, count in readers.items() if count > 1 and self.tensors[each].is_constant]
        by_node = (tensor for node in self.nodes for tensor in (*node.operands, node.output))
        kept = dict.fromkeys((*self.inputs, *shared, *by_node, *self.outputs))
        renamed = {old: new for new, old in enumerate(kept)}
        self.tensors = [self.tensors[old] for old in renamed]
        self.nodes = [
            replace(node.with_operands(renamed.__getitem__), output=renamed[node.output])
            for node in self.nodes
        ]
        self.inputs = [renamed[old] for old in self.inputs]
        self.outputs = [renamed[old] for old in self.outputs]


def same_dim(left: Dim, right: Dim) -> bool:
    """Whether two extents are provably equal, such as ``n + n`` and ``2 * n``."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if isinstance(left, relax.Var) and isinstance(right, int):  # the most frequent comparison
        return False
    is_same = (
        not isinstance(left, int) and not isinstance(right, int) and tvm_ffi.structural_equal(left, right)
    )
    return bool(is_same or are_equal(left, right))


def same_shape(left: Sequence[Dim], right: Sequence[Dim]) -> bool:
    """Whether two shapes are provably equal."""
    return len(left) == len(right) and all(map(same_dim, left, right))


def volume(shape: Iterable[Dim]) -> Dim:
    """The product of the extents."""
    product: Dim = 1
    for extent in shape:
        product = product * extent
    return product
