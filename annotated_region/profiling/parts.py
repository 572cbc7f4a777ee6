"""The parts of a run: regions, kernels of the host, and TVM's virtual machine between them."""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.targets.backend import StepTime

__all__ = ["KernelTime", "ProfileParts", "RegionTime"]


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
        What the primitives or kernels inside take in a call, where the target tells.
    ops
        The bindings of the ops inside, in program order; of equal regions that share a function, those of
        the first.
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
    """Where the time of one run goes; see `Profile`, which has the same attributes."""

    total: float
    regions: tuple[RegionTime, ...]
    host: tuple[KernelTime, ...]
    machine: float
    rounds: int
    peak_bytes: int
