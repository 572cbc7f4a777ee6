"""A recipe: a small graph as plain data, to be printed, kept, shrunk and made into a Relax function."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

__all__ = ["SOURCES", "TUPLES", "Dim", "Node", "Recipe", "extent_of", "of_type", "resolved"]

Dim: TypeAlias = "int | str"
"""An extent: a number, or a sum or product such as ``"n"`` or ``"(n*2)"`` of symbols and numbers."""

TUPLES = ("split", "nn.batch_norm", "meshgrid", "nn.dropout", "median_along", "recurrent.loop")
"""Ops whose result is a tuple; only fields of it are used."""

SOURCES = ("input", "constant")
"""Nodes that compute nothing; their attribute ``kind`` says which values they have."""

TOKEN = re.compile(r"\d+|[a-z]\w*|[()+*-]")


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a graph.

    Attributes
    ----------
    op
        ``"input"``, ``"constant"``, ``"field"`` of a tuple, or the name of a Relax op without ``relax.``.
    operands
        The numbers of the nodes that it is computed from.
    attrs
        The attributes of the op.
    shape
        Its extents; of a tuple, those of the first field.
    dtype
        What its elements are.
    """

    op: str
    operands: tuple[int, ...]
    attrs: Mapping[str, Any]
    shape: tuple[Dim, ...]
    dtype: str = "float32"

    @property
    def is_source(self) -> bool:
        """Whether it is an input or a constant."""
        return self.op in SOURCES


@dataclass(frozen=True, slots=True)
class Recipe:
    """A graph.

    Attributes
    ----------
    nodes
        Its values, each behind its operands.
    results
        The numbers of the nodes that leave it.
    calls
        For each call, the values of the symbols; a graph without symbols is called with ``{}``.
    seed
        Of the values of its inputs and constants.
    """

    nodes: tuple[Node, ...]
    results: tuple[int, ...]
    calls: tuple[Mapping[str, int], ...] = field(default=({},))
    seed: int = 0

    @property
    def op_count(self) -> int:
        """How many nodes compute something."""
        return sum(1 for node in self.nodes if not node.is_source and node.op != "field")

    def to_json(self) -> str:
        """The recipe as one line of JSON."""
        nodes = [[n.op, list(n.operands), dict(n.attrs), list(n.shape), n.dtype] for n in self.nodes]
        return json.dumps(
            {"nodes": nodes, "results": list(self.results), "calls": list(self.calls), "seed": self.seed}
        )

    @staticmethod
    def from_json(text: str) -> Recipe:
        """The recipe that `to_json` has written."""
        given = json.loads(text)
        nodes = (
            Node(op, tuple(operands), attrs, tuple(shape), dtype)
            for op, operands, attrs, shape, dtype in given["nodes"]
        )
        return Recipe(tuple(nodes), tuple(given["results"]), tuple(given["calls"]), given["seed"])

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for number, node in enumerate(self.nodes):
            attrs = [f"{name}={value}" for name, value in node.attrs.items()]
            given = ", ".join([*(f"%{operand}" for operand in node.operands), *attrs])
            yield f"%{number} = {node.op}({given}): {_shape_text(node)}"
        yield "return " + ", ".join(f"%{number}" for number in self.results)
        if any(self.calls):
            yield "called with " + ", then ".join(str(dict(call)) for call in self.calls)

    @property
    def skeleton(self) -> str:
        """What two graphs have in common that fail for the same reason: ops and how they hang together."""
        parts = (
            "{}({})".format("in" if node.is_source else node.op, ",".join(map(str, node.operands)))
            for node in self.nodes
        )
        return " ".join(parts)


def of_type(recipe: Recipe, dtype: str) -> Recipe:
    """The same graph with elements of another type in the place of float32."""
    return replace(recipe, nodes=tuple(_of_type(node, dtype) for node in recipe.nodes))


def _of_type(node: Node, dtype: str) -> Node:
    attrs = {name: dtype if value == "float32" else value for name, value in node.attrs.items()}
    return replace(node, attrs=attrs, dtype=dtype if node.dtype == "float32" else node.dtype)


def _shape_text(node: Node) -> str:
    return f"{node.dtype}({', '.join(map(str, node.shape))})"


def extent_of(dim: Dim, symbols: Mapping[str, int]) -> int:
    """The value of an extent.

    >>> extent_of("((n*2)+1)", {"n": 3})
    7
    """
    return dim if isinstance(dim, int) else resolved(dim, symbols)


def resolved(dim: str, symbols: Mapping[str, Any]) -> Any:
    """An extent computed from what the symbols stand for, numbers or expressions alike."""
    tokens = TOKEN.findall(dim)
    position = 0

    def term() -> Any:
        nonlocal position
        token = tokens[position]
        position += 1
        if token != "(":
            return int(token) if token.isdigit() else symbols[token]
        left = term()
        operator = tokens[position]
        position += 1
        right = term()
        position += 1  # the closing bracket
        return left * right if operator == "*" else left + right if operator == "+" else left - right

    return term()
