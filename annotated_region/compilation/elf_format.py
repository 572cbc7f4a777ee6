"""The parts of ELF files (System V ABI, chapters 4 and 5; 64 bits, in this machine's byte order)."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import BinaryIO, Self

__all__ = [
    "ALLOCATED",
    "LARGE",
    "LOADED",
    "NAMES",
    "PROGBITS",
    "SYMBOLS",
    "SYMBOL_BYTES",
    "X86_64",
    "Header",
    "Section",
    "ProgramHeader",
    "joined",
    "name_at",
    "object_header_like",
    "packed_symbol",
]

PROGBITS, SYMBOLS, NAMES = 1, 2, 3
"""Kinds of sections."""

ALLOCATED, LARGE = 2, 0x10000000  # SHF_ALLOC, SHF_X86_64_LARGE
"""Flags of sections."""

LOADED = 1
"""The kind of segments that are mapped."""

X86_64 = 62
_RELOCATABLE = 1
_CLASS_64 = 2
_ORDER = "<" if sys.byteorder == "little" else ">"
_HEADER = struct.Struct(_ORDER + "16sHHIQQQIHHHHHH")
_SECTION = struct.Struct(_ORDER + "IIQQQQIIQQ")
_SEGMENT = struct.Struct(_ORDER + "IIQQQQQQ")
_SYMBOL = struct.Struct(_ORDER + "IBBHQQ")
SYMBOL_BYTES = _SYMBOL.size
_GLOBAL_OBJECT = 1 << 4 | 1
_HIDDEN = 2


@dataclass(frozen=True, slots=True)
class Section:
    """A section header; the fields are in file order."""

    name: int
    kind: int
    flags: int = 0
    address: int = 0
    offset: int = 0
    size: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_size: int = 0

    def packed(self) -> bytes:
        """Its bytes."""
        return _SECTION.pack(*astuple(self))


@dataclass(frozen=True, slots=True)
class ProgramHeader:
    """A program header; the fields are in file order."""

    kind: int
    flags: int
    offset: int
    address: int
    physical_address: int
    file_size: int
    size: int
    alignment: int

    def packed(self) -> bytes:
        """Its bytes."""
        return _SEGMENT.pack(*astuple(self))


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file; the fields are in file order."""

    identity: bytes
    kind: int
    machine: int
    version: int
    entry: int
    segments_at: int
    sections_at: int
    flags: int
    size: int
    segment_size: int
    segment_count: int
    section_size: int
    section_count: int
    names_section: int

    @classmethod
    def read(cls, file: BinaryIO) -> Self | None:
        """The header at the beginning of a file; None if it is no 64-bit ELF file."""
        file.seek(0)
        content = file.read(_HEADER.size)
        is_fit = len(content) == _HEADER.size and content[:5] == b"\x7fELF" + bytes([_CLASS_64])
        return cls(*_HEADER.unpack(content)) if is_fit else None

    def packed(self) -> bytes:
        """Its bytes."""
        return _HEADER.pack(*astuple(self))

    def sections(self, file: BinaryIO) -> list[Section]:
        """The section headers; none if the file ends before."""
        return [Section(*each) for each in _entries(file, _SECTION, self.sections_at, self.section_count)]

    def segments(self, file: BinaryIO) -> list[ProgramHeader]:
        """The program headers; none if the file ends before."""
        return [
            ProgramHeader(*each) for each in _entries(file, _SEGMENT, self.segments_at, self.segment_count)
        ]

    def place_of_section(self, index: int) -> int:
        """Where a section header begins in the file."""
        return self.sections_at + index * _SECTION.size

    def place_of_segment(self, index: int) -> int:
        """Where a program header begins in the file."""
        return self.segments_at + index * _SEGMENT.size


def object_header_like(known: Header, sections_at: int, section_count: int) -> Header:
    """The header of an object for the machine of a known file; its last section has the names of all."""
    return Header(
        known.identity,
        _RELOCATABLE,
        known.machine,
        known.version,
        0,
        0,
        sections_at,
        known.flags,
        _HEADER.size,
        0,
        0,
        _SECTION.size,
        section_count,
        section_count - 1,
    )


def packed_symbol(name: int, offset: int, size: int) -> bytes:
    """A global, hidden object in section 1."""
    return _SYMBOL.pack(name, _GLOBAL_OBJECT, _HIDDEN, 1, offset, size)


def joined(names: Sequence[str]) -> tuple[bytes, list[int]]:
    """A string table of null-terminated names, and the offset of each."""
    text, starts = b"", []
    for name in names:
        starts.append(len(text))
        text += name.encode() + b"\0"
    return text, starts


def name_at(table: bytes, start: int) -> str:
    """A name in a string table."""
    return table[start:].partition(b"\0")[0].decode(errors="replace")


def _entries(file: BinaryIO, layout: struct.Struct, begin: int, count: int) -> Iterable[tuple[int, ...]]:
    file.seek(begin)
    content = file.read(layout.size * count)
    return layout.iter_unpack(content) if len(content) == layout.size * count else ()
