"""Reads a model file: ONNX, `torch.export`, or Relax as TVMScript; always in a confined process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import tvm

from annotated_region.errors import ModelError, UsageError
from annotated_region.importing.confinement.isolation import Job, import_isolated
from annotated_region.importing.confinement.limits import Limits
from annotated_region.importing.files import opened

__all__ = ["read_model"]

_KINDS = {".onnx": "onnx", ".pt2": "pt2", ".py": "tvmscript", ".tvm": "tvmscript", ".tvmscript": "tvmscript"}


def read_model(
    path: str | Path,
    limits: Limits | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    values: Mapping[str, object] | None = None,
) -> tvm.IRModule:
    """The module in a file whose name ends in ``.onnx``, ``.pt2``, ``.py``, ``.tvm`` or ``.tvmscript``.

    Nothing in the file is executed; a separate process reads it, within `limits`. Inputs of ONNX models get
    `shapes` and `values`, as by the `shape_dict` and `value_dict` of `from_onnx`.

    Raises
    ------
    ModelError
        The file does not exist or has another format, or reading it crashes or exceeds a limit.
    UsageError
        There are shapes or values for a file that is not ONNX, or for what is no input.
    """
    file = Path(path)
    kind = _KINDS.get(file.suffix.lower())
    if kind is None:
        known = ", ".join(_KINDS)
        raise ModelError(f"{file} has an unknown file extension; known: {known}")
    if (shapes or values) and kind != "onnx":
        what = "shapes" if shapes else "values"
        raise UsageError(f"{file} is not an ONNX model, and only inputs of those can be given {what}")
    with opened(file) as descriptor:
        given = {"shape_dict": shapes, "value_dict": values}
        options = {option: dict(each) for option, each in given.items() if each}
        job = Job(kind, str(file), os.path.abspath(file.parent), options)
        return import_isolated(job, descriptor, limits or Limits())
