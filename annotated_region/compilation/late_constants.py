"""Links constants into a library without the linker: it reserves their place, and they are copied there.

GNU ld reads and writes each byte of its inputs, and takes ten times as long as a copy of the file. The
linker gets an object whose section is one page, with a mark, in place of the constants::

    library as linked:   code | variables | .lrodata: [mark]
    afterwards:          code | variables | [mark] | sections | .lrodata: [constants                     ]

Large data is in a segment of its own behind all others (`elf_object.py`), so the segment and the section can
grow: their headers get the new place at the end of the file, and the new size. The symbols of the constants
lie beyond the page from the beginning. If a linker has laid out the library otherwise, it is linked again,
with all constants in objects.

Many constants begin at a multiple of two megabytes, in memory as in the file. A file system that keeps files
in large pieces (ext4 since Linux 6.16) maps them by an entry for each two megabytes then, not for each page:
the first run has fewer page faults, and a processor finds weights faster, which a product of one row reads at
the speed of memory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias

from annotated_region.compilation.constant_objects import ConstantData
from annotated_region.compilation.elf_format import (
    LOADED,
    X86_64,
    Header,
    ProgramHeader,
    Section,
    name_at,
)
from annotated_region.compilation.elf_object import (
    LARGE_SECTION,
    PAGE,
    DataSymbol,
    object_header,
    symbol_of,
    write_object,
)

__all__ = ["link_with_constants", "objects_of"]

_HUGE_PAGE = 2 << 20
MANY_BYTES = 64 << 20
_MARK = (b"The constants are at the end of the file. " * PAGE)[:PAGE]


Write: TypeAlias = Callable[[BinaryIO, int], None]
"""Writes data to a file, from an offset on."""


def link_with_constants(
    library: Path,
    files: Sequence[str],
    constants: Sequence[ConstantData],
    folder: Path,
    link: Callable[[list[str]], None],
) -> None:
    """Link objects, of which some may hold constants, and constants that are in no object.

    Parameters
    ----------
    library
        What `link` writes.
    files
        The objects.
    constants
        The constants that are in none of them.
    folder
        A folder for temporary files.
    link
        Links the objects that it is given.
    """
    header = object_header()
    found = {file: symbol for file in files if (symbol := symbol_of(Path(file)))}
    parts: list[tuple[DataSymbol, Write]] = [
        *((symbol, partial(_copy, Path(file), symbol.size)) for file, symbol in found.items()),
        *((each.symbol, each.write) for each in constants),
    ]
    if parts and header is not None and header.machine == X86_64:
        symbols = list(_placed(symbol for symbol, _ in parts))
        page, last = folder / "reserved.o", symbols[-1]
        alignment = _HUGE_PAGE if last.offset + last.size >= MANY_BYTES else PAGE
        with page.open("wb") as file:
            write_object(file, header, symbols, PAGE, _write_mark, alignment)
        link([*(each for each in files if each not in found), str(page)])
        if _filled(library, [(symbol, write) for symbol, (_, write) in zip(symbols, parts, strict=True)]):
            return
    link([*files, *objects_of(constants, folder)])


def objects_of(constants: Sequence[ConstantData], folder: Path) -> list[str]:
    """Constants as object files in a folder."""
    header = object_header()
    places = [folder / f"constants{index}.o" for index in range(len(constants))]
    for each, place in zip(constants, places, strict=True):
        assert header is not None, "constants are only placed where objects can be made"
        each.write_object(place, header)
    return [str(place) for place in places]


def _placed(symbols: Iterable[DataSymbol]) -> Iterator[DataSymbol]:
    """The symbols one after the other, each at a page."""
    offset = 0
    for symbol in symbols:
        yield replace(symbol, offset=offset)
        offset += -(-symbol.size // PAGE) * PAGE


def _write_mark(file: BinaryIO, begin: int) -> None:
    file.seek(begin)
    file.write(_MARK)


@dataclass(frozen=True, slots=True)
class _Reserved:
    """The section and the segment that end with the mark, by the places of their headers."""

    section_at: int
    section: Section
    segment_at: int
    segment: ProgramHeader


def _filled(library: Path, constants: Sequence[tuple[DataSymbol, Write]]) -> bool:
    """Copy constants into a library; False if they do not fit its layout."""
    with library.open("r+b") as file:
        reserved = _reserved(file)
        if reserved is None:
            return False
        section, segment = reserved.section, reserved.segment
        last, _ = constants[-1]
        added = last.offset + last.size - PAGE
        grown = segment.file_size + added
        end = file.seek(0, os.SEEK_END)
        offset = end + (segment.address - end) % segment.alignment
        before = segment.file_size - PAGE  # what the linker has in front of the mark, such as padding
        file.seek(segment.offset)
        content = file.read(before)
        file.seek(offset)
        file.write(content)
        for symbol, write in constants:
            write(file, offset + before + symbol.offset)
        file.truncate(offset + grown)
        file.seek(reserved.segment_at)
        file.write(replace(segment, offset=offset, file_size=grown, size=grown).packed())
        moved = replace(section, offset=offset + section.address - segment.address, size=section.size + added)
        file.seek(reserved.section_at)
        file.write(moved.packed())
    return True


def _copy(source: Path, size: int, target: BinaryIO, offset: int) -> None:
    """Copy the data of an object to an offset of a file, within the kernel."""
    target.flush()
    os.lseek(target.fileno(), offset, os.SEEK_SET)
    with source.open("rb") as file:
        done = 0
        while done < size:
            count = os.sendfile(target.fileno(), file.fileno(), PAGE + done, size - done)
            if count == 0:
                raise OSError(errno.EIO, "the object ends before its data", str(source))
            done += count


def _reserved(file: BinaryIO) -> _Reserved | None:
    """What may grow: the section ends its segment with the mark, and the segment is behind all others."""
    header = Header.read(file)
    if header is None:
        return None
    sections, segments = header.sections(file), header.segments(file)
    loaded = [index for index, each in enumerate(segments) if each.kind == LOADED]
    if not sections or not loaded:
        return None
    names = sections[header.names_section]
    file.seek(names.offset)
    table = file.read(names.size)
    places = [index for index, each in enumerate(sections) if name_at(table, each.name) == LARGE_SECTION]
    if len(places) != 1:
        return None
    (place,), number = places, max(loaded, key=lambda index: segments[index].address)
    section, segment = sections[place], segments[number]
    is_last = section.address + section.size == segment.address + segment.size
    file.seek(section.offset + section.size - PAGE)
    if not is_last or segment.size != segment.file_size or file.read(PAGE) != _MARK:
        return None
    return _Reserved(header.place_of_section(place), section, header.place_of_segment(number), segment)
