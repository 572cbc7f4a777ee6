"""Parses a product with quantized weights from its ops, as emitted by QuantizeWeights and MatMulNBits.

::

    words  = reshape(stack([packed & 15, packed >> 4 & 15], -1), (columns * groups, size))     or a constant
    floats = dequantize(words, scales, zeros, axis=0)        or (astype(words) - zeros) * scales
    weight = permute_dims(reshape(floats, (columns, groups * size))[:, :depth], (1, 0))
    result = matmul(data, weight)

There is a common zero point, or one per group. If each column is one group, the `reshape` of the floats
changes nothing and may be missing. Nothing is computed here: the result names the constants, and
`packed_weight.py` computes the stored weights from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax, tirx

from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["Numbers", "QuantizedProduct", "read_product"]

WORD = 32
BYTES = ("uint8", "int8")
FLOATS = ("float32", "float16")


@dataclass(frozen=True, slots=True)
class Numbers:
    """The integers or floats in a constant: one per element, or two of 4 bits per byte."""

    constant: Constant
    in_pairs: bool = False

    @property
    def dtype(self) -> str:
        """The type of the elements of the constant."""
        return _dtype(self.constant)


@dataclass(frozen=True, slots=True)
class QuantizedProduct:
    """A product and the constants of its weight; the fields are those of `PackedWeight`."""

    data: relax.Expr
    words: Numbers
    scales: Constant
    zeros: int | Numbers
    depth: int
    columns: int
    group: int


def read_product(call: relax.Call, values: Mapping[relax.Var, relax.Expr]) -> QuantizedProduct:
    """Parse a product.

    Parameters
    ----------
    call
        The ``matmul``.
    values
        The values of variables, as far as the product depends on them.

    Raises
    ------
    Declined
        The weight is not built from constants in this way, or the runtime does not support it.
    """
    return _Reader(values).product(call)


class _Reader:
    """Parses expressions, and resolves variables."""

    def __init__(self, values: Mapping[relax.Var, relax.Expr]) -> None:
        self.values = values

    def product(self, call: relax.Call) -> QuantizedProduct:
        data, weight = call.args
        turned = self.view(weight, "relax.permute_dims")
        require(turned.attrs["axes"] in (None, (1, 0)), "the weight is not transposed")
        columns, depth = _extents(turned.args[0])
        whole = self.unsliced(turned.args[0])
        floats = self.grouped(whole)
        words, scales, zeros = self.dequantized(floats)
        rows, size = _extents(floats)
        groups = -(-depth // size)
        require(
            rows == columns * groups and _extents(whole) == (columns, groups * size),
            "the groups of the weight do not divide its columns",
        )
        bits = 4 if words.in_pairs else 8
        require(groups == 1 or size * bits % WORD == 0, f"groups of {size} weights do not fill whole words")
        return QuantizedProduct(data, words, scales, zeros, depth, columns, size)

    def grouped(self, whole: relax.Expr) -> relax.Expr:
        """The floats as rows of one group each."""
        view = OpView.of(self.value(whole))
        return view.args[0] if view is not None and view.name == "relax.reshape" else whole

    def dequantized(self, expr: relax.Expr) -> tuple[Numbers, Constant, int | Numbers]:
        """Words [rows, size], a scale per row, and zero points."""
        view = OpView.of(self.value(expr))
        require(view is not None, "the weight is not made of packed numbers")
        assert view is not None
        if view.name != "relax.dequantize":
            return self.scaled(view)
        require(view.attrs["axis"] in (0, -2), f"the scales are along axis {view.attrs['axis']}")
        words = self.words(view.args[0])
        rows, _size = _extents(view.args[0])
        return words, self.scales(view.args[1], rows), self.zeros(view.args[2], rows)

    def scaled(self, view: OpView) -> tuple[Numbers, Constant, Numbers]:
        """The same in the arithmetic form, which is used for float zero points."""
        require(view.name == "relax.multiply", f"the weight is the result of {view.name}")
        shifted = self.view(view.args[0], "relax.subtract")
        cast = self.view(shifted.args[0], "relax.astype")
        rows, _size = _extents(cast.args[0])
        require(str(cast.out_tensor.dtype) in FLOATS, "the weight is computed in integers")
        zeros = self.constant(shifted.args[1])
        for each in (zeros, self.constant(view.args[1])):
            require(_extents(each) == (rows, 1), "scales and zero points are not per group")
        require(_is_finite(zeros), "a zero point is not finite")
        return self.words(cast.args[0]), self.scales(view.args[1], rows), Numbers(zeros)

    def words(self, expr: relax.Expr) -> Numbers:
        value = self.value(expr)
        numbers = Numbers(value) if isinstance(value, Constant) else self.unpacked(expr)
        require(numbers.dtype in BYTES and len(_extents(expr)) == 2, "the numbers are not rows of bytes")
        return numbers

    def unpacked(self, expr: relax.Expr) -> Numbers:
        """Pairs of integers in the bytes of a constant, side by side."""
        pairs = self.view(self.view(expr, "relax.reshape").args[0], "relax.stack")
        low, high = (self.masked(part) for part in self.pair(pairs))
        shifted = self.view(high, "relax.right_shift")
        require(self.number(shifted.args[1]) == 4, "the numbers are not in the halves of bytes")
        packed, other = self.constant(low), self.constant(shifted.args[0])
        require(packed.same_as(other) or _are_equal(packed, other), "the halves are of different constants")
        is_last = pairs.attrs["axis"] in (-1, len(_extents(packed)))
        require(is_last and _dtype(packed) == "uint8", "the numbers are not side by side")
        return Numbers(packed, in_pairs=True)

    def pair(self, stack: OpView) -> Sequence[relax.Expr]:
        parts = self.value(stack.args[0])
        if not isinstance(parts, relax.Tuple) or len(parts.fields) != 2:
            raise Declined("a byte does not contain two numbers")
        return list(parts.fields)

    def masked(self, expr: relax.Expr) -> relax.Expr:
        view = self.view(expr, "relax.bitwise_and")
        require(self.number(view.args[1]) == 15, "the numbers do not have 4 bits")
        return view.args[0]

    def scales(self, expr: relax.Expr, rows: int) -> Constant:
        constant = self.constant(expr)
        require(_size(constant) == rows, f"there are {_size(constant)} scales for {rows} groups")
        require(_dtype(constant) in FLOATS and _is_finite(constant), "a scale is not a finite float")
        return constant

    def zeros(self, expr: relax.Expr, rows: int) -> int | Numbers:
        """The common zero point, or one per group."""
        constant = self.constant(expr)
        require(_size(constant) in (1, rows), f"there are {_size(constant)} zero points for {rows} groups")
        require(_dtype(constant) in BYTES, "a zero point is not a byte")
        return int(constant.value.numpy().item()) if _size(constant) == 1 else Numbers(constant)

    def unsliced(self, expr: relax.Expr) -> relax.Expr:
        """The source of a slice that keeps the first elements of rows; any other expression itself."""
        view = OpView.of(self.value(expr))
        if view is None or view.name != "relax.strided_slice":
            return expr
        axes, begins, _ends, *steps = (self.integers(arg) for arg in view.args[1:])
        require((axes, begins) == ((1,), (0,)) and steps in ([], [(1,)]), "the slice does not start at 0")
        return view.args[0]

    def integers(self, expr: relax.Expr) -> tuple[int, ...]:
        fields = self.value(expr)
        if not isinstance(fields, relax.Tuple):
            raise Declined("the bounds of a slice are computed")
        return tuple(int(field) for field in fields.fields if isinstance(field, tirx.IntImm))

    def number(self, expr: relax.Expr) -> int:
        constant = self.constant(expr)
        require(_size(constant) == 1, "the shift or mask of a byte is not a scalar")
        return int(constant.value.numpy().item())

    def constant(self, expr: relax.Expr) -> Constant:
        value = self.value(expr)
        if not isinstance(value, Constant):
            raise Declined("a part of the weight is not constant")
        return value

    def view(self, expr: relax.Expr, name: str) -> OpView:
        view = OpView.of(self.value(expr))
        if view is None or view.name != name:
            raise Declined(f"the weight is not made of packed numbers: there is no {name}")
        return view

    def value(self, expr: relax.Expr) -> relax.Expr:
        while isinstance(expr, relax.Var) and expr in self.values:
            expr = self.values[expr]
        return expr


def _extents(expr: relax.Expr) -> tuple[int, ...]:
    extents = extents_of(expr.ty) or ()
    numbers = tuple(extent for extent in extents if isinstance(extent, int))
    require(len(numbers) == len(extents), "the weight has a symbolic extent")
    return numbers


def _dtype(constant: Constant) -> str:
    return str(tensor_type(constant).dtype)


def _size(constant: Constant) -> int:
    return int(np.prod(_extents(constant), dtype=np.int64))


def _is_finite(constant: Constant) -> bool:
    return bool(np.isfinite(constant.value.numpy()).all())


def _are_equal(left: Constant, right: Constant) -> bool:
    return np.array_equal(left.value.numpy(), right.value.numpy())
