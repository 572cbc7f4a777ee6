"""What a check found of one region: its results beside the reference, and the ops that are to blame."""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.checking.comparison import ResultCheck
from annotated_region.checking.program import CheckedOp

__all__ = ["Culprit", "RegionCheck"]


@dataclass(frozen=True, slots=True)
class RegionCheck:
    """One region on its target, on the host's values, beside what the host computes of them.

    Attributes
    ----------
    symbol, target
        The external function, and where it runs.
    ops
        The ops inside, in program order; of equal regions that share a function, those of the first.
    calls
        How often the program called it. A region that was never called was not checked.
    results
        Each result, of the call in which it was furthest off.
    error
        What the target raised; empty if it ran.
    """

    symbol: str
    target: str
    ops: tuple[CheckedOp, ...]
    calls: int
    results: tuple[ResultCheck, ...]
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ran, and every result is within its tolerance."""
        return not self.error and all(result.ok for result in self.results)

    @property
    def absolute(self) -> float:
        """The largest absolute error of its results."""
        return max((result.absolute for result in self.results), default=0.0)

    @property
    def relative(self) -> float:
        """The largest relative error of its results."""
        return max((result.relative for result in self.results), default=0.0)

    @property
    def where(self) -> tuple[int, ...] | None:
        """Where the result is furthest off that is the first to fail, or has the largest error."""
        ranked = sorted(self.results, key=lambda result: (result.ok, -result.relative))
        return ranked[0].where if ranked else None

    def __str__(self) -> str:
        head = f"{self.symbol} ({len(self.ops)} ops on {self.target})"
        if self.error:
            return f"{head}: fails: {self.error}"
        if not self.calls:
            return f"{head}: not run with these inputs"
        verdict = "; ".join(_told(each) for each in self.results if not each.ok) or "ok"
        return (
            f"{head}: {verdict} (largest error {self.absolute:.3g}, {self.relative:.2g} of the largest value)"
        )


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest set of ops of a region that fails without the others.

    Attributes
    ----------
    symbol, target
        The region.
    ops
        The ops, in program order. None of them can be left out.
    builds
        How many times the target built parts of the region to find them.
    """

    symbol: str
    target: str
    ops: tuple[CheckedOp, ...]
    builds: int

    def __str__(self) -> str:
        names = ", ".join(map(str, self.ops))
        return f"{names} of {self.symbol} on {self.target}, found with {self.builds} builds"


def _told(result: ResultCheck) -> str:
    """What is wrong with a result, for users."""
    told = f"{result.name}: {result.failure}"
    if result.found is None or result.wanted is None:
        return told
    return f"{told}, such as {result.found:.6g} instead of {result.wanted:.6g} at {result.where}"
