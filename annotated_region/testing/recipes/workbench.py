"""What recipes work with: a graph that grows, choices that Hypothesis makes, and small helpers."""

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
"""The types whose values the kit makes; the first one is tried whatever the rules say."""


class Workbench(Protocol):
    """What a recipe works with."""

    @property
    def dtype(self) -> str:
        """The type of most values of the graph."""

    def draw(self, strategy: st.SearchStrategy[T]) -> T:
        """A choice, which Hypothesis makes, repeats and shrinks."""

    def value(self, rank: int | None = None, dtype: str = "") -> relax.Expr | None:
        """A value of the graph, mostly the newest one, of a rank and type if given; None if there is none."""

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

        Numbers are of order one. `positive` ones are far from zero, `unit` ones within (-1, 1), and those
        `below` a limit are whole numbers from zero on: indices.
        """


Recipe: TypeAlias = Callable[[Workbench], relax.Expr | None]


def extents_of(value: relax.Expr) -> tuple[int, ...]:
    """The shape of a value; shapes are numbers here."""
    return fixed_extents(value)


def rank_of(value: relax.Expr) -> int:
    """How many axes a value has."""
    return tensor_type(value).ndim


def call_of(name: str) -> Callable[..., relax.Expr]:
    """TVM's Python function for an op, such as ``relax.op.nn.relu`` for ``relax.nn.relu``."""
    found: Any = relax.op
    for part in name.removeprefix("relax.").split("."):
        found = getattr(found, part)
    function: Callable[..., relax.Expr] = found
    return function
