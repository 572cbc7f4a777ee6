"""The code generator: translates external Relax functions to C++ over oneDNN, one translation unit each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import tvm
from tvm import relax

from annotated_region.backends.dnnl.blocks import gather
from annotated_region.backends.dnnl.embedding import embed
from annotated_region.backends.dnnl.emission import constants_of, emit_unit
from annotated_region.backends.dnnl.graph import Graph
from annotated_region.backends.dnnl.importer import import_function
from annotated_region.backends.dnnl.ops import COMPOSITES, CONVERTERS
from annotated_region.backends.dnnl.options import GeneratorSettings
from annotated_region.backends.dnnl.parameters import PackedProduct
from annotated_region.backends.dnnl.rewriting.dynamic_products import WHOLE_PRODUCTS
from annotated_region.backends.dnnl.rewriting.pipeline import (
    DYNAMIC,
    FUSION,
    INT8,
    JOINS,
    NORMALIZATION,
    rewrite,
)
from annotated_region.backends.dnnl.runtime_units import runtime_unit
from annotated_region.compilation.constant_objects import ConstantData
from annotated_region.errors import CodegenError
from annotated_region.progress import shown
from annotated_region.tvm_adapter.modules import cpp_module, register_generator
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["generate", "region_graph", "register_codegen", "with_activations"]


def region_graph(
    function: relax.Function,
    constant_names: Mapping[Constant, str],
    *,
    joins: bool = True,
    finite_math: bool = False,
) -> Graph:
    """The graph of an external function after fusion: one node per primitive that will run.

    Parameters
    ----------
    function
        The external function.
    constant_names
        TVM's names of the constants of the module.
    joins
        Whether products with a common operand are joined, which creates new constants. Never with int8
        products, because the fallback graph in floats would need different joined constants.
    finite_math
        The option `finite_math`.
    """

    def imported() -> Graph:
        return import_function(
            function, CONVERTERS, constant_names, composites=COMPOSITES, finite_math=finite_math
        )

    graph = imported()
    dynamic = DYNAMIC if any(node.kind in WHOLE_PRODUCTS for node in graph.nodes) else ()
    rewrite(graph, (*NORMALIZATION, *dynamic, *INT8, *FUSION))
    if any(node.quantized is not None for node in graph.nodes):
        graph.in_floats = imported()
        rewrite(graph.in_floats, (*NORMALIZATION, *FUSION))
    elif joins:
        rewrite(graph, JOINS)
    for each in (graph, graph.in_floats):
        if each is not None:
            gather(each)
    return graph


def generate(
    functions: Sequence[relax.Function],
    options: Mapping[str, object] | None,
    constant_names: Mapping[Constant, str],
) -> list[tvm.runtime.Module]:
    """The entry point for TVM's ``RunCodegen``: one module per function; the first imports the runtime.

    A unit depends only on its function, so that neither edits elsewhere nor other weights recompile it. One
    unit cannot hold several functions: TVM passes constants only to the first function of a module.

    Parameters
    ----------
    functions
        The external functions of target ``dnnl``.
    options
        ``"precision"``, ``"finite_math"`` and ``"packed_activations"``; see `GeneratorSettings`.
    constant_names
        TVM's names of the constants of the module.

    Raises
    ------
    CodegenError
        A function cannot be translated, or an option or its value is unknown.
    """
    names = dict(constant_names.items())
    values = {name: constant.value for constant, name in names.items()}
    settings = GeneratorSettings.of(options or {})
    made = [
        _with_constants(function, names, values, settings.finite_math)
        for function in shown(functions, lambda each: str(each.attrs["global_symbol"]))
    ]
    units = [_unit(with_activations(graph, settings), part, settings.precision) for graph, part in made]
    units[0].import_module(cpp_module(runtime_unit(), ["annotated_region_dnnl_runtime"]))
    return units


def _with_constants(
    function: relax.Function,
    names: Mapping[Constant, str],
    values: Mapping[str, tvm.runtime.Tensor],
    finite_math: bool,
) -> tuple[Graph, tuple[ConstantData, tvm.runtime.Module | None] | None]:
    """The graph of a function, and its constants as data; joined constants require that."""
    graph = region_graph(function, names, finite_math=finite_math)
    part = embed(graph, constants_of(graph), values)
    if part is None and graph.joined:
        graph = region_graph(function, names, joins=False, finite_math=finite_math)
    if part is None and graph.packed:
        raise CodegenError(
            f"{graph.symbol}: target 'dnnl' needs a C++ compiler to store packed weights; install one, "
            "or set CXX"
        )
    return graph, part


def _unit(
    graph: Graph, part: tuple[ConstantData, tvm.runtime.Module | None] | None, precision: str
) -> tvm.runtime.Module:
    """A C++ module, with the object file of its constants if it has one."""
    if part is None:
        return cpp_module(emit_unit(graph, precision), [graph.symbol], constants_of(graph))
    data, constants = part
    module = cpp_module(emit_unit(graph, precision, data.symbol), [graph.symbol])
    if constants is not None:
        module.import_module(constants)
    return module


def with_activations(graph: Graph, settings: GeneratorSettings) -> Graph:
    """The graph with rows of the precision of the settings wherever weights are packed."""
    for index, node in enumerate(graph.nodes):
        if isinstance(node.parameters, PackedProduct):
            parameters = replace(node.parameters, digits=settings.digits, rounds=settings.rounds_activations)
            graph.nodes[index] = replace(node, parameters=parameters)
    if graph.in_floats:
        with_activations(graph.in_floats, settings)
    return graph


def register_codegen() -> None:
    """Register the code generator, unless this TVM was built with its own for dnnl."""
    register_generator("dnnl", generate)
