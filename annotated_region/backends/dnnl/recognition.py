"""Finds what exporters take apart, and puts one node in its place: GELU, SiLU, RMS norm, attention.

::

    x * (1 + erf(x / sqrt(2))) / 2                          =>   gelu_erf(x)
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + c * x ^ 3)))      =>   gelu_tanh(x)
    x * sigmoid(x)                                          =>   swish(x)
    x / sqrt(mean(x ^ 2) + e) * w                           =>   rms_norm(x, w)
    softmax(mask(a * q @ k)) @ v                            =>   attention(q, k, v, mask)
    where(all(s == -inf), 0, softmax(s))                    =>   guarded_softmax(s), in attention too

Factors may stand before or behind: a linear function with no shift is looked through, and what is left of it
is put behind the new node, where `join_linear_functions` joins it with its neighbours. A node takes the place
of others only if nobody else reads what they compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from annotated_region.backends.dnnl.conversions.attention import MASKS
from annotated_region.backends.dnnl.graph import (
    Dim,
    Graph,
    Kind,
    Node,
    TensorId,
    same_dim,
    same_shape,
    volume,
)
from annotated_region.backends.dnnl.views import reshape

__all__ = ["recognize"]

TOLERANCE = 1e-4  # of constants that exporters write with few digits
CUBE = 0.044715


def recognize(graph: Graph) -> None:
    """Put single nodes in the place of the known compositions; O(nodes)."""
    finder = _Finder(graph)
    for rebuild in (finder.activation, finder.rms_norm, finder.weighted, finder.guarded, finder.attention):
        finder.sweep(rebuild)


def _close(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=TOLERANCE)


class _Finder:
    """The nodes of a graph by their results, and how often these are read."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made: dict[TensorId, Node] = {}
        self.uses: dict[TensorId, int] = {}

    def sweep(self, rebuild: Callable[[Node], Node | None]) -> None:
        """Try one rewriting on each node in turn; what it adds to the graph stands before its result."""
        self.uses = self.graph.use_counts()
        nodes, self.graph.nodes = self.graph.nodes, []
        self.made = {}
        for node in nodes:
            rebuilt = rebuild(node) or node
            for each in (*self.graph.nodes, rebuilt):
                self.made[each.output] = each
            self.graph.nodes = []
        self.graph.nodes = list(self.made.values())
        self.graph.remove_dead_nodes()

    def own(self, tensor: TensorId, kind: Kind, algorithm: str | None = None) -> Node | None:
        """The producer of a tensor, if it is of this kind and has no other reader."""
        node = self.made.get(tensor)
        if node is None or node.kind is not kind or self.uses.get(tensor, 0) != 1:
            return None
        return node if algorithm in (None, node.algorithm) else None

    def scaled(self, tensor: TensorId) -> tuple[TensorId, float]:
        """A tensor as another one times a factor."""
        node = self.own(tensor, Kind.ELTWISE, "eltwise_linear")
        return (tensor, 1.0) if node is None or node.floats[1] else (node.inputs[0], node.floats[0])

    # --- activations

    def activation(self, node: Node) -> Node | None:
        if node.kind is not Kind.BINARY or node.algorithm != "binary_mul":
            return None
        for first, second in (node.inputs, node.inputs[::-1]):
            found = self.swish(first, second) or self.gelu(first, second)
            if found is not None:
                data, algorithm, alpha, factor = found
                shape = self.graph.shape(node.output)
                curve = self.graph.add(Kind.ELTWISE, (data,), shape, algorithm, floats=(alpha, 0.0))
                return Node(Kind.ELTWISE, (curve,), node.output, "eltwise_linear", floats=(factor, 0.0))
        return None

    def swish(self, first: TensorId, second: TensorId) -> tuple[TensorId, str, float, float] | None:
        gate = self.own(second, Kind.ELTWISE, "eltwise_logistic")
        if gate is None or gate.inputs[0] != first:
            return None
        return first, "eltwise_swish", 1.0, 1.0

    def gelu(self, first: TensorId, second: TensorId) -> tuple[TensorId, str, float, float] | None:
        """Of ``x * a`` times ``s + s * f(x)``, with f the error function or the hyperbolic tangent."""
        outer = self.own(second, Kind.ELTWISE, "eltwise_linear")
        if outer is None or outer.floats[0] != outer.floats[1]:
            return None
        data, factor = self.scaled(first)
        factor *= 2.0 * outer.floats[0]
        error = self.own(outer.inputs[0], Kind.ERROR_FUNCTION)
        if error is not None:
            inner, root = self.scaled(error.inputs[0])
            is_same = inner == data and _close(root, 2**-0.5)
            return (data, "eltwise_gelu_erf", 0.0, factor) if is_same else None
        tangent = self.own(outer.inputs[0], Kind.ELTWISE, "eltwise_tanh")
        if tangent is None or not self.is_bent(tangent.inputs[0], data):
            return None
        return data, "eltwise_gelu_tanh", 0.0, factor

    def is_bent(self, tensor: TensorId, data: TensorId) -> bool:
        """Whether a tensor is the argument of GELU's hyperbolic tangent."""
        total, root = self.scaled(tensor)
        sum_ = self.own(total, Kind.BINARY, "binary_add")
        if sum_ is None or data not in sum_.inputs or not _close(root, math.sqrt(2 / math.pi)):
            return False
        left, right = sum_.inputs
        cube, factor = self.scaled(right if left == data else left)
        power = self.own(cube, Kind.ELTWISE, "eltwise_pow")
        return (
            power is not None
            and power.inputs == (data,)
            and power.floats == (1.0, 3.0)
            and _close(factor, CUBE)
        )

    # --- root mean square

    def rms_norm(self, node: Node) -> Node | None:
        """The quotient of a tensor by its root mean square over the last axis; the scale is one."""
        if node.kind is not Kind.BINARY or node.algorithm not in ("binary_div", "binary_mul"):
            return None
        data, root = node.inputs
        epsilon = self.mean_square(data, root, 0.5 if node.algorithm == "binary_div" else -0.5)
        if epsilon is None:
            return None
        return Node(Kind.RMS_NORM, (data,), node.output, floats=(epsilon,))

    def mean_square(self, data: TensorId, root: TensorId, exponent: float) -> float | None:
        """The epsilon under the root, or None."""
        power = self.own(root, Kind.ELTWISE)
        if power is None or not (
            (power.algorithm == "eltwise_sqrt" and exponent > 0)
            or (power.algorithm == "eltwise_pow" and power.floats == (1.0, exponent))
        ):
            return None
        shifted = self.own(power.inputs[0], Kind.ELTWISE, "eltwise_linear")
        if shifted is None or shifted.floats[0] != 1.0:
            return None
        mean = self.own(shifted.inputs[0], Kind.REDUCTION, "reduction_mean") or self.own(
            shifted.inputs[0], Kind.POOLING, "pooling_avg_exclude_padding"
        )
        if mean is None or not self.is_row_of(mean, data) or not self.is_square(mean.inputs[0], data):
            return None
        return shifted.floats[1]

    def is_row_of(self, mean: Node, data: TensorId) -> bool:
        shape = self.graph.shape(data)
        return same_shape(self.graph.shape(mean.output), (*shape[:-1], 1)) and isinstance(shape[-1], int)

    def is_square(self, tensor: TensorId, data: TensorId) -> bool:
        square = self.made.get(tensor)
        if square is None or self.uses.get(tensor, 0) != 1:
            return False
        if square.kind is Kind.BINARY:
            return square.algorithm == "binary_mul" and square.inputs == (data, data)
        is_power = square.algorithm == "eltwise_pow" and square.floats == (1.0, 2.0)
        return square.inputs == (data,) and (is_power or square.algorithm == "eltwise_square")

    def weighted(self, node: Node) -> Node | None:
        """A root mean square norm with the scale that follows it."""
        if node.kind is not Kind.BINARY or node.algorithm != "binary_mul":
            return None
        for data, weight in (node.inputs, node.inputs[::-1]):
            norm = self.own(data, Kind.RMS_NORM)
            if norm is None or len(norm.inputs) > 1:
                continue
            size = self.graph.shape(data)[-1]
            if same_dim(volume(self.graph.shape(weight)), size) and same_dim(
                self.graph.shape(weight)[-1], size
            ):
                vector = reshape(self.graph, weight, (size,))
                return replace(norm, inputs=(*norm.inputs, vector), output=node.output)
        return None

    # --- attention

    def guarded(self, node: Node) -> Node | None:
        """A softmax with zeros where nothing is seen; nothing is, unless any score is not minus infinity."""
        if node.kind is not Kind.SELECT or self.scalar(node.inputs[1]) != 0.0:
            return None
        weights = self.own(node.inputs[2], Kind.SOFTMAX, "softmax_accurate")
        rank = len(self.graph.shape(node.output))
        if weights is None or weights.ints != (rank - 1,):
            return None
        if not same_shape(self.graph.shape(weights.output), self.graph.shape(node.output)):
            return None
        any_ = self.contrary(node.inputs[0], Kind.REDUCTION, "reduction_max")
        equal = None if any_ is None else self.contrary(any_.inputs[0], Kind.BINARY, "binary_eq")
        if any_ is None or equal is None or equal.inputs[0] != weights.inputs[0]:
            return None
        rows = (*self.graph.shape(node.output)[:-1], 1)
        if self.scalar(equal.inputs[1]) != -math.inf or not same_shape(self.graph.shape(any_.output), rows):
            return None
        return Node(Kind.GUARDED_SOFTMAX, weights.inputs, node.output, ints=weights.ints)

    def contrary(self, tensor: TensorId, kind: Kind, algorithm: str) -> Node | None:
        """The producer, as `own` finds it, of the truth value that `tensor` is the contrary of."""
        node = self.own(tensor, Kind.ELTWISE, "eltwise_linear")
        if node is None or node.floats != (-1.0, 1.0):
            return None
        return self.own(node.inputs[0], kind, algorithm)

    def attention(self, node: Node) -> Node | None:
        if node.kind is not Kind.MATMUL or len(node.inputs) != 2:
            return None
        guarded = self.own(node.inputs[0], Kind.GUARDED_SOFTMAX)
        weights = guarded or self.own(node.inputs[0], Kind.SOFTMAX, "softmax_accurate")
        rank = len(self.graph.shape(node.output))
        if weights is None or weights.ints != (rank - 1,) or rank < 3:
            return None
        hidden, mask, kind, fill = self.unmasked(weights.inputs[0])
        scores, scale = self.scaled(hidden)
        product = self.own(scores, Kind.MATMUL)
        if product is None or len(product.inputs) != 2:
            return None
        (queries, left), (keys, right) = map(self.rescaled, product.inputs)
        inputs = (queries, self.unrepeated(keys), self.unrepeated(node.inputs[1]), *mask)
        if not self.is_stack(inputs[:3]) or not self.is_wide_enough(inputs[:3]):
            return None
        floats = (scale * left * right, fill)
        ints = (MASKS[kind], 0, guarded is not None)
        return Node(Kind.ATTENTION, inputs, node.output, ints=tuple(map(int, ints)), floats=floats)

    def unmasked(self, tensor: TensorId) -> tuple[TensorId, tuple[TensorId, ...], str, float]:
        """Scores without their mask; the mask, its kind and what a hidden score becomes."""
        added = self.own(tensor, Kind.BINARY, "binary_add")
        if added is not None:
            for scores, mask in (added.inputs, added.inputs[::-1]):
                if self.is_scores(scores, tensor):
                    return scores, (mask,), "added", 0.0
        chosen = self.own(tensor, Kind.SELECT)
        if chosen is not None and self.is_scores(chosen.inputs[1], tensor):
            fill = self.number(chosen.inputs[2])
            if fill is not None:
                return chosen.inputs[1], (chosen.inputs[0],), "selected", fill
        return tensor, (), "none", 0.0

    def is_scores(self, tensor: TensorId, masked: TensorId) -> bool:
        is_whole = same_shape(self.graph.shape(tensor), self.graph.shape(masked))
        return is_whole and self.own(self.scaled(tensor)[0], Kind.MATMUL) is not None

    def number(self, tensor: TensorId) -> float | None:
        """The value of a tensor that is one finite constant, through views."""
        value = self.scalar(tensor)
        return value if value is not None and math.isfinite(value) else None

    def scalar(self, tensor: TensorId) -> float | None:
        """The value of a tensor that is one constant, through views."""
        node = self.made.get(tensor)
        if node is not None and node.kind is Kind.RESHAPE:
            return self.scalar(node.inputs[0])
        return self.graph.tensors[tensor].scalar

    def rescaled(self, tensor: TensorId) -> tuple[TensorId, float]:
        """A tensor without the factor in front of its last permutation."""
        data, factor = self.scaled(tensor)
        node = self.own(data, Kind.PERMUTE)
        if factor != 1.0 or node is None:
            return data, factor
        inner, factor = self.scaled(node.inputs[0])
        if factor == 1.0:
            return tensor, 1.0
        shape = self.graph.shape(tensor)
        return self.graph.add(Kind.PERMUTE, (inner,), shape, ints=node.ints), factor

    def unrepeated(self, tensor: TensorId) -> TensorId:
        """Keys or values whose heads serve groups of queries, before they were repeated for each."""
        node = self.own(tensor, Kind.PERMUTE)
        if node is not None and len(node.ints) == 4 and node.ints[:2] == (0, 1):
            inner = self.unrepeated(node.inputs[0])
            if inner == node.inputs[0]:
                return tensor
            shape = [self.graph.shape(inner)[axis] for axis in node.ints]
            return self.graph.add(Kind.PERMUTE, (inner,), shape, ints=node.ints)
        view = self.own(tensor, Kind.RESHAPE)
        wide = None if view is None else self.own(view.inputs[0], Kind.EXPAND)
        if wide is None or len(self.graph.shape(tensor)) != 4 or len(self.graph.shape(wide.output)) != 5:
            return tensor
        batch, heads, group, rows, depth = self.graph.shape(wide.output)
        narrow = (batch, heads, 1, rows, depth)
        together = (batch, heads * group, rows, depth)
        is_repetition = same_shape(self.graph.shape(wide.inputs[0]), narrow) and same_shape(
            self.graph.shape(tensor), together
        )
        return reshape(self.graph, wide.inputs[0], (batch, heads, rows, depth)) if is_repetition else tensor

    def is_stack(self, inputs: tuple[TensorId, ...]) -> bool:
        """Whether queries, keys and values have the same ranks, and heads that divide one another."""
        queries, *others = (self.graph.shape(tensor)[:-2] for tensor in inputs)
        return all(len(other) == len(queries) and all(map(_divides, other, queries)) for other in others)

    def is_wide_enough(self, inputs: tuple[TensorId, ...]) -> bool:
        """Single rows and columns are left to the products that know them best."""
        return all(extent != 1 for tensor in inputs for extent in self.graph.shape(tensor)[-2:])


def _divides(part: Dim, whole: Dim) -> bool:
    if isinstance(part, int) and isinstance(whole, int):
        return whole % part == 0
    return same_dim(part, whole)
