"""The text of reports: the only place where reasons are put into words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import tvm
from tvm import relax

from annotated_region.costs.model import HOST
from annotated_region.notes import DeclineReason, DissolveNote, DissolveReason, Refusal
from annotated_region.printable import counted

__all__ = [
    "Loss",
    "LossReason",
    "words_for_claim",
    "words_for_claims",
    "words_for_costs",
    "words_for_counts",
    "words_for_dissolved",
    "words_for_headline",
    "words_for_loss",
    "words_for_neighbours",
    "words_for_no_region",
    "words_for_refusal",
    "words_for_seconds",
    "words_for_time",
    "words_for_type",
    "words_for_work",
]

_REFUSALS = {
    DeclineReason.NEVER_OFFLOADED: (
        "an If, an impure call, a MatchCast or a local function is never offloaded"
    ),
    DeclineReason.NOT_AN_OP: "a call to a function, not an op",
    DeclineReason.NO_RULE: "no rule for {detail}",
    DeclineReason.UNEXPLAINED: "not supported",
    DeclineReason.ANSWERED: "{detail}",
    DeclineReason.SEVERAL_BLOCKS: "its op {detail!r} is in another block",
    DeclineReason.USED_OUTSIDE: "its intermediate value {detail!r} is used outside of it too",
    DeclineReason.UNKNOWN_ATTRIBUTES: (
        "the module has it as a composite with attributes that no registered pattern computes: {detail}"
    ),
}


def words_for_refusal(refusal: Refusal) -> str:
    """Why a target declines an op."""
    words = _REFUSALS[refusal.reason].format(detail=refusal.detail)
    return f"{refusal.pattern}: {words}" if refusal.pattern is not None else words


def words_for_dissolved(note: DissolveNote) -> str:
    """Why a region was dissolved."""
    match note.reason:
        case DissolveReason.LITTLE_WORK:
            return f"less work than the minimum of {note.limit:g}"
        case DissolveReason.MANY_REGIONS:
            return f"smaller than the {counted(round(note.limit), 'region')} that its target may have"
        case DissolveReason.REFUSED:
            return f"refused by its backend: {note.answer}"


class LossReason(Enum):
    """Why a target did not get an op that it claims."""

    CANNOT_RUN = auto()
    """The target cannot run on this machine."""

    PINNED = auto()
    """The user pins the op to another place."""

    BANNED = auto()
    """The user bans the op from the target."""

    DISSOLVED = auto()
    """The region of the op was dissolved; `Loss.dissolved`."""

    COSTS_MORE = auto()
    """The op alone costs `Loss.seconds` where it is placed, and `Loss.seconds_lost` on the target."""

    LARGER_UNIT = auto()
    """The policy uses costs, and the cost of the op alone does not explain the placement."""

    COMES_LATER = auto()
    """The target that got the op has priority."""

    NOT_PLACED = auto()
    """The op is on the host, and no pass noted a reason."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A claim that a target did not get: where the op is placed, and why."""

    target: str
    placed: str
    reason: LossReason
    dissolved: DissolveNote | None = None
    seconds: float = 0.0
    seconds_lost: float = 0.0


_LOSSES = {
    LossReason.CANNOT_RUN: ": it cannot run here",
    LossReason.PINNED: ", where it is pinned",
    LossReason.BANNED: ": it is banned from {target}",
    LossReason.COSTS_MORE: ": alone it takes {there} there, {here} on {target}",
    LossReason.LARGER_UNIT: ": cheaper as a part of a larger unit",
    LossReason.COMES_LATER: ", which comes first",
    LossReason.NOT_PLACED: "",
}


def words_for_loss(loss: Loss) -> str:
    """Where a claimed op went instead, and why."""
    to = "to the host" if loss.placed == HOST else f"to {loss.placed}"
    if loss.dissolved is not None:
        verb = "had" if loss.dissolved.reason is DissolveReason.LITTLE_WORK else "was"
        return f"{to}: its region {verb} {words_for_dissolved(loss.dissolved)}"
    there, here = _seconds(loss.seconds), _seconds(loss.seconds_lost)
    return to + _LOSSES[loss.reason].format(target=loss.target, there=there, here=here)


def words_for_counts(
    target: str, *, ops: int, total: int, regions: int, claimed: int, unavailable: str | None
) -> str:
    """The ops and regions that a target got."""
    line = f"{target}: {ops} of {total} ops in {counted(regions, 'region')}"
    return f"{line} (claims {claimed}, but cannot run here: {unavailable})" if unavailable else line


def words_for_no_region(claimed: Mapping[str, int]) -> str:
    """The targets that claim ops but have no region, with the number of ops."""
    parts = (f"{target} (claims {counted(count, 'op')})" for target, count in claimed.items())
    return f"without a region: {', '.join(parts)}"


def words_for_headline(placed: Mapping[str, int], total: int, first: str) -> str:
    """One line: the ops on each target, those on the host, and why the first of these is there.

    Parameters
    ----------
    placed
        The number of ops on each target.
    total
        The number of ops.
    first
        The first op on the host with the reason, in words; empty if there is none.
    """
    parts = [f"{target}: {count} of {counted(total, 'op')}" for target, count in placed.items()]
    host = total - sum(placed.values())
    why = f", the first {first}" if first else ""
    return "; ".join([*parts, f"{HOST}: {counted(host, 'op')}{why}"])


def words_for_neighbours(target: str, left: str, right: str, between: str | None) -> str:
    """Why two neighbouring regions were not merged."""
    why = f"{between} is on a path between them" if between else "the limits on regions keep them apart"
    return f"{target}: the regions of {left} and {right} are separate: {why}"


def words_for_costs(target: str, here: float, there: float) -> str:
    """Why claimed ops are on the host: alone, they cost less there."""
    outweighed = ", but launches and transfers cost more" if there < here else ""
    alone = f"alone {_seconds(here)} on the host, {_seconds(there)} on {target}"
    return f"lost by {target} by cost: {alone}{outweighed}"


def words_for_time(region: int, target: str, symbol: str, seconds: float, expected: float | None) -> str:
    """The measured time of a region, and the expected time of its ops."""
    beside = "" if expected is None else f", {_seconds(expected)} expected of its ops"
    return f"{target}: region {region} ({symbol}) takes {_seconds(seconds)}{beside}"


def words_for_seconds(seconds: float, expected: float | None) -> str:
    """Measured and expected time, for a picture."""
    return _seconds(seconds) if expected is None else f"{_seconds(seconds)}, {_seconds(expected)} expected"


def _seconds(seconds: float) -> str:
    """A time in a suitable unit."""
    scaled = seconds * 1e6
    for unit in ("us", "ms"):
        if scaled < 1000:
            return f"{scaled:.3g} {unit}"
        scaled /= 1000
    return f"{scaled:.3g} s"


def words_for_work(flops: int | None, moved: int | None) -> str:
    """The work of an op, such as ``"236 Mflop, 3.85 MB"``; empty if unknown."""
    parts = [*([_scaled(flops, "flop")] if flops else []), *([_scaled(moved, "B")] if moved else [])]
    return ", ".join(parts)


def _scaled(amount: int, unit: str) -> str:
    number = float(amount)
    for prefix in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g} {prefix}{unit}"
        number /= 1000
    return f"{number:.3g} T{unit}"


def words_for_claims(
    claims: Mapping[str, Sequence[str]],
    lost: Mapping[str, str],
    declines: Mapping[str, str],
    chosen: Mapping[str, str],
) -> str:
    """All claims, losses and declines of an op, in words.

    `chosen` has, for the target that got the op, the claim in effect.
    """
    parts = [f"claimed by {words_for_claim(target, by, chosen.get(target))}" for target, by in claims.items()]
    parts += [f"lost by {target} {why}" for target, why in lost.items()]
    parts += [f"declined by {target}: {why}" for target, why in declines.items()]
    return "; ".join(parts).replace("relax.", "")


def words_for_claim(target: str, by: Sequence[str], chosen: str | None) -> str:
    """The rule or patterns by which a target claims an op, with the claim in effect marked."""
    marked = (f"{name} (chosen)" if name == chosen and len(by) > 1 else name for name in by)
    return f"{target}: {', '.join(marked)}"


def words_for_type(ty: tvm.ir.Type) -> str:
    """A type, such as ``"float32[1, 3, 224, 224]"``; a tuple in parentheses."""
    if isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
        return f"{ty.dtype}[{', '.join(map(_words_for_extent, ty.shape.values))}]"
    if isinstance(ty, relax.TensorType):
        axes = "..." if ty.ndim < 0 else ", ".join("?" * ty.ndim)
        return f"{ty.dtype or 'tensor'}[{axes}]"
    if isinstance(ty, tvm.ir.TupleType):
        return f"({', '.join(map(words_for_type, ty.fields))})"
    return str(ty)


def _words_for_extent(extent: relax.Expr) -> str:
    """An extent without spaces, which separate axes: ``batch*5``; TVM writes ``batch * T.int64(5)``."""
    if isinstance(extent, tvm.tirx.IntImm):
        return str(extent.value)
    return re.sub(r"\bT\.int\d+\((-?\d+)\)|\bT\.| ", r"\1", str(extent))
