"""Maps keyed by expressions, compared by identity, not by structure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

__all__ = ["ExprMap", "ExprSet"]

V = TypeVar("V")
D = TypeVar("D")


class ExprMap(Generic[V]):
    """A map from expressions (variables, constants, ops, blocks) to values, in order of insertion.

    TVM creates a new Python object for each access to a node, and comparing two such objects calls back
    into Python, so the key is the hash of the object, which is the address of the C++ node. An address can
    be reused once its node is freed, so the map keeps its keys alive: a known address is always that of the
    node that was inserted.

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
        """The expressions, in insertion order."""
        return (expr for expr, _value in self._entries.values())

    def __contains__(self, expr: object) -> bool:
        return hash(expr) in self._entries

    def __getitem__(self, expr: object) -> V:
        """The value of an expression; raises `KeyError` if it has none."""
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
        """The value of an expression; inserts `value` if it has none."""
        return self._entries.setdefault(hash(expr), (expr, value))[1]

    def values(self) -> Iterator[V]:
        """The values, in insertion order of their expressions."""
        return (value for _expr, value in self._entries.values())

    def discard(self, expr: object) -> None:
        """Remove an expression, if present."""
        self._entries.pop(hash(expr), None)


class ExprSet:
    """A set of expressions, in insertion order, with the keys of `ExprMap`."""

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
        """Insert an expression."""
        self._held[hash(expr)] = expr
