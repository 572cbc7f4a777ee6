"""Constants that are copied into a linked library are where its code looks for them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from kits.compilation.data_objects import write_data

from annotated_region.compilation import late_constants
from annotated_region.compilation.elf_format import LOADED, Header
from annotated_region.compilation.elf_object import PAGE, DataSymbol, symbol_of
from annotated_region.compilation.late_constants import link_with_constants

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

READER = """
extern "C" {
extern __attribute__((visibility("hidden"))) const char first[], second[];
const char* const places[] = {first, second};
const char* place(int index) { return places[index]; }
int counter = 41;
int zeros[5000];
int counted() { return ++counter + zeros[4999]; }
}
"""
LINKERS = ["bfd", *["gold"] * (shutil.which("ld.gold") is not None)]
SIZES = [(1, 1), (PAGE, PAGE), (PAGE - 1, 3 * PAGE + 17), (5 * PAGE + 3, 8), (1 << 20, 1 << 21)]


class Linking:
    """A library of a reader and two objects with constants, and what the linker was given each time."""

    def __init__(self, folder: Path, sizes: tuple[int, int], options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.options = options
        self.linked = folder / "linked.so"
        self.given: list[list[str]] = []
        self.always: list[str] = []
        draw = np.random.default_rng(sizes)
        self.contents = [draw.bytes(size) for size in sizes]
        (folder / "reader.cc").write_text(READER, encoding="ascii")
        self.run("g++", "-fPIC", "-O1", "-c", "reader.cc", "-o", "reader.o")
        for name, content in zip(("first", "second"), self.contents, strict=True):
            write_data(folder / f"{name}.o", name, content)

    def run(self, *command: str) -> None:
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def link(self, objects: list[str]) -> None:
        objects = [*objects, *self.always]
        self.given.append([Path(each).name for each in objects])
        options = ["-shared", "-fPIC", "-Wl,--fatal-warnings", *self.options]
        self.run("g++", *options, "-o", str(self.linked), *objects)

    def made(self) -> None:
        """Link, constants in front of and behind the code."""
        names = ("first.o", "reader.o", "second.o")
        link_with_constants(self.linked, [str(self.folder / name) for name in names], self.folder, self.link)

    def require_right(self) -> None:
        """The code finds both constants, and its own variables."""
        place = shutil.copy(self.linked, self.folder / f"loaded{len(list(self.folder.iterdir()))}.so")
        loaded = ctypes.CDLL(str(place))
        loaded.place.restype = ctypes.c_void_p
        for index, content in enumerate(self.contents):
            address = loaded.place(index)
            assert address % PAGE == 0
            assert ctypes.string_at(address, len(content)) == content
        assert loaded.counted() == 42
        assert not hasattr(loaded, "first"), "the names are hidden"


def segments(library: Path) -> list[tuple[int, int, int]]:
    """The segments that are mapped: address, size, flags."""
    with library.open("rb") as file:
        header = Header.read(file)
        assert header is not None
        return [
            (each.address, each.size, each.flags) for each in header.segments(file) if each.kind == LOADED
        ]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("linker", LINKERS)
def test_the_linker_does_not_see_them_and_the_code_does(tmp_path, sizes, linker):
    linking = Linking(tmp_path, sizes, (f"-fuse-ld={linker}",))
    linking.made()
    assert linking.given == [["reader.o", "reserved.o"]]
    linking.require_right()
    *_, (begin, size, flags) = sorted(segments(linking.linked))
    assert flags == 4, "only read"
    assert all(address + extent <= begin for address, extent, _ in sorted(segments(linking.linked))[:-1])
    assert size >= sum(sizes)


def test_what_is_stripped_is_whole(tmp_path):
    """Tools that rewrite a library find the constants by its sections."""
    linking = Linking(tmp_path, (3 * PAGE + 17, PAGE + 1))
    linking.made()
    before = linking.linked.stat().st_size
    linking.run("strip", str(linking.linked))
    assert linking.linked.stat().st_size < before
    linking.require_right()


def test_equal_objects_give_equal_libraries(tmp_path):
    linking = Linking(tmp_path, (PAGE + 1, 17))
    made = []
    for _ in range(2):
        linking.made()
        made.append(linking.linked.read_bytes())
    assert made[0] == made[1]


def test_other_large_data_behind_the_page_is_linked_as_usual(tmp_path):
    """The mark is not the end of the segment then, which cannot grow."""
    linking = Linking(tmp_path, (PAGE + 1, 17))
    text = '.section .lrodata,"al",@progbits\n.globl other\nother: .quad 7\n'
    (tmp_path / "other.s").write_text(f'{text}.section .note.GNU-stack,"",@progbits\n', encoding="ascii")
    linking.run("g++", "-c", "other.s", "-o", "other.o")
    linking.always = [str(tmp_path / "other.o")]
    linking.made()
    assert linking.given == [
        ["reader.o", "reserved.o", "other.o"],
        ["first.o", "reader.o", "second.o", "other.o"],
    ]
    linking.require_right()


def test_a_library_that_is_laid_out_otherwise_is_linked_again(tmp_path, monkeypatch):
    linking = Linking(tmp_path, (PAGE + 1, 17))
    monkeypatch.setattr(late_constants, "LARGE_SECTION", ".elsewhere")
    linking.made()
    assert linking.given == [["reader.o", "reserved.o"], ["first.o", "reader.o", "second.o"]]
    linking.require_right()


def test_without_constants_there_is_one_link(tmp_path):
    linking, given = Linking(tmp_path, (1, 1)), [str(tmp_path / "reader.o")]
    link_with_constants(linking.linked, given, tmp_path, linking.given.append)
    assert linking.given == [given]


def test_files_of_others_are_no_constants(tmp_path):
    Linking(tmp_path, (PAGE, 1))
    assert symbol_of(tmp_path / "first.o") == DataSymbol("first", 0, PAGE)
    whole = (tmp_path / "first.o").read_bytes()
    for name, content in {
        "cut.o": whole[:-1],
        "head.o": whole[:64],
        "empty.o": b"",
        "source.o": READER.encode(),
        "elf32.o": whole[:4] + b"\x01" + whole[5:],
    }.items():
        (tmp_path / name).write_bytes(content)
        assert symbol_of(tmp_path / name) is None
    assert symbol_of(tmp_path / "reader.o") is None
