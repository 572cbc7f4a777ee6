"""What the passes note while they run, for the report: claims, declines, placements and their reasons.

Passes call `note()` and write into what it returns; outside of a `recording()` they write into the void.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tvm import relax

from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["Apart", "FunctionRecord", "Record", "is_recording", "note", "recording"]


@dataclass(frozen=True, slots=True)
class Apart:
    """Two neighbouring regions of one target, and the node that stands between them, if one does.

    Neighbours are regions that an edge joins, and regions that follow each other. The node runs behind
    the one and before the other, so the two cannot be one; without such a node it is the limits on
    regions (their size, their connectedness, what the backend accepts) that keep them apart.
    """

    target: str
    left: str
    right: str
    between: str | None


@dataclass(slots=True)
class FunctionRecord:
    """What is known of one function.

    Attributes
    ----------
    claims
        For each variable and target, the names of what claims it: the name of the op, or of composites.
    declines
        For each variable and target, the reason why it is not claimed.
    regions
        The regions, as the last pass that changed them left them.
    apart
        Regions that touch and were not joined.
    dissolved
        Regions that were given back: (target, names of nodes, reason).
    resolution
        What the policy says of its answer, such as cost, lower bound and gap.
    unavailable
        The targets that cannot run on this machine, and why.
    costs
        For each variable that somebody claims, what it costs by itself on the host and on each target that
        claims it alone, in seconds; empty unless the policy goes by costs.
    """

    claims: dict[relax.Var, dict[str, list[str]]] = field(default_factory=dict)
    declines: dict[relax.Var, dict[str, str]] = field(default_factory=dict)
    regions: AnnotatedRegionSet | None = None
    apart: list[Apart] = field(default_factory=list)
    dissolved: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)
    resolution: dict[str, Any] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    costs: dict[relax.Var, dict[str, float]] = field(default_factory=dict)

    def claim(self, var: relax.Var, target: str, by: str) -> None:
        """Note that `target` claims `var`, by a rule or a pattern."""
        self.claims.setdefault(var, {}).setdefault(target, []).append(by)

    def decline(self, var: relax.Var, target: str, reason: str) -> None:
        """Note why `target` does not claim `var`; the first reason stays."""
        self.declines.setdefault(var, {}).setdefault(target, reason)


@dataclass(slots=True)
class Record:
    """What is known of the functions of a module, by name."""

    functions: dict[str, FunctionRecord] = field(default_factory=dict)

    def function(self, name: str) -> FunctionRecord:
        """The record of one function."""
        return self.functions.setdefault(name, FunctionRecord())


_current: ContextVar[Record | None] = ContextVar("annotated_region_record", default=None)


@contextmanager
def recording() -> Iterator[Record]:
    """Collect what the passes that run inside the ``with`` block note."""
    record = Record()
    token = _current.set(record)
    try:
        yield record
    finally:
        _current.reset(token)


def is_recording() -> bool:
    """Whether anybody will read what is noted: what costs time to find out is noted only then."""
    return _current.get() is not None


def note(function: str) -> FunctionRecord:
    """Where to note something about a function."""
    record = _current.get()
    return FunctionRecord() if record is None else record.function(function)
