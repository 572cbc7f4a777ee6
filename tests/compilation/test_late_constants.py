"""Constants that are copied into a linked library are where its code looks for them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from kits.compilation.data_objects import write_data

from annotated_region.compilation import late_constants
from annotated_region.compilation.constant_objects import ConstantData
from annotated_region.compilation.elf_format import LOADED, Header
from annotated_region.compilation.elf_object import PAGE, DataSymbol, object_header, symbol_of
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
        header = object_header()
        assert header is not None
        self.header = header
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
        files = [str(self.folder / name) for name in names]
        link_with_constants(self.linked, files, (), self.folder, self.link)

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


def test_constants_that_are_in_no_object_are_written_as_those_in_objects(tmp_path):
    draw = np.random.default_rng(1)
    arrays = [draw.standard_normal((count, 3))[:, ::2] for count in (700, 1, 0, 2100)]
    data = [ConstantData.of(name, arrays[index:]) for index, name in enumerate(("first", "second"))]
    linking = Linking(tmp_path, (1, 1))
    for each in data:
        each.write_object(tmp_path / f"{each.symbol.name}.o", linking.header)
    linking.contents = [
        (tmp_path / f"{name}.o").read_bytes()[PAGE:][: each.symbol.size]
        for name, each in zip(("first", "second"), data, strict=True)
    ]
    reader, *objects = [str(tmp_path / name) for name in ("reader.o", "first.o", "second.o")]
    made = []
    for files, constants in (([reader, *objects], []), ([reader, objects[0]], data[1:]), ([reader], data)):
        link_with_constants(linking.linked, files, constants, tmp_path, linking.link)
        linking.require_right()
        made.append(linking.linked.read_bytes())
    assert made[0] == made[1] == made[2]
    assert linking.given == [["reader.o", "reserved.o"]] * 3


def test_constants_that_are_in_no_object_get_one_if_the_library_is_laid_out_otherwise(tmp_path, monkeypatch):
    data = ConstantData.of("second", [np.arange(5000)])
    linking = Linking(tmp_path, (PAGE + 1, 17))
    data.write_object(tmp_path / "expected.o", linking.header)
    linking.contents[1] = (tmp_path / "expected.o").read_bytes()[PAGE:][: data.symbol.size]
    monkeypatch.setattr(late_constants, "LARGE_SECTION", ".elsewhere")
    files = [str(tmp_path / name) for name in ("first.o", "reader.o")]
    link_with_constants(linking.linked, files, [data], tmp_path, linking.link)
    assert linking.given[1:] == [["first.o", "reader.o", "constants0.o"]]
    linking.require_right()


@pytest.mark.parametrize(("size", "alignment"), [(7 << 20, PAGE), (8 << 20, 2 << 20)])
def test_many_constants_lie_where_two_megabytes_can_be_mapped_at_once(tmp_path, monkeypatch, size, alignment):
    monkeypatch.setattr(late_constants, "MANY_BYTES", 8 << 20)
    linking = Linking(tmp_path, (size, 1))
    linking.made()
    with linking.linked.open("rb") as file:
        header = Header.read(file)
        assert header is not None
        last = max(header.segments(file), key=lambda segment: segment.size)
    assert last.alignment == alignment
    assert (last.offset - last.address) % alignment == 0
    loaded = ctypes.CDLL(str(linking.linked))
    loaded.place.restype = ctypes.c_void_p
    assert loaded.place(0) % alignment == 0
    linking.require_right()


@pytest.mark.parametrize("most", [1, 7, 100_000])
def test_what_the_system_takes_in_several_calls_is_whole(tmp_path, monkeypatch, most):
    """It may take less than it is given, and no more than some buffers at once."""
    draw = np.random.default_rng(most)
    arrays = [draw.integers(0, 256, count).astype("uint8") for count in draw.integers(0, 90, 60)]
    data, write = ConstantData.of("data", arrays), os.pwritev

    def partly(handle: int, buffers: list[memoryview], offset: int) -> int:
        first = next(buffer for buffer in buffers if len(buffer))
        return write(handle, [first[:most]], offset)

    monkeypatch.setattr(os, "pwritev", partly)
    with (tmp_path / "data").open("wb") as file:
        file.write(b"front")
        data.write(file, 5)
    content = (tmp_path / "data").read_bytes()[5:]
    assert np.frombuffer(content, np.int64, len(arrays)).tolist() == list(data.offsets)
    for array, offset in zip(arrays, data.offsets, strict=True):
        assert content[offset : offset + len(array)] == array.tobytes()


def test_without_constants_there_is_one_link(tmp_path):
    linking, given = Linking(tmp_path, (1, 1)), [str(tmp_path / "reader.o")]
    link_with_constants(linking.linked, given, (), tmp_path, linking.given.append)
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
