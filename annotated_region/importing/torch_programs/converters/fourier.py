"""Fourier transforms as products with the matrices of their cosines and sines.

A row of ``n`` numbers takes ``n`` products for each frequency, where a fast transform takes a few; for the
lengths that models have (windows of sound, tokens, small images), targets compute such products in little
time. The matrices are computed in float64 and rounded once; those of symbolic axes in each call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.shared_ops.axis_products import product_along
from annotated_region.importing.shared_ops.fourier_matrices import (
    Factor,
    fourier_matrices,
    number_of_elements,
    require_short,
)
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
from annotated_region.importing.torch_programs.node_origins import node_origin
from annotated_region.origins import bounded
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []


@converts_complex("_fft_r2c.default")
def of_real_numbers(node: TorchNode) -> Pair:
    """The spectrum of real numbers, of which the last axis may have the first half alone."""
    data, axes = node.tensor(0), _axes(node)
    *others, last = axes
    extent = _extent(data, last)
    _require_short(node, extent)
    count = extent // 2 + 1 if node.argument(3, "onesided") else extent
    factor = _factor(node, [_extent(data, axis) for axis in axes])
    waves = fourier_matrices(node.emit, extent, count, extent, dtype_of_tensor(data), factor)
    straight, crossed = (product_along(node.emit, data, last, matrix) for matrix in waves)
    value = Pair(straight, node.emit(relax.op.negative(crossed)))
    return reduce(lambda pair, axis: _transformed(node, pair, axis, -1.0, 1.0), others, value)


@converts_complex("_fft_c2c.default")
def of_complex_numbers(node: TorchNode) -> Pair:
    """The spectrum of complex numbers, or the numbers of a spectrum."""
    value, axes = pair_of(node, 0), _axes(node)
    sign = -1.0 if node.argument(3, "forward") else 1.0
    factors: list[Factor] = [
        _factor(node, [_extent(value.real, axis) for axis in axes]),
        *[1.0] * (len(axes) - 1),
    ]
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
    extents = [*(_extent(value.real, axis) for axis in others), extent]
    factor = _factor(node, extents)
    if not isinstance(factor, float):
        raise ModelError(f"the numbers of a spectrum of the symbolic extents {extents} are not supported")
    _require_short(node, extent)
    angles = 2 * np.pi * (np.outer(np.arange(extent // 2 + 1), np.arange(extent)) % extent) / extent
    shares = np.full((len(angles), 1), 2.0)
    shares[0] = 1.0
    if extent % 2 == 0:
        shares[-1] = 1.0
    shares *= factor
    real, imaginary = (
        product_along(node.emit, part, last, relax.const(wave(angles) * shares, dtype_of_tensor(part)))
        for part, wave in ((value.real, np.cos), (value.imaginary, np.sin))
    )
    return node.emit(relax.op.subtract(real, imaginary))


def _transformed(node: TorchNode, value: Pair, axis: int, sign: float, factor: Factor) -> Pair:
    extent = _extent(value.real, axis)
    _require_short(node, extent)
    waves = fourier_matrices(node.emit, extent, extent, extent, dtype_of_tensor(value.real), factor)
    straight, crossed = (
        [product_along(node.emit, part, axis, matrix) for part in (value.real, value.imaginary)]
        for matrix in waves
    )
    less, more = (relax.op.add, relax.op.subtract) if sign < 0 else (relax.op.subtract, relax.op.add)
    return Pair(node.emit(less(straight[0], crossed[1])), node.emit(more(straight[1], crossed[0])))


def _require_short(node: TorchNode, length: Extent) -> None:
    require_short(node.importer.block_builder, length, bounded(node_origin(node.node)))


def _factor(node: TorchNode, extents: Sequence[Extent]) -> Factor:
    """The factor of the spectrum: 1, or the inverse of the number of places or of its root."""
    kind = int(str(node.argument(2, "normalization")))
    count = number_of_elements(node.emit, extents) if kind else 1.0
    if isinstance(count, float):
        return (1.0, 1 / math.sqrt(count), 1 / count)[kind]
    root = node.emit(relax.op.sqrt(count)) if kind == 1 else count
    return node.emit(relax.op.divide(relax.const(1.0, "float64"), root))


def _axes(node: TorchNode) -> list[int]:
    given = node.argument(1, "dim")
    assert isinstance(given, list)
    value = node.tensor(0)
    rank = len(extents_of_tensor(value.fields[0] if isinstance(value, relax.Tuple) else value))
    return [int(axis) % rank for axis in given]


def _extent(data: relax.Expr, axis: int) -> Extent:
    return extents_of_tensor(data)[axis]
