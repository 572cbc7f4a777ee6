"""What a check has covered: how often each op and pattern was tried, claimed, run and compared, by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from annotated_region.testing.recipes import DTYPES

__all__ = ["Conformance", "Covered"]


@dataclass(frozen=True, slots=True)
class Covered:
    """How often one op or one pattern was met in graphs of one type.

    Attributes
    ----------
    name
        The op, or the composite.
    dtype
        The type of most values of the graphs.
    tried
        How often it was in a graph. Of a composite, here and below: in how many graphs.
    claimed
        How often the backend claimed it.
    compared
        How often it ran on the backend, and what came was held against what TVM computes.
    """

    name: str
    dtype: str
    tried: int
    claimed: int
    compared: int


@dataclass(frozen=True, slots=True)
class Conformance:
    """What a check has covered.

    Attributes
    ----------
    target
        The backend.
    graphs
        How many of the graphs that were asked for were run and compared.
    placed
        How often each op ran on the backend.
    dtypes
        How many ops ran on the backend in graphs of each type.
    untried
        Ops that its rules or patterns name, and that no recipe is known for; hand one in as ``recipes=``.
    never_placed
        Ops that were tried, and that the backend declined every time.
    declined
        For each op, the reasons for which it was declined: the other side of the edge.
    skipped
        How many graphs TVM could not run, or not in the types that they declare (its batch norm of float16
        gives float32), so that there was nothing to compare with.
    composites
        How often each composite ran on the backend.
    table
        The same by op or composite and by type: tried, claimed, compared.
    further
        How many more graphs were made for what did not run in those that were asked for.
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
