"""Extents in few operations, as results of nodes have them: 64 for ``whole // (whole // 64)``.

Exporters compute extents step by step, and TVM proves little about quotients of quotients, so that it sees
different extents where a model has equal ones. An exporter may also have found that an extent is one number
in each call that it allows: one block for ``(n + 63) // 64``, because a loop over blocks was run once; then
the function checks it (`annotated_region.importing.equations`). A tensor of such extents is reshaped, which
moves no data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm
from tvm import relax, tirx

from annotated_region.functions.polynomials import simplified
from annotated_region.functions.shape_variables import variables_in
from annotated_region.importing.equations import Equations
from annotated_region.importing.torch_converters.torch_node import has_known_shape
from annotated_region.tvm_adapter.types import shape_of

if TYPE_CHECKING:
    from torch import fx
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

__all__ = ["is_known_at_entry", "with_plain_extents"]


def with_plain_extents(
    result: object, node: fx.Node, importer: ExportedProgramImporter, equations: Equations
) -> object:
    """A number or a tensor whose extents are simplified, or known to PyTorch; other results as they are."""
    if not isinstance(result, relax.Expr):
        return result
    if isinstance(result.ty, tvm.ir.PrimType):
        return _plain(result)
    expected = getattr(node.meta.get("val"), "shape", None)
    if not has_known_shape(result) or expected is None:
        return result
    extents = list(shape_of(result).values)
    if all(isinstance(extent, tirx.IntImm | tirx.Var) for extent in extents):
        return result
    found = [_plain(extent) for extent in extents]
    for axis, number in enumerate(expected if len(expected) == len(found) else ()):
        extent = found[axis]
        is_found = isinstance(number, int) and not isinstance(extent, tirx.IntImm)
        if is_found and is_known_at_entry(extent, node.graph):
            equations.require(found[axis], number)
            found[axis] = tirx.IntImm("int64", number)
    if all(new is old for new, old in zip(found, extents, strict=True)):
        return result
    return importer.block_builder.emit(relax.op.reshape(result, relax.ShapeExpr(found)))


def _plain(extent: relax.Expr) -> relax.Expr:
    return extent if isinstance(extent, tirx.IntImm | tirx.Var) else simplified(extent)


def is_known_at_entry(extent: relax.Expr | int, graph: fx.Graph) -> bool:
    """Whether an extent can be computed from those of the inputs."""
    variables = variables_in(extent)
    return not variables or {variable.name for variable in variables} <= _symbols_of_inputs(graph)


def _symbols_of_inputs(graph: fx.Graph) -> set[str]:
    """The names of the symbols in the shapes of the inputs."""
    shapes = (getattr(node.meta.get("val"), "shape", ()) for node in graph.find_nodes(op="placeholder"))
    symbolic = (extent for shape in shapes for extent in shape if hasattr(extent, "node"))
    return {str(symbol) for extent in symbolic for symbol in extent.node.expr.free_symbols}
