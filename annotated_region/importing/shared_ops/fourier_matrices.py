"""The cosines and sines of a Fourier transform as matrices, also of a length that only a call tells.

The angle of a place and a frequency is ``2 pi (place * frequency mod length) / length``, so that there are as
many cosines as places: those of a symbolic length are computed in float64, rounded once, and read by places.

A matrix has as many elements as the square of the length, so that transforms of more than `LONGEST` places
are refused: at import, or in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul

import numpy as np
from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.functions.extent_checks import extent_difference
from annotated_region.tvm_adapter.arithmetic import Extent

__all__ = ["LONGEST", "Factor", "fourier_matrices", "number_of_elements", "require_short"]

LONGEST = 8192
"""The largest number of places of a transform: its matrices take half a gigabyte."""

Emit = Callable[[relax.Expr], relax.Expr]
Factor = float | relax.Expr
"""A number, or a tensor of float64 and rank 0."""


def fourier_matrices(
    emit: Emit, places: Extent, frequencies: Extent, length: Extent, dtype: str, factor: Factor = 1.0
) -> tuple[relax.Expr, relax.Expr]:
    """The cosines and the sines, with a row for each place and a column for each frequency.

    Parameters
    ----------
    emit
        Binds a value; returns its variable.
    places, frequencies
        The extents of the matrices.
    length
        The number of places after which the angles repeat.
    dtype
        The data type of the matrices.
    factor
        By what they are multiplied.
    """
    if isinstance(places, int) and isinstance(frequencies, int) and isinstance(length, int):
        angles = 2 * np.pi * (np.outer(np.arange(places), np.arange(frequencies)) % length) / length
        waves = np.cos(angles), np.sin(angles)
        if isinstance(factor, float):
            return relax.const(waves[0] * factor, dtype), relax.const(waves[1] * factor, dtype)
        rounded = emit(relax.op.astype(factor, dtype))
        cosines, sines = (emit(relax.op.multiply(relax.const(each, dtype), rounded)) for each in waves)
        return cosines, sines
    count = emit(relax.op.shape_to_tensor(relax.ShapeExpr([length])))
    rows, columns, steps = (
        emit(relax.op.arange(0, extent, 1, "int64")) for extent in (places, frequencies, length)
    )
    pairs = [emit(relax.op.expand_dims(each, axis)) for each, axis in ((rows, 1), (columns, 0))]
    turns = emit(relax.op.floor_mod(emit(relax.op.multiply(*pairs)), count))
    whole, circle = emit(relax.op.astype(steps, "float64")), relax.const(2 * np.pi, "float64")
    angle = emit(
        relax.op.divide(emit(relax.op.multiply(whole, circle)), emit(relax.op.astype(count, "float64")))
    )
    scale = relax.const(factor, "float64") if isinstance(factor, float) else factor
    scaled = [emit(relax.op.multiply(emit(wave(angle)), scale)) for wave in (relax.op.cos, relax.op.sin)]
    tables = [emit(relax.op.astype(each, dtype)) for each in scaled]
    cosines, sines = (emit(relax.op.take(table, turns, 0)) for table in tables)
    return cosines, sines


def require_short(builder: relax.BlockBuilder, length: Extent, origin: str) -> None:
    """Refuse more than `LONGEST` places; a symbolic length is checked in each call.

    Raises
    ------
    ModelError
        The length is known, and larger.
    """
    if isinstance(length, int):
        if length > LONGEST:
            raise ModelError(f"transforms of {length} places are not supported; {LONGEST} are the most")
        return
    shortened = tirx.Min(length, tirx.IntImm("int64", LONGEST))
    difference = builder.emit(relax.ShapeExpr([extent_difference(shortened, length, origin)]))
    builder.match_cast(difference, relax.ShapeType([tirx.IntImm("int64", 0)]))


def number_of_elements(emit: Emit, extents: Sequence[Extent]) -> Factor:
    """The product of extents, as a number if they are known."""
    count = reduce(mul, extents, 1)
    if isinstance(count, int):
        return float(count)
    shape = emit(relax.op.shape_to_tensor(relax.ShapeExpr([count])))
    return emit(relax.op.astype(emit(relax.op.squeeze(shape, [0])), "float64"))
