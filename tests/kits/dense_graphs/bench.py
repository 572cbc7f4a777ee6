"""A recipe that grows: choices from a seed, sources, nodes, and the operands that idioms ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from kits.dense_graphs.recipe import TUPLES, Dim, Node, Recipe

__all__ = ["Bench", "added", "times", "volume"]

T = TypeVar("T")
EXTENTS = (1, 2, 3, 4, 5, 8, 16, 17)
CHANCES = (0.36, 0.22, 0.2, 0.09, 0.03, 0.05, 0.03, 0.02)
LARGEST = 3000  # elements of a tensor
HIGHEST_RANK = 8


def times(a: Dim, b: Dim) -> Dim:
    """The product of two extents."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return b if a == 1 else a if b == 1 else f"({a}*{b})"


def added(a: Dim, b: Dim) -> Dim:
    """The sum of two extents."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else a if b == 0 else f"({a}+{b})"


def volume(shape: Sequence[Dim]) -> int:
    """How many elements a tensor has, if no symbol is above three."""
    count = 1
    for dim in shape:
        count *= dim if isinstance(dim, int) else 3
    return count


MASKS = ("hidden", "visible", "lowered", "lowest", "infinite", "undefined", "sunk", "zeros")
"""Kinds of values that only some ops may read: infinite ones, and such as float32 has nothing beside."""


def _is_ordinary(node: Node) -> bool:
    return node.attrs.get("value") is None and node.attrs.get("kind") not in MASKS


@dataclass(slots=True)
class Bench:
    """What idioms work with.

    Attributes
    ----------
    rng
        Where choices come from.
    nodes
        The graph so far.
    positive
        Values that are above zero and not close to it.
    symbol
        The symbolic extent of the graph, if it has one.
    other
        A second one, if it has two.
    special
        Values that no idiom but their own may read.
    """

    rng: np.random.Generator
    symbol: str | None = None
    other: str | None = None
    nodes: list[Node] = field(default_factory=list)
    positive: set[int] = field(default_factory=set)
    whole: bool = False
    special: set[int] = field(default_factory=set)

    # --- choices

    def chance(self, part: float) -> bool:
        """True in a part of all cases."""
        return bool(self.rng.random() < part)

    def one_of(self, choices: Sequence[T]) -> T:
        """One of them."""
        return choices[int(self.rng.integers(len(choices)))]

    def number(self, low: int, high: int) -> int:
        """A number between two, which it may be."""
        return int(self.rng.integers(low, high + 1))

    def extent(self) -> int:
        """An extent, mostly 1, 2 or 3."""
        return int(self.rng.choice(EXTENTS, p=CHANCES))

    def shape(self, rank: int) -> tuple[Dim, ...]:
        """Extents of a new tensor; one may be the symbol, and another one the second symbol."""
        extents: list[Dim] = [self.extent() for _ in range(rank)]
        while volume(extents) > LARGEST:
            extents[self.number(0, rank - 1)] = 2
        if self.symbol is not None and self.chance(0.7):
            extents[self.number(0, rank - 1)] = self.symbol
        if self.other is not None and self.chance(0.5):
            extents[self.number(0, rank - 1)] = self.other
        return tuple(extents)

    # --- nodes

    def source(
        self, shape: Sequence[Dim], kind: str = "normal", dtype: str = "", constant: float = 0.4
    ) -> int:
        """A new input, or a constant where `constant` says so and no extent is symbolic."""
        is_known = all(isinstance(dim, int) for dim in shape)
        op = "constant" if is_known and self.chance(constant) else "input"
        truth = kind in ("truth", "causal", "window")
        if self.whole and kind in ("normal", "unit"):
            kind = "whole"
        if self.whole and kind == "positive":
            kind = self.one_of(("counting", "power"))
        number = self.add(
            op, (), {"kind": kind, "key": len(self.nodes)}, shape, dtype or ("bool" if truth else "float32")
        )
        if kind in ("positive", "counting", "power", "square", "one"):
            self.positive.add(number)
        return number

    def scalar(self, value: float, rank: int = 0) -> int:
        """A constant number, as a tensor of a rank."""
        number = self.add("constant", (), {"value": value, "key": len(self.nodes)}, (1,) * rank)
        if value > 0:
            self.positive.add(number)
        return number

    def add(
        self,
        op: str,
        operands: Sequence[int],
        attrs: dict[str, Any],
        shape: Sequence[Dim],
        dtype: str = "float32",
    ) -> int:
        """A new node; its number."""
        self.nodes.append(Node(op, tuple(operands), attrs, tuple(shape), dtype))
        return len(self.nodes) - 1

    def unary(self, op: str, operand: int, **attrs: Any) -> int:
        """A function of one tensor, of its shape."""
        return self.add(op, (operand,), attrs, self.shape_of(operand), self.nodes[operand].dtype)

    def unary_of(self, op: str, operand: int, dtype: str) -> int:
        """A function of one tensor, of its shape, whose result is of another type."""
        return self.add(op, (operand,), {}, self.shape_of(operand), dtype)

    def unary_with(self, op: str, operand: int, others: Sequence[int], **attrs: Any) -> int:
        """A function of one tensor and parameters, of the tensor's shape."""
        return self.add(op, (operand, *others), attrs, self.shape_of(operand))

    def binary(self, op: str, left: int, right: int, dtype: str = "float32") -> int:
        """An op of two tensors that are broadcast."""
        shape = self.broadcast(self.shape_of(left), self.shape_of(right))
        assert shape is not None
        return self.add(op, (left, right), {}, shape, dtype)

    @property
    def op_count(self) -> int:
        """How many nodes compute something."""
        return sum(1 for node in self.nodes if not node.is_source and node.op != "field")

    def shape_of(self, number: int) -> tuple[Dim, ...]:
        """The extents of a value."""
        return self.nodes[number].shape

    @staticmethod
    def broadcast(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...] | None:
        """The shape of an op of two tensors; None if they do not fit."""
        rank = max(len(a), len(b))
        a = (1,) * (rank - len(a)) + tuple(a)
        b = (1,) * (rank - len(b)) + tuple(b)
        if any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
            return None
        return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))

    # --- operands

    def pick(self, fits: Callable[[Node], bool] = lambda _node: True, dtype: str = "float32") -> int | None:
        """A value of the graph, mostly one of the newest."""
        known = [
            number
            for number, node in enumerate(self.nodes)
            if node.dtype == dtype and node.op not in TUPLES and _is_ordinary(node) and fits(node)
            if number not in self.special
        ]
        known = [n for n in known if self.nodes[n].op != "constant"] or known
        if not known:
            return None
        if self.chance(0.6):
            return known[-1]
        return self.one_of(known[-4:] if self.chance(0.7) else known)

    def value(self, rank: int | None = None) -> int:
        """A float of a rank: one of the graph, or a new input."""
        found = self.pick(lambda node: len(node.shape) == rank if rank else len(node.shape) > 0)
        if found is None or self.chance(0.08):
            return self.source(self.shape(rank or self.number(1, 4)), constant=0.0)
        return found

    def recipe(self, results: Sequence[int], calls: Sequence[dict[str, int]], seed: int) -> Recipe:
        """What has grown."""
        return Recipe(tuple(self.nodes), tuple(results), tuple(calls), seed)
