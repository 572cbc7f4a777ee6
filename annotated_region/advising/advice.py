"""Advice: a set of declined ops, and the effect of granting them."""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.printable import counted

__all__ = ["Advice"]


@dataclass(frozen=True, slots=True)
class Advice:
    """The effect of a target claiming some ops that it declines.

    Attributes
    ----------
    target, reason
        The target, and its reason for declining them.
    op
        Their op name.
    ops
        Their names, each prefixed with its function: ``"main/lv3"``; for several models also with the index
        of its model: ``"1/main/lv3"``.
    regions_before, regions_after
        Regions of all targets, over all models.
    host_before, host_after
        Ops on the host.
    crossings_before, crossings_after
        Values that cross to another region or to the host.
    seconds_before, seconds_after
        The time of a run of each model that has some of the ops, summed: measured, or the cost of the
        placement under the cost model.
    doubt
        If the seconds were measured, how far their difference may be off, because runs vary; None if they are
        an estimate.
    why_estimated
        Why the seconds are an estimate; None if they were measured.
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
    seconds_before: float
    seconds_after: float
    doubt: float | None
    why_estimated: str | None

    @property
    def seconds_saved(self) -> float:
        """`seconds_before` less `seconds_after`; negative for an increase."""
        return self.seconds_before - self.seconds_after

    @property
    def is_within_doubt(self) -> bool:
        """Whether the seconds were measured, and runs of one placement differ by as much as is saved."""
        return self.doubt is not None and abs(self.seconds_saved) <= self.doubt

    def to_dict(self) -> dict[str, object]:
        """Every attribute by name, and the seconds saved."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "seconds_saved": self.seconds_saved}

    def __str__(self) -> str:
        count = counted(len(self.ops), "op")
        how = "estimated" if self.doubt is None else f"measured, +- {self.doubt * 1e6:.3g}"
        return (
            f"{self.target}: if it claimed {self.op.removeprefix('relax.')} ({count}, {self.reason}): "
            f"regions {self.regions_before} -> {self.regions_after}, host ops {self.host_before} -> "
            f"{self.host_after}, crossings {self.crossings_before} -> {self.crossings_after}, "
            f"{self.seconds_saved * 1e6:.3g} us saved ({how})"
        )
