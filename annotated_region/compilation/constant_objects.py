"""Puts constants into an object file that is linked as it is, instead of through TVM's loader.

TVM keeps the constants of a module in a text of its own, and makes tensors of them when a library is loaded:
for a moment they are in memory three times, and twice for as long as the library lives. In an object file
they are a part of the library that the system maps: nothing is read before it is needed, and what was read
can be given back.

The small ones lie together at the beginning: a system may map two megabytes at once where one number is read,
and biases between the weights would keep most of these in memory.
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

from annotated_region.compilation.elf_object import PAGE, object_header, write_object

__all__ = ["Embedded", "constant_object"]

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Embedded:
    """Where constants lie in an object file.

    Attributes
    ----------
    symbol
        The name of the whole.
    offsets
        Where each constant begins, in order.
    size
        The bytes of the whole.
    """

    symbol: str
    offsets: tuple[int, ...]
    size: int


def constant_object(symbol: str, arrays: Sequence[np.ndarray]) -> tuple[Embedded, tvm.runtime.Module] | None:
    """Constants as one object file.

    Parameters
    ----------
    symbol
        The name of the whole; it is hidden outside of the library.
    arrays
        The constants.

    Returns
    -------
    Where each constant lies, and the module that holds the object file; None where there is no compiler, and
    on systems whose object files are not ELF of 64 bits.
    """
    compiler, header = cc.get_cc(), object_header()
    if not compiler or shutil.which(compiler) is None or header is None:
        return None
    offsets, end = _placed([array.nbytes for array in arrays])

    def write(file: BinaryIO, begin: int) -> None:
        for array, offset in zip(arrays, offsets, strict=True):
            file.seek(begin + offset)
            file.write(np.ascontiguousarray(array).reshape(-1).view("uint8").data)

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "constants.o")
        with place.open("wb") as file:
            write_object(file, header, symbol, end, write)
        library = tvm.runtime.load_static_library(str(place), [symbol])
    return Embedded(symbol, offsets, end), library


def _placed(sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Where each constant begins, by increasing size, and the end of the last."""
    # What can be given back is made of pages; a constant that is as large begins with one.
    offsets, end = [0] * len(sizes), 0
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        unit = PAGE if sizes[index] >= PAGE else ALIGNMENT
        offsets[index] = -(-end // unit) * unit
        end = offsets[index] + sizes[index]
    return tuple(offsets), end
