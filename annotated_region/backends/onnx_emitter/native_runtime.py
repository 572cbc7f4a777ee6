"""The C++ of targets whose regions are ONNX models: entries, and a runtime for processes without Python.

A target with such a runtime has a file that defines ``annotated_region_open_<target>``, which makes the
runner of a region. What it shares with others is in ``cpp`` here: the tables of a region, how the engine's
library is found, and how tensors are handed over. The runtime is compiled once and linked with every module
(`LinkedSource`); where that is not possible, the unit of the entries holds it.
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
    """A stretch of the memory that the constants of a `NativeModel` lie in.

    Attributes
    ----------
    offset, size
        Where it lies, in bytes.
    weight
        The number of the region's weight that goes there; None if none of them does.
    data
        What it holds.
    """

    offset: int
    size: int
    weight: int | None
    data: memoryview = field(repr=False)


@dataclass(frozen=True, slots=True)
class NativeModel:
    """The model of a region in a form that the runtime in C++ reads in the place of ONNX.

    Attributes
    ----------
    text
        The model, whose constants are places in a stretch of memory.
    parts
        What lies in that memory, by place.
    size
        How large it is, in bytes.
    """

    text: bytes = field(repr=False)
    parts: tuple[ConstantPlace, ...]
    size: int


@dataclass(frozen=True, slots=True)
class NativeRuntime:
    """The runtime of a target in C++.

    Attributes
    ----------
    target
        The name of the target.
    file
        What of it is its own.
    """

    target: str
    file: Traversable

    @property
    def macro(self) -> str:
        """Defined where the runtime is linked as an object."""
        return f"ANNOTATED_REGION_PREBUILT_{self.target.upper()}"

    @property
    def text(self) -> str:
        """The runtime, which has to stand behind ``region.h``."""
        return "".join([_shared("engines.h"), _shared("operands.h"), self.file.read_text(encoding="utf-8")])

    def build_options(
        self,
        libraries: Sequence[NeededLibrary],
        headers: Sequence[Path] = (),
        versions: Sequence[str] = (),
    ) -> BuildOptions:
        """What the compiler needs for entries, the runtime, and the libraries of the engine.

        Parameters
        ----------
        libraries
            What has to be there where the module runs.
        headers
            The folders of the engine's headers.
        versions
            Of which version they are.
        """
        compiled = (*build_options().compile_options, *(f"-I{folder}" for folder in headers))
        versions = (f"apache-tvm-ffi {version('apache-tvm-ffi')}", *versions)
        source = LinkedSource(_shared("region.h") + self.text, compiled, versions, self.macro)
        return BuildOptions(compiled, ("-ldl",), (source,), tuple(libraries))


def unit_text(target: str, native: NativeRuntime | None) -> str:
    """What the unit of a target's entries begins with; without a runtime in C++, regions need Python."""
    parts = [_shared("region.h"), f'#define ANNOTATED_REGION_TARGET "{target}"\n']
    if native is not None:
        parts += [f"#ifndef {native.macro}\n", native.text, "#endif\n", _OPENER.format(target=target)]
    return "".join([*parts, _shared("entry.h")])


def build_options() -> BuildOptions:
    """What the compiler needs for entries: TVM's headers."""
    folders = dict.fromkeys((tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()))
    return BuildOptions(("-std=c++17", "-O2", *(f"-I{folder}" for folder in folders)))


def _shared(name: str) -> str:
    file = files("annotated_region.backends.onnx_emitter") / "cpp" / name
    return file.read_text(encoding="utf-8")
