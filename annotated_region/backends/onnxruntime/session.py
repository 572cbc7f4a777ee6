"""Creates sessions of ONNX Runtime: settings and external weights."""

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
"""Without this setting, products with quantized weights round the activations to bytes, too."""

INEXACT_REWRITES = ("DoubleQDQPairsRemover", "QDQPropagationTransformer", "WeightBiasQuantization")
"""Passes of ONNX Runtime's optimizer that change results, and are disabled.

They merge two consecutive quantizations, which round twice; move a quantization in front of a view, which
also rounds the value for its other readers, including results of the region; and quantize float biases.
Quantized networks take the same time without them.
"""

NOT_OF_NUMPY = {"bfloat16": 16}
"""ONNX's codes of the data types that numpy lacks."""

_LEVELS = ("disable_all", "basic", "extended", "all")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The options of the target.

    Attributes
    ----------
    providers
        ONNX Runtime's execution providers, in order of preference.
    threads
        The number of threads per operator; 0 for ONNX Runtime's default.
    spinning
        Whether idle threads spin while they wait for the next operator. That helps a model that is a single
        region, but takes processors from code that runs between regions.
    optimization
        ONNX Runtime's graph optimization level: ``disable_all``, ``basic``, ``extended`` or ``all``.
    disabled
        Passes of ONNX Runtime's optimizer that are turned off besides those that change results, by their
        names, such as ``"MatmulTransposeFusion"``.
    """

    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    threads: int = 0
    spinning: bool = False
    optimization: str = "all"
    disabled: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, object]) -> SessionSettings:
        """Settings from the options of the code generator.

        Raises
        ------
        CodegenError
            An option is unknown, or has an invalid value.
        """
        given = known_options("onnxruntime", options, [field.name for field in fields(cls)])
        for several in {"providers", "disabled"}.intersection(given):
            names = [given[several]] if isinstance(given[several], str) else given[several]
            given[several] = tuple(map(str, names))
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
        The weights as numpy arrays, by name. They are not copied if they can be used in place.
    settings
        The session settings.
    profile
        The prefix of the profile's file name; empty for no profile.

    Raises
    ------
    BackendUnavailableError
        ONNX Runtime, or one of the providers, is not available on this machine.
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
        model,
        options,
        providers=list(settings.providers),
        disabled_optimizers=[*INEXACT_REWRITES, *settings.disabled],
    )


def _weight(runtime: ModuleType, array: np.ndarray) -> onnxruntime.OrtValue:
    if array.dtype.name in NOT_OF_NUMPY:
        bits = array.view(np.uint16)
        return runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, NOT_OF_NUMPY[array.dtype.name])
    return runtime.OrtValue.ortvalue_from_numpy(array)


def _level_name(optimization: str) -> str:
    return "DISABLE_ALL" if optimization == "disable_all" else f"ENABLE_{optimization.upper()}"
