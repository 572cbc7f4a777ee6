"""Object files kept between builds: what was compiled once from the same text is only linked again.

An object is found by the hash of all that it depends on, as in ccache (https://ccache.dev): the text with
what it includes (`meanings.py`), so that a changed header counts, the compiler with its version, and the
options. Objects are entries of the user's private cache folder, whose digests are checked
(`annotated_region.cache`). What is linked is a copy of what was checked, in a folder of this build alone.
The units of a module are compiled side by side. Of several processes, or units, that need the same object
one compiles it, and the others wait; those objects that were used longest ago go when there are too many.
Where nothing can be kept, every build compiles.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tvm.support import cc as tvm_cc

from annotated_region.cache import alone, load_entry, private_cache_folder, store_entry, sweep
from annotated_region.compilation.meanings import Compiler, Meanings
from annotated_region.errors import BuildError
from annotated_region.files import whole_file
from annotated_region.targets.backend import LinkedSource
from annotated_region.tvm_adapter.modules import compiler_triple

__all__ = ["SharedLibraryLinker"]

KEPT_BYTES = 256 << 20
_HASH_DIGITS = 32
SOURCES = (".c", ".cc", ".cpp")
LINKING = ("-Wl,--build-id=none",)
"""Options for the linker alone. An identity of a library is a digest of all its weights, and of no use."""


class SharedLibraryLinker:
    """Compiles and links as `tvm.support.cc.create_shared` does, and keeps the objects of sources.

    An instance is what TVM's ``export_library`` takes as `fcompile`. The library is written whole or not at
    all.

    Parameters
    ----------
    sources
        What is linked with every library besides its own files.
    """

    def __init__(self, sources: Sequence[LinkedSource] = ()) -> None:
        self.sources = tuple(sources)

    def __call__(
        self,
        output: str,
        files: Sequence[str],
        options: Sequence[str] = (),
        cc: str | None = None,
        **others: Any,
    ) -> None:
        """Make a shared library.

        Parameters
        ----------
        output
            The library to write.
        files
            Sources and objects.
        options
            Options for the compiler and the linker, one word each.
        cc
            The compiler; TVM's choice if left out.
        **others
            As for `tvm.support.cc.create_shared`.

        Raises
        ------
        RuntimeError
            The compiler or the linker refuses the code; the message holds what it said.
        OSError
            The library cannot be written.
        """
        compiler = cc or tvm_cc.get_cc()
        assert compiler, "LinkedExecutable looks for a compiler before"
        words = list(options)
        with tempfile.TemporaryDirectory() as folder, whole_file(output) as unfinished:
            linked = self._compiled(files, compiler, words, Path(folder))
            linking = [*words, *LINKING]
            tvm_cc.create_shared(str(unfinished), linked, options=linking, cc=compiler, **others)

    def _compiled(self, files: Sequence[str], path: str, words: list[str], folder: Path) -> list[str]:
        """What is linked, sources as objects where that can be done; `words` get what the units are told."""
        try:
            compiler = Compiler.at(path)
        except (OSError, subprocess.CalledProcessError):  # the linker's run will tell what is wrong
            return list(files)
        linked = []
        for index, source in enumerate(self.sources):
            place = folder / f"linked{index}.o"
            if _compile_linked(source, compiler, place):
                words.insert(0, f"-D{source.macro}")
                linked.append(str(place))
        return linked + _objects_of(files, compiler, words, folder)

    def get_target_triple(self) -> str:
        """The machine that the compiler makes code for; TVM asks where it has no code of its own.

        Raises
        ------
        BuildError
            The compiler does not say.
        """
        triple = compiler_triple()
        if not triple:
            raise BuildError(
                f"the C++ compiler {tvm_cc.get_cc()} does not work: asked for its machine "
                "(-dumpmachine), it says nothing; name another one in the environment variable CXX"
            )
        return triple


def _compile_linked(source: LinkedSource, compiler: Compiler, place: Path) -> bool:
    """Whether there is an object of a source now at `place`; otherwise the units have to do without."""
    file = place.with_suffix(".cc")
    file.write_text(source.text, encoding="utf-8")
    try:
        return _compile(file, compiler, source.options, [source.text, *source.versions], place)
    except (OSError, subprocess.CalledProcessError):  # the units' own compilation will tell what is wrong
        return False


def _objects_of(files: Sequence[str], compiler: Compiler, options: Sequence[str], folder: Path) -> list[str]:
    """The objects of sources, in their order, whichever is made first; one compiler a core.

    Where an interrupt or an error ends this, compilers that have not begun do not begin.
    """
    cores = len(os.sched_getaffinity(0))
    meanings = Meanings(compiler, options, folder)
    with ThreadPoolExecutor(max(1, min(cores, len(files)))) as workers:
        made = [
            workers.submit(_object_of, file, meanings, folder / f"{index}.o")
            for index, file in enumerate(files)
        ]
        try:
            return [each.result() for each in made]
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            raise


def _object_of(file: str, meanings: Meanings, place: Path) -> str:
    """The object of a source, at `place`; the file itself if it is none, or cannot be compiled here."""
    source = Path(file)
    if source.suffix not in SOURCES:
        return file
    try:
        made = _compile(source, meanings.compiler, meanings.options, meanings.of(source), place)
    except (OSError, subprocess.CalledProcessError):  # the linker's run will tell what is wrong
        return file
    return str(place) if made else file


def _compile(
    source: Path, compiler: Compiler, options: Sequence[str], meaning: Sequence[str | bytes], place: Path
) -> bool:
    """Compile a source to `place`, or copy the object that is kept of it; False where nothing can be kept.

    `meaning` is what the object depends on besides the compiler and the options, of which those that only the
    linker needs do no harm.
    """
    folder = private_cache_folder()
    if folder is None:
        return False
    entry = folder / f"object-{_hash(source.suffix, compiler.path, *options, compiler.version, *meaning)}"
    if _taken(entry, place):
        return True
    with alone(entry):
        if _taken(entry, place):  # another process has made it meanwhile
            return True
        command = [compiler.path, *options, "-fPIC", "-c", str(source), "-o", str(place)]
        subprocess.run(command, capture_output=True, check=True)
        with suppress(OSError):  # a full disk, or a folder that went: this build has what it needs
            store_entry(entry, place.read_bytes())
            _make_room(folder)
            sweep(folder)
    return True


def _taken(entry: Path, place: Path) -> bool:
    content = load_entry(entry)
    if content is None:
        return False
    place.write_bytes(content)
    return True


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:_HASH_DIGITS]


def _make_room(folder: Path) -> None:
    """Remove the objects that were used longest ago, until the others are not too many; the newest stays."""
    known = []
    for path in folder.glob(f"object-{'?' * _HASH_DIGITS}"):
        try:
            info = path.lstat()
        except FileNotFoundError:  # another process makes room, too
            continue
        known.append((info.st_mtime_ns, path, info.st_size))
    total = 0
    for index, (_, path, size) in enumerate(sorted(known, reverse=True)):
        total += size
        if index > 0 and total > KEPT_BYTES:
            path.unlink(missing_ok=True)
