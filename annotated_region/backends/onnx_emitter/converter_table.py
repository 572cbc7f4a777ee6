"""The table from op names to converters, which `registry` fills and `emission` reads."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["CONVERTERS"]

CONVERTERS: dict[str, Callable[..., str | tuple[str | None, ...]]] = {}
