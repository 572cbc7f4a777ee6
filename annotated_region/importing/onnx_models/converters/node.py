"""The interface of an ONNX node for converters: typed inputs, typed attributes, emission, declining."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.functions.extent_checks import extent_difference
from annotated_region.functions.polynomials import are_equal
from annotated_region.importing.equations import EntryEquations
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect, tensor_type

if TYPE_CHECKING:
    import onnx

    from annotated_region.tvm_adapter.onnx_importer import StandardOp

__all__ = ["FLOATS", "OnnxNode", "dtype_of", "has_shape", "is_one", "rank_of", "shape_text"]

FLOATS = ("float32", "float16", "float64")
_TYPED_NUMBER = re.compile(r"\bT\.int64\((-?\d+)\)")


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node whose number of inputs and names of attributes match its converter.

    Accessors of inputs and attributes decline the node if the value does not have the requested type, so that
    converters only handle what they support.

    Attributes
    ----------
    proto
        The node in the model.
    where
        The name of the node and its model, for messages.
    origin
        The name of the node in reports, and in errors of calls.
    inputs
        A typed expression for each input, None for an omitted one.
    builder
        The builder of bindings.
    standard
        TVM's conversion of ops of the default domain, for converters that compose such ops.
    equations
        The equations between extents on which the model relies.
    opset
        The version of the default domain.
    """

    proto: onnx.NodeProto
    where: str
    origin: str
    inputs: Sequence[relax.Expr | None]
    builder: relax.BlockBuilder
    standard: StandardOp
    equations: EntryEquations
    opset: int

    def declined(self, why: str) -> ModelError:
        """The error for a node that is not supported, with a reason, in which numbers lose TVM's types."""
        plain = _TYPED_NUMBER.sub(r"\1", why)
        return ModelError(f"{self.where} {plain}")

    def require(self, condition: bool, why: str) -> None:
        """Decline the node unless the condition holds.

        Raises
        ------
        ModelError
            It does not hold.
        """
        if not condition:
            raise self.declined(why)

    def emit(self, expr: relax.Expr) -> relax.Var:
        """A variable bound to an expression, so that later expressions stay flat."""
        return self.builder.emit(expr)

    def typed(self, expr: relax.Expr) -> relax.Expr:
        """A new expression, normalized to have a type."""
        return self.builder.normalize(expr)

    def makes(self, position: int) -> bool:
        """Whether the output at this position may be used."""
        return position < len(self.proto.output) and bool(self.proto.output[position])

    # -- inputs -----------------------------------------------------------------------------------

    def has(self, position: int) -> bool:
        """Whether the input is present."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def tensor(self, position: int, dtypes: Collection[str] = (), ranks: Collection[int] = ()) -> relax.Expr:
        """The input at a position: a tensor of known rank, of one of these data types and ranks.

        Raises
        ------
        ModelError
            It is missing, is not such a tensor, or has an unknown shape.
        """
        expr = self.inputs[position] if self.has(position) else None
        if expr is None:
            raise self.declined(f"lacks its input {position}")
        ty = expr.ty
        if not isinstance(ty, relax.TensorType) or ty.ndim < 0 or not isinstance(ty.shape, relax.ShapeExpr):
            raise self.declined(f"has an input {position} of unknown shape")
        self.require(
            not dtypes or str(ty.dtype) in dtypes,
            f"has an input {position} of type {ty.dtype}; known are {', '.join(dtypes)}",
        )
        self.require(
            not ranks or ty.ndim in ranks,
            f"has an input {position} of rank {ty.ndim}; known are {', '.join(map(str, ranks))}",
        )
        return expr

    def optional(
        self, position: int, dtypes: Collection[str] = (), ranks: Collection[int] = ()
    ) -> relax.Expr | None:
        """The same for an optional input."""
        return self.tensor(position, dtypes, ranks) if self.has(position) else None

    def vector(self, position: int, dtypes: Collection[str], length: int) -> relax.Expr:
        """An input that is a vector of `length` elements; each call is checked where that is not known."""
        expr = self.tensor(position, dtypes, (1,))
        if not self.may_have_extents(expr, (length,)):
            self.require_shape(position, expr, (length,))
        return self.with_extents(expr, (length,))

    def require_shape(self, position: int, expr: relax.Expr, shape: tuple[int, ...]) -> None:
        """Decline the node unless the input has exactly this shape."""
        found = self.shape(expr)
        self.require(
            found == shape,
            f"has an input {position} of shape {shape_text(found)}; it should be {shape_text(shape)}",
        )

    def no_input(self, position: int, name: str) -> None:
        """Decline the node if it has this input, which the converter does not support."""
        self.require(not self.has(position), f"has the input {name!r}, which is not supported")

    def shape(self, expr: relax.Expr) -> tuple[Extent, ...]:
        """The extents of a tensor: ints, and expressions for symbolic ones."""
        shape = expect(relax.ShapeExpr, tensor_type(expr).shape)
        return tuple(int(each) if isinstance(each, tirx.IntImm) else each for each in shape.values)

    def fixed_shape(self, position: int, expr: relax.Expr) -> tuple[int, ...]:
        """The extents of an input, which must be static."""
        shape = self.shape(expr)
        if not all(isinstance(extent, int) for extent in shape):
            raise self.declined(f"has an input {position} of unknown extents, {shape_text(shape)}")
        return tuple(extent for extent in shape if isinstance(extent, int))

    def may_have_extents(self, expr: relax.Expr, extents: Sequence[Extent]) -> bool:
        """Whether the tensor can have these extents in some call, which is checked."""
        pairs = zip(self.shape(expr), extents, strict=True)
        return not any(
            isinstance(one, int) and isinstance(other, int) and one != other for one, other in pairs
        )

    def with_extents(self, expr: relax.Expr, extents: Sequence[Extent]) -> relax.Expr:
        """The tensor with other extents, which it `may_have_extents`; each call is checked."""
        pairs = zip(self.shape(expr), extents, strict=True)
        new = [pair for pair in pairs if not provably_equal(*pair)]
        if not new:
            return expr
        for pair in new:
            self.require_equal(*pair)
        return self.emit(relax.op.reshape(expr, relax.ShapeExpr(extents)))

    def require_equal(self, one: Extent, other: Extent) -> None:
        """Check in each call that extents are equal: at its beginning, or here, before what reads them."""
        if self.equations.can_check(one, other):
            self.equations.known.require(one, other)
            return
        difference = self.emit(relax.ShapeExpr([extent_difference(one, other, self.origin)]))
        self.builder.match_cast(difference, relax.ShapeType([tirx.IntImm("int64", 0)]))

    def require_as_many(self, given: Sequence[Extent], asked: Sequence[Extent]) -> None:
        """Decline the node if the shapes never have equally many elements; check calls where they may."""
        one, other = (reduce(mul, extents, 1) for extents in (given, asked))
        why = f"reshapes {shape_text(given)} to {shape_text(asked)}, which has another number of elements"
        self.require(not isinstance(other, int) or other < 2**63, why)
        if are_equal(one, other):
            return
        is_empty = isinstance(other, int) and other == 0
        least, most = bounds_of(one - other, least=0 if is_empty else 1)
        self.require(least <= 0 <= most, why)
        self.require_equal(one, other)

    def constant(self, expr: relax.Expr) -> np.ndarray | None:
        """The elements of an expression, if it is a constant of the model."""
        if not isinstance(expr, Constant):
            return None
        numbers: np.ndarray = expr.value.numpy()
        return numbers

    # -- attributes -------------------------------------------------------------------------------

    def by_tvm(self, **changed: object) -> relax.Expr:
        """TVM's conversion of the node, with some attributes replaced."""
        from onnx.helper import get_attribute_value  # noqa: PLC0415 - an extra

        own = {name: get_attribute_value(each) for name, each in self.attributes.items()}
        return self.standard(self.proto.op_type, self.inputs, own | changed)

    def with_input(self, position: int, expr: relax.Expr | None) -> OnnxNode:
        """The node with another expression as an input."""
        return replace(self, inputs=(*self.inputs[:position], expr, *self.inputs[position + 1 :]))

    @property
    def attributes(self) -> Mapping[str, onnx.AttributeProto]:
        """The attributes by name."""
        return {attribute.name: attribute for attribute in self.proto.attribute}

    def integer(self, name: str, default: int | None = None, least: int = -(2**63), most: int = 2**63) -> int:
        """An integer attribute, within bounds."""
        attribute = self.attributes.get(name)
        if attribute is None:
            if default is None:
                raise self.declined(f"lacks its attribute {name!r}")
            return default
        self.require(attribute.type == attribute.INT, f"has an attribute {name!r} that is not an integer")
        self.require(
            least <= attribute.i <= most,
            f"has the attribute {name!r} of {attribute.i}, which is not supported",
        )
        return int(attribute.i)

    def number(self, name: str, default: float, *, is_finite: bool = True) -> float:
        """A float attribute; declined if it must be finite and is not."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return default
        self.require(attribute.type == attribute.FLOAT, f"has an attribute {name!r} that is not a number")
        self.require(
            not is_finite or bool(np.isfinite(attribute.f)),
            f"has the attribute {name!r} of {attribute.f}, which is not supported",
        )
        return float(attribute.f)

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return default
        self.require(attribute.type == attribute.STRING, f"has an attribute {name!r} that is not a string")
        return bytes(attribute.s).decode("utf-8", "backslashreplace")

    def texts(self, name: str) -> tuple[str, ...]:
        """An attribute that is a list of strings; empty if omitted."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return ()
        self.require(
            attribute.type == attribute.STRINGS, f"has an attribute {name!r} that is not a list of strings"
        )
        return tuple(bytes(each).decode("utf-8", "backslashreplace") for each in attribute.strings)

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers; empty if omitted."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return ()
        self.require(
            attribute.type == attribute.INTS, f"has an attribute {name!r} that is not a list of integers"
        )
        return tuple(attribute.ints)

    def numbers(self, name: str) -> tuple[float, ...]:
        """An attribute that is a list of floats; empty if omitted."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return ()
        self.require(
            attribute.type == attribute.FLOATS, f"has an attribute {name!r} that is not a list of numbers"
        )
        return tuple(attribute.floats)


def dtype_of(expr: relax.Expr) -> str:
    """The data type of a tensor expression."""
    return str(tensor_type(expr).dtype)


def has_shape(expr: relax.Expr) -> bool:
    """Whether an expression is a tensor of known rank, each extent of which is a number or an expression."""
    return isinstance(expr.ty, relax.TensorType) and isinstance(expr.ty.shape, relax.ShapeExpr)


def rank_of(expr: relax.Expr) -> int:
    """The rank of a tensor expression."""
    return int(tensor_type(expr).ndim)


def is_one(extent: Extent) -> bool:
    """Whether an extent, or a number of repetitions, is known to be 1."""
    return isinstance(extent, int) and extent == 1


def shape_text(shape: Sequence[Extent]) -> str:
    """A shape as messages show it."""
    return f"({', '.join(map(str, shape))})"
