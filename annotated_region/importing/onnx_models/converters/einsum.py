"""`Einsum` as products, permutations and sums; TVM's importer emits an opaque function.

Operands are contracted pairwise, from the left. The letters of two operands are of four kinds:

    batch   in both, and needed later
    sum     in both, and not needed later
    left    only in the first
    right   only in the second

With ``[batch, left, sum]`` and ``[batch, sum, right]``, each of the last two groups flattened to one axis,
the contraction is a matrix product; without a contracted letter it is an elementwise product. Letters that
only one operand has and that are not needed later are summed before.
"""

from __future__ import annotations

import math
import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal

__all__: list[str] = []

_DOTS = "..."
_NUMBERS = ("float32", "float16", "float64", "int32", "int64")


@dataclass(frozen=True, slots=True)
class _Factor:
    """A tensor and the letter of each of its axes."""

    expr: relax.Expr
    letters: str


@converts("", "Einsum", (1, 2**16), "equation")
def _einsum(node: OnnxNode) -> relax.Expr:
    """Diagonals and broadcast extents are left to TVM."""
    operands = [node.tensor(at, _NUMBERS) for at in range(len(node.inputs))]
    equation = node.text("equation", "")
    terms, result = _subscripts(node, equation, [rank_of(each) for each in operands])
    node.require(len({dtype_of(each) for each in operands}) == 1, "has inputs of several data types")
    if any(len(set(term)) < len(term) for term in terms) or not _agree(node, operands, terms):
        return node.standard("Einsum", operands, {"equation": equation.encode()})
    factors = [_Factor(expr, term) for expr, term in zip(operands, terms, strict=True)]
    found = _summed(factors[0], result + "".join(terms[1:]))
    for place, factor in enumerate(factors[1:], 2):
        needed = result + "".join(terms[place:])
        found = _contracted(node, found, _summed(factor, needed + found.letters), needed)
    # Sum the remaining letters that are not in the result.
    found = _summed(found, result)
    return _permuted(found, result)


def _subscripts(node: OnnxNode, equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """A letter for each axis of each operand, and of the result; the axes of an ellipsis get new letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    node.require(len(terms) == len(ranks), f"has {len(ranks)} inputs, and an equation of {len(terms)}")
    for term in (*terms, right):
        letters = term.replace(_DOTS, "", 1)
        node.require(
            not set(letters) - set(string.ascii_letters), f"has the equation {equation!r}, which is malformed"
        )
    widths = [rank - len(term.replace(_DOTS, "")) for term, rank in zip(terms, ranks, strict=True)]
    for place, (term, width) in enumerate(zip(terms, widths, strict=True)):
        node.require(
            width == 0 or (width > 0 and _DOTS in term),
            f"has an input {place} of rank {ranks[place]}, and {term!r} in its equation",
        )
    # The axes of an ellipsis are aligned at the last one.
    dots = "".join(chr(place) for place in range(1, max(widths) + 1))
    if not arrow:
        counted = left.replace(_DOTS, "").replace(",", "")
        right = _DOTS + "".join(sorted(each for each in set(counted) if counted.count(each) == 1))
    result = right.replace(_DOTS, dots)
    node.require(
        len(set(result)) == len(result) and set(result) <= {*left, *dots},
        f"has the equation {equation!r}, whose result is malformed",
    )
    node.require(not dots or _DOTS in right, f"has the equation {equation!r}, which sums the ellipsis")
    return [
        term.replace(_DOTS, dots[len(dots) - width :]) for term, width in zip(terms, widths, strict=True)
    ], result


def _agree(node: OnnxNode, operands: Sequence[relax.Expr], terms: Sequence[str]) -> bool:
    """Whether each letter has the same extent everywhere."""
    extents: dict[str, Extent] = {}
    return all(
        provably_equal(extents.setdefault(letter, extent), extent)
        for operand, term in zip(operands, terms, strict=True)
        for letter, extent in zip(term, node.shape(operand), strict=True)
    )


def _summed(factor: _Factor, needed: Collection[str]) -> _Factor:
    """The factor, summed over the axes that are not needed."""
    axes = [axis for axis, letter in enumerate(factor.letters) if letter not in needed]
    if not axes:
        return factor
    kept = "".join(letter for letter in factor.letters if letter in needed)
    return _Factor(relax.op.sum(factor.expr, axes), kept)


def _contracted(node: OnnxNode, one: _Factor, other: _Factor, needed: Collection[str]) -> _Factor:
    """The contraction of two factors over the letters that are not needed later."""
    shared = [letter for letter in one.letters if letter in other.letters]
    batch = "".join(letter for letter in shared if letter in needed)
    inner = "".join(letter for letter in shared if letter not in needed)
    left = "".join(letter for letter in one.letters if letter not in shared)
    right = "".join(letter for letter in other.letters if letter not in shared)
    if not inner:
        return _Factor(_elements(node, one, other, batch, left, right), batch + left + right)
    groups = (batch, left, inner), (batch, inner, right)
    sides = [
        _grouped(node, _Factor(node.typed(factor.expr), factor.letters), of)
        for factor, of in zip((one, other), groups, strict=True)
    ]
    product = relax.op.matmul(*sides)
    if len(left) == len(right) == 1:
        return _Factor(product, batch + left + right)
    extents = _extents(node, other) | _extents(node, one)
    shape = [extents[letter] for letter in batch + left + right]
    return _Factor(relax.op.reshape(product, relax.ShapeExpr(shape)), batch + left + right)


def _elements(node: OnnxNode, one: _Factor, other: _Factor, batch: str, left: str, right: str) -> relax.Expr:
    """The elementwise product, ``[batch, left, right]``."""
    first = _permuted(one, batch + left)
    if right:
        first = relax.op.expand_dims(first, list(range(len(batch + left), len(batch + left + right))))
    second = _permuted(other, batch + right)
    if left:
        second = relax.op.expand_dims(second, list(range(len(batch), len(batch + left))))
    return node.emit(relax.op.multiply(first, second))


def _grouped(node: OnnxNode, factor: _Factor, groups: tuple[str, str, str]) -> relax.Expr:
    """A matrix, or a batch of matrices: the last two groups are flattened to one axis each."""
    batch, *sides = groups
    expr = _permuted(factor, "".join(groups))
    if all(len(side) == 1 for side in sides):
        return expr
    extents = _extents(node, factor)
    flat = [math.prod([extents[letter] for letter in side], start=1) for side in sides]
    return relax.op.reshape(expr, relax.ShapeExpr([*(extents[letter] for letter in batch), *flat]))


def _permuted(factor: _Factor, order: str) -> relax.Expr:
    if factor.letters == order:
        return factor.expr
    return relax.op.permute_dims(factor.expr, [factor.letters.index(letter) for letter in order])


def _extents(node: OnnxNode, factor: _Factor) -> dict[str, int | relax.Expr]:
    return dict(zip(factor.letters, node.shape(node.typed(factor.expr)), strict=True))
