"""One ONNX node while it is converted: inputs with types, attributes by kind, a way to decline it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect, tensor_type

if TYPE_CHECKING:
    import onnx

    from annotated_region.tvm_adapter.onnx_importer import StandardOp

__all__ = ["FLOATS", "OnnxNode", "dtype_of", "rank_of"]

FLOATS = ("float32", "float16", "float64")


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node whose number of inputs and names of attributes fit its converter.

    What reads an input or an attribute declines the node where it is not of the kind that is asked for, so
    converters compute with what they know alone.

    Attributes
    ----------
    proto
        The node as the model has it.
    where
        What messages call it, with its model.
    inputs
        An expression with a type for each input, None for one that is left out.
    builder
        What takes bindings.
    standard
        TVM's conversion of an op of the default domain, for what is made of such ops.
    """

    proto: onnx.NodeProto
    where: str
    inputs: Sequence[relax.Expr | None]
    builder: relax.BlockBuilder
    standard: StandardOp

    def declined(self, why: str) -> ModelError:
        """The error that says why the node is not imported."""
        return ModelError(f"{self.where} {why}")

    def require(self, condition: bool, why: str) -> None:
        """Decline the node unless the condition holds.

        Raises
        ------
        ModelError
            It does not.
        """
        if not condition:
            raise self.declined(why)

    def emit(self, expr: relax.Expr) -> relax.Var:
        """A variable bound to an expression, so that later ones stay flat."""
        return self.builder.emit(expr)

    def typed(self, expr: relax.Expr) -> relax.Expr:
        """An expression with its type, for what has just been made."""
        return self.builder.normalize(expr)

    def makes(self, position: int) -> bool:
        """Whether somebody may read the output at this position."""
        return position < len(self.proto.output) and bool(self.proto.output[position])

    # -- inputs -----------------------------------------------------------------------------------

    def has(self, position: int) -> bool:
        """Whether the input is there."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def tensor(self, position: int, dtypes: Collection[str] = (), ranks: Collection[int] = ()) -> relax.Expr:
        """The input at a position: a tensor of known rank, of one of these data types and ranks.

        Raises
        ------
        ModelError
            It is missing, no such tensor, or of unknown shape.
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
        """The same of an input that may be left out."""
        return self.tensor(position, dtypes, ranks) if self.has(position) else None

    def vector(self, position: int, dtypes: Collection[str], length: int) -> relax.Expr:
        """An input that is a list of `length` numbers."""
        expr = self.tensor(position, dtypes, (1,))
        self.require_shape(position, expr, (length,))
        return expr

    def require_shape(self, position: int, expr: relax.Expr, shape: tuple[int, ...]) -> None:
        """Decline the node unless the input has this very shape."""
        found = self.shape(expr)
        self.require(
            found == shape, f"has an input {position} of shape {_text(found)}; it should be {_text(shape)}"
        )

    def no_input(self, position: int, name: str) -> None:
        """Decline the node if it has this input, which the converter does not know."""
        self.require(not self.has(position), f"has the input {name!r}, which is not supported")

    def shape(self, expr: relax.Expr) -> tuple[int | relax.Expr, ...]:
        """The extents of a tensor: numbers, and expressions where they are symbolic."""
        shape = expect(relax.ShapeExpr, tensor_type(expr).shape)
        return tuple(int(each) if isinstance(each, tirx.IntImm) else each for each in shape.values)

    def fixed_shape(self, position: int, expr: relax.Expr) -> tuple[int, ...]:
        """The extents of an input, all of which have to be numbers."""
        shape = self.shape(expr)
        if not all(isinstance(extent, int) for extent in shape):
            raise self.declined(f"has an input {position} of unknown extents, {_text(shape)}")
        return tuple(extent for extent in shape if isinstance(extent, int))

    def constant(self, expr: relax.Expr) -> np.ndarray | None:
        """The numbers of an expression, if the model holds them."""
        if not isinstance(expr, Constant):
            return None
        numbers: np.ndarray = expr.value.numpy()
        return numbers

    # -- attributes -------------------------------------------------------------------------------

    def by_tvm(self, **changed: object) -> relax.Expr:
        """TVM's conversion of the node as it is, but for the attributes that are given."""
        from onnx.helper import get_attribute_value  # noqa: PLC0415 - an extra

        own = {name: get_attribute_value(each) for name, each in self.attributes.items()}
        return self.standard(self.proto.op_type, self.inputs, own | changed)

    @property
    def attributes(self) -> Mapping[str, onnx.AttributeProto]:
        """The attributes by name."""
        return {attribute.name: attribute for attribute in self.proto.attribute}

    def integer(self, name: str, default: int | None = None, least: int = -(2**63), most: int = 2**63) -> int:
        """An attribute that is a whole number, within bounds."""
        attribute = self.attributes.get(name)
        if attribute is None:
            if default is None:
                raise self.declined(f"lacks its attribute {name!r}")
            return default
        self.require(attribute.type == attribute.INT, f"has an attribute {name!r} that is no integer")
        self.require(
            least <= attribute.i <= most,
            f"has the attribute {name!r} of {attribute.i}, which is not supported",
        )
        return int(attribute.i)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a finite number."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return default
        self.require(attribute.type == attribute.FLOAT, f"has an attribute {name!r} that is no number")
        self.require(
            bool(np.isfinite(attribute.f)),
            f"has the attribute {name!r} of {attribute.f}, which is not supported",
        )
        return float(attribute.f)

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return default
        self.require(attribute.type == attribute.STRING, f"has an attribute {name!r} that is no text")
        return bytes(attribute.s).decode("utf-8", "backslashreplace")

    def texts(self, name: str) -> tuple[str, ...]:
        """An attribute that is a list of texts; empty if it is left out."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return ()
        self.require(
            attribute.type == attribute.STRINGS, f"has an attribute {name!r} that is no list of texts"
        )
        return tuple(bytes(each).decode("utf-8", "backslashreplace") for each in attribute.strings)

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers; empty if it is left out."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return ()
        self.require(
            attribute.type == attribute.INTS, f"has an attribute {name!r} that is no list of integers"
        )
        return tuple(attribute.ints)

    def numbers(self, name: str) -> tuple[float, ...]:
        """An attribute that is a list of numbers; empty if it is left out."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return ()
        self.require(
            attribute.type == attribute.FLOATS, f"has an attribute {name!r} that is no list of numbers"
        )
        return tuple(attribute.floats)


def dtype_of(expr: relax.Expr) -> str:
    """The data type of an expression that is known to be a tensor."""
    return str(tensor_type(expr).dtype)


def rank_of(expr: relax.Expr) -> int:
    """The rank of an expression that is known to be a tensor."""
    return int(tensor_type(expr).ndim)


def _text(shape: Sequence[int | relax.Expr]) -> str:
    return f"({', '.join(map(str, shape))})"
