"""The code generator: translates external Relax functions to ONNX models in the built library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tvm
from tvm import relax

from annotated_region.backends.onnx_emitter import emit_all
from annotated_region.backends.onnx_emitter.entry import entry_modules, register_runtime
from annotated_region.backends.tensorrt.rules import DIALECT, TARGET, register_patterns, register_rules
from annotated_region.backends.tensorrt.runtime import open_region
from annotated_region.backends.tensorrt.settings import EngineSettings
from annotated_region.tvm_adapter.modules import register_generator
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["generate", "register_codegen"]


def generate(
    functions: Sequence[relax.Function],
    options: Mapping[str, object] | None,
    constant_names: Mapping[Constant, str],
) -> list[tvm.runtime.Module]:
    """The entry point for ``generate_code`` and TVM's ``RunCodegen``: one module per function.

    Parameters
    ----------
    functions
        The external functions of target ``tensorrt``.
    options
        See `EngineSettings`.
    constant_names
        TVM's names of the constants of the module.

    Raises
    ------
    CodegenError
        A function cannot be translated, or an option is unknown.
    """
    settings = EngineSettings.of(options or {})
    models = emit_all(functions, DIALECT, constant_names)
    if settings.onnx_folder is not None:
        folder = Path(settings.onnx_folder)
        folder.mkdir(parents=True, exist_ok=True)
        for model in models:
            model.save(folder / f"{model.symbol}.onnx")
    return entry_modules(TARGET, models, settings.to_dict())


def register_codegen() -> None:
    """Register the code generator, rules and runtime; TVM's patterns if this TVM has its own generator."""
    if not register_generator(TARGET, generate):
        register_patterns()
        return
    register_rules()
    register_runtime(TARGET, open_region)
