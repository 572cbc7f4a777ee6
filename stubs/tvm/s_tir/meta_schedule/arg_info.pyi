"""Used by benchmarks and tests alone, and left without types."""

from typing import Any

def __getattr__(name: str) -> Any: ...
