"""Converts a node to an expression with our converter, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tvm import relax

from annotated_region.importing.equations import EntryEquations
from annotated_region.importing.onnx_models.converters import (  # noqa: F401 - each registers its converters
    attention,
    block_weights,
    classical,
    column_images,
    computed_shapes,
    contributed_attention,
    convolution,
    deconvolution,
    deformed,
    detection,
    einsum,
    elementwise,
    empty_reductions,
    expand,
    extent_numbers,
    further_ops,
    fused_ops,
    grids,
    grouped_attention,
    hardmax,
    integer_ops,
    largest,
    linear_quantization,
    means,
    moments,
    norms,
    one_hot,
    padding,
    places_of_ones,
    pooling,
    quantized_ops,
    recurrent,
    resizing,
    rotary_positions,
    sequences,
    slicing,
    spectra,
    splitting,
    squeezing,
    support_vectors,
    suppression,
    tiling,
    transformers,
    tree_ensemble,
    trees,
)
from annotated_region.importing.onnx_models.converters.agreement import agreeing
from annotated_region.importing.onnx_models.converters.extent_numbers import with_tensors
from annotated_region.importing.onnx_models.converters.folding import folded
from annotated_region.importing.onnx_models.converters.node import OnnxNode
from annotated_region.importing.onnx_models.converters.registry import CONVERTERS
from annotated_region.origins import bounded

if TYPE_CHECKING:
    import onnx

    from annotated_region.tvm_adapter.onnx_importer import StandardOp

__all__ = ["DEFAULT_DOMAINS", "converted_by_us", "covered_by_us", "domain_of", "has_converter", "node_label"]

DEFAULT_DOMAINS = ("", "ai.onnx")


def domain_of(node: onnx.NodeProto) -> str:
    """The domain of a node's operator; the default one is the empty text."""
    return "" if node.domain in DEFAULT_DOMAINS else str(node.domain)


def has_converter(node: onnx.NodeProto) -> bool:
    """Whether we have a converter for the node."""
    return (domain_of(node), node.op_type) in CONVERTERS


def covered_by_us(node: onnx.NodeProto) -> bool:
    """Whether we have a converter that supports all inputs, attributes and outputs of the node."""
    converter = CONVERTERS.get((domain_of(node), node.op_type))
    return converter is not None and converter.covers(node)


def node_label(node: onnx.NodeProto) -> str:
    """The name of a node in messages: its name, or its first output."""
    name = node.name or next((output for output in node.output if output), "")
    operator = f"{node.domain}.{node.op_type}" if domain_of(node) else node.op_type
    return f"node {name!r} ({operator})"


def converted_by_us(
    model: str,
    opset: int,
    equations: EntryEquations,
    origin_of: Callable[[onnx.NodeProto], str],
    node: onnx.NodeProto,
    inputs: Sequence[relax.Expr | None],
    builder: relax.BlockBuilder,
    standard: StandardOp,
) -> relax.Expr | None:
    """The expression of a node of the model that messages call `model`; None if TVM should convert it.

    Nodes with constant operands are folded first, even if a converter exists. The inputs of others get the
    extents that the model relies on, as far as `equations` can be checked; errors in a call name the node as
    `origin_of` does.

    Raises
    ------
    ModelError
        The node has an input, an attribute, a type or a form that the converter does not support.
    """
    known = None if domain_of(node) else folded(node, inputs, opset)
    if known is not None:
        return known
    where = f"{model} cannot be imported: {node_label(node)}"
    given = OnnxNode(
        node, where, bounded(origin_of(node)), tuple(inputs), builder, standard, equations, opset
    )
    with equations.known.needed_by(given.origin):
        agreed = given if domain_of(node) else agreeing(with_tensors(given))
        converter = CONVERTERS.get((domain_of(node), node.op_type))
        if converter is None:
            return None if agreed is given else agreed.by_tvm()
        return converter(agreed)
