"""RooflineCost: times from op work and device peaks (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from annotated_region.checked import checked_class
from annotated_region.costs.model import HOST
from annotated_region.costs.work import Work, work_of
from annotated_region.errors import UsageError

if TYPE_CHECKING:
    from annotated_region.cost_units import CostUnit

__all__ = ["CPU", "PCIE_GPU", "UNTUNED_HOST", "Device", "RooflineCost"]


@checked_class
@dataclass(frozen=True, slots=True)
class Device:
    """The performance of a target's device.

    Attributes
    ----------
    flops
        Floating point operations per second that its kernels reach.
    bandwidth
        Bytes per second between its processor and its memory.
    launch
        Seconds to enter a region.
    link
        Bytes per second between its memory and the host's; infinite if they share one.
    latency
        Seconds before the first byte of a transfer moves.
    """

    flops: float
    bandwidth: float
    launch: float = 2e-6
    link: float = float("inf")
    latency: float = 0.0

    def __post_init__(self) -> None:
        """Validate the numbers.

        Raises
        ------
        UsageError
            A speed is not positive, or a time is negative.
        """
        for name in ("flops", "bandwidth", "link"):
            if not getattr(self, name) > 0:
                raise UsageError(f"the argument {name} is {getattr(self, name)}; pass a number above 0")
        for name in ("launch", "latency"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"the argument {name} is {getattr(self, name)}; pass a number of 0 or more")


CPU = Device(flops=1.5e11, bandwidth=1.5e10, launch=3e-6)
"""Two server cores with AVX-512 and library kernels."""

UNTUNED_HOST = Device(flops=2e9, bandwidth=4e9)
"""The same cores with TVM's untuned kernels."""

PCIE_GPU = Device(flops=1e13, bandwidth=6e11, launch=2e-5, link=1.2e10, latency=1e-5)
"""A GPU behind PCI Express 3."""


@checked_class
@dataclass(frozen=True, slots=True)
class RooflineCost:
    """For each op, the larger of its compute time and its memory time; composites keep intermediate values in
    cache.

    Parameters
    ----------
    devices
        The device of each target; the host is "host". The default is `CPU`, and `PCIE_GPU` for the tensorrt
        target.
    """

    devices: Mapping[str, Device] = field(default_factory=dict)

    def device(self, target: str) -> Device:
        """The device of a target."""
        known = {HOST: UNTUNED_HOST, "tensorrt": PCIE_GPU, **self.devices}
        return known.get(target, CPU)

    def launch(self, target: str) -> float:
        """See `CostModel`."""
        return self.device(target).launch

    def compute(self, target: str, unit: CostUnit) -> float:
        """See `CostModel`."""
        device = self.device(target)
        work = reduce(Work.__add__, map(work_of, unit.ops), Work(0.0, 0.0))
        moved = work.bytes
        if unit.composite is not None:
            # The intermediate values inside a composite are neither written nor read.
            moved -= 2.0 * sum(op.out_bytes for op in unit.ops[:-1])
        return max(work.flops / device.flops, max(moved, 0.0) / device.bandwidth)

    def transfer(self, size: int, source: str, destination: str) -> float:
        """See `CostModel`: over the slower link; within one memory, the time of a copy."""
        if source == destination and source != HOST:
            return size / self.device(source).bandwidth
        ends = [self.device(source), self.device(destination)]
        slowest = min(end.link for end in ends)
        bandwidth = min(end.bandwidth for end in ends)
        return max(end.latency for end in ends) + size / min(slowest, bandwidth)
