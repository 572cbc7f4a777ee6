"""Registers converters: functions that emit a Relax op as ONNX operators."""

from __future__ import annotations

from collections.abc import Callable

from annotated_region.backends.onnx_emitter.converter_table import CONVERTERS
from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.targets.op_view import OpView

__all__ = ["Converter", "converted_ops", "converter"]

Converter = Callable[[Emission, OpView], str | tuple[str | None, ...]]
"""Emits one op; returns its result or its results, None for one that is not computed. May decline."""

_INNER: set[str] = set()


def converter(*names: str, alone: bool = True) -> Callable[[Converter], Converter]:
    """Decorator: registers the converter of the ops `names`; the last registration wins.

    Not `alone`: the op is never claimed alone, only in composites, because no region can return its result.
    """

    def register(convert: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(names, convert))
        (_INNER.difference_update if alone else _INNER.update)(names)
        return convert

    return register


def converted_ops() -> tuple[str, ...]:
    """The names of all ops that can be claimed alone, in order of registration."""
    return tuple(name for name in CONVERTERS if name not in _INNER)
