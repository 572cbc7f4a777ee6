"""The cache folder is private, or it is not used."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from annotated_region.cache import alone, cache_folder, load_entry, private_cache_folder, store_entry, sweep
from annotated_region.errors import CacheWarning


def test_it_is_made_private(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "deep"))
    folder = private_cache_folder()
    assert folder == cache_folder() == tmp_path / "deep" / "annotated-region"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_into_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache_folder().mkdir()
    cache_folder().chmod(0o777)
    with pytest.warns(CacheWarning, match="can be written by others; nothing is cached"):
        assert private_cache_folder() is None


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert private_cache_folder() is None


def test_a_folder_that_is_a_link_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    cache_folder().symlink_to(tmp_path / "elsewhere")
    with pytest.warns(CacheWarning, match="it is no folder"):
        assert private_cache_folder() is None


def test_who_has_no_home_has_no_cache(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError("no home directory")))
    assert private_cache_folder() is None


def test_what_is_stored_is_loaded_by_its_name_alone(tmp_path):
    store_entry(tmp_path / "one", b"content")
    assert load_entry(tmp_path / "one") == b"content"
    assert load_entry(tmp_path / "other") is None
    (tmp_path / "one").rename(tmp_path / "other")
    with pytest.warns(CacheWarning, match="other is damaged; it is removed and rebuilt"):
        assert load_entry(tmp_path / "other") is None
    assert load_entry(tmp_path / "other") is None
    assert list(tmp_path.iterdir()) == []


def test_an_entry_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "one" / "something").mkdir(parents=True)
    with pytest.raises(OSError, match="one"):
        store_entry(tmp_path / "one", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_leftovers_are_swept_when_they_are_old_or_unlocked(tmp_path):
    for name in ("unfinished-old", "unfinished-new", "tmpold", "entry"):
        (tmp_path / name).touch()
    (tmp_path / "tmpfolder").mkdir()
    (tmp_path / "tmpfolder" / "unit.o").touch()
    for name in ("unfinished-old", "tmpold", "tmpfolder", "entry"):
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "left.lock").touch()
    with alone(tmp_path / "held"):
        sweep(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"unfinished-new", "entry", "held.lock"}
    assert {path.name for path in tmp_path.iterdir()} == {"unfinished-new", "entry"}


def test_one_at_a_time_holds_a_lock(tmp_path):
    inside, most = [], []

    def enter(number):
        for _ in range(20):
            with alone(tmp_path / "entry"):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (160, 1)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from annotated_region.cache import alone
with alone(Path(sys.argv[1])):
    os.kill(os.getpid(), 9)
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "entry"), os.getcwd()], check=False, timeout=60
    )
    assert killed.returncode == -9
    assert [path.name for path in tmp_path.iterdir()] == ["entry.lock"]
    with alone(tmp_path / "entry"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("obstacle", ["folder", "link"])
def test_where_nothing_can_be_locked_nobody_waits(tmp_path, obstacle):
    lock = tmp_path / "entry.lock"
    if obstacle == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(tmp_path / "nowhere")
    with alone(tmp_path / "entry"), alone(tmp_path / "entry"):
        pass
