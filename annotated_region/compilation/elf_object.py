"""Writes data as an object file for the linker, without an assembler.

An assembler copies included data several times, which would dominate the build time of a model of a hundred
megabytes. The file is a relocatable ELF file:

    header | data, from a page on | symbols | names of symbols | names of sections | section headers

The symbols are global, so that other objects can refer to them, and hidden, so that they are not exported
from the library.

On x86-64 the data is in a section for large data, which the linker places behind all others. Code addresses
what is near with offsets of 32 bits; with gigabytes of constants between code and variables, a library could
not be linked. Only tables of 64-bit addresses refer to the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import tvm_ffi

from annotated_region.compilation.elf_format import (
    ALLOCATED,
    LARGE,
    NAMES,
    PROGBITS,
    SYMBOL_BYTES,
    SYMBOLS,
    X86_64,
    Header,
    Section,
    joined,
    name_at,
    object_header_like,
    packed_symbol,
)

__all__ = ["LARGE_SECTION", "PAGE", "DataSymbol", "object_header", "symbol_of", "write_object"]

PAGE = 4096
"""The size of a page; the data is page-aligned in the object file, and in memory."""

LARGE_SECTION = ".lrodata"
"""The section of a library that holds large data that is only read."""

_NAME = ".annotated_region"
_OTHER_NAMES = (".note.GNU-stack", ".symtab", ".strtab", ".shstrtab")


@dataclass(frozen=True, slots=True)
class DataSymbol:
    """A symbol of the data: its name, its offset in the section, and its size in bytes."""

    name: str
    offset: int
    size: int


def object_header() -> Header | None:
    """The header of a library of this process, for its machine type; None if it is not 64-bit ELF."""
    try:
        with Path(tvm_ffi.libinfo.find_libtvm_ffi()).open("rb") as file:
            return Header.read(file)
    except OSError:
        return None


def write_object(
    file: BinaryIO,
    header: Header,
    symbols: Sequence[DataSymbol],
    size: int,
    write: Callable[[BinaryIO, int], None],
    alignment: int = PAGE,
) -> None:
    """Write an object file with a single data section.

    Parameters
    ----------
    file
        A new file.
    header
        The result of `object_header`.
    symbols
        The symbols of the data. One may lie beyond the end of the section.
    size
        The size of the section in bytes.
    write
        Called with the file and the file offset of the data; bytes that it does not write are zero.
    alignment
        Of the data in the library, in memory as in the file: a multiple of a page.
    """
    write(file, PAGE)
    name, flags = _data_section(header)
    names, starts = joined(("", name, *_OTHER_NAMES))
    texts, symbol_starts = joined(("", *(symbol.name for symbol in symbols)))
    entries = bytes(SYMBOL_BYTES)
    for start, symbol in zip(symbol_starts[1:], symbols, strict=True):
        entries += packed_symbol(start, symbol.offset, symbol.size)
    end = PAGE + -(-size // PAGE) * PAGE
    tail = entries + texts + names
    tail += bytes(-len(tail) % 8)
    sections = (
        Section(starts[0], 0),
        Section(starts[1], PROGBITS, flags, offset=PAGE, size=size, alignment=alignment),
        Section(starts[2], PROGBITS, offset=end),
        # `link` is the section of the symbol names, `info` the index of the first non-local symbol.
        Section(
            *(starts[3], SYMBOLS),
            offset=end,
            size=len(entries),
            link=4,
            info=1,
            alignment=8,
            entry_size=SYMBOL_BYTES,
        ),
        Section(starts[4], NAMES, offset=end + len(entries), size=len(texts)),
        Section(starts[5], NAMES, offset=end + len(entries) + len(texts), size=len(names)),
    )
    file.seek(end)
    file.write(tail)
    for section in sections:
        file.write(section.packed())
    file.seek(0)
    file.write(object_header_like(header, end + len(tail), len(sections)).packed())


def symbol_of(path: Path) -> DataSymbol | None:
    """The symbol of an object that `write_object` made with one symbol and large data; None for others."""
    with path.open("rb") as file:
        header = Header.read(file)
        if header is None or header.machine != X86_64 or header.section_count != 2 + len(_OTHER_NAMES):
            return None
        sections = header.sections(file)
        if not sections or _text(file, sections[-1], sections[1].name) != f"{LARGE_SECTION}{_NAME}":
            return None
        data, table, texts = sections[1], sections[3], sections[4]
        is_one = data.offset == PAGE and table.size == 2 * SYMBOL_BYTES and texts.kind == NAMES
        return DataSymbol(_text(file, texts, 1), 0, data.size) if is_one else None


def _text(file: BinaryIO, table: Section, start: int) -> str:
    file.seek(table.offset)
    return name_at(file.read(table.size), start)


def _data_section(header: Header) -> tuple[str, int]:
    """The name and the flags of the section of the data."""
    if header.machine == X86_64:
        return f"{LARGE_SECTION}{_NAME}", ALLOCATED | LARGE
    return f".rodata{_NAME}", ALLOCATED
