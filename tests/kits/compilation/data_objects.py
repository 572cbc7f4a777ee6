"""Object files with bytes under one name, as constants are written."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from annotated_region.compilation.elf_object import DataSymbol, object_header, write_object

__all__ = ["write_data"]


def write_data(place: Path, name: str, content: bytes) -> None:
    """Write an object whose one symbol has a content."""

    def write(file: BinaryIO, begin: int) -> None:
        file.seek(begin)
        file.write(content)

    header = object_header()
    assert header is not None
    with place.open("wb") as file:
        write_object(file, header, [DataSymbol(name, 0, len(content))], len(content), write)
