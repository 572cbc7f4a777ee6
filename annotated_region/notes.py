"""Notes: what passes find out while they run, as values; `annotated_region.reports` puts them into words.

A pass returns its notes together with the regions that it leaves (`annotated_region.passes.region_pass`).
A note names variables, targets and reasons. Only what a rule, a pattern's check or a backend answers is
text, because it is their answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias

from tvm import relax

__all__ = [
    "ApartNote",
    "ClaimNote",
    "DeclineNote",
    "DeclineReason",
    "DissolveNote",
    "DissolveReason",
    "Neighbours",
    "Note",
    "PolicyNote",
    "PriceNote",
    "Refusal",
    "RuledOutNote",
    "UnavailableNote",
]


class DeclineReason(Enum):
    """Why a target does not claim a node, or a pattern its match."""

    NEVER_OFFLOADED = auto()
    """An `If`, an impure call, a `MatchCast` or a local function."""

    NOT_AN_OP = auto()
    """A call to a function."""

    NO_RULE = auto()
    """The target has no rule for the op; `Refusal.detail` names it."""

    UNEXPLAINED = auto()
    """A rule or a check answered False."""

    ANSWERED = auto()
    """A rule or a check answered with a text, `Refusal.detail`."""

    SEVERAL_BLOCKS = auto()
    """A match whose op bound to `Refusal.detail` is in another block than its root."""

    USED_OUTSIDE = auto()
    """A match whose intermediate value `Refusal.detail` has a consumer outside of the match."""

    UNKNOWN_ATTRIBUTES = auto()
    """A composite of the module with attributes that no registered pattern computes: `Refusal.detail`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason, what it is about, and the pattern whose match was refused, if it was one."""

    reason: DeclineReason
    detail: str = ""
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class ClaimNote:
    """A target claims a node by a rule (then `by` is the name of the op) or by the pattern `by`."""

    var: relax.Var
    target: str
    by: str


@dataclass(frozen=True, slots=True)
class DeclineNote:
    """A target claims a node neither by a rule nor by a pattern."""

    var: relax.Var
    target: str
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two neighbouring regions of one target, by their first nodes, and the node that stands between them.

    Neighbours are regions that an edge joins, and regions that follow each other. The node runs behind
    the one and before the other, so the two cannot be one; without such a node it is the limits on
    regions (their size, their connectedness, what the backend accepts) that keep them apart.
    """

    target: str
    left: relax.Var
    right: relax.Var
    between: relax.Var | None


@dataclass(frozen=True, slots=True)
class ApartNote:
    """The neighbouring regions that merging leaves; merging again replaces them."""

    pairs: tuple[Neighbours, ...]


class DissolveReason(Enum):
    """Why a region was given back."""

    LITTLE_WORK = auto()
    """Its work is below the minimum of its target; `DissolveNote.limit` is the minimum."""

    MANY_REGIONS = auto()
    """Its target has larger ones, as many as it may have in a scope; `DissolveNote.limit` is that number."""

    REFUSED = auto()
    """Its backend does not accept it, and says `DissolveNote.answer`."""


@dataclass(frozen=True, slots=True)
class DissolveNote:
    """A region that was given back: its nodes may go to other targets."""

    target: str
    nodes: tuple[relax.Var, ...]
    reason: DissolveReason
    limit: float = 0.0
    answer: str = ""


@dataclass(frozen=True, slots=True)
class RuledOutNote:
    """A target that must not have a node: the node is pinned to `place`, or banned from the target (None)."""

    var: relax.Var
    target: str
    place: str | None


@dataclass(frozen=True, slots=True)
class UnavailableNote:
    """A target that claims nodes but cannot run on this machine; `why` is the answer of its backend."""

    target: str
    why: str


@dataclass(frozen=True, slots=True)
class PolicyNote:
    """What a policy says of its answer, such as cost, lower bound and gap."""

    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PriceNote:
    """What a node costs by itself, in seconds, on the host and on each target that claims it alone."""

    var: relax.Var
    seconds: Mapping[str, float]


Note: TypeAlias = (
    ClaimNote
    | DeclineNote
    | ApartNote
    | DissolveNote
    | RuledOutNote
    | UnavailableNote
    | PolicyNote
    | PriceNote
)
