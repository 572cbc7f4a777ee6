"""A profile, as text and as data."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from annotated_region.checked import checked
from annotated_region.documents import read_document, written_document
from annotated_region.profiling.parts import ProfileParts
from annotated_region.profiling.profile_diff import ProfileDiff, difference
from annotated_region.profiling.profile_document import KIND, plain_profile, read_profile
from annotated_region.profiling.timed_report import timed_report
from annotated_region.reports.report import Report

__all__ = ["Profile"]

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Profile(ProfileParts):
    """The times of the parts of a run, as means over the middle half of the rounds, in seconds.

    Attributes
    ----------
    total
        A whole run, without the clock.
    regions
        The regions, slowest first.
    host
        The host kernels, slowest first.
    machine
        The overhead of TVM's virtual machine: argument checks, allocation, shapes, tuples.
    rounds
        The number of timed pairs of runs, with and without the clock.
    peak_bytes
        The peak resident memory of the process so far, for any purpose.
    """

    @property
    def sum(self) -> float:
        """The sum of all parts; it differs from `total` by the cost of the clock, and by noise."""
        regions = [region.seconds for region in self.regions]
        return math.fsum([*regions, *(kernel.seconds for kernel in self.host), self.machine])

    def __str__(self) -> str:
        lines = [f"{_milliseconds(self.total)} a run, middle half of {self.rounds}"]
        for region in self.regions:
            moved = f"{_bytes(region.bytes_in)} in, {_bytes(region.bytes_out)} out"
            lines.append(f"{self._row(region.seconds)}  {region.symbol} ({region.target}), {moved}")
            slowest = sorted(region.steps, key=lambda step: -step.seconds)[:_SHOWN]
            lines += [f"{self._row(step.seconds)}      {step.name}" for step in slowest]
            if len(region.steps) > _SHOWN:
                lines.append(f"{'':22}      and {len(region.steps) - _SHOWN} steps that are faster")
        lines += [f"{self._row(each.seconds)}  {each.name} (host)" for each in self.host[:_SHOWN]]
        if len(self.host) > _SHOWN:
            rest = math.fsum(each.seconds for each in self.host[_SHOWN:])
            lines.append(f"{self._row(rest)}  {len(self.host) - _SHOWN} other kernels of the host")
        return "\n".join([*lines, f"{self._row(self.machine)}  the virtual machine between them"])

    def _row(self, seconds: float) -> str:
        share = seconds / self.total if self.total > 0 else 0.0
        return f"{_milliseconds(seconds):>13} {share:8.1%}"

    def to_dict(self) -> dict[str, object]:
        """The same as plain data."""
        plain: dict[str, object] = json.loads(self.to_json())
        return plain

    @checked
    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON."""
        return written_document(KIND, plain_profile(self, self.sum), indent)

    @staticmethod
    @checked
    def from_json(text: str) -> Profile:
        """Parse the output of `to_json`; the text may be untrusted.

        Raises
        ------
        DocumentError
            The text is not a valid profile; the message gives the position.
        UsageError
            `text` is not a string.
        """
        parts = read_profile(read_document(text, KIND))
        return Profile(parts.total, parts.regions, parts.host, parts.machine, parts.rounds, parts.peak_bytes)

    @checked
    def diff(self, other: Profile) -> ProfileDiff:
        """The changes of times in `other`: of the total, of regions and of host kernels.

        Examples
        --------
        >>> print(ar.Profile.from_json(before).diff(ar.profile(executable, [image])))     # doctest: +SKIP
        """
        return difference(self, other)

    @checked
    def beside(self, report: Report) -> Report:
        """The placement report with the times of its regions, to be read, saved or drawn.

        Each region gets its measured seconds, and the estimate of the policy if it is cost-based
        (`annotated_region.LeastCost`). The time of a function is divided among the equal regions that share
        it.

        Parameters
        ----------
        report
            The result of `explain` for the partitioned module, with the same options.

        Raises
        ------
        UsageError
            The report is on another module: it lacks a region of the profile.

        Examples
        --------
        >>> timed = ar.profile(executable, [image]).beside(ar.explain(mod, ["dnnl"]))     # doctest: +SKIP
        >>> timed.draw("time.html")     # doctest: +SKIP
        """
        return timed_report(self, report)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"


def _bytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
