"""The wheel holds every file of the package: modules stand in packages, all else in the package data."""

from __future__ import annotations

import configparser
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "annotated_region"


def package_data() -> set[Path]:
    """The files that the patterns of ``setup.cfg`` name."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    patterns = config["options.package_data"]["annotated_region"].split()
    return {path for pattern in patterns for path in PACKAGE.glob(pattern) if path.is_file()}


def test_every_file_that_is_no_python_is_package_data():
    others = {
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
    }
    assert others - package_data() == set()
    assert PACKAGE / "drawing" / "viewer.js" in others


def test_every_folder_of_modules_is_a_package():
    folders = {path.parent for path in PACKAGE.rglob("*.py") if path not in package_data()}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
