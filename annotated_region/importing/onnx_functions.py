"""Functions in ONNX models: those of the model, and operators that ONNX defines by others, in their parts.

What neither TVM nor this package converts (`Celu`, `HannWindow`, `Swish`, ...) may have a body in ONNX's own
definition. Such nodes, and calls of functions that a model brings along, are replaced by these bodies, one
in another, before TVM sees them. Weights are left out meanwhile, so that none is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

__all__ = ["OnnxGraph", "expanded", "nodes_of"]

# A body may call what has a body again; ONNX's own are three deep at most.
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """A graph whose nodes may be others than the model's.

    Attributes
    ----------
    node
        The nodes in their order.
    initializer, sparse_initializer, input, output
        As in the model.
    """

    node: Sequence[onnx.NodeProto]
    initializer: Sequence[onnx.TensorProto]
    sparse_initializer: Sequence[onnx.SparseTensorProto]
    input: Sequence[onnx.ValueInfoProto]
    output: Sequence[onnx.ValueInfoProto]


def expanded(model: onnx.ModelProto, opset: int, is_known: Callable[[onnx.NodeProto], bool]) -> OnnxGraph:
    """The graph of a model without calls of functions, as far as these have bodies.

    Parameters
    ----------
    model
        A model; it stays as it is.
    opset
        Of its default domain.
    is_known
        Whether a node is converted as it is.
    """
    nodes: Sequence[onnx.NodeProto] = model.graph.node
    if model.functions or _with_bodies(model.graph.node, opset, is_known):
        nodes = _inlined(_without_weights(model), opset, is_known).graph.node
    graph = model.graph
    return OnnxGraph(nodes, graph.initializer, graph.sparse_initializer, graph.input, graph.output)


def nodes_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those in their branches and loops."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else attribute.graphs
            for graph in inner:
                yield from nodes_of(graph.node)


def _with_bodies(
    nodes: Iterable[onnx.NodeProto], opset: int, is_known: Callable[[onnx.NodeProto], bool]
) -> dict[str, onnx.defs.OpSchema]:
    """The operators of the default domain that are not known, and that ONNX defines by others."""
    from onnx import defs  # noqa: PLC0415 - an extra

    found = {}
    for node in nodes_of(nodes):
        if is_known(node) or node.domain or not defs.has(node.op_type, opset, ""):
            continue
        schema = defs.get_schema(node.op_type, opset, "")
        if schema.has_function or schema.has_context_dependent_function:
            found[node.op_type] = schema
    return found


def _inlined(
    model: onnx.ModelProto, opset: int, is_known: Callable[[onnx.NodeProto], bool]
) -> onnx.ModelProto:
    from onnx import inliner, shape_inference  # noqa: PLC0415

    if model.functions:
        model = inliner.inline_local_functions(model, convert_version=True)
    for _ in range(_DEEPEST):
        found = _with_bodies(model.graph.node, opset, is_known)
        if not found:
            break
        if any(schema.has_context_dependent_function for schema in found.values()):
            # Such a body depends on the types of what it is given.
            model = shape_inference.infer_shapes(model)
        _fill_defaults(model.graph.node, found)
        names = [("", name) for name in found]
        model = inliner.inline_selected_functions(model, names, inline_schema_functions=True)
    return model


def _fill_defaults(nodes: Iterable[onnx.NodeProto], schemas: Mapping[str, onnx.defs.OpSchema]) -> None:
    """Give nodes the attributes that they leave out: bodies refer to them, and get none if left out."""
    for node in nodes_of(nodes):
        schema = None if node.domain else schemas.get(node.op_type)
        given = {attribute.name for attribute in node.attribute}
        for name, attribute in () if schema is None else schema.attributes.items():
            if name not in given and attribute.default_value.name:
                node.attribute.append(attribute.default_value)


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an input in the place of each initializer."""
    from onnx import ModelProto, helper  # noqa: PLC0415

    graph = model.graph
    light = ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = graph.name
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    light.graph.value_info.extend(graph.value_info)
    given = {value.name for value in graph.input}
    light.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in graph.initializer
        if tensor.name not in given
    )
    return light
