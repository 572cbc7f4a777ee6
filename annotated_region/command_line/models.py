"""Reads a model file: ONNX, `torch.export`, or Relax as TVMScript; always in a confined process."""

from __future__ import annotations

import os
from pathlib import Path

import tvm

from annotated_region.errors import ModelError
from annotated_region.importing.files import opened
from annotated_region.importing.isolation import Job, import_isolated
from annotated_region.importing.limits import Limits

__all__ = ["read_model"]

_KINDS = {".onnx": "onnx", ".pt2": "pt2", ".py": "tvmscript", ".tvm": "tvmscript", ".tvmscript": "tvmscript"}


def read_model(path: str | Path, limits: Limits | None = None) -> tvm.IRModule:
    """The module in a file whose name ends in ``.onnx``, ``.pt2``, ``.py``, ``.tvm`` or ``.tvmscript``.

    Nothing in the file is executed; a separate process reads it, within `limits`.

    Raises
    ------
    ModelError
        The file does not exist or has another format, or reading it crashes or exceeds a limit.
    """
    file = Path(path)
    kind = _KINDS.get(file.suffix.lower())
    if kind is None:
        known = ", ".join(_KINDS)
        raise ModelError(f"{file} has an unknown file extension; known: {known}")
    with opened(file) as descriptor:
        job = Job(kind, str(file), os.path.abspath(file.parent), {})
        return import_isolated(job, descriptor, limits or Limits())
