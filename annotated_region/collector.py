"""Pauses Python's cyclic garbage collector while many small objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused_collector"]


@contextmanager
def paused_collector() -> Iterator[None]:
    """No cyclic garbage collection inside the ``with`` block.

    A walk over a large function allocates some hundred thousand tuples and lists that all stay alive. The
    collector would traverse them again and again as their number grows, free nothing, and take longer than
    the walk itself. Reference counting still frees everything that is not part of a cycle.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
