"""A wheel is looked for and its list is parsed once, and again when another wheel takes its place."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from kits.targets.installed_packages_kit import pretend_installed

from annotated_region.targets.installed_files import installed_files

WHEEL = "a_wheel_of_this_test"


def listed(folder: Path, *names: str) -> None:
    """Write the list of the wheel in a folder."""
    for name in names:
        (folder / name).touch()
    lines = "".join(f"{name},,\n" for name in names)
    (folder / f"{WHEEL}-0.1.0.dist-info" / "RECORD").write_text(lines)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    pretend_installed(tmp_path, WHEEL, f"{WHEEL}:register")
    listed(tmp_path, "first.so", "second.so")
    return tmp_path


def places() -> list[Path]:
    return [Path(str(file.locate())) for file in installed_files(WHEEL)]


def test_the_files_are_those_of_the_metadata(folder: Path) -> None:
    assert places() == [folder / "first.so", folder / "second.so"]
    assert list(installed_files("onnx")) == list(distribution("onnx").files or ())


def test_a_list_is_parsed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = places()
    monkeypatch.setattr(Distribution, "files", property(lambda _self: pytest.fail("parsed again")))
    assert places() == before


def test_the_path_is_searched_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = places()
    monkeypatch.setattr(Distribution, "from_name", lambda _name: pytest.fail("searched again"))
    assert places() == before


def test_a_wheel_that_is_removed_is_not_found(folder: Path) -> None:
    assert len(places()) == 2
    shutil.rmtree(folder / f"{WHEEL}-0.1.0.dist-info")
    os.utime(folder, ns=(0, 0))  # the clock of a file system may not have ticked meanwhile
    assert places() == []


def test_a_wheel_that_is_installed_anew_is_read_again(folder: Path) -> None:
    assert len(places()) == 2
    listed(folder, "third.so")
    assert places() == [folder / "third.so"]


def test_the_same_wheel_in_another_folder_is_found_there(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert places()[0].parent == folder
    other = tmp_path_factory.mktemp("other")
    pretend_installed(other, WHEEL, f"{WHEEL}:register")
    listed(other, "first.so", "second.so")
    monkeypatch.syspath_prepend(str(other))
    assert places()[0].parent == other


def test_what_is_not_installed_has_no_files() -> None:
    assert installed_files("no-wheel-of-this-name") == ()
