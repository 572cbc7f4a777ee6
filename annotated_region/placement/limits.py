"""The limits of a target: the number and size of its regions, and their total memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["NO_LIMITS", "PlacementConstant", "TargetLimits"]


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """The limits of one target; None is no limit.

    Attributes
    ----------
    ops
        The maximum number of nodes of a region.
    regions
        The maximum number of regions.
    constant_bytes
        The maximum size of the constants that a region reads, each constant counted once.
    workspace_bytes
        The maximum size of the intermediate tensors of a region: results of its units that are only read
        inside the region.
    budget_bytes
        The maximum total size over all regions: the constants of each, and the results of all units,
        including results of regions. No memory is shared. Values inside a composite do not count.
    """

    ops: int | None = None
    regions: int | None = None
    constant_bytes: int | None = None
    workspace_bytes: int | None = None
    budget_bytes: int | None = None

    def less(self, regions: int, memory: int) -> TargetLimits:
        """The limits that remain after some regions and memory; negative if exceeded."""
        return replace(
            self,
            regions=None if self.regions is None else self.regions - regions,
            budget_bytes=None if self.budget_bytes is None else self.budget_bytes - memory,
        )

    def used_up(self, left: TargetLimits) -> tuple[int, int]:
        """The regions and memory used if `left` remains; 0 if there is no limit."""
        return (self.regions or 0) - (left.regions or 0), (self.budget_bytes or 0) - (left.budget_bytes or 0)

    @property
    def is_kept(self) -> bool:
        """Whether no limit is negative."""
        return (self.regions is None or self.regions >= 0) and (
            self.budget_bytes is None or self.budget_bytes >= 0
        )


NO_LIMITS = TargetLimits()
"""The limits of an unlimited target."""


@dataclass(frozen=True, slots=True)
class PlacementConstant:
    """A constant; every region with a reader of it holds one copy.

    Attributes
    ----------
    size
        Bytes.
    readers
        The nodes that read it, ascending; at least one.
    """

    size: int
    readers: tuple[int, ...]
