"""Numbers that stand for something: one type a meaning, so that a type checker keeps them apart."""

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
"""A node of a `DataflowGraph`. Edges name what is no node by negative numbers: `Edge` says which."""

ScopeId = NewType("ScopeId", int)
"""A scope of a `DataflowGraph`."""

RegionId = NewType("RegionId", int)
"""A region of an `AnnotatedRegionSet`."""

MemberIndex = NewType("MemberIndex", int)
"""A region in a list of regions that are grouped or resolved, before a set gives them ids."""

Vertex = NewType("Vertex", int)
"""A vertex of an integer graph that was made of some nodes, such as those of one scope."""

Colour = NewType("Colour", int)
"""A target, as a colour of a grouping problem."""

Place = NewType("Place", int)
"""Who runs a unit of a placement problem: a target, or the host, which is the last."""

UnitId = NewType("UnitId", int)
"""A unit of a placement problem."""

ValueId = NewType("ValueId", int)
"""A value of a placement problem."""


def numbered(_kind: Callable[[int], Id], items: Iterable[T]) -> Iterator[tuple[Id, T]]:
    """Items with their positions as numbers of one kind: `enumerate`, and as fast."""
    return cast("Iterator[tuple[Id, T]]", enumerate(items))
