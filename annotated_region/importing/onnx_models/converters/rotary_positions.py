"""`RotaryEmbedding` of ONNX Runtime: pairs of elements rotated by angles that depend on positions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tvm import relax

from annotated_region.importing.onnx_models.converters.attention_parts import merged_heads, split_heads
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts

__all__ = ["Turn", "turn_at"]


@dataclass(frozen=True, slots=True)
class Turn:
    """Cosines and sines, ``[batch or 1, 1, length, half]``, of the rotation of each pair.

    Attributes
    ----------
    cosine, sine
        Those of the angle of each pair.
    half
        The number of pairs; the remaining elements of a head are unchanged.
    interleaved
        Whether the elements of a pair are adjacent; otherwise they are `half` apart.
    """

    cosine: relax.Expr
    sine: relax.Expr
    half: int
    interleaved: bool

    def __call__(self, node: OnnxNode, heads: relax.Expr) -> relax.Expr:
        """Rotate heads ``[batch, heads, length, size]``."""
        size = node.shape(heads)[3]
        if not isinstance(size, int) or size < 2 * self.half:
            raise node.declined(f"turns {2 * self.half} elements of heads of {size}")
        one, other = (node.emit(each) for each in self._pairs(heads))
        real = relax.op.subtract(relax.op.multiply(one, self.cosine), relax.op.multiply(other, self.sine))
        imaginary = relax.op.add(relax.op.multiply(one, self.sine), relax.op.multiply(other, self.cosine))
        turned = self._joined(node, real, imaginary)
        if size == 2 * self.half:
            return node.emit(turned)
        rest = relax.op.strided_slice(heads, [3], [2 * self.half], [size])
        return node.emit(relax.op.concat([turned, rest], axis=3))

    def _pairs(self, heads: relax.Expr) -> list[relax.Expr]:
        if self.interleaved:
            return [relax.op.strided_slice(heads, [3], [at], [2 * self.half], [2]) for at in range(2)]
        bounds = (0, self.half, 2 * self.half)
        return [relax.op.strided_slice(heads, [3], [begin], [end]) for begin, end in pairwise(bounds)]

    def _joined(self, node: OnnxNode, real: relax.Expr, imaginary: relax.Expr) -> relax.Expr:
        if not self.interleaved:
            return relax.op.concat([real, imaginary], axis=3)
        pairs = node.typed(relax.op.stack([real, imaginary], axis=4))
        return relax.op.reshape(pairs, relax.ShapeExpr([*node.shape(pairs)[:3], 2 * self.half]))


def turn_at(node: OnnxNode, positions: relax.Expr, cosine_at: int, interleaved: bool, dtype: str) -> Turn:
    """The rotation at positions ``[batch or 1, length]``, from tables ``[positions, half]``.

    Parameters
    ----------
    node
        The node, whose inputs at `cosine_at` and after it are the tables.
    positions
        The position of each token; must be within the tables.
    cosine_at
        The input position of the tables.
    interleaved
        See `Turn`.
    dtype
        The data type of the heads.
    """
    tables = [node.tensor(at, (dtype,), (2,)) for at in (cosine_at, cosine_at + 1)]
    widths = [node.shape(table)[1] for table in tables]
    half = widths[0]
    if not isinstance(half, int) or widths != [half, half]:
        raise node.declined(f"has tables of cosines and sines of {widths[0]} and {widths[1]} columns")
    cosine, sine = (
        node.emit(relax.op.expand_dims(relax.op.take(table, positions, axis=0), [1])) for table in tables
    )
    return Turn(cosine, sine, half, interleaved)


@converts(
    CONTRIBUTED,
    "RotaryEmbedding",
    (4, 4),
    "interleaved is_packed_batching num_heads rotary_embedding_dim scale",
)
def _rotary_embedding(node: OnnxNode) -> relax.Expr:
    """Data [batch, length, heads * size] or [batch, heads, length, size]; all positions, or the first one."""
    node.integer("is_packed_batching", 0, 0, 0)
    node.require(node.number("scale", 1.0) == 1, "has an attribute 'scale' that is not 1")
    data = node.tensor(0, FLOATS, (3, 4))
    dtype = dtype_of(data)
    half = node.shape(node.tensor(2, (dtype,), (2,)))[1]
    given = node.integer("rotary_embedding_dim", 0, 0, 2**16)
    node.require(
        isinstance(half, int) and given in (0, 2 * half), "has tables of another width than it turns"
    )
    heads = data if rank_of(data) == 4 else split_heads(node, data, _heads(node, data, half, given), "data")
    positions = _positions(node, node.shape(heads)[2])
    turn = turn_at(node, positions, 2, bool(node.integer("interleaved", 0, 0, 1)), dtype)
    turned = turn(node, heads)
    return turned if rank_of(data) == 4 else merged_heads(node, turned)


def _heads(node: OnnxNode, data: relax.Expr, half: int | relax.Expr, given: int) -> int:
    """The number of heads in a row: an attribute, or determined by the width of a table for whole heads."""
    width = node.shape(data)[2]
    heads = node.integer("num_heads", 0, 0, 2**16)
    if heads:
        return heads
    node.require(not given, "rotates parts of heads, without the number of heads")
    if not isinstance(width, int) or not isinstance(half, int) or not half or width % (2 * half):
        raise node.declined(f"has rows of {width} for tables of {half} columns")
    return width // (2 * half)


def _positions(node: OnnxNode, length: int | relax.Expr) -> relax.Expr:
    positions = node.tensor(1, ("int64",), (1, 2))
    if rank_of(positions) == 2:
        return positions
    node.require_shape(1, positions, (1,))
    line = relax.op.add(relax.op.arange(0, length, 1, "int64"), positions)
    return node.emit(relax.op.expand_dims(line, [0]))
