"""The code generator: external Relax functions become C++ over oneDNN, one translation unit a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import relax

from annotated_region.backends.dnnl.embedding import embed
from annotated_region.backends.dnnl.emission import constants_of, emit_unit, runtime_unit
from annotated_region.backends.dnnl.graph import Graph, Kind
from annotated_region.backends.dnnl.importer import import_function
from annotated_region.backends.dnnl.ops import COMPOSITES, CONVERTERS, TARGET
from annotated_region.backends.dnnl.rewriting.pipeline import (
    DYNAMIC,
    FUSION,
    INT8,
    JOINS,
    NORMALIZATION,
    rewrite,
)
from annotated_region.compilation.constant_objects import Embedded
from annotated_region.errors import CodegenError
from annotated_region.targets.options import known_options
from annotated_region.tvm_adapter.modules import cpp_module, register_generator
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["generate", "register_codegen", "region_graph"]

PRECISIONS = ("fp32", "bf16", "bf16_if_faster")


def region_graph(
    function: relax.Function,
    constant_names: Mapping[Constant, str],
    *,
    joins: bool = True,
    finite_math: bool = False,
) -> Graph:
    """The graph of an external function after fusion: what will run, primitive by primitive.

    Parameters
    ----------
    function
        The external function.
    constant_names
        TVM's names of the constants of the module.
    joins
        Whether products with one operand are joined, for which new constants have to be made. Never where
        there are products of int8: their graph in floats would want other ones.
    finite_math
        The option of that name.
    """

    def imported() -> Graph:
        return import_function(
            function, CONVERTERS, constant_names, composites=COMPOSITES, finite_math=finite_math
        )

    graph = imported()
    dynamic = DYNAMIC if any(node.kind is Kind.WHOLE_MATMUL for node in graph.nodes) else ()
    rewrite(graph, (*NORMALIZATION, *dynamic, *INT8, *FUSION))
    if any(node.quantized is not None for node in graph.nodes):
        graph.in_floats = imported()
        rewrite(graph.in_floats, (*NORMALIZATION, *FUSION))
    elif joins:
        rewrite(graph, JOINS)
    return graph


def generate(
    functions: Sequence[relax.Function],
    options: Mapping[str, object] | None,
    constant_names: Mapping[Constant, str],
) -> list[tvm.runtime.Module]:
    """What TVM's ``RunCodegen`` calls: one module a function; the first imports one of the runtime.

    The unit of a function depends on this function alone, so that an edit elsewhere compiles it as little as
    other weights do. It cannot hold several: TVM hands constants over to the first function of a module only.

    Parameters
    ----------
    functions
        The external functions of target ``dnnl``.
    options
        ``"precision"``: ``"fp32"`` (the default), ``"bf16"`` for products of bfloat16 where the processor has
        them, or ``"bf16_if_faster"`` for those of them that take less time than in float32.
        ``"finite_math"``: whether clips and GELU may be oneDNN's, which make other numbers of NaN and
        infinity than TVM's; False by default, but implied by bfloat16.
    constant_names
        TVM's names of the constants of the module.

    Raises
    ------
    CodegenError
        A function cannot be translated, or an option or its value is unknown.
    """
    names = dict(constant_names.items())
    values = {name: constant.value for constant, name in names.items()}
    given = known_options(TARGET, options or {}, ("precision", "finite_math"))
    precision = _precision(given)
    finite_math = _finite_math(given) or precision != "fp32"
    made = [_with_constants(function, names, values, finite_math) for function in functions]
    units = [_unit(graph, part, precision) for graph, part in made]
    units[0].import_module(cpp_module(runtime_unit(), ["annotated_region_dnnl_runtime"]))
    return units


def _with_constants(
    function: relax.Function,
    names: Mapping[Constant, str],
    values: Mapping[str, tvm.runtime.Tensor],
    finite_math: bool,
) -> tuple[Graph, tuple[Embedded, tvm.runtime.Module] | None]:
    """The graph of a function, and the object file of its constants, which alone can hold joined ones."""
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
    graph: Graph, part: tuple[Embedded, tvm.runtime.Module] | None, precision: str
) -> tvm.runtime.Module:
    """A C++ module, with the object file of its constants if there is one."""
    if part is None:
        return cpp_module(emit_unit(graph, precision), [graph.symbol], constants_of(graph))
    embedded, constants = part
    module = cpp_module(emit_unit(graph, precision, embedded), [graph.symbol])
    module.import_module(constants)
    return module


def _finite_math(given: Mapping[str, object]) -> bool:
    value = given.get("finite_math", False)
    if not isinstance(value, int) or value not in (False, True):
        raise CodegenError(f"target 'dnnl' takes True or False for the option 'finite_math', not {value!r}")
    return bool(value)


def _precision(given: Mapping[str, object]) -> str:
    precision = str(given.get("precision", "fp32"))
    if precision not in PRECISIONS:
        known = ", ".join(map(repr, PRECISIONS))
        raise CodegenError(f"target 'dnnl' does not know the precision {precision!r}; known: {known}")
    return precision


def register_codegen() -> None:
    """Register the code generator, unless this TVM was built with one of its own."""
    register_generator("dnnl", generate)
