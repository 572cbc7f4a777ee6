"""What an object depends on is found without running the preprocessor over each unit, and is all of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from annotated_region.compilation.meanings import Compiler, Meanings

GCC = shutil.which("g++")
pytestmark = pytest.mark.skipif(GCC is None, reason="g++ is not installed")

UNIT = """#include "table.h"
#define EXPORT(name) \\
  int name() { return COUNT; }
const int numbers[] = {1, 2};
EXPORT(first)
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "table.h").write_text('#include "inner.h"\n#define COUNT 3\n')
    (tmp_path / "inner.h").write_text("struct Inner { int a; };\n")
    return tmp_path


class Counted(Meanings):
    runs = 0

    def _preprocessed(self, source: Path, *more: str) -> str:
        self.runs += 1
        return super()._preprocessed(source, *more)


def asked(place: Path, *options: str) -> Counted:
    assert GCC is not None
    (place / "work").mkdir(exist_ok=True)
    return Counted(Compiler.at(GCC), options, place / "work")


def meaning(place: Path, text: str = UNIT, *options: str) -> list[str]:
    (place / "unit.cc").write_text(text)
    return asked(place, *options).of(place / "unit.cc")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("table.h", '#include "inner.h"\n#define COUNT 4\n'),
        ("table.h", "#define COUNT 3\n"),
        ("inner.h", "struct Inner { long a; };\n"),
        ("inner.h", "struct Inner { int a; };\n#define first second\n"),
    ],
)
def test_what_a_header_says_counts(place, file, text):
    before = meaning(place)
    (place / file).write_text(text)
    assert meaning(place) != before


@pytest.mark.parametrize(
    ("piece", "other"),
    [
        ("{1, 2}", "{1, 3}"),
        ("EXPORT(first)", "EXPORT(second)"),
        ("return COUNT", "return -COUNT"),
        ("EXPORT(name)", "EXPORT(other)"),
        ('#include "table.h"\n', "enum { COUNT = 3 };\n"),
    ],
)
def test_each_part_of_a_unit_counts(place, piece, other):
    assert piece in UNIT
    assert meaning(place, UNIT.replace(piece, other)) != meaning(place)


def test_headers_that_options_choose_count(place):
    text = '#ifdef OTHER\n#include "inner.h"\n#endif\n'
    assert meaning(place, text, "-DOTHER") != meaning(place, text)


def test_comments_do_not_count(place):
    (place / "inner.h").write_text("// Some words.\nstruct Inner { int a; };\n")
    assert meaning(place, "// Other words.\n" + UNIT) == meaning(place)


@pytest.mark.parametrize(
    "text",
    [
        '/*\n#if 0\n*/\n#include "table.h"\n/*\n#endif\n*/\nint count = COUNT;\n',
        'const char* text = R"(\n#if 0\n)";\n#include "table.h"\nint count = COUNT;\n#if 1\n#endif\n',
        '// go on \\\n#if 0\n#include "table.h"\nint count = COUNT;\n',
    ],
)
def test_what_only_looks_like_a_directive_hides_no_header(place, text):
    before = meaning(place, text)
    (place / "table.h").write_text("#define COUNT 5\n")
    assert meaning(place, text) != before


def test_units_with_the_same_directives_ask_the_preprocessor_once(place):
    meanings = asked(place)
    for number in range(5):
        (place / f"unit{number}.cc").write_text(UNIT + f"int number = {number};\n")
    assert len({str(meanings.of(place / f"unit{number}.cc")) for number in range(5)}) == 5
    assert meanings.runs == 1
