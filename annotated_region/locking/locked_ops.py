"""The entries of a lock: ops and functions."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LockedFunction", "LockedOp"]


@dataclass(frozen=True, slots=True)
class LockedOp:
    """One op of a lock.

    Attributes
    ----------
    key
        A unique name of the op in its function: its origin, with ``#2`` for the second op of the same
        origin.
    op
        Its op name.
    local
        A fingerprint of the op alone: its op name, attributes and types, without constant data
        and variable names.
    around
        A fingerprint of the op with its neighbours up to distance two.
    place
        Its target, or "host".
    region
        The id of its region; None on the host.
    composite
        The pattern that claims it together with other ops, and a tag common to these ops:
        ``"dnnl.conv2d_bias_relu#3fa2c1"``; empty if it is claimed alone.
    reason
        Why it is on the host: how the first target that claims it lost it, or the first decline.
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
    """The ops of a function in program order, with the cost and lower bound of its placement, in seconds."""

    name: str
    ops: tuple[LockedOp, ...]
    cost: float | None = None
    lower_bound: float | None = None
