"""The difference of two profiles: what takes longer now, and what is faster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from annotated_region.profiling.parts import ProfileParts

__all__ = ["ProfileDiff", "TimeChange", "difference"]

_LEAST = 0.01  # of the larger whole: what changes by less is left out


@dataclass(frozen=True, slots=True)
class TimeChange:
    """A region, by its symbol, or a kernel of the host, and its seconds a run; None where it is not."""

    name: str
    before: float | None
    after: float | None

    @property
    def seconds(self) -> float:
        """By how much it is slower now."""
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
    """What is different in the second of two profiles.

    Attributes
    ----------
    total
        The whole run.
    changes
        What changed by a hundredth of the whole or more, the largest change first.
    """

    total: TimeChange
    changes: tuple[TimeChange, ...]

    def __bool__(self) -> bool:
        """Whether a part changed by a hundredth of the whole or more."""
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
    """What is different in `after`. Regions are the same if their symbols are. O(n log n)."""
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
