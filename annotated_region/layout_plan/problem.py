"""The planning problem as plain numbers: nodes with options, values with weights.

Nothing here knows TVM. Each node takes one of its options; an option says in which storage it makes or reads
each value it has to do with. A value costs its weight for each storage beyond the first:

    cost = sum over values of weight * (storages in use - 1) + sum over nodes of the cost of their options

so a transposed copy is paid once, however many nodes read it, whichever of them makes the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Choice", "LayoutProblem", "Node", "Option", "Use", "evaluate"]

Use = tuple[int, int]
"""A value, and the storage in which it is used, by number."""

Choice = tuple[int, ...]
"""For each node, the index of its option."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a node.

    Attributes
    ----------
    uses
        The values that it makes and reads, each with the storage; a value may come twice.
    cost
        What the option costs by itself.
    """

    uses: frozenset[Use]
    cost: int = 0


Node = tuple[Option, ...]


@dataclass(frozen=True)
class LayoutProblem:
    """Which option to take.

    Attributes
    ----------
    weights
        For each value, what each further storage costs.
    nodes
        The options of each node, at least one. All of them use the same values, so that a value is in use or
        not whatever is chosen: the engine counts on that.
    """

    weights: tuple[int, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        """Refuse numbers that do not describe a planning problem.

        Raises
        ------
        ValueError
            For a negative cost, an unknown value, a node without options, or one that may leave out a value.
        """
        if not all(self.nodes):
            raise ValueError("a node without options cannot run")
        options = [option for node in self.nodes for option in node]
        if min([*self.weights, *(option.cost for option in options)], default=0) < 0:
            raise ValueError("a plan's costs are not negative")
        if any(not 0 <= value < len(self.weights) for option in options for value, _ in option.uses):
            raise ValueError("an option uses a value that has no weight")
        if any(len({_values(option) for option in node}) > 1 for node in self.nodes):
            raise ValueError("the options of a node use different values")

    @cached_property
    def anchors(self) -> tuple[frozenset[int], ...]:
        """For each value, the storages that are in use whatever is chosen."""
        found: list[set[int]] = [set() for _ in self.weights]
        for node in self.nodes:
            for value, storage in frozenset.intersection(*(option.uses for option in node)):
                found[value].add(storage)
        return tuple(map(frozenset, found))

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The nodes that have a choice."""
        return tuple(index for index, node in enumerate(self.nodes) if len(node) > 1)


def _values(option: Option) -> frozenset[int]:
    return frozenset(value for value, _ in option.uses)


def evaluate(problem: LayoutProblem, choice: Sequence[int]) -> int:
    """The cost of a choice."""
    chosen = [node[index] for node, index in zip(problem.nodes, choice, strict=True)]
    storages: list[set[int]] = [set() for _ in problem.weights]
    for option in chosen:
        for value, storage in option.uses:
            storages[value].add(storage)
    copies = sum(
        weight * max(0, len(used) - 1) for weight, used in zip(problem.weights, storages, strict=True)
    )
    return copies + sum(option.cost for option in chosen)
