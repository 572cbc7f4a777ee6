"""Pass instruments."""

from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

class PassInstrument: ...

def pass_instrument(pi_cls: _Class) -> _Class: ...
