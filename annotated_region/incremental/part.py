"""A part of a partitioned function: its original bindings, its units, and their external functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm import relax

from annotated_region.functions.function_library import FunctionLibrary, NamedFunction
from annotated_region.ids import NodeId
from annotated_region.passes.partition_graph import MadeRegion, Partitioner

__all__ = ["FunctionPart", "is_same"]

Nodes = tuple[NodeId, ...]


def is_same(left: relax.Binding, right: relax.Binding) -> bool:
    """Whether two bindings bind the same variable object to the same value object."""
    return bool(left.var.same_as(right.var) and left.value.same_as(right.value))


@dataclass(slots=True)
class FunctionPart:
    """The bindings between two cuts, partitioned.

    Attributes
    ----------
    bindings
        The original bindings.
    names
        The names of its variables, and those that preparation requested.
    units
        The regions and host nodes, in order.
    partitioner
        The partitioner, which has the nodes of the units.
    """

    bindings: Sequence[relax.Binding]
    names: frozenset[str]
    units: Sequence[Nodes]
    partitioner: Partitioner
    _named: dict[Nodes, NamedFunction] = field(default_factory=dict)
    _written: list[relax.Binding] | None = None

    def written(self, library: FunctionLibrary) -> list[relax.Binding]:
        """The bindings of the partitioned function; its external functions are added to a library."""
        named = {each.nodes: self._add(each, library) for each in self._made()}
        stays = named.keys() == self._named.keys() and all(
            each.global_var.same_as(self._named[nodes].global_var) for nodes, each in named.items()
        )
        if self._written is None or not stays:
            callees = {nodes: each.global_var for nodes, each in named.items()}
            (scope,) = self.partitioner.graph.scopes
            self._written = list(self.partitioner.bindings(self.units, scope, callees, lambda value: value))
        self._named = named
        return self._written

    def _made(self) -> list[MadeRegion]:
        """The external functions, in the order of their first nodes."""
        made = (self.partitioner.made.get(unit) for unit in self.units)
        return sorted((each for each in made if each is not None), key=lambda each: each.nodes)

    def _add(self, each: MadeRegion, library: FunctionLibrary) -> NamedFunction:
        caller, before = self.partitioner.graph.name, self._named.get(each.nodes)
        added = library.add(each.external, each.target, caller, each.shares, each.place, before=before)
        return library.named(added)
