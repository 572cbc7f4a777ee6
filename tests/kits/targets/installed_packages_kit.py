"""Packages as pip leaves them: modules, and the metadata that holds their entry points."""

from __future__ import annotations

from pathlib import Path

__all__ = ["install", "pretend_installed"]


def pretend_installed(folder: Path, name: str, entry_point: str) -> None:
    """What pip leaves of a package that provides the target `name`: its metadata."""
    metadata = folder / f"{name}-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(f"[annotated_region.backends]\n{name} = {entry_point}\n")


def install(folder: Path, name: str, code: str, entry_point: str = "") -> None:
    """A package of one module, which says in a file that it was imported."""
    mark = "import pathlib\npathlib.Path(__file__).with_suffix('.imported').touch()\n"
    (folder / f"{name}.py").write_text(mark + code)
    pretend_installed(folder, name, entry_point or f"{name}:register")
