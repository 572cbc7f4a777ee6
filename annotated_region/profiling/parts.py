"""The parts of a run: regions, host kernels, and TVM's virtual machine."""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.targets.backend import StepTime

__all__ = ["KernelTime", "ProfileParts", "RegionTime"]


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of one host kernel in a run.

    Attributes
    ----------
    name
        TVM's name of the kernel, made of the names of the fused ops.
    calls
        The number of calls per run.
    seconds
        The total time of these calls.
    """

    name: str
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RegionTime:
    """The time of one region in a run.

    Attributes
    ----------
    symbol, target
        The external function and its target.
    calls, seconds
        As for a kernel; the time spans from call to return, including copies.
    bytes_in, bytes_out
        The bytes transferred into and out of the region per run, without constants.
    steps
        The times of its primitives or kernels in a call, if the target reports them: medians of some runs.
    ops
        The bindings of its ops in program order; if equal regions share the function, those of the first.
    """

    symbol: str
    target: str
    calls: int
    seconds: float
    bytes_in: int
    bytes_out: int
    steps: tuple[StepTime, ...] = ()
    ops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileParts:
    """The times of the parts of a run; see `Profile`, which has the same attributes."""

    total: float
    regions: tuple[RegionTime, ...]
    host: tuple[KernelTime, ...]
    machine: float
    rounds: int
    peak_bytes: int
