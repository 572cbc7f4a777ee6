"""`from_exported_program`: TVM's importer for ``torch.export`` programs, which keeps module names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import tvm
from tvm import relax

from annotated_region.arguments import brief_repr
from annotated_region.checked import checked
from annotated_region.errors import AnnotatedRegionError, ModelError, UsageError
from annotated_region.functions.shape_variables import variables_in
from annotated_region.importing.equations import Equations
from annotated_region.importing.origins import NodeResults, with_origins
from annotated_region.importing.torch_programs.complex_constants import (
    require_real_borders,
    with_real_constants,
)
from annotated_region.importing.torch_programs.converters.agreement import Agreement
from annotated_region.importing.torch_programs.converters.complex_numbers import (
    COMPLEX,
    converted,
    is_complex,
)
from annotated_region.importing.torch_programs.converters.converting import CONVERTERS
from annotated_region.importing.torch_programs.converters.plain_extents import (
    numbers_where_known,
    with_plain_extents,
)
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, shape_difference
from annotated_region.importing.torch_programs.derived_extents import with_derived_extents
from annotated_region.importing.torch_programs.guard_ranges import guarded_ranges, require_ranges
from annotated_region.importing.torch_programs.guards import (
    guarded_equations,
    require_guards,
    symbols_of_inputs,
)
from annotated_region.importing.torch_programs.inputs import with_fixed_extents
from annotated_region.importing.torch_programs.node_origins import node_origin
from annotated_region.importing.torch_programs.product_types import keep_operand_types
from annotated_region.origins import bounded
from annotated_region.printable import first_line
from annotated_region.serial import one_at_a_time

if TYPE_CHECKING:
    import torch
    from torch import fx
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

__all__ = ["from_exported_program"]

Converter: TypeAlias = Callable[[Any, Any], object]
"""Converts a `torch.fx.Node`, given TVM's importer."""


@checked
@one_at_a_time
def from_exported_program(
    program: torch.export.ExportedProgram,
    *,
    custom_convert_map: Mapping[str, Converter] | None = None,
    **options: bool,
) -> tvm.IRModule:
    """Import an exported program with TVM's importer, and record the origin of each binding.

    An origin is the path of the PyTorch module that contains an op and the source line of its
    call, such as ``"layers.0.attention.query (model.py:42)"``. `explain` shows origins, and pins accept them.
    Complex numbers inside of the program become pairs of tensors.
    Half precision products keep the type of their operands, as in PyTorch; TVM would use float32.
    Group norms may lack scale and shift, and use bfloat16. Arithmetic of mixed data types, index tensors,
    slices from an end, scatters and grids are converted here, because TVM converts them wrongly or rejects
    them (`annotated_region.importing.torch_programs.converters`).

    Parameters
    ----------
    program
        The result of ``torch.export.export``.
    custom_convert_map
        As for TVM's importer: a map from ATen op names to functions of the node and the importer.
    options
        Further arguments of ``tvm.relax.frontend.torch.from_exported_program``.

    Raises
    ------
    ModelError
        PyTorch is not installed, or an op of the program cannot be imported; the message names the op and its
        origin.
    UsageError
        `program` is not an exported program, for example a module that has not been exported.

    Examples
    --------
    >>> program = torch.export.export(model.eval(), (example,))  # doctest: +SKIP
    >>> mod = ar.from_exported_program(program)  # doctest: +SKIP
    """
    _require_program(hasattr(program, "graph_signature"), program)
    try:
        from torch.export import ExportedProgram  # noqa: PLC0415
        from tvm.relax.frontend.torch import from_exported_program as imported  # noqa: PLC0415 - needs torch
        from tvm.relax.frontend.torch.exported_program_translator import (  # noqa: PLC0415
            ExportedProgramImporter,
        )
    except ImportError as error:
        raise ModelError("an exported program needs the package torch") from error
    _require_program(isinstance(program, ExportedProgram), program)
    noted = _NotedConversions(dict(custom_convert_map or {}), _constants_of(program))
    known = (*ExportedProgramImporter().create_convert_map(), *CONVERTERS, *COMPLEX)
    names = dict.fromkeys((*known, *noted.custom))
    require_real_borders(program)
    guarded, ranges = guarded_equations(program), guarded_ranges(program)
    if options.get("run_ep_decomposition", True):
        program, options = _prepared(program), options | {"run_ep_decomposition": False}
    _require_converters(program, names)
    try:
        mod = imported(program, custom_convert_map=dict.fromkeys(names, noted.convert), **options)
    except AnnotatedRegionError:
        raise
    except (AssertionError, RuntimeError, ValueError) as error:
        raise ModelError(f"TVM cannot import the program: {first_line(error)}") from error
    _require_known(noted.agreement.equations, mod["main"])
    require_guards(guarded, mod["main"], noted.agreement.equations)
    require_ranges(ranges, mod["main"], noted.agreement.equations)
    mod = noted.agreement.equations.checked_by(with_origins(mod, noted.results))
    mod["main"] = with_derived_extents(mod["main"])
    return mod


def _require_known(equations: Equations, main: relax.Function) -> None:
    """Raise `ModelError` for an equation of extents inside of a loop, which cannot be checked at entry."""
    known = set(symbols_of_inputs(main).values())
    for pair, origin in zip(equations.pairs, equations.origins, strict=True):
        if not known.issuperset(variables_in(*pair)):
            raise ModelError(
                f"{origin} depends on equal extents that the inputs do not have, {pair[0]} and {pair[1]}; "
                "give the inputs of a loop one symbol (torch.export.Dim), or fixed extents"
            )


def _prepared(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """A decomposed copy of the program, without what TVM's importer cannot read."""
    prepared = with_fixed_extents(program)
    return with_real_constants(prepared) or prepared


def _require_program(condition: bool, program: object) -> None:
    if not condition:
        raise UsageError(
            f"the argument program is {brief_repr(program)}; pass the result of "
            "torch.export.export(model, inputs)"
        )


def _require_converters(program: torch.export.ExportedProgram, names: Collection[str]) -> None:
    """Check that each op has a converter, before any op is converted."""
    missing: dict[str, str] = {}
    for node in program.graph.nodes:
        if node.op == "call_function" and _name_of(node) not in names:
            missing.setdefault(_name_of(node), node_origin(node))
    if missing:
        ops = ", ".join(f"{name} ({origin})" for name, origin in missing.items())
        raise ModelError(f"no converter for {ops}; pass one in custom_convert_map, or use other ops")


def _name_of(node: fx.Node) -> str:
    """The op of ATen and its overload, or the name of a function of Python."""
    name: str = getattr(node.target, "__name__")  # noqa: B009 - torch declares that it may be a text
    return name


def _constants_of(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """The constant tensors of a program, by the names of their nodes."""
    signature = program.graph_signature
    held = {**program.state_dict, **program.constants}
    names = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    return {node: held[name] for node, name in names.items() if hasattr(held.get(name), "detach")}


class _NotedConversions:
    """Converts nodes with TVM's or the user's converters, and records their results.

    TVM passes the node and the importer only to custom converters, so every conversion is registered as
    custom.
    """

    def __init__(self, custom: Mapping[str, Converter], constants: Mapping[str, torch.Tensor]) -> None:
        self.custom = custom
        self.constants = constants
        self.results = NodeResults()
        self.agreement = Agreement()
        self._table: dict[str, Callable[[fx.Node], object]] = {}
        self._builder: relax.BlockBuilder | None = None

    def convert(self, node: fx.Node, importer: ExportedProgramImporter | None = None) -> object:
        """The result of a node; TVM passes no importer where it converts a branch."""
        if importer is None:
            raise ModelError(
                "branches of torch.cond are imported only where both can be computed; these read places, "
                "divide integers or depend on extents; choose before the export, or with torch.where"
            )
        if self._builder is not importer.block_builder:
            self._builder = importer.block_builder
            keep_operand_types(self._builder)
        name = _name_of(node)
        if name in self.custom:
            result = self.custom[name](node, importer)
        else:
            with self.agreement.equations.needed_by(bounded(node_origin(node))):
                result = self._checked(name, node, importer)
        self.results.note(result, node_origin(node))
        return result

    def _checked(self, name: str, node: fx.Node, importer: ExportedProgramImporter) -> object:
        """The result of a node, checked against the shape in PyTorch."""
        try:
            equations = self.agreement.equations
            with numbers_where_known(importer, equations), self.agreement.of_operands(name, node, importer):
                result = self._converted(name, node, importer)
                result = with_plain_extents(name, result, node, importer, equations)
        except (AnnotatedRegionError, MemoryError) as error:
            if isinstance(error, ModelError):
                raise ModelError(f"{name} ({node_origin(node)}): {error}") from error
            raise
        except Exception as error:  # TVM raises arbitrary errors for unexpected nodes
            raise ModelError(
                f"TVM cannot import {name} ({node_origin(node)}): {first_line(error)}"
            ) from error
        difference = shape_difference(node, result)
        if difference:
            raise ModelError(f"TVM cannot import {name} ({node_origin(node)}): {difference}")
        return result

    def _converted(self, name: str, node: fx.Node, importer: ExportedProgramImporter) -> object:
        """The result of a node by this package's converters, or otherwise by TVM's."""
        self._table = self._table or importer.create_convert_map()
        if is_complex(node):
            return converted(
                TorchNode(node, importer, self.constants), lambda: self._of_reals(name, node, importer)
            )
        return self._of_reals(name, node, importer)

    def _of_reals(self, name: str, node: fx.Node, importer: ExportedProgramImporter) -> object:
        converter = CONVERTERS.get(name)
        own = None if converter is None else converter(TorchNode(node, importer, self.constants))
        if own is None and name not in self._table:
            raise ModelError("it is not supported with these arguments")
        return self._table[name](node) if own is None else own
