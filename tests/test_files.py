"""Files are written whole or not at all."""

import os
import stat

import pytest

from annotated_region.files import whole_file, write_whole


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with whole_file(path) as unfinished:
        unfinished.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert [each.name for each in tmp_path.iterdir()] == ["out.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, RuntimeError])
def test_who_is_interrupted_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(error), whole_file(path) as unfinished:  # noqa: PT012 - the block is what is tested
        unfinished.write_text("half")
        raise error
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["out.txt"]


def test_errors_name_the_path_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*no/out.txt'"):
        write_whole(tmp_path / "no" / "out.txt", "text")
    with pytest.raises(IsADirectoryError, match=f"Is a directory: '{tmp_path}'"):
        write_whole(tmp_path, "text")


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path):
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_whole(tmp_path / "link.txt", "after")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "after"


def test_what_is_no_regular_file_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_new_file_has_the_mode_that_the_user_wants(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "out.txt", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o640
