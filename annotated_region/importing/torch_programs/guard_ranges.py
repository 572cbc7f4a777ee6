"""Ranges of an extent in which a guard of PyTorch holds that has rounded quotients, roots or powers.

A slice ``x[: int(n / 2)]`` is recorded with the number that it had, and the guard ``int(n / 2) == 4``: the
program is that of 8 or 9 rows. PyTorch evaluates the guard for the extents beside the one of the export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tvm import relax, tirx

from annotated_region.importing.equations import Equations
from annotated_region.importing.torch_programs.guards import Symbolic, extent_of, symbols_of_inputs

if TYPE_CHECKING:
    import torch
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

__all__ = ["GuardedRange", "guarded_ranges", "require_ranges"]


class Guard(Symbolic, Protocol):
    """A condition on symbols."""

    def subs(self, values: Mapping[Symbolic, int]) -> object:
        """The condition for numbers."""


_ROUNDED = {"TruncToInt", "CeilToInt", "FloorToInt", "RoundToInt", "IntTrueDiv", "FloatTrueDiv"}
"""PyTorch's quotients of floats, and functions that make whole numbers of floats."""

_WIDEST = 4096
"""The distance from the exported extent at which a range is taken as endless."""


@dataclass(frozen=True, slots=True)
class GuardedRange:
    """The least and the largest number that an extent may have; None for no largest one."""

    extent: Symbolic
    least: int
    largest: int | None


def guarded_ranges(program: torch.export.ExportedProgram) -> list[GuardedRange]:
    """The range of each extent that has such guards."""
    environment = next(_environments(program), None)
    if environment is None:
        return []
    guards = [each.expr for each in environment.guards if _is_rounded(each.expr)]
    ranges = []
    for symbol in dict.fromkeys(symbol for guard in guards for symbol in guard.free_symbols):
        hint = environment.backed_var_to_val.get(symbol)
        own = [each for each in guards if each.free_symbols == {symbol}]
        if own and hint is not None:
            # Guards keep the symbol of an extent that PyTorch has found to be 14 * n since.
            extent = environment.replace(symbol)
            ranges.append(GuardedRange(extent, *_range(int(hint), _holds(own, symbol))))
    return ranges


def _environments(
    program: torch.export.ExportedProgram,
) -> Iterator[ShapeEnv]:
    for node in program.graph.find_nodes(op="placeholder"):
        for extent in getattr(node.meta.get("val"), "shape", ()):
            if getattr(extent, "node", None) is not None:
                yield extent.node.shape_env


def _is_rounded(guard: Symbolic) -> bool:
    """Whether a guard says which number a rounded one is; it holds for extents without gaps."""
    if type(guard).__name__ != "Equality":
        return False
    kinds = [type(side).__name__ for side in guard.args]
    return any(kind in _ROUNDED for kind in kinds) and any(not side.args for side in guard.args)


def _holds(guards: Sequence[Guard], symbol: Symbolic) -> Callable[[int], bool]:
    """Whether guards hold for an extent; one that would divide by 0 does not."""

    def holds(extent: int) -> bool:
        try:
            return all(str(guard.subs({symbol: extent})) == "True" for guard in guards)
        except ZeroDivisionError:
            return False

    return holds


def _range(hint: int, holds: Callable[[int], bool]) -> tuple[int, int | None]:
    """The bounds of the extents around one, for all of which something holds."""
    least = next((each + 1 for each in range(hint - 1, max(hint - _WIDEST, 0), -1) if not holds(each)), 0)
    beyond = next((each for each in range(hint + 1, hint + _WIDEST) if not holds(each)), None)
    return least, None if beyond is None else beyond - 1


def require_ranges(ranges: Sequence[GuardedRange], main: relax.Function, equations: Equations) -> None:
    """Let a function check that extents of its inputs are in ranges."""
    known = symbols_of_inputs(main)
    for each in ranges:
        extent = extent_of(each.extent, known)
        if not isinstance(extent, relax.Expr):
            continue
        if each.largest is not None:
            equations.require(tirx.Min(extent, tirx.IntImm("int64", each.largest)), extent)
        if each.least > 0:
            equations.require(tirx.Max(extent, tirx.IntImm("int64", each.least)), extent)
