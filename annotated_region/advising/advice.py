"""One piece of advice: a decline, and what granting it would change."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Advice"]


@dataclass(frozen=True, slots=True)
class Advice:
    """What would change if a target claimed some ops that it declines.

    Attributes
    ----------
    target, reason
        Who declines them, and why.
    op
        What they compute.
    ops
        What they are called, each behind its function: ``"main/lv3"``; of several models behind the position
        of its model, too: ``"1/main/lv3"``.
    regions_before, regions_after
        Regions of all targets, over all models.
    host_before, host_after
        Ops on the host.
    crossings_before, crossings_after
        Values that cross to another region or to the host.
    seconds_saved
        By how much the placement gets cheaper under the cost model; negative if it gets dearer.
    """

    target: str
    reason: str
    op: str
    ops: tuple[str, ...]
    regions_before: int
    regions_after: int
    host_before: int
    host_after: int
    crossings_before: int
    crossings_after: int
    seconds_saved: float

    def __str__(self) -> str:
        count = f"{len(self.ops)} op{'s' if len(self.ops) != 1 else ''}"
        return (
            f"{self.target}: if it claimed {self.op.removeprefix('relax.')} ({count}, {self.reason}): "
            f"regions {self.regions_before} -> {self.regions_after}, host ops {self.host_before} -> "
            f"{self.host_after}, crossings {self.crossings_before} -> {self.crossings_after}, "
            f"{self.seconds_saved * 1e6:.3g} us saved"
        )
