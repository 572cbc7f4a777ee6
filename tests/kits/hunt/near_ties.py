"""Whether a call quantizes something close to a tie, which decides where an engine rounds otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from kits.dense_graphs.reference import Evaluation
from kits.dense_graphs.values import Noise, source

__all__ = ["has_near_tie"]

RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


def has_near_tie(mod: tvm.IRModule, inputs: Sequence[np.ndarray], margin: float) -> bool:
    """Whether the quotient of a quantization is within `margin` of the middle between two whole numbers.

    What lies beyond the numbers of the type by more than one has no middle: it stops at the last of them.
    """
    walk = _Walk(mod, margin)
    with np.errstate(all="ignore"):
        walk.function(mod["main"], [source(array) for array in inputs])
    return walk.found


class _Walk(Evaluation):
    def __init__(self, mod: tvm.IRModule, margin: float) -> None:
        super().__init__(mod, Noise(np.random.default_rng(0)))
        self.margin = margin
        self.found = False

    def call(self, call: relax.Call, scope: Mapping[Any, Any]) -> Any:
        if isinstance(call.op, tvm.ir.Op) and call.op.name == "relax.quantize":
            numbers, scale, zero = (self.value(argument, scope).clean for argument in call.args)
            self.look(np.asarray(numbers), np.asarray(scale), np.asarray(zero), call)
        return super().call(call, scope)

    def look(self, numbers: np.ndarray, scale: np.ndarray, zero: np.ndarray, call: relax.Call) -> None:
        """Note whether a quotient of one quantization is close to a tie."""
        along = [1] * numbers.ndim
        if scale.size > 1:
            along[call.attrs.axis] = -1
        quotient = numbers / (scale.reshape(along) if scale.size > 1 else scale.reshape(()))
        whole = quotient + (zero.reshape(along) if zero.size > 1 else zero.reshape(()))
        low, high = RANGES[str(call.ty.dtype)]
        inside = (whole > low - 1) & (whole < high + 1)
        distance = np.abs(quotient - np.floor(quotient) - 0.5)
        self.found |= bool((inside & (distance < self.margin)).any())
