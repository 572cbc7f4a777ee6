"""The names that TVMScript's prefix stands for; TVM parses the functions in which they stand."""

from typing import Any

def __getattr__(name: str) -> Any: ...
