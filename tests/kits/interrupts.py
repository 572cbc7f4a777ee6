"""Interrupts that tests raise in the middle of a run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["heard"]


@contextmanager
def heard() -> Iterator[None]:
    """Without the garbage collector: what one of its callbacks raises is lost, and Hypothesis has one."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
