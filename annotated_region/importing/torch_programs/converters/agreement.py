"""Operands, and joined tensors, with extents that PyTorch knows to be equal and TVM does not.

TVM gives the sum of tensors of the extents ``n`` and ``64 - max(64 - n, 0)`` no shape, after which neither
TVM nor targets know any. An exporter accepts the sum only if the extents are equal in every run it allows,
here for ``n`` up to 64. So one operand is reshaped to the extents of the other, and the function checks the
equation (`annotated_region.importing.equations`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvm import relax

from annotated_region.functions.polynomials import are_equal
from annotated_region.importing.equations import Equations, common_extent
from annotated_region.importing.torch_programs.converters.plain_extents import is_known_at_entry, is_symbolic
from annotated_region.importing.torch_programs.converters.torch_node import extents_of_tensor, has_known_shape
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal
from annotated_region.tvm_adapter.types import expect

if TYPE_CHECKING:
    from torch import fx
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

__all__ = ["Agreement"]

_OF_TENSORS = "add sub rsub mul div remainder fmod eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor"
_BROADCASTING = frozenset(
    [f"{name}.Tensor" for name in _OF_TENSORS.split()]
    + [f"{name}.default" for name in ("maximum", "minimum", "floor_divide", "logical_and", "logical_or")]
    + ["div.Tensor_mode", "pow.Tensor_Tensor", "where.self", "masked_fill.Scalar", "masked_fill.Tensor"]
)
_JOINING = "cat.default"
_AGREEING = _BROADCASTING | {_JOINING}


@dataclass(frozen=True, slots=True)
class _Operand:
    """A tensor: its node, its value, its extents, and along which axes PyTorch repeats it.

    Of an extent that was 1 when the model was exported, and may be another number, that is unknown.
    """

    node: fx.Node
    value: relax.Expr
    extents: Sequence[Extent]
    repeats: Sequence[bool | None]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The equations between extents that the nodes of a program need."""

    equations: Equations = field(default_factory=Equations)

    @contextmanager
    def of_operands(self, name: str, node: fx.Node, importer: ExportedProgramImporter) -> Iterator[None]:
        """Inside of it, the values of operands have extents that TVM knows to be equal."""
        changed: dict[fx.Node, relax.Expr | int] = {}
        if name == "expand.default":
            changed = {**self._fitted(node, importer), **self._known_sizes(node, importer)}
        operands = _operands(node, importer) if name in _AGREEING else []
        apart = None
        if name == _JOINING:
            operands, apart = _joined(node, operands)
        changed |= {each.node: self._reshaped(each, operands, apart, importer) for each in operands}
        before = {each: importer.env[each] for each in changed}
        importer.env.update(changed)
        try:
            yield
        finally:
            importer.env.update(before)

    def _fitted(self, node: fx.Node, importer: ExportedProgramImporter) -> dict[fx.Node, relax.Expr]:
        """The data of an ``expand``, with the extents that it asks for along axes that it does not repeat."""
        sizes = expect(list, node.args[1])
        asked = [importer.env[size] if hasattr(size, "meta") else size for size in sizes]
        return {each.node: self._of_sizes(each, asked, importer) for each in _operands(node, importer)}

    def _known_sizes(self, node: fx.Node, importer: ExportedProgramImporter) -> dict[fx.Node, int]:
        """Numbers among the extents of the data of an ``expand``, for sizes that must be equal to them."""
        known = {}
        for operand in _operands(node, importer):
            sizes = expect(list, node.args[1])
            sizes = sizes[len(sizes) - len(operand.extents) :]
            for size, extent, repeats in zip(sizes, operand.extents, operand.repeats, strict=True):
                asked = importer.env.get(size) if hasattr(size, "meta") else None
                if not isinstance(extent, int) or repeats is not False or not is_symbolic(asked):
                    continue
                if is_known_at_entry(asked, node.graph):
                    self._require(asked, extent)
                    known[size] = extent
        return known

    def _of_sizes(
        self, operand: _Operand, asked: Sequence[Extent], importer: ExportedProgramImporter
    ) -> relax.Expr:
        extents = list(operand.extents)
        for axis in range(-len(extents), 0):
            wanted = asked[axis]
            is_one = isinstance(wanted, int) and wanted == 1
            if isinstance(extents[axis], int) or not (is_one or operand.repeats[axis] is False):
                continue
            keeps = isinstance(wanted, int) and wanted == -1
            if not keeps and is_known_at_entry(extents[axis], operand.node.graph):
                self._require(extents[axis], wanted)
                extents[axis] = wanted
        return self._emitted(operand, extents, importer)

    def _reshaped(
        self,
        operand: _Operand,
        operands: Sequence[_Operand],
        apart: int | None,
        importer: ExportedProgramImporter,
    ) -> relax.Expr:
        """The operand with the extents of the others, but for an axis that may differ."""
        extents = list(operand.extents)
        for axis in range(-len(extents), 0):
            if axis == apart:
                continue
            common = _common([each for each in operands if len(each.extents) >= -axis], axis)
            if common is None or provably_equal(extents[axis], common):
                continue
            wanted = 1 if operand.repeats[axis] else common
            if not isinstance(extents[axis], int):
                self._require(extents[axis], wanted)
            extents[axis] = wanted
        return self._emitted(operand, extents, importer)

    def _require(self, one: Extent, other: Extent) -> None:
        if not are_equal(one, other):
            self.equations.require(one, other)

    def _emitted(
        self, operand: _Operand, extents: Sequence[Extent], importer: ExportedProgramImporter
    ) -> relax.Expr:
        """The operand with other extents; itself if TVM knows that they are equal."""
        if all(map(provably_equal, extents, operand.extents)):
            return operand.value
        return importer.block_builder.emit(relax.op.reshape(operand.value, relax.ShapeExpr(extents)))


def _joined(node: fx.Node, operands: Sequence[_Operand]) -> tuple[list[_Operand], int]:
    """The operands of a ``cat`` but for vectors of nothing beside matrices, and the axis from the last."""
    rank = max((len(each.extents) for each in operands), default=0)
    axis = expect(int, node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0))
    return [each for each in operands if len(each.extents) == rank], axis if axis < 0 else axis - rank


def _operands(node: fx.Node, importer: ExportedProgramImporter) -> list[_Operand]:
    """The operands of a node; none if the extents of one are unknown."""
    found = []
    for each in node.all_input_nodes:
        value = importer.env[each]
        shape = getattr(each.meta.get("val"), "shape", None)
        if shape is None:
            continue
        if not has_known_shape(value):
            return []
        found.append(_Operand(each, value, extents_of_tensor(value), [_repeats(extent) for extent in shape]))
    return found


def _repeats(extent: object) -> bool | None:
    if isinstance(extent, int):
        return extent == 1
    symbol = getattr(extent, "node", None)
    if symbol is None or not isinstance(symbol.hint, int):
        return None
    if symbol.hint != 1:
        return False
    range_ = symbol.shape_env.bound_sympy(symbol.expr)
    return True if range_.lower == range_.upper == 1 else None


def _common(operands: Sequence[_Operand], axis: int) -> Extent | None:
    """The extent of an axis in the result; None if operands repeat along it, or if it is unknown."""
    if any(each.repeats[axis] is None for each in operands):
        return None
    return common_extent([each.extents[axis] for each in operands if not each.repeats[axis]])
