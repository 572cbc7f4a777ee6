"""The preprocessor is asked once for a text, and again as soon as anything that it read has changed.

A process that ends leaves its answers in the cache folder, for the next one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from annotated_region.cache import cache_folder
from annotated_region.compilation import preprocessing
from annotated_region.compilation.preprocessing import ENTRY, preprocessed
from annotated_region.errors import CacheWarning

GCC = shutil.which("g++")
pytestmark = pytest.mark.skipif(GCC is None, reason="g++ is not installed")

TEXT = "#include <answer.h>\nint answer = ANSWER;\n"


class Asked:
    """Sources in folders of their own, with headers in two folders that are searched one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.compiler = folder / "compiler"
        self.compiler.write_text(f'#!/bin/sh\necho run >> {self.log}\nexec {GCC} "$@"\n')
        self.compiler.chmod(0o755)
        for name in ("first", "second"):
            (folder / name).mkdir()
            aged(folder / name)
        self.header("second", 41)
        self.units = 0

    def header(self, name: str, answer: int, age: float = 60) -> None:
        path = self.folder / name / "answer.h"
        path.write_text(f"#define ANSWER {answer}\n")
        aged(path, age)
        aged(path.parent, age)

    def answer(self, text: str = TEXT, *options: str) -> str:
        """What is said of a text in a file of another name."""
        return preprocessed([str(self.compiler), *self.folders, *options], self.unit(text))

    def unit(self, text: str) -> Path:
        """A file with a text."""
        self.units += 1
        source = self.folder / f"unit{self.units}.cc"
        source.write_text(text)
        return source

    @property
    def folders(self) -> list[str]:
        return [f"-I{self.folder / name}" for name in ("first", "second")]

    @property
    def runs(self) -> int:
        return len(self.log.read_text().splitlines())


def aged(path: Path, seconds: float = 60) -> None:
    """Make a file or folder look as if nothing had been written to it for so long."""
    then = path.stat().st_mtime_ns - int(seconds * 1e9)
    os.utime(path, ns=(then, then))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(preprocessing, "_answers", {})
    return Asked(tmp_path)


@pytest.fixture(params=["one process", "a process each"])
def others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Between two questions: nothing, or the end of the process."""
    is_one = request.param == "one process"
    return lambda: None if is_one else monkeypatch.setattr(preprocessing, "_answers", {})


def test_the_same_text_is_asked_for_once(asked: Asked, others: Callable[[], None]) -> None:
    first = asked.answer()
    others()
    assert asked.answer() == first
    assert asked.runs == 1
    answers = {first, asked.answer(TEXT, "-dD"), asked.answer(TEXT.replace("int answer", "int other"))}
    assert (len(answers), asked.runs) == (3, 3)


def test_a_header_that_has_changed_is_read_again(asked: Asked, others: Callable[[], None]) -> None:
    first = asked.answer()
    asked.header("second", 42, age=30)
    others()
    second = asked.answer()
    assert second != first
    others()
    asked.header("second", 41, age=20)
    assert asked.answer() == first


def test_a_header_that_comes_before_another_one_is_read(asked: Asked, others: Callable[[], None]) -> None:
    first = asked.answer()
    asked.header("first", 42, age=30)
    others()
    assert asked.answer() != first


def test_whether_a_header_is_there_is_asked_for_once_and_again_when_it_comes(
    asked: Asked, others: Callable[[], None]
) -> None:
    text = "#if defined(__has_include)\n#if __has_include(<deep/er.h>)\nint found;\n#endif\n#endif\n" + TEXT
    (asked.folder / "first" / "deep").mkdir()
    aged(asked.folder / "first")
    first = asked.answer(text)
    others()
    assert (asked.answer(text), asked.runs) == (first, 1)
    (asked.folder / "first" / "deep" / "er.h").touch()
    others()
    assert asked.answer(text) != first


def test_a_header_that_the_environment_names_is_read(
    asked: Asked, others: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = set()
    for value in (1, 2):
        folder = asked.folder / f"deep{value}"
        folder.mkdir()
        (folder / "deep.h").write_text(f"#define ANSWER {value}\n")
        aged(folder / "deep.h")
        aged(folder)
        monkeypatch.setenv("CPATH", str(folder))
        others()
        answers.add(asked.answer(TEXT.replace("answer.h", "deep.h")))
    assert len(answers) == 2


def test_what_is_written_while_the_preprocessor_runs_is_not_remembered(
    asked: Asked, others: Callable[[], None]
) -> None:
    """Its state might be that of another text than was read."""
    asked.header("second", 43, age=0)
    asked.answer()
    assert list(cache_folder().glob(f"{ENTRY}*")) == []
    others()
    asked.answer()
    assert asked.runs == 2


def test_an_answer_that_is_damaged_is_asked_for_again(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asked.answer()
    (entry,) = cache_folder().glob(f"{ENTRY}*")
    content = bytearray(entry.read_bytes())
    content[-10] ^= 1
    entry.write_bytes(content)
    monkeypatch.setattr(preprocessing, "_answers", {})
    with pytest.warns(CacheWarning, match="is damaged"):
        assert asked.answer() == first
    assert asked.runs == 2


@pytest.mark.parametrize(
    "text", ['#include "answer.h"\n', "const char* name = __FILE__;\n", '#if __has_include("a.h")\n#endif\n']
)
def test_what_depends_on_more_than_the_text_is_not_remembered(asked: Asked, text: str) -> None:
    asked.answer(text)
    asked.answer(text)
    assert asked.runs == 2


def test_few_answers_are_kept(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preprocessing, "KEPT", 2)
    monkeypatch.setattr(preprocessing, "_answers", {})
    monkeypatch.setattr(preprocessing, "private_cache_folder", lambda: None)
    for number in (0, 1, 2, 2, 1, 0):
        asked.answer(f"int number = {number};\n")
    assert asked.runs == 4
    assert len(preprocessing._answers) == 2
