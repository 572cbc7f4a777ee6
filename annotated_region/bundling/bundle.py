"""export: writes a folder that runs without this package, without a compiler and without Python.

    lib/            the model's library, the engines' libraries, TVM's runtime, the compiler's runtime
    include/        the headers for programs that run it
    example/        such programs: in C++ with CMake, in Python with apache-tvm-ffi and numpy
    licenses/       the licenses of the contents
    manifest.json   versions, digests, required processor features
    README.md

Libraries find each other by ``$ORIGIN``, so the folder can be moved; they do not refer to paths of the
machine that built them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from annotated_region.bundling.installed import header_folders
from annotated_region.bundling.libraries import SharedLibrary, shared_libraries
from annotated_region.bundling.manifest import manifest_of
from annotated_region.checked import checked
from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.errors import BackendUnavailableError, BundleError
from annotated_region.files import write_whole

__all__ = ["export"]

_EXAMPLES = ("CMakeLists.txt", "run_model.cc", "run_model.py")


@checked
def export(executable: LinkedExecutable, folder: str | os.PathLike[str]) -> Path:
    """Write a built model as a folder that runs on another machine of the same kind.

    The other machine needs Linux, the same or a newer C library, and a processor of the same kind; it needs
    neither Python nor a compiler nor the packages that built the model.

    Parameters
    ----------
    executable
        The result of `build`.
    folder
        The folder to write, which must not exist. It is written atomically.

    Returns
    -------
    The folder.

    Raises
    ------
    UsageError
        The executable was not made by `build`.
    BundleError
        The folder exists, or a library that the model needs is not found.
    BackendUnavailableError
        A target of the model runs its regions in Python, or there is no C++ compiler on this machine.
    BuildError
        The compiler or the linker fails.
    OSError
        The folder cannot be written.

    Examples
    --------
    >>> executable = ar.build(ar.partition(mod, ["dnnl"]))          # doctest: +SKIP
    >>> ar.export(executable, "model")                              # doctest: +SKIP
    """
    place = Path(folder)
    if os.path.lexists(place):
        raise BundleError(f"{place} already exists and is not overwritten; choose a new folder")
    _require_standalone(executable)
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=place.parent))
    try:
        _fill(unfinished, executable)
        unfinished.chmod(0o755)
        unfinished.rename(place)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return place


def _require_standalone(executable: LinkedExecutable) -> None:
    """Reject models that require Python at run time.

    Raises
    ------
    BackendUnavailableError
        A target runs its regions in Python.
    """
    for region in executable.regions.values():
        if region.needs_python is not None:
            raise BackendUnavailableError(
                f"regions of target {region.target!r} run in processes of Python that import "
                f"annotated_region, so a bundle cannot hold them: {region.needs_python}; partition without "
                "this target, or use executable.export_library"
            )


def _fill(folder: Path, executable: LinkedExecutable) -> None:
    (folder / "lib").mkdir()
    executable.export_library(str(folder / "lib" / "model.so"), run_path=["$ORIGIN"])
    libraries = shared_libraries(executable.libraries)
    for library in libraries:
        shutil.copy2(library.file, folder / "lib" / library.name)
    for include in header_folders():
        shutil.copytree(include, folder / "include", dirs_exist_ok=True)
    (folder / "example").mkdir()
    for name in _EXAMPLES:
        shutil.copy(_packaged(name), folder / "example" / name)
    _copy_licenses(folder / "licenses", libraries)
    shutil.copy(_packaged("README.md"), folder / "README.md")
    write_whole(folder / "manifest.json", manifest_of(executable, folder / "lib", libraries))


def _packaged(name: str) -> str:
    return str(files("annotated_region.bundling").joinpath("example", name))


def _copy_licenses(folder: Path, libraries: tuple[SharedLibrary, ...]) -> None:
    for library in libraries:
        for file in library.licenses:
            (folder / library.package).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, folder / library.package / file.name)
