"""Object files kept between builds: what was compiled once from the same text is only linked again.

An object is found by the hash of all that it depends on, as in ccache's preprocessor mode
(https://ccache.dev): the text behind the preprocessor, so that a changed header counts, the compiler with
its version, and the options. Objects lie in the user's private cache folder. A new one is moved into its
place when it is whole, so builds at the same time see all of it or nothing; those that were used longest
ago go when there are too many. Where there is no private folder, nothing is kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tvm.support import cc as tvm_cc

from annotated_region.cache import private_cache_folder

__all__ = ["SharedLibraryLinker", "kept_object"]

KEPT_BYTES = 256 << 20
SOURCES = (".c", ".cc", ".cpp")


class SharedLibraryLinker:
    """Compiles and links as `tvm.support.cc.create_shared` does, and keeps the objects of sources.

    An instance is what TVM's ``export_library`` takes as `fcompile`.
    """

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
        """
        compiler = cc or tvm_cc.get_cc()
        with tempfile.TemporaryDirectory() as folder:
            places = (Path(folder, f"{index}.o") for index in range(len(files)))
            linked = [
                _object_of(file, compiler, options, place) for file, place in zip(files, places, strict=True)
            ]
            tvm_cc.create_shared(output, linked, options=list(options), cc=compiler, **others)

    def get_target_triple(self) -> str | None:
        """The machine that the compiler makes code for; TVM asks where it has no code of its own."""
        triple: str | None = tvm_cc.create_shared.get_target_triple()
        return triple


def _object_of(file: str, compiler: str, options: Sequence[str], place: Path) -> str:
    """A copy of a source's kept object, which nobody else can remove; else the file itself."""
    source = Path(file)
    if source.suffix not in SOURCES:
        return file
    try:
        command = [compiler, *options, "-E", "-P", file]
        meaning = subprocess.run(command, capture_output=True, check=True).stdout
        kept = kept_object(source, compiler, options, [meaning])
        if kept is None:
            return file
        shutil.copyfile(kept, place)
    except (OSError, subprocess.CalledProcessError):  # the linker's run will tell what is wrong
        return file
    return str(place)


def kept_object(
    source: Path, compiler: str, options: Sequence[str], meaning: Iterable[str | bytes]
) -> Path | None:
    """The object of a source, compiled now if need be; None where there is no private folder to keep it in.

    Parameters
    ----------
    source
        The file; its suffix tells the language.
    compiler
        The command.
    options
        Options for it, one word each; those that only the linker needs do no harm.
    meaning
        What the object depends on: the text behind the preprocessor, or the text and its headers' versions.

    Raises
    ------
    subprocess.CalledProcessError
        The compiler refuses the source.
    OSError
        The compiler cannot be run, or the object cannot be written.
    """
    folder = private_cache_folder()
    if folder is None:
        return None
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    path = folder / f"object-{_hash(source.suffix, compiler, *options, version, *meaning)}.o"
    if path.exists():
        os.utime(path)
        return path
    with tempfile.TemporaryDirectory(dir=folder) as workspace:
        result = Path(workspace, "unit.o")
        command = [compiler, *options, "-fPIC", "-c", str(source), "-o", str(result)]
        subprocess.run(command, capture_output=True, check=True)
        os.replace(result, path)
    _make_room(folder)
    return path


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:32]


def _make_room(folder: Path) -> None:
    """Remove the objects that were used longest ago, until the others are not too many; the newest stays."""
    known = []
    for path in folder.glob("object-*.o"):
        try:
            info = path.stat()
        except FileNotFoundError:  # another process makes room, too
            continue
        known.append((info.st_mtime_ns, path, info.st_size))
    total = 0
    for index, (_, path, size) in enumerate(sorted(known, reverse=True)):
        total += size
        if index > 0 and total > KEPT_BYTES:
            path.unlink(missing_ok=True)
