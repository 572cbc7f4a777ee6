"""Groups the ops on the host by kind and by the reasons why they stay there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from annotated_region.costs.model import HOST
from annotated_region.findings.op_report import OpReport
from annotated_region.findings.wording import words_for_costs

__all__ = ["HostGroup", "host_groups", "words_for_group", "words_for_host"]


@dataclass(frozen=True, slots=True)
class HostGroup:
    """Ops of one kind on the host.

    Attributes
    ----------
    op
        The op name, without the prefix of Relax.
    count
        The number of ops.
    first
        The origin of the first one; empty if it equals its name.
    reasons
        The reasons: first targets that claim them and lost them, then targets that decline them.
    """

    op: str
    count: int
    first: str
    reasons: tuple[str, ...]


def host_groups(ops: Iterable[OpReport]) -> list[HostGroup]:
    """The ops on the host in groups, ordered by the first op of each. Linear in the ops."""
    groups: dict[tuple[object, ...], list[OpReport]] = {}
    for op in ops:
        if op.placed == HOST:
            groups.setdefault((op.op, *_kinds(op)), []).append(op)
    return [_group(members) for members in groups.values()]


def _kinds(op: OpReport) -> Iterator[tuple[str, str]]:
    """The group key of an op, beside its name; losses by cost are equal, because their seconds are summed."""
    yield from op.declines.items()
    for target, words in op.lost.items():
        yield target, "" if target in op.lost_by_cost else words


def _group(members: Sequence[OpReport]) -> HostGroup:
    first = members[0]
    reasons = [_loss(members, target) for target in first.lost]
    reasons += [f"declined by {target}: {why}" for target, why in first.declines.items()]
    return HostGroup(first.op.removeprefix("relax."), len(members), first.origin_phrase, tuple(reasons))


def _loss(members: Sequence[OpReport], target: str) -> str:
    if target not in members[0].lost_by_cost:
        return f"lost by {target} {members[0].lost[target]}"
    here, there = (math.fsum(op.costs[place] for op in members) for place in (HOST, target))
    return words_for_costs(target, here, there)


def words_for_host(groups: Iterable[HostGroup]) -> str:
    """All groups on the host, in one line."""
    return f"{HOST}: {', '.join(map(words_for_group, groups)) or 'nothing'}"


def words_for_group(group: HostGroup) -> str:
    """One group: its count, the origin of the first op, and the reasons."""
    count = f" x{group.count}" if group.count > 1 else ""
    at = ", first at " if group.count > 1 else " at "
    return f"{group.op}{count}{at + group.first if group.first else ''} ({'; '.join(group.reasons)})"
