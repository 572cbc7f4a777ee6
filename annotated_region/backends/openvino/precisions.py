"""Which precisions OpenVINO has on a device; what it does not have it computes in float32, without a word."""

from __future__ import annotations

from collections.abc import Mapping

from annotated_region.backends.openvino.installation import core
from annotated_region.backends.openvino.settings import CompileSettings

__all__ = ["capabilities_of", "remarks"]

_CAPABILITIES = {"bf16": "BF16", "f16": "FP16"}
"""OpenVINO's names, in its property OPTIMIZATION_CAPABILITIES."""


def capabilities_of(device: str) -> tuple[str, ...]:
    """What OpenVINO says that a device computes in; everything where the device is not known."""
    try:
        return tuple(core().get_property(device, "OPTIMIZATION_CAPABILITIES"))
    except RuntimeError:  # building says so, with the devices that there are
        return tuple(_CAPABILITIES.values())


def remarks(options: Mapping[str, object]) -> list[str]:
    """That products run in float32, where the device does not have the precision that is asked for."""
    settings = CompileSettings.of(options)
    needed = _CAPABILITIES.get(settings.precision)
    if needed is None or needed in capabilities_of(settings.device):
        return []
    return [
        f"precision {settings.precision!r} runs in float32 here, because OpenVINO does not list {needed} for "
        f"the device {settings.device}"
    ]
