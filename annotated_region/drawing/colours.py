"""Colours of targets, determined by their names so that all pictures agree, and of times and verdicts."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Iterable, Mapping

from annotated_region.findings.verdicts import Verdict

__all__ = ["fill_of_verdict", "fills_of", "heat"]

# Fill colours with enough contrast for black text, after Paul Tol's "light" scheme.
_KNOWN = {
    "dnnl": "#77aadd",
    "onnxruntime": "#ee8866",
    "openvino": "#bbcc33",
    "tensorrt": "#44bb99",
    "host": "#dddddd",
    "": "#ffffff",
}
_LIGHTNESS, _SATURATION = 0.76, 0.62
# From fast to slow; all have enough contrast for black text.
_HEAT = ((255, 255, 212), (254, 196, 79), (240, 105, 80))

# Paul Tol's "bright" red and "light" mint, which also differ in lightness, and grey.
_WRONG = "#ee6677"
_VERDICTS = {
    Verdict.RIGHT: "#b7e4c7",
    Verdict.WRONG: _WRONG,
    Verdict.FAILS: _WRONG,
    Verdict.NOT_RUN: "#dddddd",
}


def fill_of_verdict(verdict: Verdict) -> str:
    """The colour of a verdict."""
    return _VERDICTS[verdict]


def fills_of(targets: Iterable[str]) -> Mapping[str, str]:
    """The fill colour of each target, of the host, and of boxes without a place.

    A colour depends only on the name; that of a third-party target is a hue derived from a checksum. Two of
    these can be similar, because a colour that depended on the other targets would vary between pictures.
    """
    named = dict.fromkeys(target for target in targets if target not in ("host", ""))
    return {target: _KNOWN.get(target) or _of_name(target) for target in (*named, "host", "")}


def _of_name(target: str) -> str:
    hue = zlib.crc32(target.encode("utf-8", "backslashreplace")) % 360
    channels = colorsys.hls_to_rgb(hue / 360, _LIGHTNESS, _SATURATION)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def heat(seconds: float, slowest: float) -> str:
    """The colour of a time: pale yellow for zero, through orange to red for the slowest."""
    share = min(1.0, max(0.0, seconds / slowest)) if slowest > 0 else 0.0
    position = share * (len(_HEAT) - 1)
    first = min(int(position), len(_HEAT) - 2)
    part = position - first
    channels = zip(_HEAT[first], _HEAT[first + 1], strict=True)
    return "#" + "".join(f"{round(low + part * (high - low)):02x}" for low, high in channels)
