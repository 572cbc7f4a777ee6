"""Embeds constants into an object file that is linked directly, bypassing TVM's loader.

TVM serializes the constants of a module and deserializes them into tensors when a library is loaded: they are
in memory three times during loading, and twice for the library's lifetime. In an object file they are part of
the mapped library: pages are read on demand, and can be evicted.

The data begins with the offset of each constant, as int64: units that read constants need not list them.

Small constants are placed together behind the offsets: a system may map two megabytes on one page fault, and
biases scattered among the weights would keep most of these in memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import tvm
from tvm.support import cc

from annotated_region.compilation.elf_object import PAGE, DataSymbol, object_header, write_object

__all__ = ["Embedded", "constant_object"]

ALIGNMENT = 64
OFFSET_BYTES = 8


@dataclass(frozen=True, slots=True)
class Embedded:
    """The placement of constants in an object file.

    Attributes
    ----------
    symbol
        The symbol of the data.
    offsets
        The offset of each constant, in the order of the input.
    size
        The total size in bytes.
    """

    symbol: str
    offsets: tuple[int, ...]
    size: int


def constant_object(symbol: str, arrays: Sequence[np.ndarray]) -> tuple[Embedded, tvm.runtime.Module] | None:
    """Constants as a single object file.

    Parameters
    ----------
    symbol
        The symbol of the data; it is hidden outside the library.
    arrays
        The constants.

    Returns
    -------
    The placement, and a module with the object file; None if there is no compiler, or if the system's object
    files are not 64-bit ELF.
    """
    compiler, header = cc.get_cc(), object_header()
    if not compiler or shutil.which(compiler) is None or header is None:
        return None
    offsets, end = _placed([array.nbytes for array in arrays])

    def write(file: BinaryIO, begin: int) -> None:
        file.seek(begin)
        file.write(np.asarray(offsets, np.int64).data)
        for array, offset in zip(arrays, offsets, strict=True):
            file.seek(begin + offset)
            file.write(np.ascontiguousarray(array).reshape(-1).view("uint8").data)

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "constants.o")
        with place.open("wb") as file:
            write_object(file, header, [DataSymbol(symbol, 0, end)], end, write)
        library = tvm.runtime.load_static_library(str(place), [symbol])
    return Embedded(symbol, offsets, end), library


def _placed(sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The offset of each constant, placed by increasing size behind the offsets, and the end of the last."""
    # Only whole pages can be evicted; constants of at least a page start at a page boundary.
    offsets, end = [0] * len(sizes), OFFSET_BYTES * len(sizes)
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        unit = PAGE if sizes[index] >= PAGE else ALIGNMENT
        offsets[index] = -(-end // unit) * unit
        end = offsets[index] + sizes[index]
    return tuple(offsets), end
