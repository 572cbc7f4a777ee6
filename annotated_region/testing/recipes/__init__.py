"""How graphs for the conformance kit are made of an op: its operands, shapes and attributes.

A recipe is a function of a `Workbench` that returns a call of its op, or None where no operand fits. Sizes
are small, and chosen where backends go wrong: extents of one, odd extents, broadcasts from either side,
windows that do not fit evenly, padding on one side only, dilation, groups, axes counted from either end.
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
    windows,
)
from annotated_region.testing.recipes.workbench import DTYPES, EXTENTS, Recipe, Workbench

__all__ = ["DTYPES", "EXTENTS", "RECIPES", "Recipe", "Workbench", "can_be_made"]


def _table() -> dict[str, Recipe]:
    known = set(map(str, tvm.ir.Op.list_op_names()))
    rooms = (
        elementwise, bits, windows, images, products, movement, indexing, ordering, norms, attention,
        quantization, creation,
    )  # fmt: skip
    made = {name: recipe for room in rooms for name, recipe in room.recipes().items()}
    return {name: recipe for name, recipe in made.items() if name in known}


RECIPES: Mapping[str, Recipe] = _table()
"""The ops that the kit can try, by name."""

_OF_TRUTH = frozenset({*elementwise.OF_TRUTH, *bits.OF_TRUTH_TOO, *movement.recipes()})


def can_be_made(name: str, dtype: str) -> bool:
    """Whether calls of an op make sense in a graph whose values are of type `dtype` first of all.

    Truth values are combined and moved, and nothing else; floats have no bits; numbers go wherever type
    inference lets them.
    """
    if dtype == "bool":
        return name in _OF_TRUTH
    if dtype.startswith("float") and name in bits.OF_BITS:
        return False
    return name not in elementwise.OF_TRUTH
