"""Slices of a symbolic axis that are in bounds in each call that an exporter allows, such as ``x[:, 1:-3]``.

Of an axis of ``n`` rows, TVM 0.27's importer makes ``min(max(n - 3, 0), n) - min(1, n)`` rows, which equal no
other extent. PyTorch knows the least ``n``: from the model, such as 5 where tokens stand before those of an
image, or from what was found when it was exported; the latter a function has to check.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotated_region.importing.torch_programs.converters.bounds import END

if TYPE_CHECKING:
    from torch import fx

__all__ = ["SliceRows", "rows_of_slice"]

_ASSUMED = 2  # the least extent that exporters assume of any symbolic axis, though calls with 1 are valid


@dataclass(frozen=True, slots=True)
class SliceRows:
    """What a slice needs.

    Attributes
    ----------
    axis
        The axis.
    count
        The least rows along it.
    is_certain
        Whether inputs of any extents have as many.
    """

    axis: int
    count: int
    is_certain: bool


def rows_of_slice(node: fx.Node) -> SliceRows | None:
    """What a slice with bounds in numbers needs of a symbolic axis; None if there may be less, or no rows."""
    axis, begin, end, step = (
        node.args[place] if place < len(node.args) else node.kwargs.get(name, default)
        for place, name, default in ((1, "dim", 0), (2, "start", 0), (3, "end", None), (4, "step", 1))
    )
    shape = node.args[0].meta["val"].shape
    count = _needed(0 if begin is None else begin, end)
    if count is None or step != 1 or isinstance(shape[axis], int):
        return None
    symbolic = shape[axis].node
    lowest = {each: symbolic.shape_env.bound_sympy(each).lower for each in symbolic.expr.free_symbols}
    known = {each: least if least > _ASSUMED else 0 for each, least in lowest.items()}
    if not _is_at_least(count, symbolic.expr, known):
        return None
    return SliceRows(axis % len(shape), count, _is_at_least(count, symbolic.expr, dict.fromkeys(known, 0)))


def _needed(begin: object, end: object) -> int | None:
    """The least rows with which a slice is in bounds; None if a bound is computed, of no rows, and of all."""
    if not isinstance(begin, int) or not (end is None or isinstance(end, int)):
        return None
    if end is None or end >= END:
        return abs(begin) or None
    if begin >= 0:
        return begin - end if end < 0 else end if end > begin else None
    return -begin if begin < end < 0 else None


def _is_at_least(count: int, expr: object, known: Mapping[object, object]) -> bool:
    """Whether an extent is at least a number where each symbol in it is at least one that is known."""
    ranges = importlib.import_module("torch.utils._sympy.value_ranges")  # installed, as there is a program
    endless = importlib.import_module("sympy").oo
    bounds = {symbol: ranges.ValueRanges(least, endless) for symbol, least in known.items()}
    return bool(ranges.bound_sympy(expr, bounds).lower >= count)
