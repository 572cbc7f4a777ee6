"""The registry of converters: which function says an op of Relax in ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from annotated_region.targets.op_view import OpView

if TYPE_CHECKING:
    from annotated_region.backends.onnx_emitter.emission import Emission

__all__ = ["Converter", "converted_ops", "converter", "converter_of"]

Converter = Callable[["Emission", OpView], "str | tuple[str | None, ...]"]
"""Emits one op; returns its result, or its results where it has several (None: not made). May decline."""

_CONVERTERS: dict[str, Converter] = {}
_INNER: set[str] = set()


def converter(*names: str, alone: bool = True) -> Callable[[Converter], Converter]:
    """Decorator: register the converter of the ops called `names`; the last registration wins.

    An op that makes sense inside a composite only, because no region can return its result, is not to be
    claimed `alone`.
    """

    def register(convert: Converter) -> Converter:
        _CONVERTERS.update(dict.fromkeys(names, convert))
        (_INNER.difference_update if alone else _INNER.update)(names)
        return convert

    return register


def converter_of(name: str) -> Converter | None:
    """The converter of an op, or None."""
    return _CONVERTERS.get(name)


def converted_ops() -> tuple[str, ...]:
    """The names of all ops that can be claimed alone, in order of registration."""
    return tuple(name for name in _CONVERTERS if name not in _INNER)
