"""What was linked is kept: the same objects with the same options start no linker, everything else does."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from annotated_region.cache import cache_folder
from annotated_region.compilation import linked_libraries
from annotated_region.compilation.objects import SharedLibraryLinker
from annotated_region.errors import CacheWarning

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

COMPILER = """#!/bin/sh
for word; do [ "$word" = -shared ] && echo linked >> {log}; done
exec g++ "$@"
"""


class Builder:
    """Builds libraries of one source, and counts how often they are linked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.compiler = folder / "compiler"
        self.compiler.write_text(COMPILER.format(log=self.log))
        self.compiler.chmod(0o755)
        self.built = 0

    def links(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def linked(self, number: int = 1, options: Sequence[str] = ()) -> Path:
        """A library that says a number, in a new folder."""
        folder = self.folder / f"built{self.built}"
        self.built += 1
        folder.mkdir()
        (folder / "lib0.cc").write_text(f'extern "C" int answer() {{ return {number}; }}\n')
        library = folder / "library.so"
        SharedLibraryLinker()(str(library), [str(folder / "lib0.cc")], options=options, cc=str(self.compiler))
        return library


def answer(library: Path) -> int:
    return int(ctypes.CDLL(str(library)).answer())


def entries() -> list[Path]:
    return list(cache_folder().glob("library-*"))


@pytest.fixture
def builder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Builder(tmp_path)


def test_the_same_objects_are_linked_once_and_give_the_same_file(builder):
    first, second = builder.linked(), builder.linked()
    assert builder.links() == 1
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_mode == second.stat().st_mode
    assert (answer(first), answer(second)) == (1, 1)


def test_other_objects_and_other_options_are_linked(builder):
    assert answer(builder.linked()) == 1
    assert answer(builder.linked(2)) == 2
    named = builder.linked(options=["-Wl,-soname,other.so"])
    assert builder.links() == 3
    told = subprocess.run(["readelf", "-d", named], capture_output=True, text=True, check=True).stdout
    assert "other.so" in told


@pytest.mark.parametrize("variable", ["LIBRARY_PATH", "LD_RUN_PATH"])
def test_the_environment_of_the_linker_counts(builder, monkeypatch, variable):
    builder.linked()
    monkeypatch.setenv(variable, str(builder.folder))
    builder.linked()
    assert builder.links() == 2


def test_another_version_of_a_library_that_an_option_names_counts(builder):
    place = builder.folder / "libengine.so"

    def made(name: str) -> list[str]:
        (builder.folder / "engine.c").write_text("int engine() { return 1; }\n")
        command = ["g++", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", place, builder.folder / "engine.c"]
        subprocess.run(command, check=True)
        return ["-Wl,--no-as-needed", f"-L{builder.folder}", "-lengine"]

    options = made("libengine.so.1")
    builder.linked(options=options)
    builder.linked(options=options)
    assert builder.links() == 1
    newer = builder.linked(options=made("libengine.so.2"))
    assert builder.links() == 2
    told = subprocess.run(["readelf", "-d", newer], capture_output=True, text=True, check=True).stdout
    assert "libengine.so.2" in told


@pytest.mark.parametrize("form", ["-Wl,--version-script={}", "-Wl,--version-script,{}", "@{}"])
def test_with_a_file_in_the_options_nothing_is_kept(builder, form):
    script = builder.folder / "exports"
    script.write_text("-DX\n" if form[0] == "@" else "{ global: answer; };\n")
    for _ in range(2):
        assert answer(builder.linked(options=[form.format(script)])) == 1
    assert builder.links() == 2
    assert entries() == []


def test_with_a_library_of_the_system_nothing_is_kept(builder):
    for _ in range(2):
        assert answer(builder.linked(options=["-lm"])) == 1
    assert builder.links() == 2
    assert entries() == []


def test_large_objects_are_not_kept(builder, monkeypatch):
    monkeypatch.setattr(linked_libraries, "LARGEST_BYTES", 100)
    builder.linked()
    assert entries() == []


def test_a_damaged_library_is_linked_again(builder):
    builder.linked()
    (entry,) = entries()
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    entry.write_bytes(content)
    with pytest.warns(CacheWarning, match="is damaged; it is removed and rebuilt"):
        assert answer(builder.linked()) == 1
    assert builder.links() == 2


def test_what_cannot_be_linked_is_not_kept(builder):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no_such_engine"):
            builder.linked(options=["-lno_such_engine"])
    assert builder.links() == 2
    assert entries() == []


def test_others_may_run_what_was_taken_as_what_was_linked(builder):
    before = os.umask(0o022)
    try:
        modes = [builder.linked().stat().st_mode & 0o777 for _ in range(2)]
    finally:
        os.umask(before)
    assert modes == [0o755, 0o755]
