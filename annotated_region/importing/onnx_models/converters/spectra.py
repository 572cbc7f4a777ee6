"""`DFT` and `STFT` as products with sines and cosines, which are constants if the length is known.

TVM's importer has neither. A transform is a linear map of the real and imaginary parts, so it is one product
with a matrix; the transforms of all frames of a signal are one convolution, whose stride is the distance of
the frames. The matrices are computed in float64 and rounded once. A product takes more operations than a fast
transform, but it is an op that every target claims, and frames of sound are short.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.importing.onnx_models.converters.extent_numbers import numbers_of
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.shared_ops.fourier_matrices import (
    LONGEST,
    Factor,
    fourier_matrices,
    number_of_elements,
)
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal

__all__: list[str] = []

_LARGEST = 2**24
"""The maximum number of elements of a matrix: that of a complex transform of 2 048 elements."""


@converts("", "DFT", (1, 3), "axis inverse onesided")
def _transformed(node: OnnxNode) -> relax.Expr:
    data = node.tensor(0, FLOATS)
    rank, shape = rank_of(data), node.shape(data)
    node.require(rank >= 2 and shape[-1] in (1, 2), "has an input 0 without a last axis of 1 or 2 elements")
    axis = _axis(node, rank)
    inverse, onesided = (bool(node.integer(name, 0, 0, 1)) for name in ("inverse", "onesided"))
    node.require(not (inverse and onesided), "inverts a onesided transform, which is not supported")
    parts = shape[-1]
    assert isinstance(parts, int)
    node.require(not onesided or parts == 1, "makes a onesided transform of complex numbers")
    made, weights = _weights(node, shape[axis], parts, inverse=inverse, onesided=onesided)
    order = [*(each for each in range(rank - 1) if each != axis), axis, rank - 1]
    is_moved = axis != rank - 2
    moved = node.emit(relax.op.permute_dims(data, order)) if is_moved else data
    front = [shape[each] for each in order[:-2]]
    rows = node.emit(relax.op.reshape(moved, _shape([*front, shape[axis] * parts])))
    product = node.emit(relax.op.matmul(rows, weights))
    result = node.emit(relax.op.reshape(product, _shape([*front, made, 2])))
    back = [order.index(each) for each in range(rank)]
    return relax.op.permute_dims(result, back) if is_moved else result


def _weights(
    node: OnnxNode, given: Extent, parts: int, *, inverse: bool, onesided: bool
) -> tuple[Extent, relax.Expr]:
    """How many frequencies there are, and the matrix of all parts of them for all parts of the elements."""
    dtype = dtype_of(node.tensor(0))
    if not isinstance(given, int):
        asked = _length_asked(node, given)
        node.require(
            asked is not None and provably_equal(asked, given),
            f"transforms an axis of unknown length, {given}, as one of another; give it a number "
            "(shape_dict, --shape)",
        )
        node.require_equal(tirx.Min(given, tirx.IntImm("int64", LONGEST)), given)
        frequencies = given // 2 + 1 if onesided else given
        return frequencies, _symbolic_matrix(node, given, parts, frequencies, inverse=inverse)
    length = _number(node, 1, "dft_length", given)
    made = length // 2 + 1 if onesided else length
    node.require(0 < 2 * parts * given * made <= _LARGEST, f"transforms {given} elements to {made}")
    matrix = _matrix(min(given, length), parts, length, made)
    if inverse:
        matrix = _matrix(min(given, length), parts, length, made, 1) / length
    padded = np.zeros((given, parts, made, 2))
    padded[: len(matrix)] = matrix
    return made, relax.const(padded.reshape(given * parts, made * 2), dtype)


def _length_asked(node: OnnxNode, given: Extent) -> Extent | None:
    """The length of the transform, which may be written as the extent that it is; None if it is not known."""
    length = node.inputs[1] if node.has(1) else None
    if length is None:
        return given
    if isinstance(length.ty, tvm.ir.PrimType):
        return length
    numbers = numbers_of(node.builder, length)
    return None if numbers is None else numbers[0]


def _symbolic_matrix(
    node: OnnxNode, length: Extent, parts: int, made: Extent, *, inverse: bool
) -> relax.Expr:
    """What `_matrix` is for a length that a call tells, as it is multiplied."""
    dtype, one = dtype_of(node.tensor(0)), relax.const(1.0, "float64")
    factor: Factor = 1.0
    if inverse:
        count = number_of_elements(node.emit, [length])
        factor = 1.0 / count if isinstance(count, float) else node.emit(relax.op.divide(one, count))
    cosine, sine = fourier_matrices(node.emit, length, made, length, dtype, factor)
    opposite = node.emit(relax.op.negative(sine))
    forward, backward = (sine, opposite) if inverse else (opposite, sine)
    pairs = [(cosine, forward), (backward, cosine)][:parts]
    stacked = [node.emit(relax.op.stack(list(pair), -1)) for pair in pairs]
    whole = node.emit(relax.op.stack(stacked, 1))
    return node.emit(relax.op.reshape(whole, _shape([length * parts, made * 2])))


def _axis(node: OnnxNode, rank: int) -> int:
    """The attribute before operator set 20, and then the third input; in tensors of rank 3, 1 by default."""
    axis = rank - 2
    if node.has(2):
        axis = _number(node, 2, "axis", axis, -rank, rank - 1)
    elif "axis" in node.attributes:
        axis = node.integer("axis", None, -rank, rank - 1)
    else:
        node.require(rank <= 3, f"names no axis of {rank}, and operator sets differ in the default")
    axis %= rank
    node.require(axis < rank - 1, "transforms the axis of real and imaginary parts")
    return axis


def _matrix(count: int, parts: int, length: int, made: int, sign: int = -1) -> np.ndarray:
    """What each part of each element adds to the real and imaginary part of each frequency.

    The axes are elements, their parts, frequencies, and their parts. With the angle ``a`` the element
    ``x + iy`` adds ``(x + iy) (cos a + i sin a)``.
    """
    turns = np.outer(np.arange(count), np.arange(made)) % length
    angles = sign * 2 * np.pi * turns / length
    cosine, sine = np.cos(angles), np.sin(angles)
    of_real, of_imaginary = (np.stack(pair, -1) for pair in ((cosine, sine), (-sine, cosine)))
    return np.stack([of_real, of_imaginary][:parts], 1)


@converts("", "STFT", (2, 4), "onesided")
def _framed(node: OnnxNode) -> relax.Expr:
    """A convolution of the signal with the windowed sines and cosines, which are its channels."""
    signal = node.tensor(0, FLOATS, (2, 3))
    shape, dtype = node.shape(signal), dtype_of(signal)
    parts = shape[2] if len(shape) == 3 else 1
    if not isinstance(parts, int) or parts not in (1, 2):
        raise node.declined("has a signal without a last axis of 1 or 2 elements")
    window = node.optional(2, (dtype,), (1,))
    width = None if window is None else node.fixed_shape(2, window)[0]
    node.require(width is not None or node.has(3), "has neither a window nor a length of frames")
    length = _number(node, 3, "frame_length", width)
    node.require(width in (None, length), f"has a window of {width} elements for frames of {length}")
    step = _number(node, 1, "frame_step", None, most=2**31 - 1)
    onesided = bool(node.integer("onesided", 1, 0, 1))
    node.require(not onesided or parts == 1, "makes a onesided transform of a complex signal")
    made = length // 2 + 1 if onesided else length
    node.require(2 * parts * length * made <= _LARGEST, f"transforms frames of {length} elements")
    kernels = _matrix(length, parts, length, made).transpose(2, 3, 1, 0).reshape(made * 2, parts, length)
    weights: relax.Expr = relax.const(kernels, dtype)
    if window is not None:
        weights = node.emit(relax.op.multiply(weights, node.emit(relax.op.reshape(window, [1, 1, length]))))
    batch, samples = shape[0], shape[1]
    is_long = not isinstance(samples, int) or samples >= length
    node.require(is_long, f"has a signal of {samples} elements for frames of {length}")
    if parts == 1:
        channels = relax.op.reshape(signal, _shape([batch, 1, samples]))
    else:
        channels = relax.op.permute_dims(signal, [0, 2, 1])
    frames = node.emit(relax.op.nn.conv1d(node.emit(channels), weights, strides=step))
    count = node.shape(frames)[2]
    apart = node.emit(relax.op.reshape(frames, _shape([batch, made, 2, count])))
    return relax.op.permute_dims(apart, [0, 3, 1, 2])


@converts("", "MelWeightMatrix", (5, 5), "output_datatype")
def _mel_weights(node: OnnxNode) -> relax.Expr:
    """Constant parameters give a constant, which is computed before (`folding`)."""
    raise node.declined(
        "has parameters that are not constant or give no matrix, or a matrix of more than 65 536 weights"
    )


def _number(
    node: OnnxNode, position: int, name: str, default: int | None, least: int = 1, most: int = 2**63
) -> int:
    """An input that is one constant number."""
    if not node.has(position):
        if default is None:
            raise node.declined(f"lacks its input {name!r}")
        return default
    numbers = node.constant(node.tensor(position, ("int32", "int64"), (0, 1)))
    if numbers is None or numbers.size != 1:
        raise node.declined(f"has the input {name!r}, which is not one constant number")
    number = int(numbers.item())
    node.require(least <= number <= most, f"has the input {name!r} of {number}")
    return number


def _shape(extents: list[Extent]) -> relax.ShapeExpr:
    return relax.ShapeExpr(extents)
