"""The cache folder is private, or it is not used."""

import stat

from annotated_region.cache import cache_folder, private_cache_folder


def test_it_is_made_private(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "deep"))
    folder = private_cache_folder()
    assert folder == cache_folder() == tmp_path / "deep" / "annotated-region"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_into_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache_folder().mkdir()
    cache_folder().chmod(0o777)
    assert private_cache_folder() is None


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert private_cache_folder() is None
