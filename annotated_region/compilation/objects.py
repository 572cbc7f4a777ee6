"""Caches object files between builds: a source that was compiled before is only linked.

The cache key is the hash of everything that the object depends on, as in ccache (https://ccache.dev): the
text with its includes (`meanings.py`), so that a changed header changes the key, the compiler with its
version, and the options. Objects are entries of the user's private cache folder, whose digests are verified
(`made_files.py`). What a wheel brings compiled (`shipped.py`) is linked from there. The units of a module are
compiled in parallel. What was linked of the same objects is kept, too (`linked_libraries.py`). Where nothing
can be cached, every build compiles.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tvm.support import cc as tvm_cc

from annotated_region.compilation.constant_objects import ConstantData
from annotated_region.compilation.late_constants import link_with_constants
from annotated_region.compilation.linked_libraries import link_once
from annotated_region.compilation.made_files import OBJECT, made_or_taken
from annotated_region.compilation.meanings import Compiler, Meanings
from annotated_region.compilation.processes import Processes
from annotated_region.compilation.shipped import shipped_objects
from annotated_region.errors import BuildError
from annotated_region.files import whole_file
from annotated_region.progress import progress_line, shown
from annotated_region.targets.backend import LinkedSource
from annotated_region.tvm_adapter.modules import compiler_triple

__all__ = ["SharedLibraryLinker", "compile_linked"]

_LOOKS = 0.2
"""Seconds between two looks for signals."""
SOURCES = (".c", ".cc", ".cpp")
Item = TypeVar("Item")
LINKING = ("-Wl,--build-id=none",)
"""Options for the linker only. A build id is a digest of all weights, and is not used."""


class SharedLibraryLinker:
    """Compiles and links as `tvm.support.cc.create_shared` does, and caches the objects of sources.

    An instance can be passed to TVM's ``export_library`` as `fcompile`. The library is written atomically.

    Parameters
    ----------
    sources
        Sources linked into every library besides its own files.
    progress
        Whether to show on a terminal how many sources are left.
    constants
        Data that is written into every library.
    """

    def __init__(
        self,
        sources: Sequence[LinkedSource] = (),
        progress: bool = True,
        constants: Sequence[ConstantData] = (),
    ) -> None:
        self.sources = tuple(sources)
        self.progress = progress
        self.constants = tuple(constants)

    def __call__(
        self,
        output: str,
        files: Sequence[str],
        options: Sequence[str] = (),
        cc: str | None = None,
        **others: Any,
    ) -> None:
        """Build a shared library.

        Parameters
        ----------
        output
            The library to write.
        files
            Sources and objects.
        options
            Options for the compiler and the linker, one word each.
        cc
            The compiler; by default TVM's choice.
        **others
            As for `tvm.support.cc.create_shared`.

        Raises
        ------
        RuntimeError
            The compiler or the linker rejects the code; the message has its output.
        OSError
            The library cannot be written.
        """
        path = cc or tvm_cc.get_cc()
        assert path, "LinkedExecutable looks for a compiler before"
        compiler = _speaking(path)
        words = list(options)
        steps = len(self.sources) + len(files)
        with (
            tempfile.TemporaryDirectory() as folder,
            whole_file(output) as unfinished,
            progress_line(steps, self.progress),
        ):
            linked = self._compiled(files, compiler, words, Path(folder))
            linking = [*words, *LINKING]

            def link(objects: list[str]) -> None:
                called = partial(tvm_cc.create_shared, str(unfinished), objects, linking, path, **others)
                link_once(unfinished, objects, None if others else compiler, linking, called)

            link_with_constants(unfinished, linked, self.constants, Path(folder), link)

    def _compiled(
        self, files: Sequence[str], compiler: Compiler | None, words: list[str], folder: Path
    ) -> list[str]:
        """Files to link: objects in place of sources where possible; adds macro definitions to `words`."""
        if compiler is None:
            return list(files)
        linked = []
        for index, source in enumerate(shown(self.sources, lambda _source: "the runtime")):
            objects = shipped_objects(source, compiler) or compile_linked(
                source, compiler, folder, f"linked{index}"
            )
            if objects:
                words.insert(0, f"-D{source.macro}")
                linked += objects
        return linked + _objects_of(files, compiler, words, folder)

    def get_target_triple(self) -> str:
        """The machine that the compiler targets; TVM calls it if it has no code for the host.

        Raises
        ------
        BuildError
            The compiler does not report it.
        """
        triple = compiler_triple()
        if not triple:
            raise BuildError(
                f"the C++ compiler {tvm_cc.get_cc()} does not work: it reports no target "
                "(-dumpmachine); name another one in the environment variable CXX"
            )
        return triple


def _speaking(path: str) -> Compiler | None:
    """The compiler at a path; None if it does not work, which the linker will report."""
    try:
        return Compiler.at(path)
    except (OSError, subprocess.CalledProcessError):
        return None


def compile_linked(source: LinkedSource, compiler: Compiler, folder: Path, name: str) -> list[str]:
    """The objects of the units of a source, in a folder, their names beginning with `name`.

    Empty if one cannot be compiled or cached: the module has to include the source then.
    """

    def compiled(index: int, processes: Processes) -> str:
        unit, file = source.units[index], folder / f"{name}-{index}.cc"
        file.write_text(unit, encoding="utf-8")
        place = file.with_suffix(".o")
        made = _compile(file, compiler, source.options, [unit, *source.versions], place, processes)
        return str(place) if made else ""

    try:
        objects = _in_parallel(compiled, range(len(source.units)))
    except (OSError, subprocess.CalledProcessError):  # compiling the module's units will report the error
        return []
    return objects if all(objects) else []


def _objects_of(files: Sequence[str], compiler: Compiler, options: Sequence[str], folder: Path) -> list[str]:
    """The objects of sources, in their order."""
    meanings = Meanings(compiler, options, folder)
    places = ((file, folder / f"{index}.o") for index, file in enumerate(files))

    def compiled(one: tuple[str, Path], processes: Processes) -> str:
        return _object_of(one[0], meanings, one[1], processes)

    return _in_parallel(compiled, list(places), "the generated code")


def _in_parallel(
    make: Callable[[Item, Processes], str], items: Sequence[Item], step: str | None = None
) -> list[str]:
    """What `make` returns for each item; runs as many at once as there are cores.

    On an interrupt or an error, items that have not started are cancelled, and the compilers of others are
    terminated. If `step` is given, each item is a step that is shown.
    """
    processes = Processes()
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(max(1, min(cores, len(items)))) as workers:
        try:
            made = [workers.submit(make, item, processes) for item in items]
            return [_result(each) for each in (shown(made, lambda _unit: step) if step else made)]
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            processes.end()
            raise


def _result(future: Future[str]) -> str:
    """The result, once it is there.

    A signal that arrives between Python's last look for signals and the beginning of a wait is handled after
    the wait, so none is long.
    """
    while not wait([future], timeout=_LOOKS).done:
        pass
    return future.result()


def _object_of(file: str, meanings: Meanings, place: Path, processes: Processes) -> str:
    """The object of a source, at `place`; the file itself if it is no source or cannot be compiled."""
    source = Path(file)
    if source.suffix not in SOURCES:
        return file
    try:
        made = _compile(source, meanings.compiler, meanings.options, meanings.of(source), place, processes)
    except (OSError, subprocess.CalledProcessError):  # the linker will report the error
        return file
    return str(place) if made else file


def _compile(
    source: Path,
    compiler: Compiler,
    options: Sequence[str],
    meaning: Sequence[str],
    place: Path,
    processes: Processes,
) -> bool:
    """Compile a source to `place`, or copy its cached object; False if nothing can be cached.

    `meaning` is the part of the key besides compiler and options. Linker-only options among these are
    harmless.
    """
    command = [compiler.path, *options, "-fPIC", "-c", str(source), "-o", str(place)]
    parts = (source.suffix, compiler.path, *options, compiler.version, *meaning)
    return made_or_taken(OBJECT, parts, place, lambda: processes.run(command))
