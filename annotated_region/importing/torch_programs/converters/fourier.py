"""Fourier transforms along static axes, as products with the matrices of their cosines and sines.

A row of ``n`` numbers takes ``n`` products for each frequency, where a fast transform takes a few; for the
lengths that models have (windows of sound, tokens, small images), targets compute such products in little
time. The matrices are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.shared_ops.axis_products import product_along
from annotated_region.importing.torch_programs.converters.complex_numbers import (
    Pair,
    converts_complex,
    pair_of,
)
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)

__all__: list[str] = []


@converts_complex("_fft_r2c.default")
def of_real_numbers(node: TorchNode) -> Pair:
    """The spectrum of real numbers, of which the last axis may have the first half alone."""
    data, axes = node.tensor(0), _axes(node)
    *others, last = axes
    extent = _extent(data, last)
    count = extent // 2 + 1 if node.argument(3, "onesided") else extent
    angles = _angles(extent, count)
    factor = _factor(node, [_extent(data, axis) for axis in axes])
    value = Pair(
        _along(node, data, last, np.cos(angles) * factor), _along(node, data, last, -np.sin(angles) * factor)
    )
    return reduce(lambda pair, axis: _transformed(node, pair, axis, -1.0, 1.0), others, value)


@converts_complex("_fft_c2c.default")
def of_complex_numbers(node: TorchNode) -> Pair:
    """The spectrum of complex numbers, or the numbers of a spectrum."""
    value, axes = pair_of(node, 0), _axes(node)
    sign = -1.0 if node.argument(3, "forward") else 1.0
    factors = [_factor(node, [_extent(value.real, axis) for axis in axes]), *[1.0] * (len(axes) - 1)]
    for axis, factor in zip(axes, factors, strict=True):
        value = _transformed(node, value, axis, sign, factor)
    return value


@converts_complex("_fft_c2r.default")
def to_real_numbers(node: TorchNode) -> relax.Expr:
    """The real numbers of the first half of a spectrum; each frequency but the outermost counts twice."""
    value, axes, extent = pair_of(node, 0), _axes(node), node.argument(3, "last_dim_size")
    *others, last = axes
    if not isinstance(extent, int) or _extent(value.real, last) != extent // 2 + 1:
        raise ModelError(f"{extent} numbers of {_extent(value.real, last)} frequencies are not supported")
    for axis in others:
        value = _transformed(node, value, axis, 1.0, 1.0)
    angles = _angles(extent // 2 + 1, extent, extent)
    shares = np.full((len(angles), 1), 2.0)
    shares[0] = 1.0
    if extent % 2 == 0:
        shares[-1] = 1.0
    shares *= _factor(node, [*(_extent(value.real, axis) for axis in others), extent])
    real = _along(node, value.real, last, np.cos(angles) * shares)
    return node.emit(relax.op.subtract(real, _along(node, value.imaginary, last, np.sin(angles) * shares)))


def _transformed(node: TorchNode, value: Pair, axis: int, sign: float, factor: float) -> Pair:
    extent = _extent(value.real, axis)
    angles = _angles(extent, extent)
    cosines, sines = np.cos(angles) * factor, sign * np.sin(angles) * factor
    straight, crossed = (
        [_along(node, part, axis, matrix) for part in (value.real, value.imaginary)]
        for matrix in (cosines, sines)
    )
    return Pair(
        node.emit(relax.op.subtract(straight[0], crossed[1])),
        node.emit(relax.op.add(straight[1], crossed[0])),
    )


def _angles(rows: int, columns: int, extent: int | None = None) -> np.ndarray:
    """For each place and frequency the angle, by whole numbers as long as possible."""
    whole = rows if extent is None else extent
    products = np.outer(np.arange(rows), np.arange(columns)) % whole
    angles: np.ndarray = 2 * np.pi * products / whole
    return angles


def _factor(node: TorchNode, extents: list[int]) -> float:
    """The factor of the spectrum: 1, or the inverse of the number of places or of its root."""
    count = float(math.prod(extents))
    by_kind = (1.0, 1 / math.sqrt(count), 1 / count)
    return by_kind[int(str(node.argument(2, "normalization")))]


def _axes(node: TorchNode) -> list[int]:
    given = node.argument(1, "dim")
    assert isinstance(given, list)
    value = node.tensor(0)
    rank = len(extents_of_tensor(value.fields[0] if isinstance(value, relax.Tuple) else value))
    return [int(axis) % rank for axis in given]


def _extent(data: relax.Expr, axis: int) -> int:
    extent = extents_of_tensor(data)[axis]
    if not isinstance(extent, int):
        raise ModelError(f"a Fourier transform along the symbolic extent {extent} is not supported")
    return extent


def _along(node: TorchNode, data: relax.Expr, axis: int, matrix: np.ndarray) -> relax.Expr:
    return product_along(node.emit, data, axis, relax.const(matrix, dtype_of_tensor(data)))
