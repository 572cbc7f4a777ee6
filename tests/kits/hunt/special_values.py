"""Whether a call computes with NaN or infinity, which the kernels of some engines are not made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from kits.dense_graphs.reference import Evaluation
from kits.dense_graphs.values import Noise, Value, source

__all__ = ["has_special_value"]


def has_special_value(mod: tvm.IRModule, inputs: Sequence[np.ndarray]) -> bool:
    """Whether an input, or a value that is computed of them, holds NaN or infinity."""
    walk = _Walk(mod)
    given = [source(array) for array in inputs]
    with np.errstate(all="ignore"):
        walk.function(mod["main"], given)
    return walk.found or any(map(_is_special, given))


def _is_special(value: Any) -> bool:
    return isinstance(value, Value) and value.is_float and not np.isfinite(value.clean).all()


class _Walk(Evaluation):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod, Noise(np.random.default_rng(0)))
        self.found = False

    def call(self, call: relax.Call, scope: Mapping[Any, Any]) -> Any:
        result = super().call(call, scope)
        self.found |= any(map(_is_special, result if isinstance(result, tuple) else (result,)))
        return result
