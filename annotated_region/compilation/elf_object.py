"""Writes data as an object file for the linker, without an assembler in between.

An assembler copies what it includes several times, which is most of the time that building a model of a
hundred megabytes takes. The file is a relocatable one of ELF (System V ABI, chapters 4 and 5; 64 bits):

    header | data, from a page on | symbols | names of symbols | names of sections | section headers

The one symbol is global, so that other objects can refer to it, and hidden, so that none outside the library
can.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import BinaryIO

import tvm_ffi

__all__ = ["PAGE", "object_header", "write_object"]

PAGE = 4096
"""The data begins with one in the file, and in memory."""

_IDENTITY = 16  # bytes in front of the header's numbers: what tells an ELF file, its width and byte order
_CLASS_64 = 2
_RELOCATABLE = 1
_PROGBITS, _SYMBOLS, _NAMES = 1, 2, 3
_ALLOCATED = 2
_GLOBAL_OBJECT = 1 << 4 | 1
_HIDDEN = 2
_ORDER = "<" if sys.byteorder == "little" else ">"
_HEADER = struct.Struct(_ORDER + "16sHHIQQQIHHHHHH")
_SECTION = struct.Struct(_ORDER + "IIQQQQIIQQ")
_SYMBOL = struct.Struct(_ORDER + "IBBHQQ")
_SECTION_NAMES = ("", ".rodata.annotated_region", ".note.GNU-stack", ".symtab", ".strtab", ".shstrtab")


@dataclass(frozen=True, slots=True)
class _Section:
    """A section header without its name, its fields in the order of the file."""

    kind: int
    flags: int = 0
    address: int = 0
    offset: int = 0
    size: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_size: int = 0


def object_header() -> bytes | None:
    """The header of a library of this process, which tells its machine; None if it is not ELF of 64 bits."""
    try:
        with Path(tvm_ffi.libinfo.find_libtvm_ffi()).open("rb") as file:
            header = file.read(_HEADER.size)
    except OSError:
        return None
    is_fit = len(header) == _HEADER.size and header[:5] == b"\x7fELF" + bytes([_CLASS_64])
    return header if is_fit else None


def write_object(
    file: BinaryIO, header: bytes, symbol: str, size: int, write: Callable[[BinaryIO, int], None]
) -> None:
    """Write an object file that holds nothing but data.

    Parameters
    ----------
    file
        A new file.
    header
        What `object_header` gives.
    symbol
        The name of the data.
    size
        Its bytes.
    write
        Called with the file and the place in it where the data begins; what is not written is zero.
    """
    write(file, PAGE)
    names, starts = _joined(_SECTION_NAMES)
    symbols, symbol_starts = _joined(("", symbol))
    entries = bytes(_SYMBOL.size) + _SYMBOL.pack(symbol_starts[1], _GLOBAL_OBJECT, _HIDDEN, 1, 0, size)
    end = PAGE + -(-size // PAGE) * PAGE
    tail = entries + symbols + names
    tail += bytes(-len(tail) % 8)
    sections = (
        _Section(0),
        _Section(_PROGBITS, _ALLOCATED, offset=PAGE, size=size, alignment=PAGE),
        _Section(_PROGBITS, offset=end),
        # `link` is the section of the symbols' names, `info` the first symbol that is not local.
        _Section(
            _SYMBOLS, offset=end, size=len(entries), link=4, info=1, alignment=8, entry_size=_SYMBOL.size
        ),
        _Section(_NAMES, offset=end + len(entries), size=len(symbols)),
        _Section(_NAMES, offset=end + len(entries) + len(symbols), size=len(names)),
    )
    file.seek(end)
    file.write(tail)
    for start, section in zip(starts, sections, strict=True):
        file.write(_SECTION.pack(start, *astuple(section)))
    file.seek(0)
    file.write(_header(header, end + len(tail), len(sections)))


def _header(known: bytes, sections_at: int, count: int) -> bytes:
    """The header of the file: width, byte order, machine and flags are those of a known one."""
    identity, _, machine, version, _, _, _, flags, size, *_ = _HEADER.unpack(known)
    return _HEADER.pack(
        identity,
        _RELOCATABLE,
        machine,
        version,
        0,
        0,
        sections_at,
        flags,
        size,
        0,
        0,
        _SECTION.size,
        count,
        count - 1,
    )


def _joined(names: tuple[str, ...]) -> tuple[bytes, list[int]]:
    """Names as one text of the file, each with a zero behind, and where each begins."""
    text, starts = b"", []
    for name in names:
        starts.append(len(text))
        text += name.encode() + b"\0"
    return text, starts
