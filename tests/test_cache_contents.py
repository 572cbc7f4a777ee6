"""The cache folder is counted by kind and emptied; files outside it are never touched."""

import os
import time

import pytest

from annotated_region.cache import cache_folder, store_entry
from annotated_region.cache_contents import KindOfEntry, contents, removed
from annotated_region.errors import CacheError

HEAD = 89  # bytes of a digest in front of an entry


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = cache_folder()
    (made / "openvino").mkdir(parents=True, mode=0o700)
    made.chmod(0o700)
    store_entry(made / "object-1", b"code")
    store_entry(made / "object-2", b"more code")
    store_entry(made / "openvino" / "model", b"compiled")
    (made / "costs.sqlite3").write_bytes(b"times")
    return made


KINDS = [
    KindOfEntry("costs", 1, 5),
    KindOfEntry("objects", 2, 2 * HEAD + 13),
    KindOfEntry("openvino", 1, HEAD + 8),
]


def test_entries_are_counted_by_kind(folder):
    assert contents() == KINDS


def test_all_of_it_goes(folder):
    assert removed(float("inf")) == KINDS
    assert contents() == []


def test_what_was_used_lately_stays(folder):
    os.utime(folder / "object-1", (0, 0))
    assert removed(time.time() - 3600) == [KindOfEntry("objects", 1, HEAD + 4)]
    assert not (folder / "object-1").exists()
    assert (folder / "object-2").exists()


def test_without_a_folder_there_is_nothing_and_none_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert contents() == removed(float("inf")) == []
    assert not (tmp_path / "none").exists()


def test_links_are_removed_and_not_followed(folder, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "precious").write_text("mine")
    (folder / "engines").symlink_to(victim)
    (folder / "openvino" / "deep").symlink_to(victim)
    (folder / "object-3").symlink_to(victim / "precious")
    assert {kind.kind: kind.entries for kind in removed(float("inf"))} == {
        "costs": 1,
        "objects": 3,
        "openvino": 2,
        "others": 1,
    }
    assert (victim / "precious").read_text() == "mine"


def test_a_folder_inside_that_others_may_write_into_stays(folder):
    (folder / "openvino").chmod(0o777)
    assert "openvino" not in {kind.kind for kind in removed(float("inf"))}
    assert (folder / "openvino" / "model").exists()


def test_a_lock_that_a_process_may_hold_stays(folder):
    (folder / "object-1.lock").touch()
    removed(float("inf"))
    assert sorted(path.name for path in folder.iterdir()) == ["object-1.lock", "openvino"]


@pytest.mark.parametrize("break_in", ["link", "mode", "file"])
def test_a_folder_that_is_not_ones_own_is_refused(folder, tmp_path, break_in):
    if break_in == "mode":
        folder.chmod(0o777)
    else:
        folder.rename(tmp_path / "elsewhere")
        if break_in == "link":
            folder.symlink_to(tmp_path / "elsewhere")
        else:
            folder.write_text("a file")
    for act in (contents, lambda: removed(float("inf"))):
        with pytest.raises(CacheError, match="repair or remove it yourself"):
            act()
    assert break_in == "mode" or (tmp_path / "elsewhere" / "object-1").exists()
