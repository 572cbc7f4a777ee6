"""The code generator: translates external Relax functions to ONNX models in the built library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tvm
from tvm import relax

from annotated_region.backends.onnx_emitter import EmittedModel, emit_all
from annotated_region.backends.onnx_emitter.assembly import array_of
from annotated_region.backends.onnx_emitter.entry import entry_modules, register_runtime
from annotated_region.backends.openvino.compiled import compiled_model
from annotated_region.backends.openvino.installation import unavailable
from annotated_region.backends.openvino.native import (
    RUNTIME,
    native_model,
    native_settings,
    needs_python,
)
from annotated_region.backends.openvino.repairs.repairing import repair
from annotated_region.backends.openvino.rules import DIALECT, TARGET
from annotated_region.backends.openvino.runtime import open_region
from annotated_region.backends.openvino.settings import CompileSettings
from annotated_region.errors import BackendUnavailableError, BuildError, RegionRejectedError
from annotated_region.progress import shown
from annotated_region.tvm_adapter.modules import register_generator
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["generate", "register_codegen", "require_kept_constants"]

_NOT_FOLDED = frozenset(
    (
        "AveragePool", "Conv", "ConvTranspose", "GatherElements", "GatherND", "LRN", "Mod", "ReverseSequence",
        "RoiAlign", "Selu",
    )
)  # fmt: skip


def generate(
    functions: Sequence[relax.Function],
    options: Mapping[str, object] | None,
    constant_names: Mapping[Constant, str],
) -> list[tvm.runtime.Module]:
    """The entry point for ``generate_code`` and TVM's ``RunCodegen``: one module per function.

    Parameters
    ----------
    functions
        The external functions of target ``openvino``.
    options
        See `CompileSettings`.
    constant_names
        TVM's names of the constants of the module.

    Raises
    ------
    CodegenError
        A function cannot be translated, or an option is unknown.
    RegionRejectedError
        OpenVINO is installed and rejects a function, or would overwrite a constant that it computes.
    """
    settings = CompileSettings.of(options or {})
    models = emit_all(functions, DIALECT, constant_names)
    for model in models:
        repair(model.graph, settings.precision)
        require_kept_constants(model)
    if unavailable() is None:
        for model in shown(models, lambda each: each.symbol):
            _try(model, settings)
    if needs_python(settings.to_dict()) is not None:
        return entry_modules(TARGET, models, settings.to_dict())
    forms = {model.symbol: native_model(_content(model), _weights(model)) for model in models}
    return entry_modules(TARGET, models, settings.to_dict(), RUNTIME, native_settings(settings), forms)


def require_kept_constants(model: EmittedModel) -> None:
    """Raise `RegionRejectedError` for a constant that OpenVINO computes while it compiles, but does not fold.

    OpenVINO 2026.4 lets the next operator write its result into the memory of such a constant: the first call
    is right, and later ones read what the call before has left.
    """
    constants = {*model.graph.constants, *model.graph.weights, ""}
    for operator in model.graph.operators:
        if not constants.issuperset(operator.inputs):
            continue
        if operator.kind in _NOT_FOLDED:
            raise RegionRejectedError(
                f"OpenVINO overwrites the result of {operator.kind}, which reads constants alone; compute it "
                "before, and pass a constant",
                model.symbol,
            )
        constants.update(operator.outputs)


def _weights(model: EmittedModel) -> dict[str, np.ndarray]:
    return {name: array_of(model.graph.weights[name]) for name in model.weights}


def _content(model: EmittedModel) -> bytes:
    content: bytes = model.skeleton().SerializeToString(deterministic=True)
    return content


def _try(model: EmittedModel, settings: CompileSettings) -> None:
    """Compile a model, and keep it for its first call: OpenVINO may reject a model of supported ops."""
    try:
        compiled_model(model.symbol, _content(model), _weights(model), settings)
    except BuildError as error:
        raise RegionRejectedError(str(error).removeprefix(f"{model.symbol}: "), model.symbol) from error
    except BackendUnavailableError:
        pass  # the device may be available on the machine that runs the module


def register_codegen() -> None:
    """Register the runtime, and the code generator unless this TVM was built with its own."""
    register_generator(TARGET, generate)
    register_runtime(TARGET, open_region)
