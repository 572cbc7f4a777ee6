"""The integers of a quantized tensor and the floats that they stand for, in ops of Relax.

Bytes with one scale, or one for each slice of an axis, are `quantize` and `dequantize`, which targets claim.
A range that is narrower than its type, as x86 has it for activations (0 to 127 of uint8), clips the floats
before. Anything else (16 bits, a scale for each token) is written out, as PyTorch defines it::

    integer = clip(round(x / scale) + zero, least, largest)
    float   = (integer - zero) * scale
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["BYTES", "IntegerGrid"]

BYTES = {"int8": (-128, 127), "uint8": (0, 255)}
"""The integers of the types that targets have kernels for."""


@dataclass(frozen=True, slots=True)
class IntegerGrid:
    """The integers of a quantized tensor, and what they mean.

    Attributes
    ----------
    scale, zero
        Tensors of rank 0, or with one number for each slice of the axis, or with the rank of the data.
    axis
        The axis of the slices.
    ends
        The least and the largest integer.
    dtype
        The data type of the integers.
    """

    scale: relax.Expr
    zero: relax.Expr
    axis: int
    ends: tuple[int, int]
    dtype: str

    def integers(self, node: TorchNode, floats: relax.Expr) -> relax.Expr:
        """The integers next to floats."""
        floats = node.cast(floats, "float32")
        inside = self._inside(node, floats) if self._is_plain() else None
        if inside is None:
            return self._integers_by_parts(node, floats)
        scale, zero = self.scale, node.cast(self.zero, self.dtype)
        return node.emit(relax.op.quantize(inside, scale, zero, axis=self.axis, out_dtype=self.dtype))

    def floats(self, node: TorchNode, integers: relax.Expr, dtype: str) -> relax.Expr:
        """The floats that integers stand for."""
        if self._is_plain():
            zero = node.cast(self.zero, self.dtype)
            found = relax.op.dequantize(integers, self.scale, zero, axis=self.axis, out_dtype="float32")
            return node.cast(node.emit(found), dtype)
        scale, zero = self._placed(node, integers)
        steps = node.emit(relax.op.subtract(node.cast(integers, "float32"), zero))
        return node.cast(node.emit(relax.op.multiply(steps, scale)), dtype)

    def _is_plain(self) -> bool:
        """Whether `quantize` and `dequantize` of Relax express it."""
        ranks = {_rank(self.scale), _rank(self.zero)}
        zero = _constant(self.zero)
        least, largest = BYTES.get(self.dtype, (0, 0))
        fits = zero is None or bool((least <= zero).all() and (zero <= largest).all())
        return self.dtype in BYTES and ranks in ({0}, {1}) and fits

    def _inside(self, node: TorchNode, floats: relax.Expr) -> relax.Expr | None:
        """Floats whose integers are in the range; None if its ends are not known as floats."""
        if self.ends == BYTES[self.dtype]:
            return floats
        scale, zero = _constant(self.scale), _constant(self.zero)
        if scale is None or zero is None or scale.ndim:
            return None
        least, largest = (float((end - int(zero)) * scale) for end in self.ends)
        return node.emit(relax.op.clip(floats, least, largest))

    def _integers_by_parts(self, node: TorchNode, floats: relax.Expr) -> relax.Expr:
        scale, zero = self._placed(node, floats)
        steps = node.emit(relax.op.round(node.emit(relax.op.divide(floats, scale))))
        moved = node.emit(relax.op.add(steps, zero))
        return node.cast(node.emit(relax.op.clip(moved, *self.ends)), self.dtype)

    def _placed(self, node: TorchNode, data: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
        """Scale and zero point as floats, broadcast along the other axes of the data."""
        shape = [1] * _rank(data)
        if shape:
            shape[self.axis] = -1
        return self._along(node, self.scale, shape), self._along(node, self.zero, shape)

    def _along(self, node: TorchNode, numbers: relax.Expr, shape: list[int]) -> relax.Expr:
        floats = node.cast(numbers, "float32")
        return node.emit(relax.op.reshape(floats, shape)) if _rank(numbers) == 1 else floats


def _rank(value: relax.Expr) -> int:
    return len(extents_of_tensor(value))


def _constant(value: relax.Expr) -> np.ndarray | None:
    return value.value.numpy() if isinstance(value, Constant) else None
