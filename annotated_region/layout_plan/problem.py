"""The planning problem in plain integers: nodes with options, values with weights.

Independent of TVM. Each node takes one of its options; an option states the storage of each value that it
reads or produces. A value costs its weight for each storage beyond the first:

    cost = sum over values of weight * (storages in use - 1) + sum over nodes of the cost of their options

so a transposed copy is charged once, whatever the number and order of its readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Choice", "LayoutProblem", "Node", "Option", "Use", "evaluate"]

Use = tuple[int, int]
"""A value and the storage in which it is used, as numbers."""

Choice = tuple[int, ...]
"""The option index of each node."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a node.

    Attributes
    ----------
    uses
        The values that it produces and reads, each with its storage; a value may occur twice.
    cost
        The cost of the option itself.
    """

    uses: frozenset[Use]
    cost: int = 0


Node = tuple[Option, ...]


@dataclass(frozen=True)
class LayoutProblem:
    """A planning problem.

    Attributes
    ----------
    weights
        The cost of each additional storage, for each value.
    nodes
        The options of each node, at least one. All options of a node use the same values, so whether a value
        is in use does not depend on the choice; the engine relies on that.
    """

    weights: tuple[int, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        """Validate the problem.

        Raises
        ------
        ValueError
            There is a negative cost, an unknown value, a node without options, or a node whose options use
            different values.
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
        """The storages of each value that are in use for every choice."""
        found: list[set[int]] = [set() for _ in self.weights]
        for node in self.nodes:
            for value, storage in frozenset.intersection(*(option.uses for option in node)):
                found[value].add(storage)
        return tuple(map(frozenset, found))

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The nodes with more than one option."""
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
