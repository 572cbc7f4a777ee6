"""What prevents wrong results of ONNX Runtime 1.32.

Sums of integers are written otherwise, see `integer_sums`, windows of -inf, see `lowest_numbers`, and
products of rows with scales of their own, see `row_scales`.

Copies are for quantized models: the optimizer of transpositions puts a quantization and its inverse in front
of a transposition whose result is quantized, if the value has no other reader, but does not look whether the
value is a result of the model. It may be one, too, because an operator that does nothing was removed behind
it:

    e = Exp(x), t = Transpose(e), q = QuantizeLinear(t)        results e and q: e is what q stands for
    v = Exp(x), e = Max(v, v), t = Transpose(v), q = QuantizeLinear(t)        right
    e = Exp(Transpose(x)), t = Transpose(e), q = QuantizeLinear(e)        results t and q: t is wrong

The session option `disabled_optimizers` would turn off all of this optimizer, which runs under two names, for
every model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from annotated_region.backends.onnx_emitter.copies import copy_output
from annotated_region.backends.onnx_emitter.graph import Graph, Operator
from annotated_region.backends.onnx_emitter.lowest_numbers import with_infinities
from annotated_region.backends.onnxruntime.integer_sums import write_integer_sums
from annotated_region.backends.onnxruntime.row_scales import separate_row_scales

__all__ = ["CRASHING", "crashing_rewrites", "repair"]

# Operators that ONNX Runtime removes where they do nothing, or merges until they do nothing.
_REMOVABLE = frozenset((
    "Add", "Cast", "Concat", "Div", "Expand", "Identity", "Mul", "Pad", "Reshape", "Slice", "Squeeze", "Sub",
    "Tile", "Transpose", "Unsqueeze",
))  # fmt: skip


# Operators through which no transposition is moved.
_MAKING = frozenset(("Conv", "ConvTranspose", "Einsum", "Gather", "MatMul"))

CRASHING = "MatmulTransposeFusion"
"""A pass of ONNX Runtime's optimizer after which some models end the process while they are loaded."""


def crashing_rewrites(graph: Graph) -> tuple[str, ...]:
    """The passes of the optimizer that must not see a graph.

    ONNX Runtime 1.32 merges a transposition that moves the first axis into a product by constants, and packs
    constants of float16 for a kernel that the merged operator does not have: a segmentation fault. The
    optimizer moves transpositions to the products first, so any of the graph counts. The same where the
    transposed data is cast from integers or truth values to the floats of a product.
    """
    moves = any(each.kind == "Transpose" and _moves_first_axis(each) for each in graph.operators)
    known = graph.constants.keys() | graph.weights.keys()
    multiplies = any(
        each.kind == "MatMul" and each.inputs[1] in known and graph.dtypes[each.inputs[1]] == "float16"
        for each in graph.operators
    )
    return (CRASHING,) if moves and (multiplies or _multiplies_casts(graph)) else ()


def _multiplies_casts(graph: Graph) -> bool:
    """Whether an operand of a product is cast to floats, and transposed, without another product between."""
    cast: set[str] = set()
    moved: set[str] = set()
    for each in graph.operators:
        if each.kind == "MatMul" and any(name in cast and name in moved for name in each.inputs):
            return True
        data = each.inputs[0] if each.inputs and each.kind not in _MAKING else ""
        if data in cast or (each.kind == "Cast" and "float" not in graph.dtypes[data]):
            cast.update(each.outputs)
        if data in moved or (each.kind == "Transpose" and _moves_first_axis(each)):
            moved.update(each.outputs)
    return False


def _moves_first_axis(transposition: Operator) -> bool:
    order = transposition.attrs["perm"]
    return isinstance(order, Sequence) and bool(order) and order[0] != 0


def repair(graph: Graph) -> None:
    """Write sums of integers, windows and products otherwise, insert copies; the graph computes the same."""
    write_integer_sums(graph)
    with_infinities(graph)
    separate_row_scales(graph)
    quantized, transposed = _quantized(graph)
    makers = {name: each for each in graph.operators for name in each.outputs}
    for port in graph.outputs:
        for name, is_transposed in _same(graph, makers, port.name) if quantized else ():
            if name in transposed or (is_transposed and name in quantized):
                copy_output(graph, port, f"{port.name}_made")
                break


def _quantized(graph: Graph) -> tuple[set[str], set[str]]:
    """The values that are quantized behind operators with one computed operand; those also transposed."""
    quantized: set[str] = set()
    transposed: set[str] = set()
    for each in reversed(graph.operators):
        data = _computed(graph, each)
        if each.kind == "QuantizeLinear":
            quantized.add(each.inputs[0])
        if len(data) != 1:
            continue
        if quantized.intersection(each.outputs):
            quantized |= data
            if each.kind == "Transpose":
                transposed |= data
        if each.kind in _REMOVABLE and transposed.intersection(each.outputs):
            transposed |= data
    return quantized, transposed


def _same(graph: Graph, makers: dict[str, Operator], name: str) -> Iterator[tuple[str, bool]]:
    """A computed value, and those that it may turn out to be; whether it is one of them transposed."""
    is_transposed = False
    while name in makers:
        yield name, is_transposed
        data = _computed(graph, makers[name])
        if makers[name].kind not in _REMOVABLE or len(data) != 1:
            return
        is_transposed |= makers[name].kind == "Transpose"
        (name,) = data


def _computed(graph: Graph, operator: Operator) -> set[str]:
    """The operands that are no constants."""
    return {
        name for name in operator.inputs if name and name not in graph.constants and name not in graph.weights
    }
