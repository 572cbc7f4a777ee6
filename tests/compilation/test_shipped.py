"""The objects that a wheel brings are linked where they fit, and everything else is compiled."""

import ctypes
import shutil
import subprocess

import pytest

from annotated_region.compilation import objects
from annotated_region.compilation.meanings import Compiler
from annotated_region.compilation.objects import SharedLibraryLinker
from annotated_region.compilation.shipped import folder_of, object_names, shipped_objects
from annotated_region.targets.backend import LinkedSource

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

ONE = 'extern "C" int one() { return 1; }\n'
TWO = 'extern "C" int two() { return 2; }\n'
SOURCE = LinkedSource(ONE, ("-O1", "-I/here"), ("headers 1",), "LINKED", (TWO,))
# What is shipped answers otherwise than what is compiled, so that the answer tells which was linked.
SHIPPED = (ONE.replace("1", "11"), TWO.replace("2", "12"))


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """The folder of the shipped objects, which is used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "shipped"
    place = folder / folder_of(Compiler.at("g++"))
    place.mkdir(parents=True)
    for text, name in zip(SHIPPED, object_names(SOURCE), strict=True):
        (tmp_path / "unit.cc").write_text(text)
        subprocess.run(["g++", "-fPIC", "-c", tmp_path / "unit.cc", "-o", place / name], check=True)
    monkeypatch.setattr(
        objects, "shipped_objects", lambda source, compiler: shipped_objects(source, compiler, folder)
    )
    return place


def answers(folder, source=SOURCE):
    SharedLibraryLinker([source])(str(folder / "library.so"), [])
    library = ctypes.CDLL(str(folder / "library.so"))
    return library.one(), library.two()


def reporting(text):
    return Compiler("g++", text)


def test_what_is_shipped_is_linked_and_not_compiled(tmp_path, shipped):
    assert answers(tmp_path) == (11, 12)
    assert not list((tmp_path / "cache").rglob("object-*"))


def test_a_folder_of_headers_elsewhere_changes_nothing(tmp_path, shipped):
    elsewhere = LinkedSource(ONE, ("-O1", "-I/there"), ("headers 1",), "LINKED", (TWO,))
    assert answers(tmp_path, elsewhere) == (11, 12)


@pytest.mark.parametrize(
    "other",
    [
        LinkedSource(ONE + "\n", ("-O1",), ("headers 1",), "LINKED", (TWO,)),
        LinkedSource(ONE, ("-O2",), ("headers 1",), "LINKED", (TWO,)),
        LinkedSource(ONE, ("-O1",), ("headers 2",), "LINKED", (TWO,)),
        LinkedSource(ONE, ("-O1",), ("headers 1",), "LINKED", (TWO + "\n",)),
    ],
    ids=["text", "option", "version", "one of the units"],
)
def test_what_depends_on_something_else_is_compiled(tmp_path, shipped, other):
    assert answers(tmp_path, other) == (1, 2)


def test_an_object_that_is_missing_is_not_mixed_with_others(tmp_path, shipped):
    (shipped / object_names(SOURCE)[1]).unlink()
    assert answers(tmp_path) == (1, 2)


@pytest.mark.parametrize(
    ("target", "version", "linked"),
    [
        ("x86_64-linux-gnu", "gcc version 12.1.0", True),
        ("x86_64-linux-gnu", "gcc version 15.2.1 20260101 (Red Hat)", True),
        ("x86_64-redhat-linux", "gcc version 12.2.0", True),
        ("x86_64-linux-gnu", "gcc version 11.9.0", False),
        ("x86_64-linux-musl", "gcc version 14.2.0", False),
        ("aarch64-linux-gnu", "gcc version 14.2.0", False),
        ("x86_64-w64-mingw32", "gcc version 14.2.0", False),
        ("x86_64-pc-linux-gnu", "clang version 19.1.0", False),
    ],
)
def test_the_compiler_has_to_be_gnu_as_new_and_for_the_same_machine(tmp_path, target, version, linked):
    compiler = reporting(f"Using built-in specs.\nTarget: {target}\nThread model: posix\n{version}\n")
    place = tmp_path / "gcc12-x86_64"
    place.mkdir()
    names = object_names(SOURCE)
    for name in names:
        (place / name).touch()
    assert shipped_objects(SOURCE, compiler, tmp_path) == [str(place / name) for name in names] * linked


def test_what_else_lies_there_is_no_folder_of_a_compiler(tmp_path):
    compiler = reporting("Target: x86_64-linux-gnu\ngcc version 12.2.0\n")
    for name in ("gcc-x86_64", "gcc12", "clang12-x86_64", "gcc12-x86_64.old"):
        (tmp_path / name).mkdir()
        for each in object_names(SOURCE):
            (tmp_path / name / each).touch()
    assert shipped_objects(SOURCE, compiler, tmp_path) == []
    assert shipped_objects(SOURCE, compiler, tmp_path / "absent") == []
