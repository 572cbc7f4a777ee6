"""Reads arrays from untrusted .npz files, without pickles and within the machine's memory; writes them."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from annotated_region.errors import ModelError

__all__ = ["read_arrays", "write_arrays"]

_PICKLED = "it holds pickled objects, which run code when they are read; save plain arrays with numpy.savez"


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, by name.

    Raises
    ------
    ModelError
        The file does not exist, is not an .npz file, holds pickled objects, or exceeds this machine's memory.
    """
    file = Path(path)
    if not file.is_file():
        raise ModelError(f"{file} is not a readable file")
    try:
        with zipfile.ZipFile(file) as archive:
            _require_room(file, sum(each.file_size for each in archive.infolist()))
        with np.load(file, allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except zipfile.BadZipFile as error:
        raise ModelError(f"{file} is not an .npz file: {error}; write one with numpy.savez") from error
    except ValueError as error:
        pickled = "pickle" in str(error) or "Object arrays" in str(error)
        raise ModelError(f"{file} cannot be read: {_PICKLED if pickled else error}") from error
    except (
        OSError,
        EOFError,
        zlib.error,
        NotImplementedError,
        RuntimeError,
        SyntaxError,
        MemoryError,
    ) as error:
        raise ModelError(f"{file} cannot be read: {error or type(error).__name__}") from error


def _require_room(file: Path, size: int) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > memory:
        raise ModelError(f"{file} holds {size:.1e} bytes of arrays, more than this machine's memory")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file; the same arrays give the same bytes.

    ``numpy.savez`` takes the names as keywords, so no array could be named ``file``.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            # Without an explicit date, an entry has the earliest date of the format: output is reproducible.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
