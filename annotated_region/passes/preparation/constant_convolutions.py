"""Convolutions of constants, such as those of position encodings that depend on the size of an image alone.

Summed in double precision and rounded once, as the other float sums: compiled code has no specified order of
summation.
"""

from __future__ import annotations

import math

import numpy as np

from annotated_region.passes.preparation.constant_call import ConstantCall, Evaluator, kind_of
from annotated_region.passes.preparation.constant_reductions import LARGEST_PRODUCT

__all__ = ["CONVOLUTIONS"]


def _convolution(call: ConstantCall) -> np.ndarray | None:
    """Of the usual order of axes: batch, channels and space; output channels, input channels and space."""
    data, weight = call.args
    layouts = [call.attrs[name] for name in ("data_layout", "kernel_layout", "out_layout")]
    if {kind_of(data), kind_of(weight)} != {"f"} or [each[:2] for each in layouts] != ["NC", "OI", "NC"]:
        return None
    if math.prod(call.shape) * math.prod(weight.shape[1:]) > LARGEST_PRODUCT:
        return None
    windows = _windows(call, data.astype(np.float64), weight.shape[2:])
    groups = call.attrs["groups"]
    apart = windows.reshape(data.shape[0], groups, weight.shape[1], *windows.shape[2:])
    kernels = weight.astype(np.float64).reshape(groups, -1, *weight.shape[1:])
    # For each group: channels and places of a window times those of a kernel.
    space = range(2, weight.ndim)
    summed = ([1, *(axis + len(space) for axis in space)], [1, *space])
    parts = [np.tensordot(apart[:, group], kernels[group], summed) for group in range(groups)]
    return np.moveaxis(np.concatenate(parts, -1), -1, 1)


def _windows(call: ConstantCall, data: np.ndarray, kernel: tuple[int, ...]) -> np.ndarray:
    """The places of the result on the axes behind the channels, and those of the kernel on the last ones."""
    rank = len(kernel)
    padding, strides, dilation = (call.attrs[name] for name in ("padding", "strides", "dilation"))
    padded = np.pad(data, [(0, 0), (0, 0), *zip(padding[:rank], padding[rank:], strict=True)])
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, rank + 2)))
    steps = [slice(None, None, int(step)) for step in (*strides, *dilation)]
    strided: np.ndarray = windows[(slice(None), slice(None), *steps)]
    return strided


CONVOLUTIONS: dict[str, Evaluator] = {f"relax.nn.conv{rank}d": _convolution for rank in (1, 2, 3)}
