"""The precisions that OpenVINO supports on a device; any other is silently computed in float32."""

from __future__ import annotations

from collections.abc import Mapping

from annotated_region.backends.openvino.installation import core
from annotated_region.backends.openvino.settings import CompileSettings

__all__ = ["capabilities_of", "remarks"]

_CAPABILITIES = {"bf16": "BF16", "f16": "FP16"}
"""The values of OpenVINO's property OPTIMIZATION_CAPABILITIES."""


def capabilities_of(device: str) -> tuple[str, ...]:
    """The precisions that the device supports; all of them for a device that is not on this machine."""
    try:
        return tuple(core().get_property(device, "OPTIMIZATION_CAPABILITIES"))
    except RuntimeError:  # the build raises an error that lists the devices
        return tuple(_CAPABILITIES.values())


def remarks(options: Mapping[str, object]) -> list[str]:
    """A remark that products run in float32, if the device does not support the requested precision."""
    settings = CompileSettings.of(options)
    needed = _CAPABILITIES.get(settings.precision)
    if needed is None or needed in capabilities_of(settings.device):
        return []
    return [
        f"precision {settings.precision!r} runs in float32 here, because OpenVINO does not list {needed} for "
        f"the device {settings.device}"
    ]
