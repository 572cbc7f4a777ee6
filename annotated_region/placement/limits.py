"""What a target imposes on its regions: how many, how large, how much memory all of them may take."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["NO_LIMITS", "PlacementConstant", "TargetLimits"]


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """The most that one target takes; None is no limit.

    Attributes
    ----------
    ops
        Nodes of one region.
    regions
        Regions of the target.
    constant_bytes
        Bytes of the constants that one region reads, each constant once.
    workspace_bytes
        Bytes of the intermediate tensors of one region: those that its units hand on, that all their readers
        in the region read, and that nothing outside does.
    budget_bytes
        Bytes over all regions: the constants of each, and every tensor that a unit of the target hands on,
        results of regions included. Nothing shares memory. What stays inside a composite counts nowhere.
    """

    ops: int | None = None
    regions: int | None = None
    constant_bytes: int | None = None
    workspace_bytes: int | None = None
    budget_bytes: int | None = None

    def less(self, regions: int, memory: int) -> TargetLimits:
        """What some regions leave that take so much memory together; below 0 where it is too little."""
        return replace(
            self,
            regions=None if self.regions is None else self.regions - regions,
            budget_bytes=None if self.budget_bytes is None else self.budget_bytes - memory,
        )

    def used_up(self, left: TargetLimits) -> tuple[int, int]:
        """How many regions and how much memory were taken if `left` is left; 0 where there is no limit."""
        return (self.regions or 0) - (left.regions or 0), (self.budget_bytes or 0) - (left.budget_bytes or 0)

    @property
    def is_kept(self) -> bool:
        """Whether nothing is below 0."""
        return (self.regions is None or self.regions >= 0) and (
            self.budget_bytes is None or self.budget_bytes >= 0
        )


NO_LIMITS = TargetLimits()
"""A target that takes everything."""


@dataclass(frozen=True, slots=True)
class PlacementConstant:
    """A constant: every region with a node that reads it holds it once.

    Attributes
    ----------
    size
        Bytes.
    readers
        The nodes that read it, ascending; one at least.
    """

    size: int
    readers: tuple[int, ...]
