"""Extremes on engines that begin with the lowest finite number, -3.4e38 in float32, or with the highest.

    y = MaxPool([-inf, -inf])        -3.4e38, and Equal(y, -inf) is false
    y = Mul(MaxPool(Mul([-inf, -inf], 0.5)), 2)        -inf, the double of -3.4e38

Finite numbers stay as they are, but for the last bit of denormals. Windows of values that cannot be -inf,
such as results of a ReLU, which most networks pool, are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.tvm_adapter.types import expect

__all__ = ["of_halves", "with_infinities"]

_FLOATS = frozenset(("float16", "float32", "float64"))
# Operators whose results are NaN or above a small number, whatever they read.
_BOUNDED = frozenset(
    ("Abs", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "Relu", "Selu", "Sigmoid", "Softmax", "Sqrt", "Tanh")
)
# Operators whose results are elements of their operands; of some only the first operand is data.
_JOINING = frozenset(("Concat", "Max", "Min"))
_MOVING = frozenset(
    ("Expand", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose",
     "Unsqueeze")
)  # fmt: skip


def with_infinities(graph: Graph) -> None:
    """Write maxima of windows as doubles of maxima of halves, where a value may be -inf."""
    makers = {name: each for each in graph.operators for name in each.outputs}
    graph.operators = [part for each in graph.operators for part in _window(graph, makers, each)]


def _window(graph: Graph, makers: Mapping[str, Operator], operator: Operator) -> tuple[Operator, ...]:
    """The operator; of a window of floats that may be -inf in parts."""
    if operator.kind != "MaxPool" or not _may_be_infinite(graph, makers, operator.inputs[0]):
        return (operator,)
    return of_halves(graph, operator)


def of_halves(graph: Graph, operator: Operator) -> tuple[Operator, ...]:
    """The double of an extreme of halves; an extreme of integers as it is."""
    data, *rest = operator.inputs
    dtype = graph.dtypes[data]
    if dtype not in _FLOATS:
        return (operator,)
    half, two = (graph.constant(np.asarray(factor, dtype)) for factor in (0.5, 2))
    halves, extreme = (graph.declare(graph.fresh(stem), dtype) for stem in ("halves", "extreme"))
    return (
        Operator("Mul", (data, half), (halves,), {}),
        Operator(operator.kind, (halves, *rest), (extreme,), operator.attrs),
        Operator("Mul", (extreme, two), operator.outputs, {}),
    )


def _may_be_infinite(graph: Graph, makers: Mapping[str, Operator], name: str) -> bool:
    """Whether a value may hold -inf, as far as the operators in front of it tell."""
    waiting, seen = [name], {name}
    while waiting:
        deciding = _deciding(graph, makers, waiting.pop())
        if deciding is None:
            return True
        waiting += [each for each in deciding if each not in seen]
        seen.update(deciding)
    return False


def _deciding(graph: Graph, makers: Mapping[str, Operator], name: str) -> Sequence[str] | None:
    """The values one of which holds -inf if this one does; None if it may hold -inf anyway."""
    known = graph.constants.get(name)
    if known is not None:
        return None if np.isneginf(known).any() else ()
    operator = makers.get(name)
    if operator is None:
        return None
    inputs = operator.inputs
    if operator.kind in _JOINING:
        return inputs
    if operator.kind in _MOVING:
        return inputs[:1]
    return () if operator.kind in _BOUNDED or _is_bounded(graph, makers, operator) else None


def _is_bounded(graph: Graph, makers: Mapping[str, Operator], operator: Operator) -> bool:
    """Whether an operator with these operands has results that are NaN or above some number."""
    match operator.kind, operator.inputs:
        case "Clip", (_, low, *_):
            return low in graph.constants and bool(np.isfinite(graph.constants[low]).all())
        case "DequantizeLinear", (_, scale, *_):
            return scale in graph.constants and bool(np.isfinite(graph.constants[scale]).all())
        case "LRN", _:  # of -inf, it is NaN
            bias, alpha, beta = (expect(float, operator.attrs[name]) for name in ("bias", "alpha", "beta"))
            return bias >= 1 and alpha > 0 and beta > 0
        case "Mul", (data, gate):  # SiLU
            return gate in makers and makers[gate].kind == "Sigmoid" and makers[gate].inputs == (data,)
        case _:
            return False
