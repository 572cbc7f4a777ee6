"""Python classes that TVM's C++ half calls."""

from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

def derived_object(cls: _Class) -> _Class: ...
