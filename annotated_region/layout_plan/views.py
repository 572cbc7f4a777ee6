"""Views: values with the same elements, so that a transpose is only another name for a value.

``y = permute_dims(x)`` moves no data if the readers of ``y`` can read ``x`` as it is stored. So values that
hold the same elements under another index order are views of one root. Each axis of a view is a sequence of
pieces of the root's axes:

    x: NCHW            (N) (C) (H) (W)
    reshape            (N) (C: 8..) (C: ..8) (H) (W)       splits the channels into groups of 8
    permute_dims       (N) (C: ..8) (C: 8..) (H) (W)
    reshape            (N) (C: ..8, C: 8..) (H) (W)        joins them: a channel shuffle, a view of x

The storage of a root is the order of its pieces, without axes of extent one. A change between shapes with the
same order is a reshape, which is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.layouts.layout import Extent, Layout, Piece, extent_of, merged, product, split

__all__ = ["MisfitError", "Root", "Storage", "TensorView", "extents_of", "same_extent"]

Storage = tuple[Piece, ...]
"""The order of a root's elements in memory, as pieces of its axes."""


class MisfitError(Exception):
    """A layout splits an axis at a boundary that its pieces do not allow."""


@dataclass(frozen=True, slots=True)
class Root:
    """A tensor that is not a view of another one.

    Attributes
    ----------
    number
        Its number in the plan.
    extents
        The shape: integers, and expressions where it is symbolic.
    dtype
        The element type.
    is_constant
        Whether it is computed from constants only, so that its layout can change at no run-time cost.
    """

    number: int
    extents: tuple[Extent, ...]
    dtype: str
    is_constant: bool = False

    def extent(self, piece: Piece) -> Extent:
        """The extent of a piece of one of its axes."""
        return extent_of(piece, self.extents[piece.axis])

    def ordered(self, pieces: Sequence[Piece]) -> Storage:
        """The canonical storage of some pieces: without extents of one, in the fewest pieces."""
        known = [piece for piece in pieces if not _is_unit(self.extent(piece))]
        top = [Piece(p.axis, p.low, None) if p.high == self.extents[p.axis] else p for p in known]
        return merged(top)


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor as a rearrangement of a root's elements.

    Attributes
    ----------
    root
        The root.
    axes
        For each axis, its pieces of the root, the most significant first; empty for an extent of one.
    """

    root: Root
    axes: tuple[Storage, ...]

    @staticmethod
    def of(root: Root) -> TensorView:
        """The view that is the root itself."""
        return TensorView(root, tuple(root.ordered([Piece(axis)]) for axis in range(len(root.extents))))

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The shape of the view."""
        return tuple(
            self.root.extent(axis[0]) if len(axis) == 1 else product(map(self.root.extent, axis))
            for axis in self.axes
        )

    def permuted(self, order: Sequence[int]) -> TensorView:
        """The view of ``permute_dims(self, order)``."""
        return TensorView(self.root, tuple(self.axes[axis] for axis in order))

    def reshaped(self, extents: Sequence[Extent]) -> TensorView | None:
        """The view of ``reshape(self, extents)``; None if it would split a piece unevenly."""
        left = deque(piece for axis in self.axes for piece in axis)
        axes = [self._taken(left, extent) for extent in extents]
        if left or None in axes:
            return None
        return TensorView(self.root, tuple(self.root.ordered(axis) for axis in axes if axis is not None))

    def storage(self, layout: Layout | None = None) -> Storage:
        """The storage of the root if the view is stored in `layout`, by default its own.

        A layout of higher rank adds leading axes of extent one, as broadcasting does.

        Raises
        ------
        MisfitError
            A block boundary of the layout falls inside a piece that it does not divide, or on a symbolic
            extent.
        """
        layout = layout or Layout.of_order(range(len(self.axes)))
        lifted = layout.rank - len(self.axes)
        digits = (
            self._digits(self.axes[piece.axis - lifted], piece)
            for piece in layout.pieces
            if piece.axis >= lifted
        )
        return self.root.ordered(sum(digits, ()))

    def shape(self, layout: Layout) -> tuple[Extent, ...] | None:
        """The stored shape in `layout`; None if its blocks do not divide the extents."""
        lifted = layout.rank - len(self.axes)
        return layout.shape((1,) * lifted + self.extents)

    def layout(self, storage: Storage) -> Layout:
        """The layout of the view that gives its root this storage; axes of extent one stay in place.

        Raises
        ------
        MisfitError
            The piece boundaries of the storage and of the view are not nested.
        """
        everything = [*storage, *(piece for axis in self.axes for piece in axis)]
        parts_of = split(everything)
        if parts_of is None:
            raise MisfitError
        own: dict[Piece, Piece] = {}
        for place, axis in enumerate(self.axes):
            low, high = 1, None
            for part in reversed([part for piece in axis for part in parts_of(piece)]):
                extent = self.root.extent(part)
                high = low * extent if isinstance(extent, int) else None
                own[part] = Piece(place, low, high)
                last, low = part, high or low
            if axis:
                own[last] = Piece(place, own[last].low)
        pieces = list(merged([own[part] for piece in storage for part in parts_of(piece)]))
        for unit in (place for place, axis in enumerate(self.axes) if not axis):
            behind = (index for index, piece in enumerate(pieces) if piece.axis > unit)
            pieces.insert(next(behind, len(pieces)), Piece(unit))
        return Layout(tuple(pieces))

    def _taken(self, left: deque[Piece], wanted: Extent) -> list[Piece] | None:
        """Pop the next pieces whose extents multiply to `wanted`, splitting the last if needed; None if none
        do.
        """
        taken: list[Piece] = []
        rest = wanted
        while not _is_unit(rest):
            if not left:
                return None
            piece = left.popleft()
            extent = self.root.extent(piece)
            if same_extent(extent, rest):
                rest = 1
            elif not isinstance(extent, int) or not isinstance(rest, int) or 0 in (extent, rest):
                return None
            elif rest % extent == 0:
                rest //= extent
            elif extent % rest == 0:
                cut = piece.low * (extent // rest)
                left.appendleft(Piece(piece.axis, piece.low, cut))
                piece, rest = Piece(piece.axis, cut, piece.high), 1
            else:
                return None
            taken.append(piece)
        return taken

    def _digits(self, axis: Storage, piece: Piece) -> Storage:
        """The digits of an axis that one piece of it selects.

        The axis is itself a mixed-radix number of root pieces. `weight` is the place value of the current
        digit in the axis; the piece selects the place values from its low to its high, which must divide
        evenly.
        """
        if piece.is_whole:
            return axis
        found: list[Piece] = []
        weight = 1
        for digit in reversed(axis):
            extent = self.root.extent(digit)
            if not isinstance(extent, int):
                raise MisfitError
            above = weight * extent
            low, high = max(piece.low, weight), above if piece.high is None else min(piece.high, above)
            if low < high:
                if low % weight or high % low or above % high:
                    raise MisfitError
                top = digit.high if high == above else digit.low * (high // weight)
                found.insert(0, Piece(digit.axis, digit.low * (low // weight), top))
            weight = above
        return tuple(found)


def extents_of(ty: tvm.ir.Type) -> tuple[Extent, ...] | None:
    """The shape in a type: integers and expressions; None if it is not a tensor of known shape."""
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return None
    return tuple(int(e) if isinstance(e, tvm.tirx.IntImm) else e for e in ty.shape.values)


def same_extent(one: Extent, other: Extent) -> bool:
    """Whether two extents, integers or expressions, are equal."""
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int) and isinstance(other, int) and one == other
    return bool(tvm_ffi.structural_equal(one, other))


def _is_unit(extent: Extent) -> bool:
    return isinstance(extent, int) and extent == 1
