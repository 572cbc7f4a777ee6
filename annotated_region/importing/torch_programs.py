"""`from_exported_program`: TVM's importer for programs of ``torch.export``; the names of modules stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

import tvm
from tvm import relax

from annotated_region.arguments import shown
from annotated_region.checked import checked
from annotated_region.errors import ModelError, UsageError
from annotated_region.importing.origins import NodeResults, with_origins
from annotated_region.importing.torch_norms import group_norm
from annotated_region.importing.torch_types import keep_half_types

if TYPE_CHECKING:
    import torch
    from torch import fx
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

__all__ = ["from_exported_program"]

Converter: TypeAlias = Callable[[Any, Any], object]
"""Of a `torch.fx.Node` and TVM's importer, what the node becomes."""

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in ', re.MULTILINE)
_LONGEST_TRACE = 1 << 16  # characters of a stack trace that are looked at


@checked
def from_exported_program(
    program: torch.export.ExportedProgram,
    *,
    custom_convert_map: Mapping[str, Converter] | None = None,
    **options: bool,
) -> tvm.IRModule:
    """The module of an exported program: TVM's importer, and the origin of each binding.

    An origin is the path of the PyTorch module that an op belongs to and the line of the source that leads
    into it, such as ``"layers.0.attention.query (model.py:42)"``. `explain` shows it, and pins take it.
    Products of half precision have the type of their operands, as in PyTorch; TVM asks for float32.
    Group norms may lack scale and shift, and be of bfloat16.

    Parameters
    ----------
    program
        What ``torch.export.export`` gives.
    custom_convert_map
        As TVM's importer takes it: by the name of an op of ATen, a function of its node and the importer.
    options
        More arguments of ``tvm.relax.frontend.torch.from_exported_program``.

    Raises
    ------
    ModelError
        PyTorch is not installed.
    UsageError
        The program is none, such as a module that is not exported yet.

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
    noted = _NotedConversions(dict(custom_convert_map or {}))
    names = dict.fromkeys((*ExportedProgramImporter().create_convert_map(), *noted.custom))
    mod = imported(program, custom_convert_map=dict.fromkeys(names, noted.convert), **options)
    return with_origins(mod, noted.results)


def _require_program(condition: bool, program: object) -> None:
    if not condition:
        raise UsageError(
            f"the argument program is {shown(program)}; hand in what torch.export.export(model, inputs) gives"
        )


class _NotedConversions:
    """Converts nodes with TVM's table, or the user's, and notes what each became.

    TVM hands a node of a custom conversion over together with its importer, so every conversion is custom.
    """

    def __init__(self, custom: Mapping[str, Converter]) -> None:
        self.custom = custom
        self.results = NodeResults()
        self._table: dict[str, Callable[[fx.Node], object]] = {}
        self._builder: relax.BlockBuilder | None = None

    def convert(self, node: fx.Node, importer: ExportedProgramImporter) -> object:
        """What a node becomes."""
        if self._builder is not importer.block_builder:
            self._builder = importer.block_builder
            keep_half_types(self._builder)
        name: str = getattr(node.target, "__name__")  # noqa: B009 - torch declares that it may be a text
        if name in self.custom:
            result = self.custom[name](node, importer)
        else:
            self._table = self._table or importer.create_convert_map()
            norm = group_norm(node, importer)
            result = self._table[name](node) if norm is None else norm
        self.results.note(result, _origin_of(node))
        return result


def _origin_of(node: fx.Node) -> str:
    modules: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
    path, kind = list(modules.values())[-1] if modules else (node.name, "")
    # Of the model itself, the path is empty; its class says more.
    name = str(path) or str(getattr(kind, "__qualname__", kind)).rpartition(".")[2] or node.name
    line = _line_of(str(node.meta.get("stack_trace") or ""))
    return f"{name} ({line})" if line else name


def _line_of(trace: str) -> str:
    """The last line of a stack trace outside of PyTorch's own modules; empty if there is none."""
    frames = [(PurePath(found["file"]), found["line"]) for found in _FRAME.finditer(trace[-_LONGEST_TRACE:])]
    own = [frame for frame in frames if not _is_torch(frame[0])]
    return f"{own[-1][0].name}:{own[-1][1]}" if own else ""


def _is_torch(file: PurePath) -> bool:
    return ("torch", "nn") in zip(file.parts, file.parts[1:], strict=False)
