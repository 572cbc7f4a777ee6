"""What a profile tells, as text and as data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

from annotated_region.targets.backend import StepTime

__all__ = ["KernelTime", "Profile", "RegionTime"]

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What one function on the host took in a run.

    Attributes
    ----------
    name
        TVM's name of the kernel: those of the ops that it fused.
    calls
        How often a run calls it.
    seconds
        All these calls together.
    """

    name: str
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RegionTime:
    """What one region took in a run.

    Attributes
    ----------
    symbol, target
        The external function, and where it runs.
    calls, seconds
        As of a kernel; whatever lies between the call and its return counts, such as copies.
    bytes_in, bytes_out
        What crosses the border of the region in a run, its constants left out.
    steps
        What the primitives or kernels inside took in the last call, where the target tells.
    """

    symbol: str
    target: str
    calls: int
    seconds: float
    bytes_in: int
    bytes_out: int
    steps: tuple[StepTime, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of one run goes; all times are medians over the rounds, in seconds.

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

    total: float
    regions: tuple[RegionTime, ...]
    host: tuple[KernelTime, ...]
    machine: float
    rounds: int
    peak_bytes: int

    @property
    def sum(self) -> float:
        """All parts together; it differs from `total` by what watching costs, and by noise."""
        regions = [region.seconds for region in self.regions]
        return math.fsum([*regions, *(kernel.seconds for kernel in self.host), self.machine])

    def __str__(self) -> str:
        lines = [f"{_milliseconds(self.total)} a run, median of {self.rounds}"]
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
        return {"profile": 1, **asdict(self), "sum": self.sum}

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=indent)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"


def _bytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
