"""Pauses Python's cyclic garbage collector while many small objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused_collector"]


@contextmanager
def paused_collector() -> Iterator[None]:
    """No cyclic garbage collection inside the ``with`` block.

    A walk over a large function makes some hundred thousand tuples and lists that all stay. The
    collector looks at all of them again and again while their number grows, finds nothing to free,
    and takes longer than the walk itself. What is garbage without being part of a cycle is freed as
    always.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
