"""Reads programs of ``torch.export`` from `.pt2` archives, which are cleaned before PyTorch sees them."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from collections.abc import Mapping

import tvm

from annotated_region.errors import AnnotatedRegionError, ModelError
from annotated_region.importing.torch_archive import plain_archive
from annotated_region.importing.torch_programs import from_exported_program

__all__ = ["module_from_archive"]


def module_from_archive(
    content: bytes, name: str, _folder: str, _options: Mapping[str, object]
) -> tvm.IRModule:
    """The module of the program that ``torch.export.save`` wrote into a file.

    Raises
    ------
    ModelError
        PyTorch is not installed, the file holds no program or more than one, or TVM cannot import it.
    MemoryError
        There is not enough memory for it.
    """
    plain = plain_archive(content, name)
    # Python looks for a folder by writing a file, which the process that reads cannot do; PyTorch needs the
    # name of one while it loads, and makes an empty folder in it.
    tempfile.tempdir = tempfile.tempdir or os.environ.get("TMPDIR", "/tmp")
    try:
        import torch.export  # noqa: PLC0415 - only these files need it
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError):
            # The library is there, and there is no room to load it into.
            raise MemoryError from error
        raise ModelError(f"{name} needs the package torch: pip install torch") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return from_exported_program(torch.export.load(io.BytesIO(plain)))
    except (AnnotatedRegionError, MemoryError):
        raise
    except Exception as error:  # PyTorch and TVM raise whatever a malformed program leads to
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"TVM cannot import {name}: {line}") from error
