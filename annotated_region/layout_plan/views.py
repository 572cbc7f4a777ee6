"""Views: what is known of how values hang together, so that a transpose is only another name for a value.

``y = permute_dims(x)`` moves nothing as long as whoever reads ``y`` can read ``x`` as it is stored. So values
that differ only in the order of their axes, or in axes of extent one, are views of one root:

    x: NCHW    y = permute_dims(x, [0, 2, 3, 1])    z = squeeze(y)        one root, three views

How a root is stored is told by the pieces of its axes, without axes of extent one: these take no part in the
order of the elements. Changing between two such tellings that are equal is a reshape, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.layouts.layout import Layout, Piece, merged

__all__ = ["Root", "Storage", "View", "extents_of", "same_but_units", "same_extent"]

Storage = tuple[Piece, ...]
"""The order in which the elements of a root are stored: pieces of its axes."""


@dataclass(frozen=True, slots=True)
class Root:
    """A tensor that something makes.

    Attributes
    ----------
    number
        Its number in the plan.
    extents
        Integers, and expressions where the shape is symbolic.
    dtype
        The type of its elements.
    is_constant
        Whether it is computed from constants alone, so that changing its layout costs nothing at run time.
    """

    number: int
    extents: tuple[Any, ...]
    dtype: str
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as another arrangement of a root's axes.

    Attributes
    ----------
    root
        What it shows.
    axes
        For each of its axes, the axis of the root; None for one of extent one that the root may lack.
    """

    root: Root
    axes: tuple[int | None, ...]

    @staticmethod
    def of(root: Root) -> View:
        """The root itself."""
        return View(root, tuple(range(len(root.extents))))

    @property
    def extents(self) -> tuple[Any, ...]:
        """The shape of the view."""
        return tuple(1 if axis is None else self.root.extents[axis] for axis in self.axes)

    def permuted(self, order: Sequence[int]) -> View:
        """What ``permute_dims(self, order)`` is."""
        return View(self.root, tuple(self.axes[axis] for axis in order))

    def reshaped(self, extents: Sequence[Any]) -> View | None:
        """The view of another shape; None unless the shapes differ in axes of extent one only."""
        places = same_but_units(self.extents, extents)
        if places is None:
            return None
        return View(self.root, tuple(None if place is None else self.axes[place] for place in places))

    def storage(self, layout: Layout | None = None) -> Storage:
        """How the root is stored if the view is stored in `layout`, or as it is.

        A layout of higher rank reads the view as broadcasting does.
        """
        layout = layout or Layout.of_order(range(len(self.axes)))
        lifted = layout.rank - len(self.axes)
        pieces = [
            self._piece(piece, self.axes[piece.axis - lifted])
            for piece in layout.pieces
            if piece.axis >= lifted
        ]
        return merged([piece for piece in pieces if piece is not None])

    def shape(self, layout: Layout) -> tuple[Any, ...] | None:
        """The shape of what is stored in `layout`; None if blocks do not fit."""
        lifted = layout.rank - len(self.axes)
        return layout.shape((1,) * lifted + self.extents)

    def layout(self, storage: Storage) -> Layout:
        """The layout of the view in which its root is stored as told; axes of extent one stay in place."""
        own = {axis: place for place, axis in enumerate(self.axes)}
        pieces = [Piece(own[piece.axis], piece.low, piece.high) for piece in storage]
        used = {piece.axis for piece in pieces}
        for unit in (place for place in range(len(self.axes)) if place not in used):
            behind = (index for index, piece in enumerate(pieces) if piece.axis > unit)
            pieces.insert(next(behind, len(pieces)), Piece(unit))
        return Layout(tuple(pieces))

    def _piece(self, piece: Piece, axis: int | None) -> Piece | None:
        """The piece of the root's axis; None if its extent is one."""
        extent = 1 if axis is None else self.root.extents[axis]
        if axis is None or (isinstance(extent, int) and extent <= piece.low and not piece.is_whole):
            return None
        if isinstance(extent, int) and extent == 1:
            return None
        return Piece(axis, piece.low, None if piece.high == extent else piece.high)


def extents_of(ty: Any) -> tuple[Any, ...] | None:
    """The shape in a type: integers and expressions; None if it is no tensor of known shape."""
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return None
    return tuple(int(e) if isinstance(e, tvm.tirx.IntImm) else e for e in ty.shape.values)


def same_but_units(old: Sequence[Any], new: Sequence[Any]) -> tuple[int | None, ...] | None:
    """For each new axis, the old one; None for units. None altogether if the shapes differ otherwise."""
    old_places = [place for place, extent in enumerate(old) if not _is_unit(extent)]
    new_places = [place for place, extent in enumerate(new) if not _is_unit(extent)]
    if len(old_places) != len(new_places):
        return None
    pairs = dict(zip(new_places, old_places, strict=True))
    if any(not same_extent(new[place], old[other]) for place, other in pairs.items()):
        return None
    return tuple(pairs.get(place) for place in range(len(new)))


def _is_unit(extent: Any) -> bool:
    return isinstance(extent, int) and extent == 1


def same_extent(one: Any, other: Any) -> bool:
    """Whether two extents, integers or expressions, are the same."""
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int) and isinstance(other, int) and one == other
    return bool(tvm_ffi.structural_equal(one, other))
