"""Equations between extents on which an imported function relies, though TVM cannot prove them.

TVM gives the sum of tensors of the extents ``n`` and ``2 * ((n - 1) // 2 + 1)`` no shape, after which neither
TVM nor targets know any. Where the model is valid only if they are equal, an importer assumes so, and the
function checks it at its beginning (`annotated_region.functions.extent_checks`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import tvm
import tvm_ffi
from tvm import tirx

from annotated_region.functions.extent_checks import extent_difference, with_extent_checks
from annotated_region.functions.polynomials import PAIRS
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal, visit
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["EntryEquations", "Equations", "common_extent", "symbolic_divisors"]

_COMPUTING: Mapping[type, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
}


@dataclass(frozen=True, slots=True)
class Equations:
    """Pairs of extents that are equal in every valid call.

    Attributes
    ----------
    pairs
        The pairs, in the order in which they were first required.
    origins
        For each pair, the origin that required it first; empty for none.
    needing
        The origins of what is converted now, the innermost one last.
    numbers
        Those of a result of several operations and a number.
    extents
        By their hashes, numbers that are the extents of tensors. None is below zero where the tensor exists,
        though a formula may be, as behind a convolution for images smaller than its kernel.
    """

    pairs: list[tuple[PrimExpr, PrimExpr]] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    needing: list[str] = field(default_factory=list)
    numbers: list[tuple[PrimExpr, tirx.IntImm]] = field(default_factory=list)
    extents: dict[int, list[PrimExpr]] = field(default_factory=dict)

    @contextmanager
    def needed_by(self, origin: str) -> Iterator[None]:
        """Inside of it, equations are required for the sake of an origin."""
        self.needing.append(origin)
        try:
            yield
        finally:
            self.needing.pop()

    def require(self, one: Extent, other: Extent) -> None:
        """Note that two extents must be equal."""
        for extent in (one, other):
            self.require_divisors(extent)
        self._note(one, other)

    def require_divisors(self, extent: Extent) -> None:
        """Note that what an extent is divided by must be at least 1."""
        for divisor in symbolic_divisors(extent):
            self._note(tirx.Min(divisor, tirx.IntImm("int64", 1)), 1)

    def note_extents(self, shape: Sequence[Extent]) -> None:
        """Note that numbers are the extents of a tensor."""
        for extent in shape:
            if not isinstance(extent, int) and not self.is_extent(extent):
                self.extents.setdefault(tvm_ffi.structural_hash(extent), []).append(extent)

    def is_extent(self, number: PrimExpr) -> bool:
        """Whether a number is known as an extent."""
        known = self.extents.get(tvm_ffi.structural_hash(number), ())
        return any(tvm_ffi.structural_equal(number, extent) for extent in known)

    def with_numbers(self, extent: PrimExpr) -> PrimExpr:
        """The extent, with the numbers that parts of it must be equal to."""
        if not isinstance(extent, PAIRS):
            return extent
        for known, number in self.numbers:
            if type(known) is type(extent) and tvm_ffi.structural_equal(known, extent):
                return number
        left, right = self.with_numbers(extent.a), self.with_numbers(extent.b)
        is_kept = left.same_as(extent.a) and right.same_as(extent.b)
        return extent if is_kept else _COMPUTING[type(extent)](left, right)

    def _note(self, one: Extent, other: Extent) -> None:
        pair = (_expression(one), _expression(other))
        if not any(all(map(tvm_ffi.structural_equal, pair, known)) for known in self.pairs):
            self.pairs.append(pair)
            self.origins.append(next(reversed(self.needing), ""))
            if isinstance(pair[0], PAIRS) and isinstance(pair[1], tirx.IntImm):
                self.numbers.append((pair[0], pair[1]))

    def checked_by(self, mod: tvm.IRModule) -> tvm.IRModule:
        """The module, whose ``main`` now checks the equations first."""
        if self.pairs:
            needed = zip(self.pairs, self.origins, strict=True)
            differences = [extent_difference(*pair, origin) for pair, origin in needed]
            mod["main"] = with_extent_checks(mod["main"], differences)
        return mod


@dataclass(frozen=True, slots=True)
class EntryEquations:
    """The equations of a model that may need others, too, which cannot be checked when a call begins.

    Attributes
    ----------
    known
        The equations that are checked.
    is_known_at_entry
        Whether an extent can be computed at the beginning of the function.
    """

    known: Equations
    is_known_at_entry: Callable[[Extent], bool]

    def can_check(self, one: Extent, other: Extent) -> bool:
        """Whether two extents are equal, or may be, and a call can be checked for it."""
        if provably_equal(one, other):
            return True
        are_numbers = isinstance(one, int) and isinstance(other, int)
        return not are_numbers and self.is_known_at_entry(one) and self.is_known_at_entry(other)


def common_extent(extents: Sequence[Extent]) -> Extent | None:
    """The simplest of extents that are all equal: a number, else a variable, else the first; None of none."""
    numbers: list[Extent] = [each for each in extents if isinstance(each, int)]
    variables: list[Extent] = [each for each in extents if isinstance(each, tirx.Var)]
    return next(iter([*numbers, *variables, *extents]), None)


def symbolic_divisors(extent: Extent) -> list[PrimExpr]:
    """What an extent is divided by, but for numbers; a divisor after the divisors inside of it."""
    found: list[PrimExpr] = []
    visit(
        extent, [(kind, lambda quotient: found.append(quotient.b)) for kind in (tirx.FloorDiv, tirx.FloorMod)]
    )
    return [each for each in reversed(found) if not isinstance(each, tirx.IntImm)]


def _expression(extent: Extent) -> PrimExpr:
    return tirx.IntImm("int64", extent) if isinstance(extent, int) else extent
