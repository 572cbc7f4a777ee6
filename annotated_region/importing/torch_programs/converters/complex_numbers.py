"""Complex numbers as pairs of tensors, the real and the imaginary parts: Relax has no complex data types.

The value of a complex node is a tuple of two tensors. Ops that move elements are converted once for each
part, by the converters of real tensors; products and functions are written out. Rotary positions by
`torch.view_as_complex`, spectra (`annotated_region.importing.torch_programs.converters.fourier`) and Fourier
operators come to products and sums that targets claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.assignment import common_shape
from annotated_region.importing.torch_programs.converters.pairs import angle_of
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor
from annotated_region.tvm_adapter.types import expect

if TYPE_CHECKING:
    from torch import fx

__all__ = ["COMPLEX", "ComplexConverter", "Pair", "converted", "converts_complex", "is_complex", "pair_of"]


@dataclass(frozen=True, slots=True)
class Pair:
    """The real and the imaginary part of a complex tensor."""

    real: relax.Expr
    imaginary: relax.Expr

    @property
    def value(self) -> relax.Tuple:
        """The pair as the value of a node."""
        return relax.Tuple([self.real, self.imaginary])


ComplexConverter = Callable[[TorchNode], relax.Expr | Pair]
"""Converts a node with complex operands or a complex result."""

COMPLEX: dict[str, ComplexConverter] = {}
"""Converters by the name of an ATen op."""

_VIEWS = "view reshape _unsafe_view unsqueeze expand permute clone alias repeat flip lift_fresh_copy detach"
PARTWISE = frozenset(
    [f"{name}.default" for name in _VIEWS.split()]
    + ["index_select.default", "gather.default", "cat.default", "constant_pad_nd.default", "neg.default"]
    + ["squeeze.dims", "squeeze.dim", "transpose.int", "slice.Tensor", "select.int", "index.Tensor"]
    + ["sum.dim_IntList", "mean.dim"]
)
"""The ops that treat both parts alike."""


def converts_complex(*names: str) -> Callable[[ComplexConverter], ComplexConverter]:
    """A decorator that registers a function as the converter of these ops of complex numbers."""

    def register(convert: ComplexConverter) -> ComplexConverter:
        assert not any(name in COMPLEX for name in names), names
        COMPLEX.update(dict.fromkeys(names, convert))
        return convert

    return register


def is_complex(node: fx.Node) -> bool:
    """Whether a node has a complex operand or a complex result."""
    return any(map(_has_complex_type, (node, *node.all_input_nodes)))


def _has_complex_type(node: fx.Node) -> bool:
    return "complex" in str(getattr(node.meta.get("val"), "dtype", ""))


def converted(node: TorchNode, convert: Callable[[], object]) -> object:
    """The value of a node with complex numbers; `convert` converts it as one of real tensors.

    Raises
    ------
    ModelError
        The op is not known for complex numbers.
    """
    if node.name in COMPLEX:
        result = COMPLEX[node.name](node)
        return result.value if isinstance(result, Pair) else result
    is_filled = node.name == "constant_pad_nd.default" and node.argument(2, "value", 0) != 0
    if node.name not in PARTWISE or is_filled:
        raise ModelError("it is not supported for complex numbers")
    parts = []
    for place in range(2):
        with _parts_alone(node, place):
            parts.append(expect(relax.Expr, convert()))
    return relax.Tuple(parts)


@contextmanager
def _parts_alone(node: TorchNode, place: int) -> Iterator[None]:
    """Inside of it, the operands of a node are their real parts, or their imaginary parts."""
    values = node.importer.env
    before = {each: values[each] for each in node.node.all_input_nodes}
    for each in before:
        if _has_complex_type(each):
            values[each] = _pair(node, each)[place]
        elif place == 1 and node.name == "cat.default":
            values[each] = node.emit(relax.op.zeros_like(expect(relax.Expr, values[each])))
    try:
        yield
    finally:
        values.update(before)


def pair_of(node: TorchNode, place: int) -> Pair:
    """An operand as a pair; the imaginary part of a real tensor or number is zero."""
    given = node.given(place)
    if hasattr(given, "all_input_nodes"):
        real, imaginary = _pair(node, given)
        return Pair(real, imaginary)
    if not isinstance(given, int | float | complex):
        raise ModelError(f"the operand {given} is not supported for complex numbers")
    number = complex(given)
    return Pair(relax.const(number.real, node.dtype), relax.const(number.imag, node.dtype))


def _pair(node: TorchNode, operand: fx.Node) -> tuple[relax.Expr, relax.Expr]:
    value = expect(relax.Expr, node.importer.env[operand])
    if isinstance(value, relax.Tuple):
        return value.fields[0], value.fields[1]
    if not _has_complex_type(operand):
        real = node.cast(value, node.dtype)
        return real, node.emit(relax.op.zeros_like(real))
    # A constant, whose parts are along a last axis.
    return _part(node, value, 0), _part(node, value, 1)


def _part(node: TorchNode, value: relax.Expr, place: int) -> relax.Expr:
    return node.emit(relax.op.take(value, relax.const(place, "int64"), -1))


@converts_complex("view_as_complex.default")
def as_complex(node: TorchNode) -> Pair:
    """The parts are along the last axis."""
    value = node.tensor(0)
    return Pair(_part(node, value, 0), _part(node, value, 1))


@converts_complex("view_as_real.default")
def as_real(node: TorchNode) -> relax.Expr:
    """The parts along a last axis."""
    value = pair_of(node, 0)
    return node.emit(relax.op.stack([value.real, value.imaginary], -1))


@converts_complex("_assert_tensor_metadata.default")
def unchanged(node: TorchNode) -> Pair:
    """The operand: the exporter's check of its type, which the parts do not have."""
    return pair_of(node, 0)


@converts_complex("_to_copy.default")
def of_another_type(node: TorchNode) -> Pair:
    """Complex numbers of other parts, or of a real tensor."""
    if not _has_complex_type(node.node):
        raise ModelError("it is not supported for complex numbers; take the real part")
    value = pair_of(node, 0)
    return Pair(node.cast(value.real, node.dtype), node.cast(value.imaginary, node.dtype))


@converts_complex("complex.default")
def made_of_parts(node: TorchNode) -> Pair:
    """Two tensors as the parts, repeated to a common shape, because later ops see one part at a time."""
    parts = [node.tensor(0), node.tensor(1)]
    shapes = [extents_of_tensor(part) for part in parts]
    if shapes[0] != shapes[1]:
        shape = relax.ShapeExpr(common_shape(shapes))
        parts = [node.emit(relax.op.broadcast_to(part, shape)) for part in parts]
    return Pair(*parts)


@converts_complex("full.default", "full_like.default")
def one_number(node: TorchNode) -> Pair:
    """A tensor of one number, of the extents that are given or those of a tensor."""
    if not _has_complex_type(node.node):
        raise ModelError("a real tensor like a complex one is not supported; give it a shape")
    is_like = node.name == "full_like.default"
    sizes = extents_of_tensor(pair_of(node, 0).real) if is_like else node.argument(0, "size")
    assert isinstance(sizes, list)
    number = pair_of(node, 1)
    shape = relax.ShapeExpr(sizes)
    real, imaginary = (node.emit(relax.op.full(shape, part)) for part in (number.real, number.imaginary))
    return Pair(real, imaginary)


@converts_complex("polar.default")
def made_of_angles(node: TorchNode) -> Pair:
    """Numbers of given sizes and angles."""
    return _turned(node, node.tensor(0), node.tensor(1))


def _turned(node: TorchNode, size: relax.Expr, angle: relax.Expr) -> Pair:
    functions = (relax.op.cos, relax.op.sin)
    real, imaginary = (_times(node, size, node.emit(function(angle))) for function in functions)
    return Pair(real, imaginary)


@converts_complex("exp.default")
def exponential(node: TorchNode) -> Pair:
    """``exp(a) * (cos(b) + i sin(b))``."""
    value = pair_of(node, 0)
    return _turned(node, node.emit(relax.op.exp(value.real)), value.imaginary)


@converts_complex("abs.default")
def size(node: TorchNode) -> relax.Expr:
    """The root of the sum of the squares, of parts divided by the larger one, which do not overflow."""
    value = pair_of(node, 0)
    parts = [node.emit(relax.op.abs(each)) for each in (value.real, value.imaginary)]
    most = node.emit(relax.op.maximum(*parts))
    edges = [node.emit(relax.op.equal(most, relax.const(edge, node.dtype))) for edge in (0.0, math.inf)]
    is_edge = node.emit(relax.op.logical_or(*edges))
    divisor = node.emit(relax.op.where(is_edge, relax.const(1.0, node.dtype), most))
    first, second = (_square(node, node.emit(relax.op.divide(each, divisor))) for each in parts)
    return _times(node, node.emit(relax.op.sqrt(node.emit(relax.op.add(first, second)))), divisor)


@converts_complex("angle.default")
def angle_of_complex(node: TorchNode) -> relax.Expr:
    """The angle from the axis of real numbers, between -pi and pi."""
    value = pair_of(node, 0)
    return angle_of(node, value.imaginary, value.real)


@converts_complex("_conj.default", "conj_physical.default", "_conj_physical.default")
def conjugate(node: TorchNode) -> Pair:
    """The same real part, and the negated imaginary one."""
    value = pair_of(node, 0)
    return Pair(value.real, node.emit(relax.op.negative(value.imaginary)))


@converts_complex("add.Tensor", "sub.Tensor")
def sum_or_difference(node: TorchNode) -> Pair:
    """A sum or a difference; a real number has the imaginary part zero."""
    if node.node.kwargs.get("alpha", 1) != 1:
        raise ModelError("a factor alpha is not supported for complex numbers")
    operation = relax.op.add if node.name == "add.Tensor" else relax.op.subtract
    left, right = pair_of(node, 0), pair_of(node, 1)
    return Pair(
        node.emit(operation(left.real, right.real)), node.emit(operation(left.imaginary, right.imaginary))
    )


@converts_complex("mul.Tensor", "mul.Scalar")
def product(node: TorchNode) -> Pair:
    """A product by a complex number, or of both parts by a real one."""
    return _product(node, lambda left, right: _times(node, left, right))


@converts_complex("bmm.default", "mm.default", "matmul.default")
def matrix_product(node: TorchNode) -> Pair:
    """A product of matrices."""
    return _product(node, lambda left, right: node.emit(relax.op.matmul(left, right)))


def _product(node: TorchNode, multiply: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Pair:
    left, right = pair_of(node, 0), pair_of(node, 1)
    are_real = [_is_real(node.given(place)) for place in range(2)]
    if are_real[1]:
        return Pair(multiply(left.real, right.real), multiply(left.imaginary, right.real))
    if are_real[0]:
        return Pair(multiply(left.real, right.real), multiply(left.real, right.imaginary))
    real = relax.op.subtract(multiply(left.real, right.real), multiply(left.imaginary, right.imaginary))
    imaginary = relax.op.add(multiply(left.real, right.imaginary), multiply(left.imaginary, right.real))
    return Pair(node.emit(real), node.emit(imaginary))


@converts_complex("div.Tensor", "div.Scalar")
def quotient(node: TorchNode) -> Pair:
    """A quotient by a real number."""
    if not _is_real(node.given(1)):
        raise ModelError("complex numbers as divisors are not supported; multiply by the conjugate")
    value, divisor = pair_of(node, 0), pair_of(node, 1).real
    real, imaginary = (node.emit(relax.op.divide(each, divisor)) for each in (value.real, value.imaginary))
    return Pair(real, imaginary)


def _is_real(given: object) -> bool:
    meta: Mapping[str, object] | None = getattr(given, "meta", None)
    if meta is None:
        return not isinstance(given, complex)
    return "complex" not in str(getattr(meta.get("val"), "dtype", ""))


def _times(node: TorchNode, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    return node.emit(relax.op.multiply(left, right))


def _square(node: TorchNode, value: relax.Expr) -> relax.Expr:
    return _times(node, value, value)
