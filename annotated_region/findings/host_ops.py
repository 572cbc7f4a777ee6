"""The ops of the host, those of one kind that stay for one reason together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from annotated_region.costs.model import HOST
from annotated_region.findings.op_report import OpReport
from annotated_region.findings.wording import Loss, LossReason, words_for_costs, words_for_loss

__all__ = ["HostGroup", "host_groups", "words_for_group", "words_for_host"]


@dataclass(frozen=True, slots=True)
class HostGroup:
    """Ops of one kind on the host.

    Attributes
    ----------
    op
        What they compute, without the prefix of Relax.
    count
        How many they are.
    first
        What the first of them was made from; empty if that is its name.
    reasons
        Why they stay: who claims them and lost them first, then who declines them.
    """

    op: str
    count: int
    first: str
    reasons: tuple[str, ...]


def host_groups(ops: Iterable[OpReport]) -> list[HostGroup]:
    """The ops on the host in groups, in the order of the first of each. Linear in the ops."""
    groups: dict[tuple[object, ...], list[OpReport]] = {}
    for op in ops:
        if op.placed == HOST:
            groups.setdefault((op.op, *_kinds(op)), []).append(op)
    return [_group(members) for members in groups.values()]


def _kinds(op: OpReport) -> Iterator[tuple[str, str]]:
    """What ops of one group have in common; costs in seconds are added up, not compared."""
    yield from op.declines.items()
    for target, words in op.lost.items():
        yield target, "" if _lost_by_cost(op, target) else words


def _lost_by_cost(op: OpReport, target: str) -> bool:
    """Whether the host is cheaper for the op alone: whether its words are those for its costs."""
    if HOST not in op.costs or target not in op.costs:
        return False
    costs = op.costs[HOST], op.costs[target]
    return op.lost[target] == words_for_loss(Loss(target, HOST, LossReason.COSTS_MORE, None, *costs))


def _group(members: Sequence[OpReport]) -> HostGroup:
    first = members[0]
    reasons = [_loss(members, target) for target in first.lost]
    reasons += [f"declined by {target}: {why}" for target, why in first.declines.items()]
    return HostGroup(first.op.removeprefix("relax."), len(members), first.told_origin, tuple(reasons))


def _loss(members: Sequence[OpReport], target: str) -> str:
    if not _lost_by_cost(members[0], target):
        return f"lost by {target} {members[0].lost[target]}"
    here, there = (math.fsum(op.costs[place] for op in members) for place in (HOST, target))
    return words_for_costs(target, here, there)


def words_for_host(groups: Iterable[HostGroup]) -> str:
    """What stays on the host, in one line."""
    return f"{HOST}: {', '.join(map(words_for_group, groups)) or 'nothing'}"


def words_for_group(group: HostGroup) -> str:
    """Ops of one kind on the host: how many, where the first comes from, and why they stay."""
    count = f" x{group.count}" if group.count > 1 else ""
    at = ", first at " if group.count > 1 else " at "
    return f"{group.op}{count}{at + group.first if group.first else ''} ({'; '.join(group.reasons)})"
