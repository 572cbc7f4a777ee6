"""Aggregates the notes of all passes about one function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import relax

from annotated_region.notes import (
    ApartNote,
    ClaimNote,
    DeclineNote,
    DissolveNote,
    Neighbours,
    Note,
    PolicyNote,
    PriceNote,
    Refusal,
    RuledOutNote,
    UnavailableNote,
)

__all__ = ["FunctionRecord"]


@dataclass(slots=True)
class FunctionRecord:
    """The aggregated notes about one function.

    Attributes
    ----------
    claims
        For each variable and target, the names of the rule (the op) or of the patterns that claim it, without
        duplicates.
    declines
        For each variable and target, the first reason why it is not claimed.
    apart
        The pairs of adjacent regions that the last merge kept apart.
    dissolved
        The dissolved regions, in order, and by target and variable the first one that held it.
    ruled_out
        By target and variable, the reason why the target is excluded.
    unavailable
        The targets that cannot run on this machine, and why.
    resolution
        The details of the policy about its result.
    prices
        For each variable in a region, its cost alone, in seconds, by place; empty unless the
        policy uses costs.
    """

    claims: dict[relax.Var, dict[str, dict[str, None]]] = field(default_factory=dict)
    declines: dict[relax.Var, dict[str, Refusal]] = field(default_factory=dict)
    apart: Sequence[Neighbours] = ()
    dissolved: list[DissolveNote] = field(default_factory=list)
    dissolved_with: dict[tuple[str, relax.Var], DissolveNote] = field(default_factory=dict)
    ruled_out: dict[tuple[str, relax.Var], RuledOutNote] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    resolution: Mapping[str, Any] = field(default_factory=dict)
    prices: dict[relax.Var, Mapping[str, float]] = field(default_factory=dict)

    @staticmethod
    def of(notes: Iterable[Note]) -> FunctionRecord:
        """The record of notes in the order in which they were made. Linear."""
        record = FunctionRecord()
        for note in notes:
            record.add(note)
        return record

    def add(self, note: Note) -> None:
        """Add a note."""
        match note:
            case ClaimNote(var, target, by):
                self.claims.setdefault(var, {}).setdefault(target, {})[by] = None
            case DeclineNote(var, target, refusal):
                self.declines.setdefault(var, {}).setdefault(target, refusal)
            case ApartNote(pairs):
                self.apart = pairs
            case DissolveNote():
                self.dissolved.append(note)
                for var in note.nodes:
                    self.dissolved_with.setdefault((note.target, var), note)
            case RuledOutNote(var, target):
                self.ruled_out[target, var] = note
            case UnavailableNote(target, why):
                self.unavailable[target] = why
            case PolicyNote(details):
                self.resolution = details
            case PriceNote(var, seconds):
                self.prices[var] = seconds
