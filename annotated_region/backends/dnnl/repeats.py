"""Folds the blocks of nodes that a region repeats, so that their tables are written once.

::

    a b c d b c d b c d e     =>     a e, and a repeat behind a: "b c d", three times

The runtime expands repeats when a library is loaded (`runtime/repeats.h`), to exactly the tables that were
folded. Blocks are equal if their nodes differ only in operands. `Graph.compact` numbers tensors in the order
of the nodes, so the tensors that equal blocks add differ by a shift, as do the numbers of their constants.
Any other tensor that a block reads, such as the result of the previous block or a mask, is an argument, given
for each repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from annotated_region.backends.dnnl.blocks import BlockRun, numbered, runs
from annotated_region.backends.dnnl.graph import Node, Tensor, TensorId

__all__ = ["Folded", "Repeat", "fold", "unfold"]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A block of nodes, and the operands of each repetition.

    Attributes
    ----------
    first_tensor, first_node
        The place of the first repetition in the graph.
    tensors
        The tensors that the first repetition adds: constants and results.
    nodes
        The nodes. They number the arguments first, then the tensors that the block adds.
    step
        The distance between the numbers of a constant in successive repetitions.
    arguments
        For each repetition its arguments, which are tensors of the graph.
    """

    first_tensor: TensorId
    first_node: int
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    step: int
    arguments: tuple[tuple[TensorId, ...], ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """A graph: its repeats, and what is not part of them, in order."""

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    repeats: tuple[Repeat, ...]


def fold(tensors: Sequence[Tensor], nodes: Sequence[Node], constants: Mapping[str, int]) -> Folded:
    """Fold what a graph repeats.

    Parameters
    ----------
    tensors, nodes
        The graph; its extents and parameters are numbers, so that equal ones have the same text.
    constants
        The numbers of the constants, by name, in order.

    Notes
    -----
    The time is that of `blocks.runs`.
    """
    graph = _Blocks(tensors, nodes, constants)
    repeats = tuple(map(graph.repeat, runs(numbered(graph.keys())))) if graph.is_ordered() else ()
    folded = Folded(*graph.without(repeats), repeats)
    assert unfold(folded, tuple(constants)) == (list(tensors), list(nodes))
    return folded


def unfold(folded: Folded, constants: Sequence[str]) -> tuple[list[Tensor], list[Node]]:
    """The graph that was folded, expanded as by the runtime; `constants` are the names, in order."""
    numbers = {name: number for number, name in enumerate(constants)}
    other_tensors, other_nodes = iter(folded.tensors), iter(folded.nodes)
    tensors, nodes = list[Tensor](), list[Node]()

    def moved(tensor: Tensor, shift: int) -> Tensor:
        if not isinstance(tensor.source, str):
            return tensor
        return replace(tensor, source=constants[numbers[tensor.source] + shift])

    for repeat in folded.repeats:
        tensors += [next(other_tensors) for _ in range(repeat.first_tensor - len(tensors))]
        nodes += [next(other_nodes) for _ in range(repeat.first_node - len(nodes))]
        for time, arguments in enumerate(repeat.arguments):
            names = [*arguments, *range(len(tensors), len(tensors) + len(repeat.tensors))]
            tensors += [moved(tensor, time * repeat.step) for tensor in repeat.tensors]
            nodes += [
                replace(node.with_operands(names.__getitem__), output=names[node.output])
                for node in repeat.nodes
            ]
    return [*tensors, *other_tensors], [*nodes, *other_nodes]


class _Blocks:
    """A graph in which each node adds the tensors between the previous result and its own, inclusive.

    The first node adds the constants that only it reads, and its result.
    """

    def __init__(
        self, tensors: Sequence[Tensor], nodes: Sequence[Node], constants: Mapping[str, int]
    ) -> None:
        self.tensors = tensors
        self.nodes = nodes
        self.constants = constants
        self.begins = [node.output + 1 for node in nodes]  # the first tensor that each node adds
        self.begins.insert(0, self.leading())

    def leading(self) -> int:
        """The number of tensors before those that the first node adds: inputs, and shared constants."""
        if not self.nodes:
            return 0
        others = {tensor for node in self.nodes[1:] for tensor in node.operands}
        count = self.nodes[0].output
        while count and self.tensors[count - 1].is_constant and count - 1 not in others:
            count -= 1
        return count

    def is_ordered(self) -> bool:
        """Whether the results are numbered in the order of the nodes."""
        return all(before < after for before, after in pairwise(self.begins))

    def added(self, first: int, count: int) -> Sequence[Tensor]:
        """The tensors that `count` nodes add."""
        return self.tensors[self.begins[first] : self.begins[first + count]]

    def keys(self) -> list[object]:
        """A key for each node, equal for nodes that differ only in operands, and by a shift of constants."""
        last = max(map(self.number, self.tensors[: self.begins[0]]), default=-1)
        found: list[object] = []
        for index, node in enumerate(self.nodes):
            added: list[object] = []
            for tensor in self.added(index, 1):
                source: int | str | None = tensor.source
                if tensor.is_constant:
                    source, last = f"constant {self.number(tensor) - last:+}", self.number(tensor)
                added.append((tensor.shape, source, tensor.dtype, tensor.half))
            # As text, because 0.0 equals -0.0.
            blank = replace(node.with_operands(lambda _: 0), output=0)
            found.append((repr(blank), *added))
        return found

    def repeat(self, run: BlockRun) -> Repeat:
        """The repeat that replaces the whole blocks of a run."""
        columns = self.columns(run)
        places = [self.place(column, run) for column in columns]
        outside = [column for column, place in zip(columns, places, strict=True) if place is None]
        arguments = {column: number for number, column in enumerate(dict.fromkeys(outside))}
        count, begin = len(arguments), self.begins[run.first]
        operands = iter(
            arguments[column] if place is None else count + place
            for column, place in zip(columns, places, strict=True)
        )
        nodes = tuple(
            replace(node.with_operands(lambda _: next(operands)), output=count + node.output - begin)
            for node in self.nodes[run.first : run.first + run.length]
        )
        by_time = tuple(tuple(column[time] for column in arguments) for time in range(run.times))
        added = tuple(self.added(run.first, run.length))
        return Repeat(begin, run.first, added, nodes, self.step(run), by_time)

    def columns(self, run: BlockRun) -> list[tuple[TensorId, ...]]:
        """For each operand in a block, that operand in all repetitions."""
        firsts = range(run.first, run.end, run.length)
        operands = (
            [tensor for node in self.nodes[first : first + run.length] for tensor in node.operands]
            for first in firsts
        )
        return list(zip(*operands, strict=True))

    def place(self, column: tuple[TensorId, ...], run: BlockRun) -> int | None:
        """The place of an operand among the tensors that a repetition adds; None for an argument."""
        begins = self.begins[run.first : run.end : run.length]
        places = {tensor - begin for tensor, begin in zip(column, begins, strict=True)}
        place = places.pop()
        is_inside = not places and 0 <= place < len(self.added(run.first, run.length))
        return place if is_inside else None

    def step(self, run: BlockRun) -> int:
        """The distance between the numbers of a constant in successive repetitions."""
        first, second = (
            next((self.number(each) for each in added if each.is_constant), 0)
            for added in (self.added(run.first + shift, run.length) for shift in (0, run.length))
        )
        return second - first

    def number(self, tensor: Tensor) -> int:
        """The number of a constant; -1 for any other tensor."""
        return self.constants[tensor.source] if isinstance(tensor.source, str) else -1

    def without(self, repeats: Sequence[Repeat]) -> tuple[tuple[Tensor, ...], tuple[Node, ...]]:
        """The tensors and nodes outside of repeats."""
        tensors, nodes = list(self.tensors), list(self.nodes)
        for repeat in reversed(repeats):
            times = len(repeat.arguments)
            del tensors[repeat.first_tensor : repeat.first_tensor + times * len(repeat.tensors)]
            del nodes[repeat.first_node : repeat.first_node + times * len(repeat.nodes)]
        return tuple(tensors), tuple(nodes)
