"""Compiles the model of a region with OpenVINO, or loads it from the user's cache folder."""

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

# A device without this property computes in a precision of its own choice.
_DECISIVE = "INFERENCE_PRECISION_HINT"
# The runtime info key that keeps OpenVINO's transformations from converting a division.
_KEPT = "nonconvertable_divide_0"
# OpenVINO 2026.4 exchanges steps and sequences of these layers in a model that was exported and imported.
_CHANGED_BY_EXPORT = frozenset(("GRUSequence", "LSTMSequence", "RNNSequence"))
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
        The compile settings.

    Raises
    ------
    BackendUnavailableError
        OpenVINO, or the device, is not available on this machine, or the device has no precision setting.
    BuildError
        OpenVINO rejects the model; the message contains its reason.
    """
    properties = compile_properties(settings)
    if not settings.cache:
        return _made(symbol, model, weights, settings.device, properties)[0]
    key = _key(digest_of(model, weights), settings.device, properties)
    kept = stored.load(PACKAGE, key)
    if kept is not None:
        with suppress(RuntimeError):  # a rejected entry is compiled again, and replaced
            return core().import_model(kept, settings.device, properties)
    made, survives = _made(symbol, model, weights, settings.device, properties)
    if survives:
        with suppress(RuntimeError):  # some devices cannot export models
            stored.store(PACKAGE, key, made.export_model().getvalue())
    return made


def compile_properties(settings: CompileSettings) -> Properties:
    """The requested properties, restricted to those that the device supports.

    Raises
    ------
    BackendUnavailableError
        OpenVINO, or the device, is not available on this machine, or the device has no precision setting.
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
            f"target 'openvino': the device {settings.device} has no setting for its precision; "
            "name another one in the option 'device'"
        )
    if "CPU_DENORMALS_OPTIMIZATION" in known:  # only the CPU plugin has this property
        known = {*known, UNLISTED}
    return {name: value for name, value in settings.properties().items() if name in known}


def _key(digest: str, device: str, properties: Properties) -> str:
    """The cache key of a compiled model; includes this package's version, because it rewrites the model."""
    place = [core().get_property(device, name) for name in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")]
    versions = require_library().__version__, __version__
    return f"{digest} {device} {sorted(properties.items())} {versions} {place}"


def _made(
    symbol: str, model: bytes, weights: Mapping[str, np.ndarray], device: str, properties: Properties
) -> tuple[openvino.CompiledModel, bool]:
    """The compiled model, and whether it computes the same when it has been exported and imported."""
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
                f"{symbol}: OpenVINO computes a result of shape {shapes[1]} instead of {shapes[0]}"
            )
    kinds = {each.get_type_name() for each in read.get_ordered_ops()}
    return made, _CHANGED_BY_EXPORT.isdisjoint(kinds)


def read_model(model: bytes, weights: Mapping[str, np.ndarray], folder: Path) -> openvino.Model:
    """Read a model with OpenVINO.

    Parameters
    ----------
    model
        The model without its weights.
    weights
        The weights by name.
    folder
        The folder for a model too large for one protobuf message; it must exist while the model is used.

    Raises
    ------
    RuntimeError
        OpenVINO rejects the model.
    """
    read: openvino.Model = core().read_model(assembled(model, weights, folder))
    return read


def kept_quotients(model: openvino.Model) -> Iterator[openvino.Node]:
    """The divisions that must not become products with rounded reciprocals: then 41 * k / 41 is not k.

    Divisions of constants are not included: OpenVINO 2026.4 inverts such a quotient when it fuses it with the
    convolution or matrix product that computes the divisor.
    """
    varying: set[str] = set()
    for each in model.get_ordered_ops():
        operands = [value.get_node().get_name() for value in each.input_values()]
        if each.get_type_name() == "Parameter" or not varying.isdisjoint(operands):
            varying.add(each.get_name())
        if each.get_type_name() == "Divide" and operands[0] in varying:
            yield each
