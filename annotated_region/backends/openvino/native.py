"""OpenVINO without Python: the shared libraries of the wheel, and models in OpenVINO's own format.

The C interface cannot read ONNX models whose weights are in memory. So a model is read when the module is
built, and written in OpenVINO's intermediate representation (IR), whose constants are offsets into one
buffer. The runtime copies the region's weights into this buffer; other constants of the IR, such as shapes,
are stored in the library. The IR does not preserve the runtime info of operators, so divisions that must not
be converted (`compiled.py`) get names with a prefix by which the runtime finds them.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from annotated_region.backends.onnx_emitter.native_runtime import ConstantPlace, NativeModel, NativeRuntime
from annotated_region.backends.openvino.compiled import compile_properties, kept_quotients, read_model
from annotated_region.backends.openvino.installation import PACKAGE, require_library, unavailable
from annotated_region.backends.openvino.settings import CompileSettings
from annotated_region.targets.backend import BuildOptions, NeededLibrary
from annotated_region.targets.installed_files import installed_files

__all__ = ["RUNTIME", "build_options", "libraries", "native_model", "native_settings", "needs_python"]

RUNTIME = NativeRuntime(PACKAGE, files("annotated_region.backends.openvino") / "cpp" / "request.h")

_KEPT = "kept_quotient_"
"""The name prefix of divisions that must not be converted; the same as in ``cpp/request.h``."""

_ONLY_DEVICE = "CPU"
_INTERFACE = "libopenvino_c.so"
_LIBRARIES = (
    *(_INTERFACE, "libopenvino.so", "libopenvino_ir_frontend.so", "libopenvino_intel_cpu_plugin.so"),
    *("libtbb.so", "libtbbbind_2_5.so", "libhwloc.so"),
)
"""The C interface, the library, the IR frontend, the CPU plugin, and TBB, its thread library."""


def libraries() -> tuple[NeededLibrary, ...]:
    """OpenVINO's shared libraries for CPUs, as far as the installed wheel has them."""
    found = [
        NeededLibrary(file.name, Path(str(file.locate())).resolve(), PACKAGE, "SSE4.2 on x86-64")
        for file in installed_files(PACKAGE)
        if file.name.startswith(_LIBRARIES) and file.parent.name == "libs"
    ]
    return tuple(sorted((each for each in found if each.file.is_file()), key=lambda each: each.name))


def _headers() -> Path | None:
    """The folder of OpenVINO's headers; None if the wheel has none."""
    for each in libraries():
        folder = each.file.parent.parent / "include"
        if (folder / "openvino" / "c" / "openvino.h").is_file():
            return folder
    return None


def build_options() -> BuildOptions:
    """The compiler options for regions, and the libraries that they load."""
    headers = _headers()
    if headers is None:
        return RUNTIME.build_options(())
    return RUNTIME.build_options(libraries(), (headers,), (f"{PACKAGE} {version(PACKAGE)}",))


def needs_python(options: Mapping[str, object]) -> str | None:
    """Why regions built with these options run only in Python processes; None if they run in any process."""
    missing = unavailable()
    if missing is not None:
        return f"building the module needs OpenVINO to convert the models to its own format, and {missing}"
    device = CompileSettings.of(options).device
    if device != _ONLY_DEVICE:
        return f"device {device} is accessible only from Python"
    release = _release(version(PACKAGE))
    if release not in _KNOWN_RELEASES:
        return (
            f"the C interface of OpenVINO {release} is unsupported, only that of {', '.join(_KNOWN_RELEASES)}"
        )
    if _headers() is None or not any(each.name.startswith(_INTERFACE) for each in libraries()):
        return "the installed openvino lacks the library of its C interface; reinstall openvino"
    return None


def native_settings(settings: CompileSettings) -> dict[str, str]:
    """The OpenVINO release that the module is built with, and the properties, as text for the C interface."""
    found = {"version": _release(require_library().__version__)}
    for name, value in compile_properties(settings).items():
        found[name] = ("YES" if value else "NO") if isinstance(value, bool) else value
    return found


_KNOWN_RELEASES = ("2026.4",)
"""The releases whose C interface was tested: the runtime also uses internals (``cpp/request.h``)."""


def _release(version: str) -> str:
    """Year and number, which determine the plugin's results: ``2026.4`` of ``2026.4.0-21000-...``."""
    return ".".join(version.split(".")[:2])


def native_model(model: bytes, weights: Mapping[str, np.ndarray]) -> NativeModel:
    """A model in OpenVINO's own format, without its weights.

    Parameters
    ----------
    model
        The model in ONNX, without its weights.
    weights
        The weights by name, in the order in which the runtime receives them.

    Raises
    ------
    RuntimeError
        OpenVINO rejects the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        text, data = Path(folder) / "region.xml", Path(folder) / "region.bin"
        read = read_model(model, weights, Path(folder))
        for number, division in enumerate(kept_quotients(read)):
            division.set_friendly_name(f"{_KEPT}{number}")
        require_library().serialize(read, text, data)
        root = ElementTree.fromstring(text.read_bytes())
        stored = data.read_bytes()
    _rename(root)
    return NativeModel(ElementTree.tostring(root), _parts(root, memoryview(stored), weights), len(stored))


def _rename(root: ElementTree.Element) -> None:
    """Remove from the IR what differs between processes and is never read."""
    for info in root.findall("rt_info"):
        root.remove(info)
    for element in root.iter():
        element.text, element.tail = (element.text or "").strip(), None
    for layer in root.iter("layer"):
        if not layer.attrib["name"].startswith(_KEPT):
            layer.set("name", f"layer_{layer.attrib['id']}")


def _parts(
    root: ElementTree.Element, data: memoryview, weights: Mapping[str, np.ndarray]
) -> tuple[ConstantPlace, ...]:
    """The parts of the constant buffer with their offsets; equal constants share one."""
    numbers: dict[bytes, int] = {}
    for number, array in enumerate(weights.values()):
        numbers.setdefault(_digest(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data), number)
    places = {
        int(each.attrib["offset"]): int(each.attrib["size"])
        for each in root.iter("data")
        if "offset" in each.attrib
    }
    held = ((start, data[start : start + size]) for start, size in sorted(places.items()))
    return tuple(
        ConstantPlace(start, len(content), numbers.get(_digest(content)), content) for start, content in held
    )


def _digest(data: memoryview) -> bytes:
    return hashlib.sha256(data).digest()
