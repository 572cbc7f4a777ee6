"""Writes data as an object file for the linker, without an assembler.

An assembler copies included data several times, which would dominate the build time of a model of a hundred
megabytes. The file is a relocatable ELF file (System V ABI, chapters 4 and 5; 64 bits):

    header | data, from a page on | symbols | names of symbols | names of sections | section headers

The single symbol is global, so that other objects can refer to it, and hidden, so that it is not exported
from the library.

On x86-64 the data is in a section for large data, which the linker places behind all others. Code addresses
what is near with offsets of 32 bits; with gigabytes of constants between code and variables, a library could
not be linked. Only tables of 64-bit addresses refer to the data.
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
"""The size of a page; the data is page-aligned in the file and in memory."""

_CLASS_64 = 2
_RELOCATABLE = 1
_PROGBITS, _SYMBOLS, _NAMES = 1, 2, 3
_ALLOCATED = 2
_LARGE = 0x10000000  # SHF_X86_64_LARGE
_X86_64 = 62
_GLOBAL_OBJECT = 1 << 4 | 1
_HIDDEN = 2
_ORDER = "<" if sys.byteorder == "little" else ">"
_HEADER = struct.Struct(_ORDER + "16sHHIQQQIHHHHHH")
_SECTION = struct.Struct(_ORDER + "IIQQQQIIQQ")
_SYMBOL = struct.Struct(_ORDER + "IBBHQQ")
_OTHER_NAMES = (".note.GNU-stack", ".symtab", ".strtab", ".shstrtab")


@dataclass(frozen=True, slots=True)
class _Section:
    """A section header without its name; the fields are in file order."""

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
    """The header of a library of this process, for its machine type; None if it is not 64-bit ELF."""
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
    """Write an object file with a single data section.

    Parameters
    ----------
    file
        A new file.
    header
        The result of `object_header`.
    symbol
        The symbol of the data.
    size
        Its size in bytes.
    write
        Called with the file and the file offset of the data; bytes that it does not write are zero.
    """
    write(file, PAGE)
    name, flags = _data_section(header)
    names, starts = _joined(("", name, *_OTHER_NAMES))
    symbols, symbol_starts = _joined(("", symbol))
    entries = bytes(_SYMBOL.size) + _SYMBOL.pack(symbol_starts[1], _GLOBAL_OBJECT, _HIDDEN, 1, 0, size)
    end = PAGE + -(-size // PAGE) * PAGE
    tail = entries + symbols + names
    tail += bytes(-len(tail) % 8)
    sections = (
        _Section(0),
        _Section(_PROGBITS, flags, offset=PAGE, size=size, alignment=PAGE),
        _Section(_PROGBITS, offset=end),
        # `link` is the section of the symbol names, `info` the index of the first non-local symbol.
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


def _data_section(header: bytes) -> tuple[str, int]:
    """The name and the flags of the section of the data."""
    machine = _HEADER.unpack(header)[2]
    if machine == _X86_64:
        return ".lrodata.annotated_region", _ALLOCATED | _LARGE
    return ".rodata.annotated_region", _ALLOCATED


def _header(known: bytes, sections_at: int, count: int) -> bytes:
    """The file's header; class, byte order, machine and flags are copied from a known one."""
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
    """A string table of null-terminated names, and the offset of each."""
    text, starts = b"", []
    for name in names:
        starts.append(len(text))
        text += name.encode() + b"\0"
    return text, starts
