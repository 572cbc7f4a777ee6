"""Maps keyed by expressions: by which object an expression is, not by what it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

__all__ = ["ExprMap", "ExprSet"]

V = TypeVar("V")
D = TypeVar("D")


class ExprMap(Generic[V]):
    """A map from expressions (variables, constants, ops, blocks) to values, in order of insertion.

    TVM hands out a new Python object each time that it is asked for a node, and equality of such objects
    calls back into Python, so the key is the address of the node, which is its hash. The address is free for
    another node as soon as nothing holds the first. That is why a map holds its keys: an address that it
    knows belongs to the node that was put in.

    Parameters
    ----------
    entries
        Pairs of an expression and a value.

    Notes
    -----
    O(1) for each access.

    Examples
    --------
    >>> from tvm import relax
    >>> var = relax.Var("x", relax.ShapeType(ndim=2))
    >>> names = ExprMap([(var, "x")])
    >>> names[var], names.get(relax.Var("x", relax.ShapeType(ndim=2)))
    ('x', None)
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[object, V]] = ()) -> None:
        self._entries: dict[int, tuple[object, V]] = {hash(expr): (expr, value) for expr, value in entries}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        """The expressions, in the order in which they were put in."""
        return (expr for expr, _value in self._entries.values())

    def __contains__(self, expr: object) -> bool:
        return hash(expr) in self._entries

    def __getitem__(self, expr: object) -> V:
        """The value of an expression; `KeyError` if it has none."""
        return self._entries[hash(expr)][1]

    def __setitem__(self, expr: object, value: V) -> None:
        self._entries[hash(expr)] = (expr, value)

    @overload
    def get(self, expr: object) -> V | None: ...
    @overload
    def get(self, expr: object, default: D) -> V | D: ...
    def get(self, expr: object, default: D | None = None) -> V | D | None:
        """The value of an expression, or `default`."""
        entry = self._entries.get(hash(expr))
        return default if entry is None else entry[1]

    def setdefault(self, expr: object, value: V) -> V:
        """The value of an expression; `value`, from now on, if it had none."""
        return self._entries.setdefault(hash(expr), (expr, value))[1]

    def values(self) -> Iterator[V]:
        """The values, in the order in which their expressions were put in."""
        return (value for _expr, value in self._entries.values())

    def discard(self, expr: object) -> None:
        """Forget an expression, if it is known."""
        self._entries.pop(hash(expr), None)


class ExprSet:
    """A set of expressions, in order of insertion; what `ExprMap` says of its keys holds here."""

    __slots__ = ("_held",)

    def __init__(self, exprs: Iterable[object] = ()) -> None:
        self._held: dict[int, object] = {hash(expr): expr for expr in exprs}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held.values())

    def __contains__(self, expr: object) -> bool:
        return hash(expr) in self._held

    def add(self, expr: object) -> None:
        """Put an expression in."""
        self._held[hash(expr)] = expr
