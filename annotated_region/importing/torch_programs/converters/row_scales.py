"""How rows of a resized image follow from those before: the extents, and the step from row to row.

PyTorch computes steps and places in float32. Where an extent is symbolic they are computed in the call, by
ops that targets claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)
from annotated_region.tvm_adapter.arithmetic import Extent
from annotated_region.tvm_adapter.types import expect

__all__ = ["RowScale", "require_exact_factor", "require_floats", "scaled_extent", "scales_by_factors"]

_LARGEST_DENOMINATOR = 64
"""Of factors of symbolic extents: these are exact in binary, and so are extents times them."""


@dataclass(frozen=True, slots=True)
class RowScale:
    """The scale of one axis.

    Attributes
    ----------
    before, after
        The extents.
    factor
        The factor that the model gives, whose inverse is the step; without it, the step is their quotient.
    reaches_corners
        Whether the first and the last row stay where they are (``align_corners``).
    """

    before: Extent
    after: Extent
    factor: float | None = None
    reaches_corners: bool = False

    @property
    def is_static(self) -> bool:
        """Whether both extents are numbers."""
        return isinstance(self.before, int) and isinstance(self.after, int)

    def step(self) -> np.float32:
        """The step between static extents."""
        before, after = cast(int, self.before), cast(int, self.after)
        if self.reaches_corners:
            return np.float32(before - 1) / np.float32(max(after - 1, 1))
        if self.factor is not None:
            return np.float32(1 / self.factor)
        return np.float32(before) / np.float32(after)

    def places(self) -> np.ndarray:
        """Where the rows lie among those before, of static extents."""
        rows = self.numbers()
        half = np.float32(0 if self.reaches_corners else 0.5)
        found: np.ndarray = np.maximum((rows + half) * self.step() - half, np.float32(0))
        return found

    def nearest(self) -> np.ndarray:
        """The nearest rows before, of static extents."""
        places = np.floor(self.numbers() * self.step()).astype("int64")
        found: np.ndarray = np.minimum(places, cast(int, self.before) - 1)
        return found

    def numbers(self) -> np.ndarray:
        """The numbers of the rows, of a static extent, as float32."""
        return np.arange(cast(int, self.after), dtype="float32")

    def extent(self, node: TorchNode) -> relax.Expr:
        """The extent before as a float32."""
        return _number(node, self.before)

    def rows(self, node: TorchNode) -> relax.Expr:
        """The numbers of the rows as float32."""
        return node.cast(node.emit(relax.op.arange(0, self.after, 1, "int64")), "float32")

    def step_in_run(self, node: TorchNode) -> relax.Expr:
        """The step as a tensor of rank 0."""
        if self.reaches_corners:
            one = relax.const(1.0, "float32")
            last, last_after = (
                node.emit(relax.op.subtract(_number(node, each), one)) for each in (self.before, self.after)
            )
            return node.emit(relax.op.divide(last, node.emit(relax.op.maximum(last_after, one))))
        if self.factor is not None:
            return relax.const(1 / self.factor, "float32")
        return node.emit(relax.op.divide(_number(node, self.before), _number(node, self.after)))

    def places_in_run(self, node: TorchNode) -> relax.Expr:
        """Where the rows lie among those before."""
        if self.reaches_corners:
            return node.emit(relax.op.multiply(self.rows(node), self.step_in_run(node)))
        half = relax.const(0.5, "float32")
        centres = node.emit(relax.op.add(self.rows(node), half))
        scaled = node.emit(relax.op.multiply(centres, self.step_in_run(node)))
        lowered = node.emit(relax.op.subtract(scaled, half))
        return node.emit(relax.op.maximum(lowered, relax.const(0.0, "float32")))


def _number(node: TorchNode, extent: Extent) -> relax.Expr:
    return expect(relax.Expr, node.number_as_tensor(extent, "float32"))


def require_floats(data: relax.Expr) -> None:
    """Check that an image that is blended is one of floats.

    Raises
    ------
    ModelError
        It is not; PyTorch blends bytes by whole numbers of its own.
    """
    dtype = dtype_of_tensor(data)
    if "float" not in dtype:
        raise ModelError(f"blended images of {dtype} are not supported; convert them to floats")


def scales_by_factors(
    data: relax.Expr, factors: list[object], *, reaches_corners: bool = False
) -> Iterator[RowScale]:
    """The scales of the axes of an image, by given factors.

    Raises
    ------
    ModelError
        The factor of a symbolic extent is no fraction of a small power of two.
    """
    for before, factor in zip(extents_of_tensor(data)[2:], factors, strict=True):
        number = float(str(factor))
        yield RowScale(before, _scaled(before, number), number, reaches_corners)


def _scaled(extent: Extent, factor: float) -> Extent:
    """An extent times a factor, rounded down."""
    if isinstance(extent, int):
        return int(extent * factor)
    require_exact_factor(Fraction(factor), extent)
    return scaled_extent(extent, Fraction(factor))


def require_exact_factor(factor: Fraction, extent: Extent) -> None:
    """Check that a symbolic extent times the factor is exact in a float.

    Raises
    ------
    ModelError
        The factor is no fraction of a small power of two.
    """
    if factor.denominator > _LARGEST_DENOMINATOR or factor.denominator & (factor.denominator - 1):
        raise ModelError(f"the factor {float(factor)} of the symbolic extent {extent} is not supported")


def scaled_extent(extent: relax.Expr, factor: Fraction, *, rounds_up: bool = False) -> relax.Expr:
    """A symbolic extent times a positive factor, rounded down or up."""
    multiple = tirx.Mul(extent, tirx.IntImm("int64", factor.numerator))
    above = factor.denominator - 1 if rounds_up else 0
    return tirx.FloorDiv(
        tirx.Add(multiple, tirx.IntImm("int64", above)), tirx.IntImm("int64", factor.denominator)
    )
