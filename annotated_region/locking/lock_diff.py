"""The difference of two locks: ops moved, removed and added, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from annotated_region.documents import written_document
from annotated_region.locking.alignment import OpLabel, aligned
from annotated_region.locking.locked_ops import LockedFunction, LockedOp
from annotated_region.printable import counted

__all__ = ["LockChange", "LockDiff", "label_of", "lock_difference"]

_SHOWN = 5  # names in a line


@dataclass(frozen=True, slots=True)
class LockChange:
    """An op with another placement, or that only one of the two locks has.

    Attributes
    ----------
    function, key, op
        Its function, its key (in the second lock, if present), and its op name.
    before, after
        Its target and region, such as ``"dnnl/0"``, or ``"host"``; None in a lock without the op.
    patterns
        The patterns that claim it, before and after; empty if it is claimed alone or not at all.
    why
        The reason of the change, if known.
    """

    function: str
    key: str
    op: str
    before: str | None
    after: str | None
    patterns: tuple[str, str] = ("", "")
    why: str = ""

    @property
    def movement(self) -> str:
        """A description of the change."""
        if self.before is None:
            return f"new, placed on {self.after}"
        if self.after is None:
            return f"gone from {self.before}"
        if self.before != self.after:
            return f"moved from {self.before} to {self.after}"
        before, after = (f"a part of {pattern}" if pattern else "alone" for pattern in self.patterns)
        return f"claimed as {after} and no longer as {before}, on {self.after}"


@dataclass(frozen=True, slots=True)
class LockDiff:
    """The differences of the second of two locks.

    Attributes
    ----------
    changes
        The changed ops, in the order of the second lock, followed by those that only the first lock has.
    missing_targets
        The targets that only the first lock has.
    """

    changes: tuple[LockChange, ...]
    missing_targets: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.missing_targets)

    def __str__(self) -> str:
        return "\n".join(self._lines()) or "no difference"

    def _lines(self) -> Iterator[str]:
        for target in self.missing_targets:
            yield f"the target {target} takes no part"
        groups: dict[tuple[str, str, str], list[str]] = {}
        for change in self.changes:
            groups.setdefault((change.function, change.movement, change.why), []).append(change.key)
        for (function, movement, why), keys in groups.items():
            rest = len(keys) - _SHOWN
            names = ", ".join(keys[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
            count = counted(len(keys), "op")
            yield f"{function}: {count} {movement}: {names}{f' ({why})' if why else ''}"

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON."""
        changes = [
            {
                "function": change.function,
                "key": change.key,
                "op": change.op,
                "before": change.before,
                "after": change.after,
                "patterns": change.patterns,
                "why": change.why,
            }
            for change in self.changes
        ]
        return written_document(
            "lock-diff", {"missing_targets": self.missing_targets, "changes": changes}, indent
        )


def label_of(op: LockedOp) -> OpLabel:
    """The label of an op of a lock."""
    return OpLabel(op.key, op.op, op.local, op.around)


def lock_difference(
    before: Sequence[LockedFunction], after: Sequence[LockedFunction]
) -> tuple[LockChange, ...]:
    """The ops with another placement in `after`, or that only one of both has. Linear in the ops."""
    old = {function.name: function.ops for function in before}
    new = {function.name: function.ops for function in after}
    changes = [change for name, ops in new.items() for change in _changes(name, old.get(name, ()), ops)]
    changes += [_change(name, op, None) for name, ops in old.items() if name not in new for op in ops]
    return tuple(changes)


def _changes(function: str, old: Sequence[LockedOp], new: Sequence[LockedOp]) -> Iterator[LockChange]:
    position_of = aligned([label_of(op) for op in old], [label_of(op) for op in new])
    for op, position in zip(new, position_of, strict=True):
        was = None if position is None else old[position]
        if was is None or (was.where, was.pattern) != (op.where, op.pattern):
            yield _change(function, was, op)
    found = set(position_of)
    for position, was in enumerate(old):
        if position not in found:
            yield _change(function, was, None)


def _change(function: str, was: LockedOp | None, op: LockedOp | None) -> LockChange:
    shown = op or was
    assert shown is not None
    return LockChange(
        function,
        shown.key,
        shown.op,
        None if was is None else was.where,
        None if op is None else op.where,
        ("" if was is None else was.pattern, "" if op is None else op.pattern),
        "" if op is None else op.reason,
    )
