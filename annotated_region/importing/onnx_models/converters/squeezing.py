"""`Squeeze` of symbolic axes, which TVM's importer rejects, or makes a tensor of unknown rank of.

The axes of `Unsqueeze` are a vector. Exporters write a number, too (jax2onnx), as ONNX Runtime takes it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import OnnxNode
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []


@converts("", "Squeeze", (1, 2), "axes")
def _squeezed(node: OnnxNode) -> relax.Expr:
    """A squeezed axis has one element in a valid model, which each call is checked for."""
    extents = _extents(node)
    given = node.inputs[1] if node.has(1) else None
    unknown = [extent for extent in extents if not isinstance(extent, int)]
    node.require(
        given is not None or "axes" in node.attributes or not unknown,
        f"squeezes all axes of one element, and the extents {', '.join(map(str, unknown))} are unknown; "
        "give them numbers (shape_dict, --shape)",
    )
    axes = None if given is None else known_numbers(given)
    if axes is None or not all(-len(extents) <= axis < len(extents) for axis in axes.ravel().tolist()):
        return node.by_tvm()
    data, squeezed = node.tensor(0), {axis % len(extents) for axis in axes.ravel().tolist()}
    if all(isinstance(extents[axis], int) for axis in squeezed):
        return node.by_tvm()
    wanted = [1 if axis in squeezed else extent for axis, extent in enumerate(extents)]
    if any(isinstance(extents[axis], int) and extents[axis] != 1 for axis in squeezed):
        return node.by_tvm()
    return relax.op.squeeze(node.with_extents(data, wanted), sorted(squeezed))


@converts("", "Unsqueeze", (1, 2), "axes")
def _unsqueezed(node: OnnxNode) -> relax.Expr:
    given = node.inputs[1] if node.has(1) else None
    axes = None if given is None else node.constant(given)
    if axes is None or axes.ndim:
        return node.by_tvm()
    return node.with_input(1, relax.const(axes.reshape(1))).by_tvm()


def _extents(node: OnnxNode) -> tuple[Extent, ...]:
    """The extents of the data; none if it is no tensor, or of unknown shape."""
    data = node.inputs[0]
    is_known = data is not None and isinstance(getattr(data.ty, "shape", None), relax.ShapeExpr)
    return node.shape(node.tensor(0)) if is_known else ()
