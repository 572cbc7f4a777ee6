"""Recipes of the conformance kit: how to generate a call of an op with operands, shapes and attributes.

A recipe is a function of a `Workbench` that returns a call of its op, or None if no operand fits. Sizes
are small and favour cases that backends get wrong: extents of one, odd extents, broadcasts from either side,
windows that do not divide the extent, asymmetric padding, dilation, groups, negative axes.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm

from annotated_region.testing.recipes import (
    attention,
    bits,
    creation,
    elementwise,
    images,
    indexing,
    movement,
    norms,
    ordering,
    products,
    quantization,
    recurrence,
    windows,
)
from annotated_region.testing.recipes.workbench import DTYPES, EXTENTS, Recipe, Workbench

__all__ = ["DTYPES", "EXTENTS", "RECIPES", "Recipe", "Workbench", "can_be_made"]


def _table() -> dict[str, Recipe]:
    known = set(map(str, tvm.ir.Op.list_op_names()))
    rooms = (
        elementwise, bits, windows, images, products, movement, indexing, ordering, norms, attention,
        quantization, creation, recurrence,
    )  # fmt: skip
    made = {name: recipe for room in rooms for name, recipe in room.recipes().items()}
    return {name: recipe for name, recipe in made.items() if name in known}


RECIPES: Mapping[str, Recipe] = _table()
"""The ops that the kit can try, by name."""

_OF_TRUTH = frozenset({*elementwise.OF_TRUTH, *bits.OF_TRUTH_TOO, *movement.recipes()})


def can_be_made(name: str, dtype: str) -> bool:
    """Whether an op supports graphs whose main type is `dtype`.

    Booleans are only valid for logical ops and data movement; floats are invalid for bitwise ops; otherwise
    type inference decides.
    """
    if dtype == "bool":
        return name in _OF_TRUTH
    if dtype.startswith("float") and name in bits.OF_BITS:
        return False
    return name not in elementwise.OF_TRUTH
