"""Notes: what passes find while they run, as values; `annotated_region.findings` puts them into words.

A pass returns its notes together with its regions (`annotated_region.passes.region_pass`). A note holds
variables, targets and reasons; its only free text is what a rule, a pattern's check or a backend answered.
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
    """Why a target does not claim a node, or why a match of a pattern was refused."""

    NEVER_OFFLOADED = auto()
    """An `If`, an impure call, a `MatchCast` or a local function."""

    NOT_AN_OP = auto()
    """A call to a function."""

    NO_RULE = auto()
    """The target has no rule for the op; `Refusal.detail` names it."""

    UNEXPLAINED = auto()
    """A rule or a check returned False."""

    ANSWERED = auto()
    """A rule or a check returned a string, `Refusal.detail`."""

    SEVERAL_BLOCKS = auto()
    """A match that spans blocks: its op bound to `Refusal.detail` is in another block than its root."""

    USED_OUTSIDE = auto()
    """A match whose intermediate value `Refusal.detail` has a user outside the match."""

    UNKNOWN_ATTRIBUTES = auto()
    """A composite in the module with attributes that no registered pattern produces: `Refusal.detail`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason, its detail, and the pattern whose match was refused; None for the refusal of a rule."""

    reason: DeclineReason
    detail: str = ""
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimNote:
    """A target claims a node by a rule (then `by` is the name of the op) or by the pattern `by`."""

    var: relax.Var
    target: str
    by: str


@dataclass(frozen=True, slots=True)
class DeclineNote:
    """A target claims a node by no rule and no pattern."""

    var: relax.Var
    target: str
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two neighbouring regions of one target, by their first nodes, and a node between them.

    Neighbours are regions joined by an edge, and consecutive regions. The node `between` depends on one of
    them and the other depends on it, so joining them would close a cycle. Without such a node, the limits on
    regions (size, connectedness, acceptance by the backend) keep them apart.
    """

    target: str
    left: relax.Var
    right: relax.Var
    between: relax.Var | None


@dataclass(frozen=True, slots=True)
class ApartNote:
    """The pairs of neighbouring regions that remain after merging; a later merge replaces the note."""

    pairs: tuple[Neighbours, ...]


class DissolveReason(Enum):
    """Why a region was dissolved."""

    LITTLE_WORK = auto()
    """Its work is below its target's minimum, `DissolveNote.limit`."""

    MANY_REGIONS = auto()
    """Its target has `DissolveNote.limit` larger regions in the scope, the most it may have."""

    REFUSED = auto()
    """Its backend rejects it, with the reason `DissolveNote.answer`."""


@dataclass(frozen=True, slots=True)
class DissolveNote:
    """A dissolved region: its nodes may go to other targets."""

    target: str
    nodes: tuple[relax.Var, ...]
    reason: DissolveReason
    limit: float = 0.0
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class RuledOutNote:
    """A target that must not run a node: the node is pinned to `place`, or banned from the target (None)."""

    var: relax.Var
    target: str
    place: str | None


@dataclass(frozen=True, slots=True)
class UnavailableNote:
    """A target that claims nodes but cannot run on this machine; `why` is the reason its backend gives."""

    target: str
    why: str


@dataclass(frozen=True, slots=True)
class PolicyNote:
    """Details of a policy's answer, such as cost, lower bound and gap."""

    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PriceNote:
    """The cost of a node by itself, in seconds, on the host and on each target that claims it alone."""

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
