"""How OpenVINO compiles the model of a region, and what it made of it before, in the user's cache folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from annotated_region._version import __version__
from annotated_region.backends.onnx_emitter import stored
from annotated_region.backends.onnx_emitter.assembly import assembled, digest_of
from annotated_region.backends.openvino.installation import PACKAGE, core, require_library
from annotated_region.backends.openvino.settings import UNLISTED, CompileSettings
from annotated_region.errors import BackendUnavailableError, BuildError

if TYPE_CHECKING:
    import openvino

__all__ = ["compile_properties", "compiled_model", "kept_quotients", "read_model"]

# A device that does not have this property computes as its maker likes.
_DECISIVE = "INFERENCE_PRECISION_HINT"
# The mark by which OpenVINO's transformations leave a division alone.
_KEPT = "nonconvertable_divide_0"
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
    properties = compile_properties(settings)
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


def compile_properties(settings: CompileSettings) -> Properties:
    """What is asked of the device, as far as it is known there.

    Raises
    ------
    BackendUnavailableError
        OpenVINO, or the device, is not on this machine, or the device does not promise a precision.
    """
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
    """What a compiled model depends on; this package changes the model that it reads."""
    place = [core().get_property(device, name) for name in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")]
    versions = require_library().__version__, __version__
    return f"{digest} {device} {sorted(properties.items())} {versions} {place}"


def _made(
    symbol: str, model: bytes, weights: Mapping[str, np.ndarray], device: str, properties: Properties
) -> openvino.CompiledModel:
    with tempfile.TemporaryDirectory() as folder:
        try:
            read = read_model(model, weights, Path(folder))
            for division in kept_quotients(read):
                division.get_rt_info()[_KEPT] = True
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


def read_model(model: bytes, weights: Mapping[str, np.ndarray], folder: Path) -> openvino.Model:
    """The model as OpenVINO reads it.

    Parameters
    ----------
    model
        The model without its weights.
    weights
        The weights by name.
    folder
        Where a model is put that is too large for one message; it has to stay while the model is used.

    Raises
    ------
    RuntimeError
        OpenVINO refuses the model.
    """
    read: openvino.Model = core().read_model(assembled(model, weights, folder))
    return read


def kept_quotients(model: openvino.Model) -> Iterator[openvino.Node]:
    """The divisions that would become products with rounded reciprocals, so that 41 * k / 41 is not k.

    Constants that are divided are left out: OpenVINO 2026.4 takes the quotient the other way round where it
    fuses one with the convolution or the product that makes the divisor.
    """
    varying: set[str] = set()
    for each in model.get_ordered_ops():
        operands = [value.get_node().get_name() for value in each.input_values()]
        if each.get_type_name() == "Parameter" or not varying.isdisjoint(operands):
            varying.add(each.get_name())
        if each.get_type_name() == "Divide" and operands[0] in varying:
            yield each
