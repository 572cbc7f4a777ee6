"""Inlines functions in ONNX models: local functions, and operators that ONNX defines as functions.

Operators that neither TVM nor this package converts (`HannWindow`, `Swish`, ...) may have a function
body in ONNX's definition. Such nodes, and calls of local functions of the model, are inlined recursively
before TVM sees them. Weights are removed temporarily, to avoid copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

__all__ = ["OnnxGraph", "bodies_of", "expanded", "nodes_of"]

# Function bodies may call functions; ONNX's own are nested at most three deep.
_DEEPEST = 8

# The domain of function bodies that are created here.
_BODIES = "annotated_region.bodies"


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """A graph whose nodes may differ from the model's.

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
    """The graph of a model with all calls of functions that have bodies inlined.

    Parameters
    ----------
    model
        A model; it is not changed.
    opset
        The opset version of its default domain.
    is_covered
        Whether a converter supports a node with all its inputs, attributes and outputs.
    """
    nodes: Sequence[onnx.NodeProto] = model.graph.node
    if model.functions or _with_bodies(model.graph.node, opset, is_covered):
        nodes = _inlined(_without_weights(model), opset, is_covered).graph.node
    graph = model.graph
    return OnnxGraph(nodes, graph.initializer, graph.sparse_initializer, graph.input, graph.output)


def nodes_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, including those in nested graphs of branches and loops."""
    for node in nodes:
        yield node
        for graph in bodies_of(node):
            yield from nodes_of(graph.node)


def _with_bodies(
    nodes: Iterable[onnx.NodeProto], opset: int, is_covered: Callable[[onnx.NodeProto], bool]
) -> dict[str, onnx.defs.OpSchema]:
    """The operators of the default domain that ONNX defines as functions and that no converter covers."""
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
        _import_as_the_model(model)
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


def _import_as_the_model(model: onnx.ModelProto) -> None:
    """Let functions import the domains of functions in the versions that the model imports.

    ONNX's inliner leaves calls of other versions as they are, though only operators have versions; exporters
    write any (jax2onnx writes 1 in the model, and the opset version in its functions).
    """
    versions = {each.domain: each.version for each in model.opset_import}
    domains = {function.domain for function in model.functions} - {"", "ai.onnx"}
    for function in model.functions:
        for opset in function.opset_import:
            if opset.domain not in domains:
                continue
            if opset.domain not in versions:
                model.opset_import.add(domain=opset.domain, version=opset.version)
            opset.version = versions.setdefault(opset.domain, opset.version)


def _define(
    model: onnx.ModelProto,
    schemas: Mapping[str, onnx.defs.OpSchema],
    is_covered: Callable[[onnx.NodeProto], bool],
) -> bool:
    """Turn nodes with omitted inputs and type-dependent bodies into calls of new local functions.

    ONNX's inliner asks for the type of an omitted input, and fails; here it has no type. Returns
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
    """The known types of values, including those in branches and loops."""
    bodies = [graph, *(body for node in nodes_of(graph.node) for body in bodies_of(node))]
    return {
        value.name: value.type
        for body in bodies
        for value in (*body.input, *body.value_info, *body.output)
        if value.type.WhichOneof("value")
    }


def bodies_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs of the branches, or of the loop, that a node is."""
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


def _fill_defaults(nodes: Iterable[onnx.NodeProto], schemas: Mapping[str, onnx.defs.OpSchema]) -> None:
    """Add omitted attributes with their default values, because function bodies refer to them."""
    for node in nodes_of(nodes):
        schema = None if node.domain else schemas.get(node.op_type)
        given = {attribute.name for attribute in node.attribute}
        for name, attribute in () if schema is None else schema.attributes.items():
            if name not in given and attribute.default_value.name:
                node.attribute.append(attribute.default_value)


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with inputs in place of initializers."""
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
