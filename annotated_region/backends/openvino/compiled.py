"""How OpenVINO compiles the model of a region, and what it made of it before, in the user's cache folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from annotated_region.backends.onnx_emitter import stored
from annotated_region.backends.onnx_emitter.assembly import assembled, digest_of
from annotated_region.backends.openvino.installation import PACKAGE, core, require_library
from annotated_region.backends.openvino.settings import UNLISTED, CompileSettings
from annotated_region.errors import BackendUnavailableError, BuildError

if TYPE_CHECKING:
    import openvino

__all__ = ["compiled_model"]

# A device that does not have this property computes as its maker likes.
_DECISIVE = "INFERENCE_PRECISION_HINT"
Properties = Mapping[str, str | bool]


def compiled_model(
    symbol: str, model: bytes, weights: Mapping[str, np.ndarray], settings: CompileSettings
) -> openvino.CompiledModel:
    """The model of a region, compiled for its device.

    Parameters
    ----------
    symbol
        The name of the region, for messages.
    model
        The model without its weights.
    weights
        The weights by name.
    settings
        How to compile it.

    Raises
    ------
    BackendUnavailableError
        OpenVINO, or the device, is not on this machine, or the device does not promise a precision.
    BuildError
        OpenVINO refuses the model; the message holds its reason.
    """
    properties = _properties(settings)
    if not settings.cache:
        return _made(symbol, model, weights, settings.device, properties)
    key = _key(digest_of(model, weights), settings.device, properties)
    kept = stored.load(PACKAGE, key)
    if kept is not None:
        with suppress(RuntimeError):  # what it refuses is compiled anew, and takes the place
            return core().import_model(kept, settings.device, properties)
    made = _made(symbol, model, weights, settings.device, properties)
    with suppress(RuntimeError):  # some devices export nothing
        stored.store(PACKAGE, key, made.export_model().getvalue())
    return made


def _properties(settings: CompileSettings) -> Properties:
    """What is asked of the device, as far as it is known there."""
    try:
        known = core().get_property(settings.device, "SUPPORTED_PROPERTIES")
    except RuntimeError as error:
        raise BackendUnavailableError(
            f"target 'openvino': this machine has no device {settings.device}, only "
            f"{', '.join(core().available_devices)}; install its driver, or name another one in the "
            "option 'device'"
        ) from error
    if _DECISIVE not in known:
        raise BackendUnavailableError(
            f"target 'openvino': the device {settings.device} does not say in which precision it computes; "
            "name another one in the option 'device'"
        )
    if "CPU_DENORMALS_OPTIMIZATION" in known:  # the CPU plugin
        known = {*known, UNLISTED}
    return {name: value for name, value in settings.properties().items() if name in known}


def _key(digest: str, device: str, properties: Properties) -> str:
    """What a compiled model depends on."""
    place = [core().get_property(device, name) for name in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")]
    return f"{digest} {device} {sorted(properties.items())} {require_library().__version__} {place}"


def _made(
    symbol: str, model: bytes, weights: Mapping[str, np.ndarray], device: str, properties: Properties
) -> openvino.CompiledModel:
    with tempfile.TemporaryDirectory() as folder:
        try:
            read = core().read_model(assembled(model, weights, Path(folder)))
            made = core().compile_model(read, device, properties)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise BuildError(f"{symbol}: OpenVINO cannot compile it for {device}: {reason}") from error
    for before, after in zip(read.outputs, made.outputs, strict=True):
        shapes = before.get_partial_shape(), after.get_partial_shape()
        if not shapes[0].compatible(shapes[1]):
            raise BuildError(
                f"{symbol}: OpenVINO makes a result of shape {shapes[1]} in the place of {shapes[0]}"
            )
    return made
