"""The difference of two reports: the ops with other places or claims."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from annotated_region.findings.function_report import FunctionReport, OpReport
from annotated_region.printable import counted

__all__ = ["OpChange", "ReportDiff", "difference"]

_SHOWN = 5  # names in a line of the summary


@dataclass(frozen=True, slots=True)
class OpChange:
    """An op with another place or other claims, or that is in one report only.

    Attributes
    ----------
    function, name, op
        Its function, the variable that it is bound to, and its op name.
    before, after
        Its target, or "host"; None in a report without the op.
    gained, dropped
        The targets with a claim only in the second report, and those with a claim only in the first.
    """

    function: str
    name: str
    op: str
    before: str | None
    after: str | None
    gained: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[str, ...]:
        """Both in the JSON form: ``"+dnnl"`` for a target in `gained`, ``"-dnnl"`` for one in `dropped`."""
        return (*(f"+{target}" for target in self.gained), *(f"-{target}" for target in self.dropped))


@dataclass(frozen=True, slots=True)
class ReportDiff:
    """The differences of the second of two reports.

    Attributes
    ----------
    changes
        The changed ops, in the order of the second report, followed by those that only the first one has.
    regions
        For each function whose number of regions changed, the number before and after.
    """

    changes: tuple[OpChange, ...]
    regions: dict[str, tuple[int, int]]

    def __bool__(self) -> bool:
        return bool(self.changes or self.regions)

    def __str__(self) -> str:
        return "\n".join(self._lines()) or "no difference"

    def _lines(self) -> Iterator[str]:
        moves: dict[tuple[str, str | None, str | None], list[str]] = {}
        for change in self.changes:
            if change.before != change.after:
                moves.setdefault((change.function, change.before, change.after), []).append(change.name)
        for (function, before, after), names in moves.items():
            yield f"{function}: {counted(len(names), 'op')} {_movement(before, after)}: {_shortened(names)}"
        claims = Counter(
            (change.function, target, verb)
            for change in self.changes
            for targets, verb in ((change.gained, "newly claims"), (change.dropped, "no longer claims"))
            for target in targets
        )
        for (function, target, verb), count in claims.items():
            yield f"{function}: {target} {verb} {counted(count, 'op')}"
        for function, (before_count, after_count) in self.regions.items():
            yield f"{function}: {counted(before_count, 'region')} became {after_count}"

    def to_dict(self) -> dict[str, Any]:
        """The differences as plain data."""
        plain: dict[str, Any] = json.loads(self.to_json())
        return plain

    def to_json(self, indent: int | None = None) -> str:
        """The differences as JSON."""
        changes = [
            {
                "function": change.function,
                "name": change.name,
                "op": change.op,
                "before": change.before,
                "after": change.after,
                "claims": change.claims,
            }
            for change in self.changes
        ]
        return json.dumps({"changes": changes, "regions": self.regions}, indent=indent)


def difference(before: Sequence[FunctionReport], after: Sequence[FunctionReport]) -> ReportDiff:
    """The differences of `after`. Ops are identified by function, name and op. O(ops)."""
    old, new = _ops_of(before), _ops_of(after)
    changes = [_change(key, old.get(key), op) for key, op in new.items()]
    changes += [_change(key, op, None) for key, op in old.items() if key not in new]
    counts = {function.name: len(function.regions) for function in before}
    regions = {
        function.name: (counts.get(function.name, 0), len(function.regions))
        for function in after
        if counts.get(function.name, 0) != len(function.regions)
    }
    return ReportDiff(tuple(change for change in changes if change is not None), regions)


_Key = tuple[str, str, str, int]


def _ops_of(functions: Sequence[FunctionReport]) -> dict[_Key, OpReport]:
    """The ops of some functions by function, name and op; equal ones are numbered."""
    found: dict[_Key, OpReport] = {}
    for function in functions:
        found.update(_ops_of_function(function))
    return found


def _ops_of_function(function: FunctionReport) -> Iterator[tuple[_Key, OpReport]]:
    seen: Counter[tuple[str, str]] = Counter()
    for op in function.ops:
        seen[op.name, op.op] += 1
        yield (function.name, op.name, op.op, seen[op.name, op.op]), op


def _change(key: _Key, before: OpReport | None, after: OpReport | None) -> OpChange | None:
    function, name, op, _number = key
    old, new = (each.placed if each else None for each in (before, after))
    if before is None or after is None:
        return OpChange(function, name, op, old, new)
    gained = tuple(target for target in after.claims if target not in before.claims)
    dropped = tuple(target for target in before.claims if target not in after.claims)
    changed = gained or dropped or old != new
    return OpChange(function, name, op, old, new, gained, dropped) if changed else None


def _movement(before: str | None, after: str | None) -> str:
    if before is None:
        return f"new, placed on {after}"
    return f"gone from {before}" if after is None else f"moved from {before} to {after}"


def _shortened(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
