"""The code generator: translates external Relax functions to ONNX models in the built library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import tvm
from tvm import relax

from annotated_region.backends.onnx_emitter import emit_all
from annotated_region.backends.onnx_emitter.entry import entry_modules, register_runtime
from annotated_region.backends.onnxruntime.native import RUNTIME, native_settings, needs_python
from annotated_region.backends.onnxruntime.repairs import crashing_rewrites, repair
from annotated_region.backends.onnxruntime.rules import DIALECT, TARGET
from annotated_region.backends.onnxruntime.runtime import open_region
from annotated_region.backends.onnxruntime.session import SessionSettings
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
        The external functions of target ``onnxruntime``.
    options
        See `SessionSettings`.
    constant_names
        TVM's names of the constants of the module.

    Raises
    ------
    CodegenError
        A function cannot be translated, or an option is unknown.
    """
    settings = SessionSettings.of(options or {})
    models = emit_all(functions, DIALECT, constant_names)
    for model in models:
        repair(model.graph)
    crashing = dict.fromkeys(name for model in models for name in crashing_rewrites(model.graph))
    settings = replace(settings, disabled=(*settings.disabled, *crashing))
    native = RUNTIME if needs_python(options or {}) is None else None
    return entry_modules(TARGET, models, settings.to_dict(), native, native_settings(settings))


def register_codegen() -> None:
    """Register the runtime, and the code generator unless this TVM was built with its own."""
    register_generator(TARGET, generate)
    register_runtime(TARGET, open_region)
