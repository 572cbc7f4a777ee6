"""What TensorRT claims: the pattern table that TVM ships for it, as composites of the same names."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import tvm.relax.backend.contrib.tensorrt  # fills TVM's pattern registry
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix
from tvm.relax.transform import PatternCheckContext

from annotated_region.backend import register_backend
from annotated_region.rules import register_pattern

__all__ = ["register_patterns", "unavailable"]

TARGET = "tensorrt"
DTYPES = ("float32", "float16", "int32", "int64", "bool")


def unavailable() -> str | None:
    """Why TensorRT regions cannot run here, with the remedy; None if they can."""
    if find_spec("tensorrt") is None:
        return "TensorRT is not installed; on a machine with an NVIDIA GPU: pip install tensorrt"
    return None


def register_patterns() -> None:
    """Register TVM's pattern table, each pattern with a check of the data types in front of its own."""
    for fusion in get_patterns_with_prefix(TARGET):
        register_pattern(
            TARGET, fusion.name, fusion.pattern, _check_for(fusion), dict(fusion.annotation_patterns.items())
        )


def _check_for(fusion: Any) -> Any:
    def check(context: PatternCheckContext) -> bool | str:
        root = context.matched_expr
        for dtype in _dtypes(root.ty):
            if dtype not in DTYPES:
                return f"data type {dtype} is none of {', '.join(DTYPES)}"
        return bool(fusion.check(context)) if fusion.check is not None else True

    return check


def _dtypes(ty: tvm.ir.Type) -> list[str]:
    if isinstance(ty, tvm.ir.TupleType):
        return [dtype for part in ty.fields for dtype in _dtypes(part)]
    return [str(ty.dtype)] if isinstance(ty, relax.TensorType) and ty.dtype is not None else []


register_backend(TARGET, unavailable=unavailable, bind_constants=True)
register_patterns()
