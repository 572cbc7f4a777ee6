"""Registers converters: functions that write an op of Relax as operators of ONNX."""

from __future__ import annotations

from collections.abc import Callable

from annotated_region.backends.onnx_emitter.converter_table import CONVERTERS
from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.targets.op_view import OpView

__all__ = ["Converter", "converted_ops", "converter"]

Converter = Callable[[Emission, OpView], str | tuple[str | None, ...]]
"""Emits one op; returns its result, or its results where it has several (None: not made). May decline."""

_INNER: set[str] = set()


def converter(*names: str, alone: bool = True) -> Callable[[Converter], Converter]:
    """Decorator: register the converter of the ops called `names`; the last registration wins.

    An op that makes sense inside a composite only, because no region can return its result, is not to be
    claimed `alone`.
    """

    def register(convert: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(names, convert))
        (_INNER.difference_update if alone else _INNER.update)(names)
        return convert

    return register


def converted_ops() -> tuple[str, ...]:
    """The names of all ops that can be claimed alone, in order of registration."""
    return tuple(name for name in CONVERTERS if name not in _INNER)
