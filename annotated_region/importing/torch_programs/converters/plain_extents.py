"""Extents in few operations, as results of nodes have them: 64 for ``whole // (whole // 64)``.

Exporters compute extents step by step, and TVM proves little about quotients of quotients, so that it sees
different extents where a model has equal ones. An exporter may also have found that an extent is one number
in each call that it allows: one block for ``(n + 63) // 64``, because a loop over blocks was run once; then
the function checks it (`annotated_region.importing.equations`). A tensor of such extents is reshaped, which
moves no data.

A view has as many elements as its data in each call that an exporter allows; where that does not follow from
the extents, the function checks it, too: blocks of four would be read from thirteen rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, TypeGuard

import tvm
from tvm import relax, tirx

from annotated_region.functions.polynomials import are_equal, simplified
from annotated_region.functions.shape_variables import variables_in
from annotated_region.importing.equations import Equations
from annotated_region.importing.torch_programs.converters.slice_rows import rows_of_slice
from annotated_region.importing.torch_programs.converters.torch_node import extents_of_tensor, has_known_shape
from annotated_region.tvm_adapter.arithmetic import Extent
from annotated_region.tvm_adapter.types import shape_of

if TYPE_CHECKING:
    from torch import fx
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

__all__ = ["is_known_at_entry", "is_symbolic", "numbers_where_known", "with_plain_extents"]

_VIEWS = frozenset(["view.default", "reshape.default", "_unsafe_view.default"])


def with_plain_extents(
    name: str, result: object, node: fx.Node, importer: ExportedProgramImporter, equations: Equations
) -> object:
    """A number or a tensor whose extents are simplified, or known to PyTorch; other results as they are."""
    if not isinstance(result, relax.Expr):
        return result
    if is_symbolic(result):
        return _plain(result, equations)
    if name in _VIEWS:
        _require_all_elements(importer.env[node.all_input_nodes[0]], result, node, equations)
    expected = getattr(node.meta.get("val"), "shape", None)
    if not has_known_shape(result) or expected is None:
        return result
    if name == "slice.Tensor":
        _require_rows(importer.env[node.all_input_nodes[0]], node, equations)
    extents = list(shape_of(result).values)
    if all(isinstance(extent, tirx.IntImm | tirx.Var) for extent in extents):
        return result
    found = [_plain(extent, equations) for extent in extents]
    for axis, number in enumerate(expected if len(expected) == len(found) else ()):
        extent = found[axis]
        is_found = isinstance(number, int) and not isinstance(extent, tirx.IntImm)
        if is_found and is_known_at_entry(extent, node.graph):
            equations.require(found[axis], number)
            found[axis] = tirx.IntImm("int64", number)
    if all(new is old for new, old in zip(found, extents, strict=True)):
        return result
    return importer.block_builder.emit(relax.op.reshape(result, relax.ShapeExpr(found)))


def _require_all_elements(data: object, view: relax.Expr, node: fx.Node, equations: Equations) -> None:
    """A view has as many elements as its data; extents of both are cancelled, but for those of 0."""
    if not has_known_shape(data) or not has_known_shape(view):
        return
    given, wanted, rest = extents_of_tensor(data), extents_of_tensor(view), []
    if _has_none(given) and _has_none(wanted):
        return
    for extent in given:
        place = next((index for index, each in enumerate(wanted) if _are_one(each, extent)), None)
        if place is None:
            rest.append(extent)
        else:
            del wanted[place]
    sizes = _product(rest), _product(wanted)
    if not are_equal(*sizes) and all(is_known_at_entry(each, node.graph) for each in sizes):
        equations.require(*sizes)


def _require_rows(data: object, node: fx.Node, equations: Equations) -> None:
    """A slice that is in bounds as the exporter found has to be so in each call."""
    rows = rows_of_slice(node)
    if rows is None or rows.is_certain or rows.count == 1 or not has_known_shape(data):
        return
    length = extents_of_tensor(data)[rows.axis]
    if isinstance(length, relax.Expr) and is_known_at_entry(length, node.graph):
        equations.require(tirx.Min(length, tirx.IntImm("int64", rows.count)), rows.count)


def _has_none(shape: Sequence[Extent]) -> bool:
    """Whether a tensor has no elements, whatever its symbolic extents."""
    return any(isinstance(extent, int) and extent == 0 for extent in shape)


def _are_one(one: Extent, other: Extent) -> bool:
    """Whether two extents are the same number or the same variable."""
    if isinstance(one, tirx.Var) and isinstance(other, tirx.Var):
        return one.same_as(other)
    return isinstance(one, int) and isinstance(other, int) and one == other


def _product(extents: Sequence[Extent]) -> Extent:
    return reduce(mul, extents, 1)


def is_symbolic(value: object) -> TypeGuard[relax.Expr]:
    """Whether a value is a whole number that is computed from extents."""
    return isinstance(value, relax.Expr) and isinstance(value.ty, tvm.ir.PrimType)


def _plain(extent: relax.Expr, equations: Equations) -> relax.Expr:
    return (
        extent if isinstance(extent, tirx.IntImm | tirx.Var) else simplified(equations.with_numbers(extent))
    )


@contextmanager
def numbers_where_known(importer: ExportedProgramImporter, equations: Equations) -> Iterator[None]:
    """What equations of numbers its body adds are used for the extents that were computed before."""
    before = len(equations.numbers)
    yield
    if len(equations.numbers) == before:
        return
    for node, value in list(importer.env.items()):
        extent = equations.with_numbers(value) if is_symbolic(value) else value
        if extent is not value and isinstance(extent, relax.Expr):
            plain = _plain(extent, equations)
            importer.env[node] = int(plain) if isinstance(plain, tirx.IntImm) else plain


def is_known_at_entry(extent: relax.Expr | int, graph: fx.Graph) -> bool:
    """Whether an extent can be computed from those of the inputs."""
    variables = variables_in(extent)
    return not variables or {variable.name for variable in variables} <= _symbols_of_inputs(graph)


def _symbols_of_inputs(graph: fx.Graph) -> set[str]:
    """The names of the symbols in the shapes of the inputs."""
    shapes = (getattr(node.meta.get("val"), "shape", ()) for node in graph.find_nodes(op="placeholder"))
    symbolic = (extent for shape in shapes for extent in shape if hasattr(extent, "node"))
    return {str(symbol) for extent in symbolic for symbol in extent.node.expr.free_symbols}
