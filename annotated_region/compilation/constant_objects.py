"""Places constants in an object file, or in the library itself, bypassing TVM's loader.

TVM serializes the constants of a module and deserializes them into tensors when a library is loaded: they are
in memory three times during loading, and twice for the library's lifetime. As data of a library they are
part of what is mapped: pages are read on demand, and can be evicted.

Code that TVM's own ``RunCodegen`` generates gets them as an object file, which TVM holds in memory and writes
again for the linker. In `constants_apart` they stay where they are, until the library is linked
(`late_constants.py`): of a hundred megabytes only one copy is made, into the library.

The data begins with the offset of each constant, as int64: units that read constants need not list them.

Small constants are placed together behind the offsets: a system may map two megabytes on one page fault, and
biases scattered among the weights would keep most of these in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import numpy as np
import tvm
from tvm.support import cc

from annotated_region.compilation.elf_format import Header
from annotated_region.compilation.elf_object import PAGE, DataSymbol, object_header, write_object

__all__ = ["ConstantData", "constant_object", "constants_apart"]

ALIGNMENT = 64
OFFSET_BYTES = 8
_MOST_BUFFERS = 1024
"""How many buffers Linux takes in one call."""


@dataclass(frozen=True, slots=True, eq=False)
class ConstantData:
    """Constants of which a library holds a copy.

    Attributes
    ----------
    symbol
        The symbol of the data, and its size.
    arrays
        The constants, which must not be changed.
    offsets
        The offset of each in the data.
    """

    symbol: DataSymbol
    arrays: tuple[np.ndarray, ...]
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, name: str, arrays: Sequence[np.ndarray]) -> ConstantData:
        """The data of constants, with the name of its symbol."""
        offsets, end = _placed([array.nbytes for array in arrays])
        return cls(DataSymbol(name, 0, end), tuple(arrays), offsets)

    def write(self, file: BinaryIO, begin: int) -> None:
        """Write the data to a file from an offset on.

        All of it goes to the system in few calls, so that it can keep two megabytes in one piece of memory
        and map them by one entry of a page table (`late_constants.py` aligns them).
        """
        file.flush()
        _write_buffers(file.fileno(), self._buffers(), begin)

    def _buffers(self) -> Iterator[memoryview]:
        """The data from its beginning to its end: offsets, gaps and constants."""
        table = np.asarray(self.offsets, np.int64)
        yield table.view("uint8").data
        end, gap = table.nbytes, memoryview(bytes(PAGE))
        # An empty constant has the offset of the next one.
        placed = zip(self.offsets, (array.nbytes for array in self.arrays), self.arrays, strict=True)
        for offset, size, array in sorted(placed, key=itemgetter(0, 1)):
            yield gap[: offset - end]
            yield np.ascontiguousarray(array).reshape(-1).view("uint8").data
            end = offset + size

    def write_object(self, place: Path, header: Header) -> None:
        """Write an object file with the data; `header` is the result of `object_header`."""
        with place.open("wb") as file:
            write_object(file, header, [self.symbol], self.symbol.size, self.write)


_apart: ContextVar[list[ConstantData] | None] = ContextVar("annotated_region_constants_apart", default=None)


@contextmanager
def constants_apart() -> Iterator[list[ConstantData]]:
    """Collect the constants of code that is generated inside; its modules do not hold them."""
    collected: list[ConstantData] = []
    token = _apart.set(collected)
    try:
        yield collected
    finally:
        _apart.reset(token)


def constant_object(
    name: str, arrays: Sequence[np.ndarray]
) -> tuple[ConstantData, tvm.runtime.Module | None] | None:
    """Constants as data of a library.

    Parameters
    ----------
    name
        The name of the symbol of the data; it is hidden outside the library.
    arrays
        The constants.

    Returns
    -------
    The data, and a module with an object file, or None in `constants_apart`, which collects the data.
    Nothing if there is no compiler, or if the system's object files are not 64-bit ELF.
    """
    compiler, header = cc.get_cc(), object_header()
    if not compiler or shutil.which(compiler) is None or header is None:
        return None
    data, collected = ConstantData.of(name, arrays), _apart.get()
    if collected is not None:
        collected.append(data)
        return data, None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "constants.o")
        data.write_object(place, header)
        return data, tvm.runtime.load_static_library(str(place), [name])


def _write_buffers(handle: int, buffers: Iterable[memoryview], offset: int) -> None:
    """Write buffers one after the other to a file, from an offset on."""
    left = deque(buffer for buffer in buffers if len(buffer))
    while left:
        written = os.pwritev(handle, list(islice(left, _MOST_BUFFERS)), offset)
        offset += written
        while left and written >= len(left[0]):
            written -= len(left.popleft())
        if written:
            left[0] = left[0][written:]


def _placed(sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The offset of each constant, placed by increasing size behind the offsets, and the end of the last."""
    # Only whole pages can be evicted; constants of at least a page start at a page boundary.
    offsets, end = [0] * len(sizes), OFFSET_BYTES * len(sizes)
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        unit = PAGE if sizes[index] >= PAGE else ALIGNMENT
        offsets[index] = -(-end // unit) * unit
        end = offsets[index] + sizes[index]
    return tuple(offsets), end
