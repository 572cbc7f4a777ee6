"""Caches object files between builds: a source that was compiled before is only linked.

The cache key is the hash of everything that the object depends on, as in ccache (https://ccache.dev): the
text with its includes (`meanings.py`), so that a changed header changes the key, the compiler with its
version, and the options. Objects are entries of the user's private cache folder, whose digests are verified
(`annotated_region.cache`); the linker gets a copy of the verified content, in a folder private to this build.
What a wheel brings compiled (`shipped.py`) is linked from there. The units of a module are compiled in
parallel. If several processes or units need the same object, one compiles it and the others wait; the least
recently used objects are evicted. Where nothing can be cached, every build compiles.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from tvm.support import cc as tvm_cc

from annotated_region.cache import alone, load_entry, private_cache_folder, store_entry, sweep
from annotated_region.compilation.constant_objects import ConstantData
from annotated_region.compilation.keys import KEY_DIGITS, key_of
from annotated_region.compilation.late_constants import link_with_constants
from annotated_region.compilation.meanings import Compiler, Meanings
from annotated_region.compilation.preprocessing import ENTRY
from annotated_region.compilation.processes import Processes
from annotated_region.compilation.shipped import shipped_objects
from annotated_region.errors import BuildError
from annotated_region.files import whole_file
from annotated_region.progress import progress_line, shown
from annotated_region.targets.backend import LinkedSource
from annotated_region.tvm_adapter.modules import compiler_triple

__all__ = ["SharedLibraryLinker", "compile_linked"]

KEPT_BYTES = 256 << 20
CHECKED_SHARE = 1 / 64
_DRAWN_DIGITS = 8
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
        compiler = cc or tvm_cc.get_cc()
        assert compiler, "LinkedExecutable looks for a compiler before"
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
                tvm_cc.create_shared(str(unfinished), objects, options=linking, cc=compiler, **others)

            link_with_constants(unfinished, linked, self.constants, Path(folder), link)

    def _compiled(self, files: Sequence[str], path: str, words: list[str], folder: Path) -> list[str]:
        """Files to link: objects in place of sources where possible; adds macro definitions to `words`."""
        try:
            compiler = Compiler.at(path)
        except (OSError, subprocess.CalledProcessError):  # the linker will report the error
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
    folder = private_cache_folder()
    if folder is None:
        return False
    entry = folder / f"object-{key_of(source.suffix, compiler.path, *options, compiler.version, *meaning)}"
    if _taken(entry, place):
        return True
    with alone(entry):
        if _taken(entry, place):  # another process has compiled it meanwhile
            return True
        command = [compiler.path, *options, "-fPIC", "-c", str(source), "-o", str(place)]
        processes.run(command)
        with suppress(OSError):  # a full disk, or a removed folder: this build has its object already
            content = place.read_bytes()
            store_entry(entry, content)
            sweep(folder)
            if _is_time_to_evict(entry, len(content)):
                _make_room(folder)
    return True


def _is_time_to_evict(entry: Path, size: int) -> bool:
    """Whether to add up the sizes of all entries: with thousands, that takes as long as to compile one.

    The share of objects of `size` bytes that are followed by it is `size` over `CHECKED_SHARE` of what is
    kept, so that the folder exceeds its limit by about that much. The digest decides, not chance: the same
    builds leave the same folder.
    """
    fraction = int(entry.name[-_DRAWN_DIGITS:], 16) / (1 << 4 * _DRAWN_DIGITS)
    return fraction * KEPT_BYTES * CHECKED_SHARE < size


def _taken(entry: Path, place: Path) -> bool:
    content = load_entry(entry)
    if content is None:
        return False
    place.write_bytes(content)
    return True


def _make_room(folder: Path) -> None:
    """Evict the least recently used entries until the rest fits; the newest is always kept."""
    known = []
    digits = "?" * KEY_DIGITS
    for path in chain.from_iterable(folder.glob(f"{kind}{digits}") for kind in ("object-", ENTRY)):
        try:
            info = path.lstat()
        except FileNotFoundError:  # another process is evicting, too
            continue
        known.append((info.st_mtime_ns, path, info.st_size))
    total = 0
    for index, (_, path, size) in enumerate(sorted(known, reverse=True)):
        total += size
        if index > 0 and total > KEPT_BYTES:
            path.unlink(missing_ok=True)
