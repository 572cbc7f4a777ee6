"""The coverage of a check: how often each op and pattern was tried, claimed, run and compared, by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from annotated_region.testing.recipes import DTYPES

__all__ = ["Conformance", "Covered"]


@dataclass(frozen=True, slots=True)
class Covered:
    """The coverage of one op or one pattern in graphs of one type.

    Attributes
    ----------
    name
        The op, or the composite.
    dtype
        The type of most values of the graphs.
    tried
        The number of its occurrences in graphs; for a composite, here and below, the number of graphs.
    claimed
        The number of claims by the backend.
    compared
        The number of runs on the backend whose results were compared with TVM.
    """

    name: str
    dtype: str
    tried: int
    claimed: int
    compared: int


@dataclass(frozen=True, slots=True)
class Conformance:
    """The coverage of a check.

    Attributes
    ----------
    target
        The backend.
    graphs
        The number of requested graphs that were run and compared.
    placed
        For each op, the number of runs on the backend.
    dtypes
        For each type, the number of ops that ran on the backend in graphs of that type.
    untried
        Ops that its rules or patterns name but that have no recipe; pass one as ``recipes=``.
    never_placed
        Ops that were tried, and that the backend always declined.
    declined
        For each op, the reasons for declining it.
    skipped
        The number of graphs without a reference result: TVM could not run them, or computes another type than
        declared (its batch norm of float16 returns float32).
    composites
        For each composite, the number of runs on the backend.
    table
        The same by op or composite and by type: tried, claimed, compared.
    further
        The number of additional graphs, for rules and patterns that did not run in the requested ones.
    """

    target: str
    graphs: int
    placed: Mapping[str, int]
    dtypes: Mapping[str, int]
    untried: tuple[str, ...]
    never_placed: tuple[str, ...]
    declined: Mapping[str, tuple[str, ...]]
    skipped: int = 0
    composites: Mapping[str, int] = field(default_factory=dict)
    table: tuple[Covered, ...] = ()
    further: int = 0

    def __str__(self) -> str:
        lines = [f"{self.target}: {self.graphs} graphs agree with TVM; placed: {_counted(self.placed)}"]
        lines += [f"composites: {_counted(self.composites)}"] if self.composites else []
        if set(self.dtypes) - {DTYPES[0]}:
            lines.append(f"ops by type: {', '.join(f'{dtype} x{n}' for dtype, n in self.dtypes.items())}")
        for what, names in (("no recipe", self.untried), ("declined every time", self.never_placed)):
            lines += [f"{what}: {', '.join(map(_short, names))}"] if names else []
        lines += [f"further graphs, for what did not run in these: {self.further}"] if self.further else []
        lines += [f"graphs that TVM cannot run: {self.skipped}"] if self.skipped else []
        return "\n".join(lines)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_short(name)} x{count}" for name, count in counts.items()) or "nothing"


def _short(name: str) -> str:
    return name.removeprefix("relax.")
