"""Damaged objects in the cache are detected, reported and compiled again; no object is compiled twice."""

from __future__ import annotations

import os
import random
import shutil
import stat
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm
from kits import toy_backend
from kits.backends.relax_kit import module, var
from kits.compilation.cache_damage import DAMAGES, Compiler, answer
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.cache import cache_folder
from annotated_region.errors import BuildError, CacheWarning
from annotated_region.testing.registry import temporary_registrations

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def compiler(tmp_path):
    return Compiler(tmp_path)


def entries() -> list[Path]:
    return sorted(cache_folder().glob("object-*"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_noticed_and_made_anew(tmp_path, compiler, damage):
    assert answer(tmp_path / "first", compiler) == 42
    assert (len(entries()), compiler.runs()) == (2, 2)
    for entry in entries():
        DAMAGES[damage](entry, random.Random(1))
    with pytest.warns(CacheWarning) as told:
        assert answer(tmp_path / "second", compiler) == 42
    assert sorted(str(each.message).split()[3] for each in told) == [str(entry) for entry in entries()]
    assert compiler.runs() == 4
    assert answer(tmp_path / "third", compiler) == 42
    assert compiler.runs() == 4
    assert all(stat.S_IMODE(entry.lstat().st_mode) == 0o600 for entry in entries())


def test_what_is_gone_is_made_anew_without_a_word(tmp_path, compiler):
    assert answer(tmp_path / "first", compiler) == 42
    entries()[0].unlink()
    assert answer(tmp_path / "second", compiler) == 42
    assert compiler.runs() == 3
    shutil.rmtree(cache_folder())
    assert answer(tmp_path / "third", compiler) == 42
    assert (len(entries()), compiler.runs()) == (2, 5)


def test_of_many_builds_at_once_one_compiles(tmp_path, compiler):
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda number: answer(tmp_path / str(number), compiler), range(20)))
    assert found == [42] * 20
    assert compiler.runs() == 2
    assert len(entries()) == 2, "no lock is left"


def test_a_disk_without_room_costs_the_next_build_time_alone(tmp_path, compiler, monkeypatch):
    def full(_path, _content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("annotated_region.compilation.made_files.store_entry", full)
    assert answer(tmp_path / "first", compiler) == 42
    assert entries() == []


def test_without_a_folder_the_unit_brings_along_what_would_be_linked(tmp_path, compiler):
    (tmp_path / "cache").write_text("in the way")
    assert answer(tmp_path / "first", compiler) == 42
    assert compiler.runs() == 0, "compiled and linked by one run"


def test_leftovers_of_killed_builds_go_with_the_next_one(tmp_path, compiler):
    cache_folder().mkdir(parents=True, mode=0o700)
    for name in ("tmpkilled", "unfinished-killed"):
        (cache_folder() / name).mkdir()
        (cache_folder() / name / "unit.o").touch()
        os.utime(cache_folder() / name, (0, 0))
    answer(tmp_path / "first", compiler)
    assert all(name.startswith(("object-", "library-", "headers-")) for name in os.listdir(cache_folder()))


def toy_executable():
    x = var("x", (2, 4))
    return ar.build(ar.partition(module([x], lambda _: op.nn.relu(x)), ["toy"], prepare=False))


def test_a_folder_that_goes_between_build_and_export_costs_a_rebuild(tmp_path):
    with temporary_registrations():
        toy_backend.register()
        executable = toy_executable()
        executable.export_library(str(tmp_path / "first.so"))
        shutil.rmtree(cache_folder())
        executable.export_library(str(tmp_path / "second.so"))
    for name in ("first.so", "second.so"):
        machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / name)), tvm.cpu())
        found = machine["main"](tvm.runtime.tensor(-np.ones((2, 4), "float32")))
        assert not found.numpy().any()


def test_a_library_is_written_whole_or_not_at_all(tmp_path):
    library = tmp_path / "toy.so"
    library.write_text("before")
    with temporary_registrations():
        toy_backend.register()
        executable = toy_executable()
        with pytest.raises(BuildError):
            executable.export_library(str(library), options=["-lno_such_library"])
        assert library.read_text() == "before"
        with pytest.raises(FileNotFoundError, match=r"no/toy.so"):
            executable.export_library(str(tmp_path / "no" / "toy.so"))
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["toy.so"]


def test_nobody_is_told_of_a_cache_that_is_whole(tmp_path, compiler):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [answer(tmp_path / name, compiler) for name in ("first", "second")] == [42, 42]
