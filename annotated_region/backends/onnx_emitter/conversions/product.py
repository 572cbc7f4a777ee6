"""Matrix products, and sums of products in Einstein notation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import tvm

from annotated_region.backends.onnx_emitter.conversions.reduction import reduced
from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require
from annotated_region.tvm_adapter.types import expect

__all__: list[str] = []


@converter("relax.matmul")
def _matmul(emission: Emission, op: OpView) -> str:
    left, right = (emission.operand(argument) for argument in op.args)
    require(emission.dtype(left) == emission.dtype(right), "the operands have different data types")
    require(emission.dtype(left) == str(op.out_tensor.dtype), f"the result has type {op.out_tensor.dtype}")
    shapes = [extents_of(each) for each in op.arg_types]
    product = _product(emission, left, right, shapes[0][-1])
    if _repeats_a_matrix(*shapes):
        emission.graph.repeated_matrices.add(product)
    return product


def _repeats_a_matrix(left: Sequence[Dim], right: Sequence[Dim]) -> bool:
    """Whether one matrix of symbolic extents is multiplied by each of a stack."""
    is_open = any(not isinstance(extent, int) for extent in left)
    return is_open and [*left[:-2]] in ([], [1]) and len(right) == 3 and right[0] != 1


def _product(emission: Emission, left: str, right: str, count: Dim) -> str:
    """A matrix product with so many summands an element."""
    product = emission.node("MatMul", left, right)
    if not isinstance(count, int):
        emission.graph.open_sums.add(product)
    return product


@converter("relax.einsum")
def _einsum(emission: Emission, op: OpView) -> str:
    operands, equation = emission.operands(op.args[0]), str(op.attrs["subscripts"])
    shapes = [extents_of(field) for field in expect(tvm.ir.TupleType, op.arg_types[0]).fields]
    require(_letters_agree(equation, shapes), f"the subscripts {equation} spread an extent of 1")
    if len(operands) == 1 and _only_sums(equation.replace(" ", "")):
        return _summed(emission, operands[0], equation.replace(" ", ""))
    if len(operands) == 1 or all(isinstance(extent, int) for shape in shapes for extent in shape):
        return emission.node("Einsum", *operands, equation=equation)
    return _contracted(emission, operands, shapes, equation.replace(" ", ""))


def _only_sums(equation: str) -> bool:
    """Whether an equation of one operand leaves out some of its axes, and takes no diagonal."""
    given, arrow, kept = equation.partition("->")
    return bool(arrow) and "." not in given and len(set(given)) == len(given) > len(kept)


def _summed(emission: Emission, data: str, equation: str) -> str:
    """A sum along axes, in whose place engines know a sum; and a permutation of the others."""
    given, _arrow, kept = equation.partition("->")
    left = [letter for letter in given if letter in kept]
    axes = [axis for axis, letter in enumerate(given) if letter not in kept]
    return _transposed(emission, reduced(emission, "ReduceSum", data, axes, keepdims=False), left, kept)


def _letters_agree(equation: str, shapes: Sequence[Sequence[Dim]]) -> bool:
    """Whether no letter stands for different extents; TVM spreads an extent of 1, ONNX does not."""
    known: dict[str, Dim] = {}
    for term, shape in zip(equation.replace(" ", "").partition("->")[0].split(","), shapes, strict=True):
        head, _dots, tail = term.partition("...")
        pairs = [*zip(head, shape, strict=False), *zip(reversed(tail), reversed(shape), strict=False)]
        for letter, extent in pairs:
            if _differ(known.setdefault(letter, extent), extent):
                return False
    return True


def _differ(left: Dim, right: Dim) -> bool:
    """Whether two extents differ; those that are unknown are equal in a call, unless one is spread."""
    if isinstance(left, int) and isinstance(right, int):
        return left != right
    return any(isinstance(each, int) and each == 1 for each in (left, right))


def _contracted(
    emission: Emission, operands: Sequence[str], shapes: Sequence[Sequence[Dim]], equation: str
) -> str:
    """A product of matrices between transpositions, for symbolic extents.

    Where one is 0, ``Einsum`` of ONNX Runtime ends the process (SIGFPE) instead.
    """
    given, arrow, kept = equation.partition("->")
    terms = given.split(",")
    is_plain = arrow and len(terms) == 2 and all(len(set(term)) == len(term) for term in terms)
    require(bool(is_plain) and "." not in equation, f"the subscripts {equation} with symbolic extents")
    left, right = terms
    extents = dict(zip([*right, *left], [*shapes[1], *shapes[0]], strict=True))
    stack = [letter for letter in left if letter in right and letter in kept]
    inner = [letter for letter in left if letter in right and letter not in kept]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    require(set(kept) == {*stack, *rows, *columns}, f"the subscripts {equation} with symbolic extents")
    factors = (
        _as_matrices(emission, operands[0], left, (stack, rows, inner), extents),
        _as_matrices(emission, operands[1], right, (stack, inner, columns), extents),
    )
    product = _product(emission, *factors, math.prod(extents[letter] for letter in inner))
    order = [*stack, *rows, *columns]
    apart = emission.reshape_to(product, [extents[letter] for letter in order])
    return _transposed(emission, apart, order, kept)


def _as_matrices(
    emission: Emission, data: str, axes: str, groups: Sequence[Sequence[str]], extents: Mapping[str, Dim]
) -> str:
    """A stack of matrices: the axes of the first group as they are, those of both others as one each."""
    stack, *sides = groups
    moved = _transposed(emission, data, axes, [letter for group in groups for letter in group])
    joined = [math.prod(extents[letter] for letter in side) for side in sides]
    return emission.reshape_to(moved, [*(extents[letter] for letter in stack), *joined])


def _transposed(emission: Emission, data: str, before: Sequence[str], after: Sequence[str]) -> str:
    order = [list(before).index(letter) for letter in after]
    return data if order == sorted(order) else emission.node("Transpose", data, perm=order)


@converter("relax.outer")
def _outer(emission: Emission, op: OpView) -> str:
    left, right = (emission.operand(argument) for argument in op.args)
    column = emission.node("Unsqueeze", left, emission.ints([1]))
    return emission.node("Mul", column, emission.node("Unsqueeze", right, emission.ints([0])))
