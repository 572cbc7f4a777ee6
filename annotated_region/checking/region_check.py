"""The check of one region: its results compared with the reference, and the faulty ops."""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.checking.comparison import ResultCheck
from annotated_region.checking.program import CheckedOp

__all__ = ["Culprit", "RegionCheck"]


@dataclass(frozen=True, slots=True)
class RegionCheck:
    """The comparison of one region on its target with the host, on the host's values.

    Attributes
    ----------
    symbol, target
        The external function and its target.
    ops
        Its ops in program order; if equal regions share the function, those of the first region.
    calls
        The number of calls by the program. A region that was never called was not checked.
    results
        The results, each from the call with its largest error.
    error
        The error that the target raised; empty if it ran.
    """

    symbol: str
    target: str
    ops: tuple[CheckedOp, ...]
    calls: int
    results: tuple[ResultCheck, ...]
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the region ran and every result is within its tolerance."""
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
        """The position of the largest error, in the first failing result or in the least accurate one."""
        ranked = sorted(self.results, key=lambda result: (result.ok, -result.relative))
        return ranked[0].where if ranked else None

    def __str__(self) -> str:
        head = f"{self.symbol} ({len(self.ops)} ops on {self.target})"
        if self.error:
            return f"{head}: fails: {self.error}"
        if not self.calls:
            return f"{head}: not run with these inputs"
        verdict = "; ".join(_phrase(each) for each in self.results if not each.ok) or "ok"
        return (
            f"{head}: {verdict} (largest error {self.absolute:.3g}, {self.relative:.2g} of the largest value)"
        )


@dataclass(frozen=True, slots=True)
class Culprit:
    """A minimal set of ops of a region that fails in isolation.

    Attributes
    ----------
    symbol, target
        The region.
    ops
        The ops, in program order. None of them can be removed.
    builds
        The number of parts of the region that the target built during the search.
    """

    symbol: str
    target: str
    ops: tuple[CheckedOp, ...]
    builds: int

    def __str__(self) -> str:
        names = ", ".join(map(str, self.ops))
        return f"{names} of {self.symbol} on {self.target}, found with {self.builds} builds"


def _phrase(result: ResultCheck) -> str:
    """A description of a wrong result, for users."""
    text = f"{result.name}: {result.failure}"
    if result.found is None or result.wanted is None:
        return text
    return f"{text}, such as {result.found:.6g} instead of {result.wanted:.6g} at {result.where}"
