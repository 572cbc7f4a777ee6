"""The shared libraries that a built model needs at run time, with the package of each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from tvm.support import cc

from annotated_region.bundling.installed import runtime_libraries
from annotated_region.errors import BackendUnavailableError, BundleError
from annotated_region.targets.backend import NeededLibrary

__all__ = ["SharedLibrary", "shared_libraries"]

_OF_THE_COMPILER = ("libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1")


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """A shared library of a bundle.

    Attributes
    ----------
    name
        The name by which other libraries refer to it, and its file name in the bundle.
    file
        Its path on this machine.
    package
        The distribution that provides it, or the compiler.
    version
        The version of the package.
    license
        The license that the package states.
    licenses
        The files with the license text.
    instructions
        The processor features that it requires.
    """

    name: str
    file: Path
    package: str
    version: str
    license: str
    licenses: tuple[Path, ...] = ()
    instructions: str = "those that every processor of the machine has"


def shared_libraries(needed: Iterable[NeededLibrary]) -> tuple[SharedLibrary, ...]:
    """The libraries of the engines, TVM's runtime, and the runtime libraries of the compiler.

    Raises
    ------
    BackendUnavailableError
        There is no C++ compiler on this machine.
    BundleError
        A library is not found.
    """
    engines = [
        replace(_of_package(each.name, each.file, each.package), instructions=each.instructions)
        for each in dict.fromkeys(needed)
    ]
    runtime = [_of_package(file.name, file, package) for file, package in runtime_libraries()]
    return (*engines, *runtime, *_of_compiler())


def _of_package(name: str, file: Path, package: str) -> SharedLibrary:
    if not file.is_file():
        raise BundleError(f"{file}, which {package} installs, is not there; install {package} again")
    try:
        found = distribution(package)
    except PackageNotFoundError as error:
        raise BundleError(f"{package} is not installed, and the model needs its {name}") from error
    said = [found.metadata[key] for key in ("License-Expression", "License") if key in found.metadata]
    first = said[0].splitlines()[0] if said and said[0] else "see the files"
    return SharedLibrary(name, file, package, found.version, first, _licenses_of(found))


def _licenses_of(found: Distribution) -> tuple[Path, ...]:
    names = ("LICENSE", "NOTICE", "THIRD-PARTY", "COPYING")
    listed = (file for file in found.files or () if file.name.upper().startswith(names))
    return tuple(path for path in (Path(str(file.locate())) for file in listed) if path.is_file())


def _of_compiler() -> list[SharedLibrary]:
    """The runtime of the compiler: C++, and OpenMP, which oneDNN and the regions share."""
    compiler = cc.get_cc()
    if not compiler:
        raise BackendUnavailableError(
            "no C++ compiler found, and a bundle holds its runtime; install one (on Debian: apt-get install "
            "g++) or name it in the environment variable CXX"
        )
    version = _answer(compiler, "-dumpfullversion", "-dumpversion")
    return [
        SharedLibrary(
            name,
            _found(compiler, name),
            compiler.rsplit("/", 1)[-1],
            version,
            "GPL-3.0 with GCC-exception-3.1",
        )
        for name in _OF_THE_COMPILER
    ]


def _found(compiler: str, name: str) -> Path:
    path = Path(_answer(compiler, f"-print-file-name={name}"))
    if not path.is_absolute():  # the compiler echoes the name of a file that it does not find
        raise BundleError(f"{compiler} cannot find {name}, which the model needs")
    return path.resolve()


def _answer(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
