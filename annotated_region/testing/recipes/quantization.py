"""Recipes of quantize and dequantize: per tensor or per channel, with or without zero points.

Scales are powers of two, and the quantized values are new inputs: otherwise rounding differences of the
division or of computed values could legitimately change the quantized integer by one.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import EXTENTS, Recipe, Workbench, extents_of, rank_of

__all__ = ["recipes"]


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {"relax.quantize": _quantize, "relax.dequantize": _dequantize}


def _quantize(bench: Workbench) -> relax.Expr | None:
    if bench.dtype != "float32":
        return None
    value = bench.tensor(bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4)))
    dtype = bench.draw(st.sampled_from(("int8", "uint8")))
    scale, zero, axis = _parameters(bench, value, dtype)
    return relax.op.quantize(value, scale, zero, axis, dtype)


def _dequantize(bench: Workbench) -> relax.Expr | None:
    dtype = bench.draw(st.sampled_from(("int8", "uint8")))
    value = bench.value(dtype=dtype)
    if value is None:
        return None
    scale, zero, axis = _parameters(bench, value, dtype)
    return relax.op.dequantize(value, scale, zero, axis, "float32")


def _parameters(bench: Workbench, value: relax.Expr, dtype: str) -> tuple[relax.Expr, relax.Expr, int]:
    """Scales, zero points and their channel axis."""
    axis = bench.draw(st.integers(0, rank_of(value) - 1))
    count = extents_of(value)[axis]
    shape = bench.draw(st.sampled_from(((), (count,))))
    powers = bench.draw(st.integers(3, 5)) + np.arange(count) % 2
    least = 0 if dtype == "uint8" else -7
    zeros = least + np.arange(count) * bench.draw(st.integers(0, 3)) % 15
    chosen = slice(None) if shape else 0
    scale = relax.const((0.5**powers)[chosen].astype("float32"))
    return scale, relax.const(zeros[chosen].astype(dtype)), axis
