"""What a lock says of each op and each function."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LockedFunction", "LockedOp"]


@dataclass(frozen=True, slots=True)
class LockedOp:
    """One op of a lock.

    Attributes
    ----------
    key
        The name that means it alone in its function: its origin, with ``#2`` where it is the second from
        there.
    op
        What it computes.
    local
        A fingerprint of the op alone: what it computes, its attributes and types. What constants hold and
        what things are called does not count.
    around
        A fingerprint of the op with its neighbours and theirs.
    place
        Its target, or "host".
    region
        The id of its region; None on the host.
    composite
        The pattern that claims it together with others, and a sign that those others share:
        ``"dnnl.conv2d_bias_relu#3fa2c1"``; empty if it is claimed alone.
    reason
        Why it is on the host: to whom the first target that claims it lost it, or the first decline.
    """

    key: str
    op: str
    local: str
    around: str
    place: str
    region: int | None = None
    composite: str = ""
    reason: str = ""

    @property
    def where(self) -> str:
        """Target and region, such as ``"dnnl/0"``, or ``"host"``."""
        return self.place if self.region is None else f"{self.place}/{self.region}"

    @property
    def pattern(self) -> str:
        """The name of the pattern that claims it; empty if it is claimed alone."""
        return self.composite.rpartition("#")[0]


@dataclass(frozen=True, slots=True)
class LockedFunction:
    """The ops of a function in program order, and what its placement costs and could cost, in seconds."""

    name: str
    ops: tuple[LockedOp, ...]
    cost: float | None = None
    lower_bound: float | None = None
