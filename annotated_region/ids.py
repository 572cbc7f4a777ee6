"""Integer ids, one `NewType` for each meaning, so that a type checker keeps them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NewType, TypeVar, cast

__all__ = [
    "Colour",
    "MemberIndex",
    "NodeId",
    "Place",
    "RegionId",
    "ScopeId",
    "UnitId",
    "ValueId",
    "Vertex",
    "numbered",
]

Id = TypeVar("Id", bound=int)
T = TypeVar("T")

NodeId = NewType("NodeId", int)
"""A node of a `DataflowGraph`. Edges use negative numbers for ends that are not nodes, see `Edge`."""

ScopeId = NewType("ScopeId", int)
"""A scope of a `DataflowGraph`."""

RegionId = NewType("RegionId", int)
"""A region of an `AnnotatedRegionSet`."""

MemberIndex = NewType("MemberIndex", int)
"""The index of a region in a list to be grouped or resolved, before a set assigns ids."""

Vertex = NewType("Vertex", int)
"""A vertex of an integer graph over some nodes, such as those of one scope."""

Colour = NewType("Colour", int)
"""A target, as the colour of a grouping problem."""

Place = NewType("Place", int)
"""Where a unit of a placement problem runs: a target, or the host, which is the last place."""

UnitId = NewType("UnitId", int)
"""A unit of a placement problem."""

ValueId = NewType("ValueId", int)
"""A value of a placement problem."""


def numbered(_kind: Callable[[int], Id], items: Iterable[T]) -> Iterator[tuple[Id, T]]:
    """`enumerate` with indices of type `Id`, at no extra cost."""
    return cast("Iterator[tuple[Id, T]]", enumerate(items))
