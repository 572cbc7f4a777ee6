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

# The domain of bodies that are made here.
_BODIES = "annotated_region.bodies"


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


def expanded(model: onnx.ModelProto, opset: int, is_covered: Callable[[onnx.NodeProto], bool]) -> OnnxGraph:
    """The graph of a model without calls of functions, as far as these have bodies.

    Parameters
    ----------
    model
        A model; it stays as it is.
    opset
        Of its default domain.
    is_covered
        Whether a node is converted as it is, with all inputs, attributes and outputs that it has.
    """
    nodes: Sequence[onnx.NodeProto] = model.graph.node
    if model.functions or _with_bodies(model.graph.node, opset, is_covered):
        nodes = _inlined(_without_weights(model), opset, is_covered).graph.node
    graph = model.graph
    return OnnxGraph(nodes, graph.initializer, graph.sparse_initializer, graph.input, graph.output)


def nodes_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those in their branches and loops."""
    for node in nodes:
        yield node
        for graph in _bodies(node):
            yield from nodes_of(graph.node)


def _with_bodies(
    nodes: Iterable[onnx.NodeProto], opset: int, is_covered: Callable[[onnx.NodeProto], bool]
) -> dict[str, onnx.defs.OpSchema]:
    """The operators of the default domain that ONNX defines by others, and that are not converted whole."""
    from onnx import defs  # noqa: PLC0415 - an extra

    found = {}
    for node in nodes_of(nodes):
        if is_covered(node) or node.domain or not defs.has(node.op_type, opset, ""):
            continue
        schema = defs.get_schema(node.op_type, opset, "")
        if schema.has_function or schema.has_context_dependent_function:
            found[node.op_type] = schema
    return found


def _inlined(
    model: onnx.ModelProto, opset: int, is_covered: Callable[[onnx.NodeProto], bool]
) -> onnx.ModelProto:
    from onnx import inliner, shape_inference  # noqa: PLC0415

    if model.functions:
        model = inliner.inline_local_functions(model, convert_version=True)
    for _ in range(_DEEPEST):
        found = _with_bodies(model.graph.node, opset, is_covered)
        if not found:
            break
        by_types = {name: schema for name, schema in found.items() if schema.has_context_dependent_function}
        if by_types:
            model = shape_inference.infer_shapes(model)
        _fill_defaults(model.graph.node, found)
        if _define(model, by_types, is_covered):
            model = inliner.inline_local_functions(model, convert_version=True)
        names = [("", name) for name in found]
        model = inliner.inline_selected_functions(model, names, inline_schema_functions=True)
    return model


def _define(
    model: onnx.ModelProto,
    schemas: Mapping[str, onnx.defs.OpSchema],
    is_covered: Callable[[onnx.NodeProto], bool],
) -> bool:
    """Make nodes that leave out an input, and whose bodies depend on types, calls of functions of the model.

    ONNX's inliner asks for the type of an input that is left out, and fails; here it has none. The answer is
    whether there is such a node.
    """
    from onnx import FunctionProto, TypeProto  # noqa: PLC0415

    types = _types(model.graph)
    for node in nodes_of(model.graph.node):
        if all(node.input) or node.domain or is_covered(node) or node.op_type not in schemas:
            continue
        given = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
        body = schemas[node.op_type].get_context_dependent_function(node.SerializeToString(), given)
        function = FunctionProto.FromString(body)
        function.domain, function.name = _BODIES, f"{node.op_type}_{len(model.functions)}"
        model.functions.append(function)
        node.domain, node.op_type = function.domain, function.name
    if model.functions:
        model.opset_import.add(domain=_BODIES, version=1)
    return bool(model.functions)


def _types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """The types of values, as far as they are known, also in branches and loops."""
    bodies = [graph, *(body for node in nodes_of(graph.node) for body in _bodies(node))]
    return {
        value.name: value.type
        for body in bodies
        for value in (*body.input, *body.value_info, *body.output)
        if value.type.WhichOneof("value")
    }


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


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
