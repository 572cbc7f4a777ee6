"""A node of an exported program: its arguments, the data type of its result, and emission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.tvm_adapter.types import expect, shape_of, tensor_type

if TYPE_CHECKING:
    import torch
    from torch import fx
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

__all__ = [
    "TorchNode",
    "dtype_of_tensor",
    "extents_of_tensor",
    "has_known_shape",
    "is_tensor",
    "shape_difference",
]


@dataclass(frozen=True, slots=True)
class TorchNode:
    """A node with the importer that converts its program.

    Attributes
    ----------
    node
        The node.
    importer
        TVM's importer, which has the values of earlier nodes.
    constants
        The tensors that the program contains, by the names of their nodes.
    """

    node: fx.Node
    importer: ExportedProgramImporter
    constants: Mapping[str, torch.Tensor]

    @property
    def name(self) -> str:
        """The op of ATen and its overload, such as ``"add.Tensor"``."""
        return str(getattr(self.node.target, "__name__", ""))

    @property
    def dtype(self) -> str:
        """The data type of the result in PyTorch, such as ``"float32"``; empty if it is not a tensor.

        That of a complex result is the type of its parts.
        """
        name = str(getattr(self.node.meta.get("val"), "dtype", "")).removeprefix("torch.")
        return {"complex32": "float16", "complex64": "float32", "complex128": "float64"}.get(name, name)

    def argument(self, place: int, name: str = "", default: object = None) -> object:
        """An argument, with nodes replaced by their values."""
        return self._converted(self.given(place, name, default))

    def given(self, place: int, name: str = "", default: object = None) -> object:
        """An argument as it is in the program: a number, or the node that computes it."""
        given = self.node.args
        return given[place] if place < len(given) else self.node.kwargs.get(name, default)

    def _converted(self, value: object) -> object:
        if isinstance(value, list | tuple):
            return [self._converted(each) for each in value]
        # Numbers and strings are not nodes, and nodes are compared by identity.
        return self.importer.env[value] if hasattr(value, "all_input_nodes") else value

    def promoted(self, *places: int) -> str:
        """The data type to which PyTorch promotes two arguments."""
        import torch  # noqa: PLC0415 - installed, since the program was loaded

        given = (self.given(place) for place in places)
        values = [getattr(each, "meta", {}).get("val", each) for each in given]
        return str(torch.result_type(*values)).removeprefix("torch.")

    def tensor(self, place: int, name: str = "") -> relax.Expr:
        """An argument that is a tensor according to the schema of the op."""
        return expect(relax.Expr, self.argument(place, name))

    def are_read(self, *places: int) -> bool:
        """Whether one of these results of a tuple has users."""
        return any(user.args[1] in places and user.users for user in self.node.users)

    def emit(self, expr: relax.Expr) -> relax.Var:
        """Bind an expression to a new variable."""
        return self.importer.block_builder.emit(expr)

    def cast(self, value: relax.Expr, dtype: str) -> relax.Expr:
        """The tensor in another data type; unchanged if it has that type."""
        return value if dtype_of_tensor(value) == dtype else self.emit(relax.op.astype(value, dtype))

    def number_as_tensor(self, value: object, dtype: str) -> relax.Expr | None:
        """A Python number or an extent as a tensor of rank 0; None if it is neither."""
        if isinstance(value, bool | int | float):
            with np.errstate(over="ignore"):  # what float16 does not hold is infinite, as in PyTorch
                return relax.const(value, dtype)
        if not isinstance(value, relax.Expr) or not isinstance(value.ty, tvm.ir.PrimType):
            return None
        row = self.emit(relax.op.shape_to_tensor(relax.ShapeExpr([value])))
        return self.cast(self.emit(relax.op.reshape(row, relax.ShapeExpr([]))), dtype)


def is_tensor(value: object) -> bool:
    """Whether the value of a node is a single tensor."""
    return isinstance(value, relax.Expr) and isinstance(value.ty, relax.TensorType)


def has_known_shape(value: object) -> TypeGuard[relax.Expr]:
    """Whether the value of a node is a single tensor with known extents."""
    type_ = value.ty if isinstance(value, relax.Expr) else None
    return isinstance(type_, relax.TensorType) and isinstance(type_.shape, relax.ShapeExpr)


def dtype_of_tensor(value: relax.Expr) -> str:
    """The data type of a tensor."""
    return str(tensor_type(value).dtype)


def extents_of_tensor(value: relax.Expr) -> list[int | relax.Expr]:
    """The extents of a tensor, static ones as int; those that tensors compute are an error."""
    if not has_known_shape(value):
        raise ModelError("the extents of what it reads are computed with tensors, and known in a run only")
    return [int(each) if isinstance(each, tirx.IntImm) else each for each in shape_of(value).values]


def shape_difference(node: fx.Node, result: object) -> str:
    """How the shape of a result differs from PyTorch's, where both are known; empty if they agree."""
    expected = getattr(node.meta.get("val"), "shape", None)
    type_ = result.ty if isinstance(result, relax.Expr) else None
    if (
        expected is None
        or not isinstance(type_, relax.TensorType)
        or not isinstance(type_.shape, relax.ShapeExpr)
    ):
        return ""
    found = extents_of_tensor(expect(relax.Expr, result))
    same = len(found) == len(expected) and all(
        one == other
        for one, other in zip(found, expected, strict=True)
        if isinstance(one, int) and isinstance(other, int)
    )
    shapes = (", ".join(map(str, each)) for each in (found, expected))
    return "" if same else "it gets the shape ({}), but PyTorch computes ({})".format(*shapes)
