"""Puts large constants into an object file that is linked as it is, instead of through TVM's loader.

TVM keeps the constants of a module in a text of its own, and makes tensors of them when a library is loaded:
for a moment they are in memory three times, and twice for as long as the library lives, though the runtime
reads them once, to pack them. In an object file they are a part of the library that the system maps: what was
packed is given back, and nothing is read before it is needed.

The small ones lie together at the beginning: a system may map two megabytes at once where one number is read,
and biases between the weights would keep most of these in memory.

Where there is no compiler for the object file, or the constants are small, they go through TVM's loader.
Small ones do not if some were joined (`joining`), because TVM does not know those.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm.support import cc

from annotated_region.backends.dnnl.emission import Embedded
from annotated_region.backends.dnnl.graph import Graph

__all__ = ["embed"]

LEAST_BYTES = 1 << 20
ALIGNMENT = 64
PAGE = 4096
"""What can be given back is made of these; a constant that is as large begins with one."""

ASSEMBLY = """\
    .section .rodata.annotated_region, "a"
    .balign 4096
    .globl {symbol}
    .hidden {symbol}
    .type {symbol}, @object
{symbol}:
    .incbin "constants.bin"
    .size {symbol}, . - {symbol}
    .section .note.GNU-stack, "", @progbits
"""


def embed(
    graph: Graph, names: Sequence[str], values: Mapping[str, tvm.runtime.Tensor]
) -> tuple[Embedded, tvm.runtime.Module] | None:
    """The constants of a region as an object file.

    Parameters
    ----------
    graph
        The region.
    names
        Its constants, in order; those that the graph has joined are made here.
    values
        All other constants, by name.

    Returns
    -------
    Where each constant lies, and the module that holds the object file; None where that does not pay or
    cannot be done.
    """
    compiler = cc.get_cc()
    if not compiler:
        return None
    arrays = [_array(graph, name, values) for name in names]
    if not graph.joined and sum(array.nbytes for array in arrays) < LEAST_BYTES:
        return None
    symbol = f"annotated_region_constants_{graph.symbol}"
    offsets, end = _placed([array.nbytes for array in arrays])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with (place / "constants.bin").open("wb") as file:
            for array, offset in zip(arrays, offsets, strict=True):
                file.seek(offset)
                file.write(np.ascontiguousarray(array).data)
            file.truncate(end)
        (place / "constants.S").write_text(ASSEMBLY.format(symbol=symbol), encoding="ascii")
        command = [compiler, "-c", "constants.S", "-o", "constants.o"]
        try:
            subprocess.run(command, cwd=place, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        library = tvm.runtime.load_static_library(str(place / "constants.o"), [symbol])
    return Embedded(symbol, offsets, end), library


def _array(graph: Graph, name: str, values: Mapping[str, tvm.runtime.Tensor]) -> np.ndarray:
    joined = graph.joined.get(name)
    return values[name].numpy() if joined is None else joined.value(lambda part: values[part].numpy())


def _placed(sizes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Where each constant begins, by increasing size, and the end of the last."""
    offsets, end = [0] * len(sizes), 0
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        unit = PAGE if sizes[index] >= PAGE else ALIGNMENT
        offsets[index] = -(-end // unit) * unit
        end = offsets[index] + sizes[index]
    return tuple(offsets), end
