"""The elements of a tensor as a numpy array, without a copy where that is possible."""

from __future__ import annotations

import numpy as np
import tvm

__all__ = ["NUMPY_DTYPES", "array_of"]

# The dtypes native to numpy: tensors with these are read without a copy.
NUMPY_DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def array_of(tensor: tvm.runtime.Tensor) -> np.ndarray:
    """The elements; read-only, because the array may share the memory of the tensor."""
    is_shared = str(tensor.dtype) in NUMPY_DTYPES and tensor.device.type == "cpu"
    array = np.asarray(np.from_dlpack(tensor) if is_shared else tensor.numpy())
    array.flags.writeable = False
    return array
