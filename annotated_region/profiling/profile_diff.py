"""The difference between two profiles: parts that became slower or faster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from annotated_region.profiling.parts import ProfileParts

__all__ = ["ProfileDiff", "TimeChange", "difference"]

_LEAST = 0.01  # of the larger total: smaller changes are omitted


@dataclass(frozen=True, slots=True)
class TimeChange:
    """The seconds per run of a region or host kernel in both profiles; None if a profile lacks it."""

    name: str
    before: float | None
    after: float | None

    @property
    def seconds(self) -> float:
        """The increase of its time."""
        return (self.after or 0.0) - (self.before or 0.0)

    def __str__(self) -> str:
        if self.before is None or self.after is None:
            return f"{1e3 * self.seconds:+.3f} ms  {self.name}, {'new' if self.before is None else 'gone'}"
        return (
            f"{1e3 * self.seconds:+.3f} ms  {self.name}, "
            f"{1e3 * self.before:.3f} ms before, {1e3 * self.after:.3f} ms now"
        )


@dataclass(frozen=True, slots=True)
class ProfileDiff:
    """The changes from the first to the second of two profiles.

    Attributes
    ----------
    total
        The change of the whole run.
    changes
        The parts that changed by at least a hundredth of the total, largest change first.
    """

    total: TimeChange
    changes: tuple[TimeChange, ...]

    def __bool__(self) -> bool:
        """Whether a part changed by at least a hundredth of the total."""
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, (self.total, *self.changes)))

    def to_dict(self) -> dict[str, object]:
        """The same as plain data."""
        return {"total": asdict(self.total), "changes": [asdict(change) for change in self.changes]}

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=indent)


def difference(before: ProfileParts, after: ProfileParts) -> ProfileDiff:
    """The changes in `after`. Regions are matched by symbol. O(n log n)."""
    old, new = _seconds(before), _seconds(after)
    least = _LEAST * max(before.total, after.total)
    changes = [TimeChange(name, old.get(name), new.get(name)) for name in {**old, **new}]
    large = [change for change in changes if abs(change.seconds) >= least]
    ordered = sorted(large, key=lambda change: -abs(change.seconds))
    return ProfileDiff(TimeChange("a run", before.total, after.total), tuple(ordered))


def _seconds(parts: ProfileParts) -> Mapping[str, float]:
    regions = {region.symbol: region.seconds for region in parts.regions}
    host = {kernel.name: kernel.seconds for kernel in parts.host}
    return {**regions, **host, "the virtual machine": parts.machine}
