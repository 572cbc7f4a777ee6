"""What a profile tells, as text and as data."""

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
    """Where the time of one run goes; all times are means over the middle half of the rounds, in seconds.

    Attributes
    ----------
    total
        A whole run, without anything that watches it.
    regions
        The regions, the slowest first.
    host
        The kernels of the host, the slowest first.
    machine
        TVM's virtual machine between them: checks of arguments, allocation, shapes, tuples.
    rounds
        How many runs were timed, with and without the clock each.
    peak_bytes
        The most memory that the process held at once so far, whatever it was for.
    """

    @property
    def sum(self) -> float:
        """All parts together; it differs from `total` by what watching costs, and by noise."""
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
        """The profile that `to_json` wrote; the text may come from a stranger.

        Raises
        ------
        DocumentError
            The text is no profile; the message says where.
        UsageError
            It is no text.
        """
        parts = read_profile(read_document(text, KIND))
        return Profile(parts.total, parts.regions, parts.host, parts.machine, parts.rounds, parts.peak_bytes)

    @checked
    def diff(self, other: Profile) -> ProfileDiff:
        """What takes another time in `other`: the whole, regions and kernels of the host.

        Examples
        --------
        >>> print(ar.Profile.from_json(before).diff(ar.profile(executable, [image])))     # doctest: +SKIP
        """
        return difference(self, other)

    @checked
    def beside(self, report: Report) -> Report:
        """A report on the placement with the times of its regions, to be read, saved or drawn.

        Each region gets the seconds that it took, and what the policy expects of its ops, if it goes by costs
        (`annotated_region.LeastCost`). Equal regions share a function; each gets its part of the time.

        Parameters
        ----------
        report
            What `explain` says of the module that was partitioned, with the same options.

        Raises
        ------
        UsageError
            It is on another module: a region of the profile is none of the report.

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
