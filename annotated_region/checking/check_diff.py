"""The difference between two checks: regions that became right or wrong, and changed errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from annotated_region.checking.region_check import RegionCheck
from annotated_region.documents import plain_value

__all__ = ["CheckDiff", "RegionChange", "difference"]

_FACTOR = 2.0  # smaller changes of an error are rounding noise


@dataclass(frozen=True, slots=True)
class RegionChange:
    """A region that only one check contains, or whose verdict or error changed.

    Attributes
    ----------
    symbol
        The region.
    before, after
        ``"right"``, ``"wrong"``, ``"fails"`` or ``"not run"``; None if the check does not contain the region.
    error_before, error_after
        The largest errors, relative to the largest value of the result.
    """

    symbol: str
    before: str | None
    after: str | None
    error_before: float = 0.0
    error_after: float = 0.0

    def __str__(self) -> str:
        if self.before is None or self.after is None:
            return f"{self.symbol}: {'new' if self.before is None else 'gone'}, {self.after or self.before}"
        errors = f"error {self.error_before:.2g} before, {self.error_after:.2g} now"
        verdict = self.after if self.before == self.after else f"{self.before} became {self.after}"
        return f"{self.symbol}: {verdict}; {errors}"


@dataclass(frozen=True, slots=True)
class CheckDiff:
    """The changes from the first to the second of two checks, in the region order of the second."""

    changes: tuple[RegionChange, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "no difference"

    def to_dict(self) -> dict[str, object]:
        """The same as plain data."""
        plain: dict[str, object] = json.loads(self.to_json())
        return plain

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON; NaN and infinite errors are strings."""
        return json.dumps(
            {"changes": [plain_value(asdict(change)) for change in self.changes]}, indent=indent
        )


def difference(before: Sequence[RegionCheck], after: Sequence[RegionCheck]) -> CheckDiff:
    """The changes in `after`. Regions are matched by symbol. O(regions)."""
    old, new = ({region.symbol: region for region in regions} for regions in (before, after))
    changes = [_change(symbol, old.get(symbol), new.get(symbol)) for symbol in {**new, **old}]
    return CheckDiff(tuple(change for change in changes if change is not None))


def _change(symbol: str, before: RegionCheck | None, after: RegionCheck | None) -> RegionChange | None:
    old, new = (None if each is None else _verdict(each) for each in (before, after))
    error_before, error_after = (0.0 if each is None else each.relative for each in (before, after))
    if old == new and max(error_before, error_after) <= _FACTOR * min(error_before, error_after):
        return None
    return RegionChange(symbol, old, new, error_before, error_after)


def _verdict(region: RegionCheck) -> str:
    if region.error:
        return "fails"
    if not region.calls:
        return "not run"
    return "right" if region.ok else "wrong"
