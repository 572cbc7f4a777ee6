"""Reads ONNX models with TVM's importer and our converters, after checks that the importer omits.

TVM's importer does not validate nodes: a missing input becomes a null pointer in its C++ (`Concat`,
`Einsum`, `SequenceConstruct`), and an undefined value a `KeyError`. Here every node is first checked
against the schema of its operator and against the previously defined values.

TVM's table ignores the domain of a node. Here a node of a domain other than ONNX's own is converted by
one of our converters, or rejected.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

import tvm

from annotated_region.arguments import brief_repr
from annotated_region.errors import AnnotatedRegionError, ModelError, UsageError
from annotated_region.importing.equations import EntryEquations, Equations
from annotated_region.importing.onnx_models.converters.conversion import (
    DEFAULT_DOMAINS,
    converted_by_us,
    covered_by_us,
    domain_of,
    has_converter,
    node_label,
)
from annotated_region.importing.onnx_models.extents import with_named_extents
from annotated_region.importing.onnx_models.functions import OnnxGraph, expanded, nodes_of
from annotated_region.importing.onnx_models.narrow_types import require_known_types
from annotated_region.importing.onnx_models.order import in_order
from annotated_region.importing.onnx_models.shapes import with_given_shapes
from annotated_region.importing.onnx_models.small_integers import with_bytes
from annotated_region.importing.onnx_models.sparse import with_dense_constants
from annotated_region.importing.onnx_models.values import with_given_values
from annotated_region.importing.onnx_models.versions import modern_model
from annotated_region.importing.origins import OnnxOrigins, with_origins
from annotated_region.printable import first_line
from annotated_region.serial import one_at_a_time

if TYPE_CHECKING:
    import onnx

    from annotated_region.tvm_adapter.onnx_importer import OnnxGraphImporter

__all__ = ["model_from_bytes", "module_from_model", "module_from_onnx"]

_OUT_OF_MEMORY = "std::bad_alloc"
_OLDEST_IR = 3
_BLOCKED = "com.microsoft.nchwc"
"""The domain of ONNX Runtime's operators of blocked channels."""


def module_from_onnx(content: bytes, name: str, folder: str, options: Mapping[str, object]) -> tvm.IRModule:
    """The module that an ONNX file describes.

    Parameters
    ----------
    content
        The file.
    name
        The name of the model in messages.
    folder
        The folder of its external data.
    options
        Further arguments of TVM's importer, and ``value_dict``.

    Raises
    ------
    ModelError
        It is not an ONNX model, or TVM cannot import it.
    MemoryError
        There is not enough memory for it.
    """
    model = model_from_bytes(content, name)
    import onnx  # noqa: PLC0415 - an extra

    try:
        onnx.load_external_data_for_model(model, folder)
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"the external data of {name} cannot be read: {first_line(error)}") from error
    return module_from_model(model, name, options)


def model_from_bytes(content: bytes, name: str) -> onnx.ModelProto:
    """The model in a file, without its external data."""
    try:
        import onnx  # noqa: PLC0415 - an extra that only ONNX files need
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - comes with onnx
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError):
            # The library exists, but there is not enough memory to load it.
            raise MemoryError from error
        raise ModelError(f"{name} needs the package onnx: pip install 'annotated-region[onnx]'") from error
    try:
        return onnx.load_model_from_string(content)
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{name} is not an ONNX model: {error}") from error


_OPTIONS = ("shape_dict", "dtype_dict", "value_dict", "opset", "keep_params_in_input", "sanitize_input_names")
"""Of TVM's importer; all but ``value_dict``, which is ours."""


@one_at_a_time
def module_from_model(model: onnx.ModelProto, name: str, options: Mapping[str, Any]) -> tvm.IRModule:
    """The module that a model in memory describes; see `module_from_onnx`."""
    if not model.graph.output:
        raise ModelError(f"{name} is not an ONNX model: it has no graph with outputs")
    if model.ir_version < _OLDEST_IR:
        raise ModelError(f"{name} is of version {model.ir_version} of ONNX's format, which is too old")
    try:
        return _imported(modern_model(model, _opset(model), name), name, options, OnnxOrigins(model))
    except (AnnotatedRegionError, MemoryError):
        raise
    except Exception as error:  # the importer raises whatever a malformed node leads to
        if _OUT_OF_MEMORY in str(error):
            raise MemoryError from error
        raise ModelError(f"TVM cannot import {name}: {first_line(error)}") from error


def _imported(
    model: onnx.ModelProto, name: str, options: Mapping[str, object], origins: OnnxOrigins
) -> tvm.IRModule:
    from annotated_region.importing.onnx_models.loops import LOOPS, UnrollingImporter  # noqa: PLC0415 - needs onnx
    from annotated_region.tvm_adapter.onnx_importer import ops_of_tvm  # noqa: PLC0415

    def by_tvm(node: onnx.NodeProto) -> bool:
        return not domain_of(node) and node.op_type in ops

    def is_known(node: onnx.NodeProto) -> bool:
        return has_converter(node) or by_tvm(node)

    def is_covered(node: onnx.NodeProto) -> bool:
        return covered_by_us(node) or (by_tvm(node) and not has_converter(node))

    _require_usable(options, [each.name for each in model.graph.input], name)
    ops, given = ops_of_tvm() | LOOPS, dict(options)
    opset = _opset(model)
    used: Any = given.pop("opset", None)
    given.pop("value_dict", None)
    _require_tensors(model.graph, name, frozenset(_by_name(given, "shape_dict")))
    graph = with_named_extents(expanded(model, opset, is_covered))
    graph = with_given_values(graph, _by_name(options, "value_dict"), name)
    graph, given["shape_dict"] = with_given_shapes(graph, _by_name(given, "shape_dict"), name)
    graph = with_dense_constants(replace(graph, node=in_order(graph.node)), name)
    graph = with_bytes(graph, name)
    _require_sound(graph, name, opset, is_known)
    with warnings.catch_warnings():
        # The importer's warnings about names and shapes.
        warnings.simplefilter("ignore", UserWarning)
        used = opset if used is None else used
        equations = EntryEquations(Equations(), lambda extent: importer.is_known_at_entry(extent))  # noqa: PLW0108 - made below
        convert = partial(converted_by_us, name, used, equations, origins.origin_of)
        importer = UnrollingImporter(name, convert, origins.note, **given)
        mod = _converted(importer, graph, used, name)
    require_known_types(mod, name)
    return equations.known.checked_by(with_origins(mod, origins.results))


def _require_usable(options: Mapping[str, object], inputs: Sequence[str], name: str) -> None:
    """Raise `UsageError` for an option that the importer lacks, or that names no input of the model."""
    for option in options:
        if option not in _OPTIONS:
            nearest = get_close_matches(option, _OPTIONS, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"it has {', '.join(_OPTIONS)}"
            raise UsageError(f"from_onnx has no option {option}; {hint}")
    for option in ("shape_dict", "dtype_dict", "value_dict"):
        value = options.get(option) or {}
        if option == "dtype_dict" and isinstance(value, str):  # of all inputs
            continue
        if not isinstance(value, Mapping):
            raise UsageError(f"{option} is {brief_repr(value)}; pass a dictionary by the names of inputs")
        for given in value:
            if given not in inputs:
                raise UsageError(
                    f"{option} names {given!r}, which is no input of {name}; "
                    f"its inputs are {', '.join(map(repr, inputs)) or 'none'}"
                )

    for given in _by_name(options, "shape_dict").keys() & _by_name(options, "value_dict").keys():
        raise UsageError(f"the input {given!r} of {name} is given a shape and a value, which has its own")


def _by_name(options: Mapping[str, object], option: str) -> Mapping[str, object]:
    """What an option gives to inputs, by their names."""
    given = options.get(option)
    return given if isinstance(given, Mapping) else {}


def _require_tensors(graph: onnx.GraphProto, name: str, shaped: frozenset[str]) -> None:
    """Raise `ModelError` for an input that is a sequence, which TVM would treat as a tensor, or has no rank.

    Nothing can be compiled for tensors of unknown rank; `shaped` inputs get a shape from the user.
    """
    known = shaped | {each.name for each in graph.initializer}
    for value in graph.input:
        is_tensor = value.type.HasField("tensor_type")
        if is_tensor and not value.type.tensor_type.HasField("shape") and value.name not in known:
            raise ModelError(
                f"{name} cannot be imported: its input {value.name!r} has no shape; pass one "
                f"(shape_dict={{{value.name!r}: [...]}})"
            )
        kind = value.type.optional_type.elem_type if value.type.HasField("optional_type") else value.type
        if kind.HasField("sequence_type"):
            raise ModelError(f"{name} cannot be imported: its input {value.name!r} is a sequence of tensors")


def _converted(importer: OnnxGraphImporter, graph: OnnxGraph, opset: int, name: str) -> tvm.IRModule:
    """The module of a graph; errors of TVM are raised with the node that causes them."""
    try:
        return importer.from_onnx(graph, opset)
    except (AnnotatedRegionError, MemoryError):
        raise
    except Exception as error:  # the importer raises whatever a malformed node leads to
        if importer.node is None or _OUT_OF_MEMORY in str(error):
            raise
        raise ModelError(
            f"TVM cannot import {name}: {node_label(importer.node)}: {first_line(error)}"
        ) from error


def _opset(model: onnx.ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAINS), 0)


def _require_sound(
    graph: OnnxGraph, name: str, opset: int, is_known: Callable[[onnx.NodeProto], bool]
) -> None:
    """Raise `ModelError` for the first node that lacks an input, or for all nodes without a converter."""
    for problem in _problems(graph, frozenset(), opset):
        raise ModelError(f"TVM cannot import {name}: {problem}")
    unknown: dict[tuple[str, str], str] = {}
    for node in nodes_of(graph.node):
        if not is_known(node):
            unknown.setdefault((domain_of(node), node.op_type), node_label(node))
    if unknown:
        raise ModelError(
            f"{name} cannot be imported: there is no converter for {', '.join(unknown.values())}; "
            + _advice({domain for domain, _operator in unknown})
        )


def _advice(domains: Set[str]) -> str:
    """What to do about operators of these domains without a converter."""
    if _BLOCKED in domains:
        return f"ONNX Runtime writes {_BLOCKED} at its last level; save the model at ORT_ENABLE_EXTENDED"
    return "export the model without them, or write them as a function of other operators"


def _problems(graph: onnx.GraphProto | OnnxGraph, outer: frozenset[str], opset: int) -> Iterator[str]:
    known = {value.name for value in graph.input} | {value.name for value in graph.initializer} | outer
    known |= {value.values.name for value in graph.sparse_initializer}
    for number, node in enumerate(graph.node):
        where = f"node {node.name or number!r} ({node.op_type})"
        unknown = [value for value in node.input if value and value not in known]
        if unknown:
            yield (
                f"{where} reads {unknown[0]!r}, which nothing before it makes: the nodes form a cycle, "
                "or stand in the wrong order"
            )
        yield from (f"{where} {lack}" for lack in _missing_parts(node, opset))
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else attribute.graphs
            for body in inner:
                yield from _problems(body, frozenset(known), opset)
        known.update(node.output)
    lost = [value.name for value in graph.output if value.name not in known]
    if lost:
        yield f"a graph returns {lost[0]!r}, which nothing in it makes"


def _missing_parts(node: onnx.NodeProto, opset: int) -> Iterator[str]:
    """The inputs and attributes that the schema of an operator requires and that a node lacks."""
    from onnx import defs  # noqa: PLC0415

    if node.domain not in DEFAULT_DOMAINS or not defs.has(node.op_type, opset, node.domain):
        return
    schema = defs.get_schema(node.op_type, opset, "")
    if len(node.input) > schema.max_input:
        yield f"has {len(node.input)} inputs, and the operator takes {schema.max_input}"
    types = {each.name: each.type for each in node.attribute}
    for name, attribute in schema.attributes.items():
        if attribute.required and types.get(name) != attribute.type.value:
            yield f"lacks its attribute {name!r}"
    kinds = defs.OpSchema.FormalParameterOption
    for position, formal in enumerate(schema.inputs):
        is_last = formal.option == kinds.Variadic
        given = list(node.input[position:] if is_last else node.input[position : position + 1])
        least = {kinds.Optional: 0, kinds.Single: 1}.get(formal.option, formal.min_arity)
        if len(given) < least or (formal.option != kinds.Optional and not all(given)):
            yield f"lacks its input {formal.name!r}"
