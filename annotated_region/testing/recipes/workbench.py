"""The interface of recipes: a graph under construction, random choices, and small helpers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from hypothesis import strategies as st
from tvm import relax

from annotated_region.tvm_adapter.types import fixed_extents, tensor_type

__all__ = ["DTYPES", "EXTENTS", "Recipe", "Workbench", "call_of", "extents_of", "rank_of"]

T = TypeVar("T")
EXTENTS = (1, 2, 3, 5, 8)
DTYPES = ("float32", "float16", "float64", "int32", "int64", "int8", "uint8", "bool")
"""The types that the kit generates; the first one is always tried."""


class Workbench(Protocol):
    """The interface between a recipe and the graph under construction."""

    @property
    def dtype(self) -> str:
        """The type of most values of the graph."""

    def draw(self, strategy: st.SearchStrategy[T]) -> T:
        """Draw from a Hypothesis strategy."""

    def value(self, rank: int | None = None, dtype: str = "") -> relax.Expr | None:
        """A value of the graph, usually the newest, with the given rank and type; None if there is none."""

    def tensor(
        self,
        shape: Sequence[int],
        *,
        positive: bool = False,
        unit: bool = False,
        below: int = 0,
        constant: bool = False,
        dtype: str = "",
    ) -> relax.Expr:
        """A new parameter of the graph, or a constant.

        Numbers are of order one. With `positive` they are bounded away from zero, with `unit` they lie within
        (-1, 1), and with `below` they are indices from zero up to that limit.
        """


Recipe: TypeAlias = Callable[[Workbench], relax.Expr | None]


def extents_of(value: relax.Expr) -> tuple[int, ...]:
    """The shape of a value; all shapes are static here."""
    return fixed_extents(value)


def rank_of(value: relax.Expr) -> int:
    """The rank of a value."""
    return tensor_type(value).ndim


def call_of(name: str) -> Callable[..., relax.Expr]:
    """TVM's Python function for an op, such as ``relax.op.nn.relu`` for ``relax.nn.relu``."""
    found: Any = relax.op
    for part in name.removeprefix("relax.").split("."):
        found = getattr(found, part)
    function: Callable[..., relax.Expr] = found
    return function
