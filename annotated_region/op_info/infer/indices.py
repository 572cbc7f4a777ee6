"""Affine analysis of indices: their iteration variables and factors."""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops.extent_signs import plus
from annotated_region.op_info.loops.trees import Extent, Tree

__all__ = ["AffineIndex", "affine", "difference", "factors", "only_value", "quotient"]


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """``offset + sum of factor * iteration variable``."""

    offset: int
    factors: dict[int, int]

    @property
    def single(self) -> int | None:
        """The variable, if the index is a plain variable."""
        if self.offset or list(self.factors.values()) != [1]:
            return None
        return next(iter(self.factors))


def affine(index: Tree) -> AffineIndex | None:
    """The index in affine form; None if it is not affine."""
    _, constant, terms = index
    if any(atom[0] != "iter" for atom, _ in terms):
        return None
    return AffineIndex(constant, {atom[1]: factor for atom, factor in terms})


def factors(index: Tree) -> dict[int, int]:
    """The factors of the variables that occur linearly in the index."""
    return {atom[1]: factor for atom, factor in index[2] if atom[0] == "iter"}


def difference(left: Extent, right: Extent) -> int | None:
    """The number by which two extents differ; None if it depends on sizes."""
    form = plus(left, right, -1)
    return None if form[2] else int(form[1])


def quotient(left: Extent, right: Extent) -> int | None:
    """The number of times that one extent is the other; None if it is not a number."""
    if isinstance(left, int) and isinstance(right, int):
        return None if right == 0 or left % right else left // right
    if isinstance(left, int) or isinstance(right, int):
        return None
    (atom, factor), counts = right[2][0], dict(left[2])
    times = int(counts.get(atom, 0)) // int(factor)
    return times if times > 0 and difference(left, plus(0, right, times)) == 0 else None


def only_value(segment: Segment) -> Tree | None:
    """The value of the only store of the only block."""
    if len(segment.blocks) != 1 or len(segment.blocks[0].stores) != 1 or segment.blocks[0].reduction:
        return None
    return segment.blocks[0].stores[0].value
