"""Objects are kept between builds, found by all that they depend on, and go when there are too many."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from kits import toy_backend
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.support import cc

import annotated_region as ar
from annotated_region.cache import cache_folder
from annotated_region.compilation import linked_libraries, made_files
from annotated_region.compilation.objects import SharedLibraryLinker
from annotated_region.errors import CacheWarning
from annotated_region.testing.registry import temporary_registrations

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

SOURCE = '#include "answer.h"\nextern "C" int answer() { return ANSWER + BIAS; }\n'


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def answer_of(folder: Path, source: str = SOURCE, answer: int = 41, options: Sequence[str] = ("-DBIAS=1",)):
    """What the library says, built in a folder of its own with the header in another one."""
    headers = folder.parent / "headers"
    for each in (folder, headers):
        each.mkdir(exist_ok=True)
    (headers / "answer.h").write_text(f"#define ANSWER {answer}\n")
    (folder / "lib0.cc").write_text(source)
    output = folder / "library.so"
    SharedLibraryLinker()(str(output), [str(folder / "lib0.cc")], options=[*options, f"-I{headers}"])
    return ctypes.CDLL(str(output)).answer()


def kept() -> dict[str, int]:
    """The objects in the cache, with the times of their making."""
    return {path.name: path.stat().st_ino for path in cache_folder().glob("object-*")}


def test_the_same_source_is_compiled_once(tmp_path):
    assert answer_of(tmp_path / "first") == 42
    before = kept()
    assert len(before) == 1
    assert answer_of(tmp_path / "second") == 42
    assert kept() == before


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"answer": 1}, 2),
        ({"options": ["-DBIAS=7"]}, 48),
        ({"source": SOURCE.replace("+", "-")}, 40),
    ],
    ids=["header", "option", "source"],
)
def test_whatever_it_depends_on_makes_another_object(tmp_path, changed, expected):
    assert answer_of(tmp_path / "first") == 42
    assert answer_of(tmp_path / "second", **changed) == expected
    assert len(kept()) == 2


def test_a_module_that_is_built_again_reuses_its_object(tmp_path):
    def build(compute: Callable[[relax.Expr], relax.Expr]) -> set[tuple[str, int]]:
        x = var("x", (2, 4))
        built = module([x], lambda _: compute(x))
        ar.build(ar.partition(built, ["toy"], prepare=False)).export_library(str(tmp_path / "toy.so"))
        return set(kept().items())

    with temporary_registrations():
        toy_backend.register()
        first = build(relax.op.nn.relu)
        assert first
        assert build(relax.op.nn.relu) == first
        assert build(relax.op.negative) > first


def test_a_comment_makes_no_other_object(tmp_path):
    answer_of(tmp_path / "first")
    assert answer_of(tmp_path / "second", source=SOURCE + "// more words\n") == 42
    assert len(kept()) == 1


def test_another_compiler_makes_another_object(tmp_path, monkeypatch):
    answer_of(tmp_path / "first")
    other = tmp_path / "other"
    other.symlink_to(str(shutil.which("g++")))
    monkeypatch.setattr(cc, "get_cc", lambda: str(other))
    assert answer_of(tmp_path / "second") == 42
    assert len(kept()) == 2


def test_without_a_private_folder_nothing_is_kept(tmp_path):
    cache_folder().mkdir(parents=True)
    cache_folder().chmod(0o777)
    with pytest.warns(CacheWarning, match="is not used, because it can be written by others"):
        assert answer_of(tmp_path / "first") == 42
    assert kept() == {}


def test_what_the_compiler_says_is_told_and_nothing_is_left(tmp_path):
    with pytest.raises(RuntimeError, match="no_such_thing"):
        answer_of(tmp_path / "first", source='extern "C" int answer() { return no_such_thing; }\n')
    assert kept() == {}


def test_the_longest_unused_objects_go_and_the_newest_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(linked_libraries, "LARGEST_BYTES", 0)
    for index in range(3):
        answer_of(tmp_path / f"{index}", answer=index)
    by_age = sorted(cache_folder().glob("object-*"), key=lambda path: path.stat().st_mtime_ns)
    size = by_age[0].stat().st_size
    os.utime(by_age[1], ns=(0, 0))  # now the one in the middle is the oldest
    monkeypatch.setattr(made_files, "KEPT_BYTES", 3 * size + size // 2)
    answer_of(tmp_path / "more", answer=7)
    left = set(cache_folder().glob("object-*"))
    assert len(left) == 3
    assert by_age[1] not in left
    monkeypatch.setattr(made_files, "KEPT_BYTES", 1)
    assert answer_of(tmp_path / "last", answer=8) == 9
    assert len(kept()) == 1


def test_the_sizes_are_added_up_once_for_each_64th_of_what_is_kept():
    digests = (hashlib.sha256(index.to_bytes(2, "little")).hexdigest() for index in range(4096))
    entries = [Path(f"object-{digest[:32]}") for digest in digests]
    size = made_files.KEPT_BYTES // 64
    checked = sum(made_files._is_time_to_evict(entry, size // 16) for entry in entries)
    assert checked == pytest.approx(4096 / 16, rel=0.2)
    assert all(made_files._is_time_to_evict(entry, size) for entry in entries)


def test_use_makes_young(tmp_path):
    answer_of(tmp_path / "first")
    (path,) = cache_folder().glob("object-*")
    os.utime(path, ns=(0, 0))
    answer_of(tmp_path / "second")
    assert path.stat().st_mtime_ns > 0
