"""Reads ``torch.export`` programs from `.pt2` archives, which are rewritten before PyTorch sees them."""

from __future__ import annotations

import importlib
import io
import os
import tempfile
import warnings
from collections.abc import Mapping

import tvm

from annotated_region.errors import AnnotatedRegionError, ModelError
from annotated_region.importing.equations import Equations
from annotated_region.importing.torch_programs.archive import plain_archive
from annotated_region.importing.torch_programs.entry import from_exported_program
from annotated_region.importing.torch_programs.guards import require_guard_texts

__all__ = ["module_from_archive"]

_QUANTIZED = "torch.ao.quantization.fx._decomposed"  # defines the operators of quantized programs


def module_from_archive(
    content: bytes, name: str, _folder: str, _options: Mapping[str, object]
) -> tvm.IRModule:
    """The module of the program that ``torch.export.save`` wrote into a file.

    Raises
    ------
    ModelError
        PyTorch is not installed, the file does not hold exactly one program, or TVM cannot import it.
    MemoryError
        There is not enough memory for it.
    """
    plain = plain_archive(content, name)
    # Python probes for a temporary folder by writing a file, which the confined process cannot do; PyTorch
    # needs one while it loads, and creates an empty folder in it.
    tempfile.tempdir = tempfile.tempdir or os.environ.get("TMPDIR", "/tmp")
    try:
        import torch.export  # noqa: PLC0415 - only these files need it
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError):
            # The library exists, but there is not enough memory to load it.
            raise MemoryError from error
        raise ModelError(f"{name} needs the package torch: pip install torch") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if b"torch.ops.quantized_decomposed." in plain.content:
                importlib.import_module(_QUANTIZED)
            mod = from_exported_program(torch.export.load(io.BytesIO(plain.content)))
        equations = Equations()
        require_guard_texts(plain.guards, mod["main"], equations)
        return equations.checked_by(mod)
    except (AnnotatedRegionError, MemoryError):
        raise
    except Exception as error:  # PyTorch and TVM raise arbitrary errors for malformed programs
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"TVM cannot import {name}: {line}") from error
