"""Recipes of bitwise ops on integers; all but shifts also support booleans."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import Recipe, Workbench, call_of, extents_of

__all__ = ["OF_BITS", "OF_TRUTH_TOO", "recipes"]

_PAIRS = ("bitwise_and", "bitwise_or", "bitwise_xor")
_SHIFTS = ("left_shift", "right_shift")
OF_TRUTH_TOO = frozenset(f"relax.{name}" for name in (*_PAIRS, "bitwise_not"))
"""The ops that support booleans and integers."""

OF_BITS = OF_TRUTH_TOO | {f"relax.{name}" for name in _SHIFTS}
"""All bitwise ops, which do not support floats."""


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {
        **_named(_PAIRS, _pair),
        **_named(_SHIFTS, _shift),
        "relax.bitwise_not": _inverted,
    }


def _named(
    names: tuple[str, ...], recipe: Callable[[str, Workbench], relax.Expr | None]
) -> dict[str, Recipe]:
    return {f"relax.{name}": partial(recipe, f"relax.{name}") for name in names}


def _pair(name: str, bench: Workbench) -> relax.Expr | None:
    """With an operand of the same extents, or with some extents of one, on either side."""
    value = bench.value()
    if value is None:
        return None
    shape = [bench.draw(st.sampled_from((extent, 1))) for extent in extents_of(value)]
    other = bench.tensor(shape, constant=bench.draw(st.booleans()))
    return call_of(name)(*((value, other) if bench.draw(st.booleans()) else (other, value)))


def _inverted(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else relax.op.bitwise_not(value)


def _shift(name: str, bench: Workbench) -> relax.Expr | None:
    """By less than the width of every type; larger shifts are undefined in C."""
    value = bench.value()
    if value is None:
        return None
    extents = extents_of(value)
    if bench.draw(st.booleans()):
        return call_of(name)(value, bench.tensor(extents, below=7))
    places = np.arange(int(np.prod(extents))).reshape(extents) % 7
    return call_of(name)(value, relax.const(places.astype(bench.dtype)))
