"""The C++ parts of targets that run ONNX models: entries, and a runtime for processes without Python.

A target with such a runtime has a file that defines ``annotated_region_open_<target>``, which creates the
runner of a region. The shared code is in ``cpp``: the tables of a region, the search for the engine's
library, and the conversion of tensors. The runtime is compiled once and linked into every module
(`LinkedSource`); if that is not possible, it is included in the unit of the entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import tvm_ffi

from annotated_region.targets.backend import BuildOptions, LinkedSource, NeededLibrary

__all__ = ["NativeModel", "NativeRuntime", "ConstantPlace", "build_options", "unit_text"]

_OPENER = """
namespace annotated_region_native {{
extern "C" __attribute__((visibility("hidden"))) int annotated_region_open_{target}(
    const RegionTable& region, TVMFFIObjectHandle weights, TVMFFIObjectHandle* made);
}}
#define ANNOTATED_REGION_OPEN annotated_region_open_{target}
"""


@dataclass(frozen=True, slots=True)
class ConstantPlace:
    """A slice of the constant buffer of a `NativeModel`.

    Attributes
    ----------
    offset, size
        The offset and size in bytes.
    weight
        The index of the region's weight that is copied there; None for other constants.
    data
        The bytes of a constant that is not a weight.
    """

    offset: int
    size: int
    weight: int | None
    data: memoryview = field(repr=False)


@dataclass(frozen=True, slots=True)
class NativeModel:
    """The model of a region in a format that the C++ runtime reads instead of ONNX.

    Attributes
    ----------
    text
        The model, whose constants are offsets into a buffer.
    parts
        The slices of the buffer, by offset.
    size
        The size of the buffer in bytes.
    """

    text: bytes = field(repr=False)
    parts: tuple[ConstantPlace, ...]
    size: int


@dataclass(frozen=True, slots=True)
class NativeRuntime:
    """The C++ runtime of a target.

    Attributes
    ----------
    target
        The name of the target.
    file
        The target's own source file.
    """

    target: str
    file: Traversable

    @property
    def macro(self) -> str:
        """The macro that is defined if the runtime is linked as an object."""
        return f"ANNOTATED_REGION_PREBUILT_{self.target.upper()}"

    @property
    def text(self) -> str:
        """The source of the runtime, to be included after ``region.h``."""
        return "".join([_shared("engines.h"), _shared("operands.h"), self.file.read_text(encoding="utf-8")])

    def build_options(
        self,
        libraries: Sequence[NeededLibrary],
        headers: Sequence[Path] = (),
        versions: Sequence[str] = (),
    ) -> BuildOptions:
        """The compiler options for entries and the runtime, and the libraries of the engine.

        Parameters
        ----------
        libraries
            The libraries that must be present where the module runs.
        headers
            The include folders of the engine.
        versions
            The versions of the headers.
        """
        compiled = (*build_options().compile_options, *(f"-I{folder}" for folder in headers))
        versions = (f"apache-tvm-ffi {version('apache-tvm-ffi')}", *versions)
        source = LinkedSource(_shared("region.h") + self.text, compiled, versions, self.macro)
        return BuildOptions(compiled, ("-ldl",), (source,), tuple(libraries))


def unit_text(target: str, native: NativeRuntime | None) -> str:
    """The beginning of the unit of a target's entries; without a C++ runtime, regions need Python."""
    parts = [_shared("region.h"), f'#define ANNOTATED_REGION_TARGET "{target}"\n']
    if native is not None:
        parts += [f"#ifndef {native.macro}\n", native.text, "#endif\n", _OPENER.format(target=target)]
    return "".join([*parts, _shared("entry.h")])


def build_options() -> BuildOptions:
    """The compiler options for entries: TVM's headers."""
    folders = dict.fromkeys((tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()))
    return BuildOptions(("-std=c++17", "-O2", *(f"-I{folder}" for folder in folders)))


def _shared(name: str) -> str:
    file = files("annotated_region.backends.onnx_emitter") / "cpp" / name
    return file.read_text(encoding="utf-8")
