"""A line on the standard error with what is done and how much is left; only where that is a terminal.

A build enters `progress_line`. Code generators, which TVM calls, iterate over their functions with `shown`,
so that nothing about the line passes through TVM. In other threads, and outside of `progress_line`, nothing
is shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from annotated_region.printable import printable

__all__ = ["progress_bar", "progress_line", "show", "shown"]

Item = TypeVar("Item")
Draw: TypeAlias = Callable[[str, int], None]


@dataclass(slots=True)
class _Shown:
    """How the line is drawn, and how many of its steps have ended."""

    draw: Draw
    ended: int = 0


_current: ContextVar[_Shown | None] = ContextVar("progress_line", default=None)


@contextmanager
def progress_line(steps: int, wanted: bool = True) -> Iterator[None]:
    """Show the steps inside; nothing for less than two, or if the standard error is no terminal."""
    if not wanted or steps < 2 or sys.stderr is None or not sys.stderr.isatty():
        with _as_current(None):
            yield
        return
    with _drawn(steps) as draw, _as_current(_Shown(draw)):
        yield


@contextmanager
def progress_bar(task: str, total: int, wanted: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar with the remaining time of `total` steps, advanced by the yielded function; none for 0 steps, or
    if the standard error is not a terminal.
    """
    from rich import progress  # noqa: PLC0415 - see _drawn
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    if not total or not wanted or not console.is_terminal:
        yield lambda _done: None
        return
    text = progress.TextColumn("{task.description}")
    columns = (text, progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    with progress.Progress(*columns, console=console, transient=True) as bar:
        number = bar.add_task(task, total=total)
        yield lambda done: bar.advance(number, done)


@contextmanager
def _as_current(line: _Shown | None) -> Iterator[None]:
    token = _current.set(line)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def _drawn(steps: int) -> Iterator[Draw]:
    # rich takes a fifth of a second to import, which builds without a terminal do not spend.
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    left = TextColumn("{task.remaining:.0f} left")
    columns = (TextColumn("{task.description}"), BarColumn(), left)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=steps)

        def draw(step: str, ended: int) -> None:
            bar.update(
                task, description=f"compiling {escape(printable(step))}", completed=ended, refresh=True
            )

        yield draw


def show(step: str, ended: int = 0) -> None:
    """Show a step that begins, after at least `ended` others."""
    line = _current.get()
    if line is not None:
        line.ended = max(line.ended, ended)
        line.draw(step, line.ended)


def shown(items: Iterable[Item], name: Callable[[Item], str]) -> Iterator[Item]:
    """The items; each is a step that is shown until the next item is asked for."""
    line = _current.get()
    for item in items:
        show(name(item))
        yield item
        if line is not None:
            line.ended += 1
