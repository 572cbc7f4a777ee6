"""Affine analysis of indices: their iteration variables and factors."""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.op_info.loops.trees import Tree

__all__ = ["AffineIndex", "affine", "factors"]


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
