"""The converters by the names of their ops. `registry` fills it in, `emission` looks them up."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["CONVERTERS"]

CONVERTERS: dict[str, Callable[..., str | tuple[str | None, ...]]] = {}
