"""Colours of targets, determined by their names so that all pictures agree, and of times and verdicts."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Collection, Iterable, Mapping

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
# Of other targets: hues in degrees, away from those above; the eighth target has the second lightness.
_HUES = (100, 190, 240, 265, 290, 315, 340)
_LIGHTNESSES, _SATURATION = (0.76, 0.88), 0.62
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

    A third-party target has a colour derived from a checksum of its name, so that pictures agree. Where two
    targets of one picture would share a colour, the later one in alphabetical order has the next free one.
    """
    named = dict.fromkeys(target for target in targets if target not in ("host", ""))
    fills = dict(_KNOWN)
    for target in sorted(named.keys() - _KNOWN.keys()):
        fills[target] = _free(target, {*fills.values()})
    return {target: fills[target] for target in (*named, "host", "")}


def _free(target: str, taken: Collection[str]) -> str:
    """The first free colour, from that of the name's checksum on, which it has where none is free."""
    first = zlib.crc32(target.encode("utf-8", "backslashreplace")) % len(_HUES)
    rotated = (*_HUES[first:], *_HUES[:first])
    colours = [_of_hue(hue, lightness) for lightness in _LIGHTNESSES for hue in rotated]
    return next((colour for colour in colours if colour not in taken), colours[0])


def _of_hue(hue: int, lightness: float) -> str:
    channels = colorsys.hls_to_rgb(hue / 360, lightness, _SATURATION)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def heat(seconds: float, slowest: float) -> str:
    """The colour of a time: pale yellow for zero, through orange to red for the slowest."""
    share = min(1.0, max(0.0, seconds / slowest)) if slowest > 0 else 0.0
    position = share * (len(_HEAT) - 1)
    first = min(int(position), len(_HEAT) - 2)
    part = position - first
    channels = zip(_HEAT[first], _HEAT[first + 1], strict=True)
    return "#" + "".join(f"{round(low + part * (high - low)):02x}" for low, high in channels)
