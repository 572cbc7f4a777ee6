"""What a check found, as text and as data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from annotated_region.checking.comparison import ResultCheck
from annotated_region.checking.failure import Failure
from annotated_region.checking.program import CheckedOp
from annotated_region.checking.reproducer import write_reproducer
from annotated_region.errors import ReproducerError

__all__ = ["CheckReport", "Culprit", "RegionCheck"]

_SHOWN = 8


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


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `annotated_region.check` found.

    Attributes
    ----------
    regions
        Each region, in the order of the names of the functions that hold them.
    whole
        The results of the whole program on its targets beside the host's; none where a region raised.
    culprits
        For each region that fails, the smallest failing set of its ops.
    inputs
        What was made because no inputs were given, one line a parameter.
    extents
        What symbolic extents were.
    notes
        What was not checked, and why.
    """

    regions: tuple[RegionCheck, ...]
    whole: tuple[ResultCheck, ...]
    culprits: tuple[Culprit, ...] = ()
    inputs: tuple[str, ...] = ()
    extents: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failures: Mapping[str, Failure] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether every region and the whole are within their tolerances."""
        return all(region.ok for region in self.regions) and all(result.ok for result in self.whole)

    @property
    def culprit(self) -> Culprit | None:
        """The smallest failing set of the first region that fails; None if none does."""
        return self.culprits[0] if self.culprits else None

    def save_reproducer(self, folder: str | Path) -> Path:
        """Write what shows the first fault into a new folder: module, inputs, both answers, scripts.

        Parameters
        ----------
        folder
            The folder to make; its parent exists.

        Returns
        -------
        The folder.

        Raises
        ------
        ReproducerError
            No region fails, or there is something of that name.
        OSError
            The folder cannot be written.
        """
        failing = next((region for region in self.regions if region.symbol in self.failures), None)
        if failing is None:
            raise ReproducerError("no region fails, so there is nothing to reproduce")
        return write_reproducer(Path(folder), self.failures[failing.symbol])

    def __str__(self) -> str:
        bad = [region for region in self.regions if not region.ok]
        checked = [region for region in self.regions if region.calls]
        lines = [f"made {words}" for words in self.inputs]
        lines += [str(region) for region in bad]
        lines += [f"smallest failing set: {culprit}" for culprit in self.culprits]
        lines += [f"the whole program: {each.name}: {each.failure}" for each in self.whole if not each.ok]
        if not bad and self.whole and not self.ok:
            lines.append("every region is right by itself: what is wrong adds up from region to region")
        right = len([region for region in checked if region.ok])
        lines.append(f"{right} of {len(checked)} regions are within their tolerances")
        return "\n".join([*lines, *self.notes[:_SHOWN]])

    def to_dict(self) -> dict[str, object]:
        """The same as plain data; numbers that JSON has not (NaN, infinity) are text."""
        return {
            "check": 1,
            "ok": self.ok,
            "regions": [
                {
                    **_plain(region),
                    "ok": region.ok,
                    "absolute": region.absolute,
                    "relative": _said(region.relative),
                }
                for region in self.regions
            ],
            "whole": [_plain(result) for result in self.whole],
            "culprits": [_plain(culprit) for culprit in self.culprits],
            "inputs": list(self.inputs),
            "extents": dict(self.extents),
            "notes": list(self.notes),
        }

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)


def _told(result: ResultCheck) -> str:
    """What is wrong with a result, for users."""
    told = f"{result.name}: {result.failure}"
    if result.found is None or result.wanted is None:
        return told
    return f"{told}, such as {result.found:.6g} instead of {result.wanted:.6g} at {result.where}"


def _plain(value: RegionCheck | ResultCheck | Culprit) -> dict[str, object]:
    return {name: _said(each) for name, each in asdict(value).items()}


def _said(value: object) -> object:
    """A value as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _said(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_said(each) for each in value]
    return value
