"""Records which parts of a function the rewrites of preparation depend on.

Within `watching`, editors report to a `Borders` each definition that they look up, each read that they count
and each name that they request. A border between two parts is crossed when a rewrite on one side depends on
anything on the other side, except for the one binding that both sides share::

    lv7 = relu(lv6)
    lv8 = tanh(lv7)           the last binding of part 0; part 1 may look it up, but not `lv7`
    ------------------------  border 0
    lv9 = add(lv8, c)         part 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.passes.preparation.reads import reads_of

__all__ = ["Borders", "borders_watched", "watching"]

_watched: ContextVar[Borders | None] = ContextVar("annotated_region_borders", default=None)


class Borders:
    """The parts of a function, and the borders that rewrites crossed.

    Parameters
    ----------
    parts
        The bindings of each part, in program order. Of each part except the last, later parts read only the
        last variable.
    held
        Variables whose bindings may be looked up, but are not rewritten here.

    Attributes
    ----------
    crossed
        The borders that a rewrite crossed, by the index of the preceding part.
    names
        For each part, the names that its rewrites requested.
    """

    def __init__(self, parts: Sequence[Sequence[relax.Binding]], held: Sequence[relax.Var] = ()) -> None:
        self.crossed: set[int] = set()
        self.names: list[set[str]] = [set() for _ in parts]
        self.held = ExprSet(held)
        self._last = [part[-1].var for part in parts]
        self._part_of: ExprMap[int] = ExprMap(
            (binding.var, number) for number, part in enumerate(parts) for binding in part
        )

    def part_of(self, var: relax.Var) -> int | None:
        """The index of the part of a variable; None for a parameter."""
        return self._part_of.get(var)

    def define(self, var: relax.Var, like: relax.Var) -> None:
        """A rewrite created a variable for the part of another variable."""
        number = self._part_of.get(like)
        if number is not None:
            self._part_of.setdefault(var, number)

    def bound(self, binding: relax.Binding) -> None:
        """A binding was created or kept: its operands count as looked up."""
        for var, _field in reads_of(binding.value):
            self.asked(var, binding.var)

    def asked(self, about: relax.Var, by: relax.Var | None) -> None:
        """A rewrite of a variable looked up the value of another one; None stands for the editor itself."""
        here, there = None if by is None else self._part_of.get(by), self._part_of.get(about)
        if here is None or there is None or here == there:
            return
        is_shared = there < here and self._last[there].same_as(about)
        first, last = min(here, there) + is_shared, max(here, there)
        self.crossed.update(range(first, last))

    def counted(self, about: relax.Var, by: relax.Var | None) -> None:
        """A rewrite of a variable counted the reads of another one."""
        here, there = None if by is None else self._part_of.get(by), self._part_of.get(about)
        if there is None:
            self.crossed.update(range(len(self._last)))  # parameters are read everywhere
        elif here == there and self._last[there].same_as(about):
            self.crossed.add(there)  # the next part reads it, too
        self.asked(about, by)

    def named(self, name: str, by: relax.Var) -> None:
        """A rewrite of a variable requested a name."""
        number = self._part_of.get(by)
        if number is not None:
            self.names[number].add(name)


@contextmanager
def watching(borders: Borders) -> Iterator[None]:
    """Within this context, editors report to `borders`."""
    token = _watched.set(borders)
    try:
        yield
    finally:
        _watched.reset(token)


def borders_watched() -> Borders | None:
    """The object that editors report to, if any."""
    return _watched.get()
