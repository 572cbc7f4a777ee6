"""one_at_a_time: functions that run in one thread at a time, because TVM shares state between all threads.

`relax.BlockBuilder` keeps the open builders of a process in one list, and `te.tag_scope` the open tag in one
variable. A thread that builds or legalizes a function beside another one would emit into its function.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import ClassVar, ParamSpec, TypeVar

__all__ = ["one_at_a_time"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class _Turn:
    """Whoever holds the lock may use what threads share."""

    lock: ClassVar[RLock] = RLock()

    @staticmethod
    def renew() -> None:
        """Replace the lock in the child of a fork, where no thread would release it."""
        _Turn.lock = RLock()


os.register_at_fork(after_in_child=_Turn.renew)


def one_at_a_time(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Decorator: of all functions with it, one thread at a time runs one; it may call others."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with _Turn.lock:
            return function(*args, **kwargs)

    return call
