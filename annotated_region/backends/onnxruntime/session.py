"""How a session of ONNX Runtime is made: its settings, and the weights that it is handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from annotated_region.backends.onnxruntime.installation import require_library
from annotated_region.errors import BackendUnavailableError, CodegenError
from annotated_region.targets.options import known_options

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["EXACT", "INEXACT_REWRITES", "NOT_OF_NUMPY", "SessionSettings", "make_session"]

EXACT = {"session.qdq_matmulnbits_accuracy_level": "1"}
"""Settings without which products of numbers with quantized weights round the numbers to bytes, too."""

INEXACT_REWRITES = ("DoubleQDQPairsRemover", "QDQPropagationTransformer", "WeightBiasQuantization")
"""What ONNX Runtime's optimizer must not do.

Two quantizations one after the other round twice, not once. A quantization that is moved in front of a view
also rounds what else reads the value, results of the region among it. A bias that is no quantized number is
added as it is. Without them, quantized networks took the same time as with them.
"""

NOT_OF_NUMPY = {"bfloat16": 16}
"""ONNX's numbers of the data types that numpy itself does not have."""

_LEVELS = ("disable_all", "basic", "extended", "all")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The options of the target.

    Attributes
    ----------
    providers
        ONNX Runtime's execution providers, the most preferred one first.
    threads
        The number of threads of one operator; 0 leaves it to ONNX Runtime.
    spinning
        Whether idle threads keep a processor busy while they wait for the next operator. That helps a
        model that is one region, and takes the processor from whatever runs between two regions.
    optimization
        How much ONNX Runtime rewrites the model: ``disable_all``, ``basic``, ``extended`` or ``all``.
    """

    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    threads: int = 0
    spinning: bool = False
    optimization: str = "all"

    @classmethod
    def of(cls, options: Mapping[str, object]) -> SessionSettings:
        """Settings from the options of the code generator.

        Raises
        ------
        CodegenError
            An option is unknown, or has a value that makes no sense.
        """
        given = known_options("onnxruntime", options, [field.name for field in fields(cls)])
        if "providers" in given:
            names = [given["providers"]] if isinstance(given["providers"], str) else given["providers"]
            given["providers"] = tuple(map(str, names))
        settings = cls(**given)
        if settings.optimization not in _LEVELS:
            raise CodegenError(
                f"target 'onnxruntime': optimization {settings.optimization!r}; known: {', '.join(_LEVELS)}"
            )
        if settings.threads < 0:
            raise CodegenError(f"target 'onnxruntime': {settings.threads} threads")
        return settings

    def to_dict(self) -> dict[str, object]:
        """The settings as plain values."""
        return asdict(self)


def make_session(
    model: bytes, weights: Mapping[str, np.ndarray], settings: SessionSettings, profile: str = ""
) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime.

    Parameters
    ----------
    model
        The model without its weights.
    weights
        The weights as numpy arrays, by name. Where they can be used as they are, they are not copied.
    settings
        How to run it.
    profile
        What the file begins with that it writes its profile to; empty for none.

    Raises
    ------
    BackendUnavailableError
        ONNX Runtime, or one of the providers, is not on this machine.
    """
    runtime = require_library()
    available = runtime.get_available_providers()
    missing = [name for name in settings.providers if name not in available]
    if missing:
        raise BackendUnavailableError(
            f"target 'onnxruntime': this ONNX Runtime has no {missing[0]}, only {', '.join(available)}; "
            "install the build of ONNX Runtime that has it, or name another provider"
        )
    options = runtime.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(settings.spinning)))
    options.graph_optimization_level = getattr(
        runtime.GraphOptimizationLevel, f"ORT_{_level_name(settings.optimization)}"
    )
    for name, value in EXACT.items():
        options.add_session_config_entry(name, value)
    options.log_severity_level = 3
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    if weights:
        values = [_weight(runtime, array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
    return runtime.InferenceSession(
        model, options, providers=list(settings.providers), disabled_optimizers=list(INEXACT_REWRITES)
    )


def _weight(runtime: ModuleType, array: np.ndarray) -> onnxruntime.OrtValue:
    if array.dtype.name in NOT_OF_NUMPY:
        bits = array.view(np.uint16)
        return runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, NOT_OF_NUMPY[array.dtype.name])
    return runtime.OrtValue.ortvalue_from_numpy(array)


def _level_name(optimization: str) -> str:
    return "DISABLE_ALL" if optimization == "disable_all" else f"ENABLE_{optimization.upper()}"
