"""Object files written by this package are accepted by the system's linker and loader."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
from kits.compilation.data_objects import write_data
from tvm.support import cc

from annotated_region.compilation.constant_objects import constant_object
from annotated_region.compilation.elf_object import PAGE

READER = 'extern "C" const char data[]; extern "C" const char* where() { return data; }'


def said_by(*command: str, folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, 3 * PAGE + 17])
def test_a_linked_library_holds_the_data_at_a_page_and_hides_its_name(tmp_path: Path, size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    write_data(tmp_path / "data.o", "data", content)
    (tmp_path / "reader.cc").write_text(READER, encoding="ascii")
    options = ["-shared", "-fPIC", "-Wl,--fatal-warnings", "-o", "whole.so"]
    said_by(cc.get_cc(), *options, "reader.cc", "data.o", folder=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "whole.so"))
    library.where.restype = ctypes.c_void_p
    assert library.where() % PAGE == 0
    assert ctypes.string_at(library.where(), size) == content
    assert not hasattr(library, "data")
    assert said_by("nm", "data.o", folder=tmp_path).split() == ["0" * 16, "R", "data"]


def test_equal_data_is_an_equal_file(tmp_path: Path) -> None:
    for name in ("one.o", "two.o"):
        write_data(tmp_path / name, "data", b"some numbers")
    assert (tmp_path / "one.o").read_bytes() == (tmp_path / "two.o").read_bytes()


def test_systems_of_other_object_files_leave_constants_to_tvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content in (b"\xcf\xfa\xed\xfe" + bytes(100), b"\x7fELF\x01" + bytes(100), b"\x7fELF"):
        (tmp_path / "library").write_bytes(content)
        monkeypatch.setattr(tvm_ffi.libinfo, "find_libtvm_ffi", lambda: str(tmp_path / "library"))
        assert constant_object("data", [np.zeros(4)]) is None
    monkeypatch.setattr(tvm_ffi.libinfo, "find_libtvm_ffi", lambda: str(tmp_path / "missing"))
    assert constant_object("data", [np.zeros(4)]) is None
