"""Reads a model from a file: ONNX, or a Relax module as TVMScript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm

from annotated_region.command_line.tvmscript import module_from_tvmscript
from annotated_region.errors import AnnotatedRegionError, ModelError

__all__ = ["read_model"]

_OLDEST_OPSET = 13  # TVM's importer reads older ones wrongly or not at all


def read_model(path: str | Path) -> tvm.IRModule:
    """The module in a file whose name ends in ``.onnx``, or in ``.py``, ``.tvm`` or ``.tvmscript``.

    Nothing in the file is executed.

    Raises
    ------
    ModelError
        There is no such file, or it does not hold what its name says.
    """
    file = Path(path)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise ModelError(f"{file} has none of the endings that say what a file holds: {known}")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error
    module: tvm.IRModule = reader(content, file)
    return module


def _from_tvmscript(content: bytes, file: Path) -> tvm.IRModule:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{file} is no TVMScript: {error}") from error
    return module_from_tvmscript(text, str(file))


def _from_onnx(content: bytes, file: Path) -> tvm.IRModule:
    try:
        import onnx  # noqa: PLC0415 - an extra that only ONNX files need
        from tvm.relax.frontend.onnx import from_onnx  # noqa: PLC0415
    except ImportError as error:
        raise ModelError(f"{file} needs the package onnx: pip install 'annotated-region[onnx]'") from error
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf has its own classes of errors
        raise ModelError(f"{file} is no ONNX model: {error}") from error
    if not model.graph.output:
        raise ModelError(f"{file} is no ONNX model: it has no graph with outputs")
    try:
        onnx.load_external_data_for_model(model, str(file.parent))
        return from_onnx(_modern(model), keep_params_in_input=False)
    except AnnotatedRegionError:
        raise
    except Exception as error:  # the importer raises whatever a malformed node leads to
        what = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"TVM cannot import {file}: {what[0]}") from error


def _modern(model: Any) -> Any:
    """The model at an opset that TVM's importer knows."""
    from onnx import version_converter  # noqa: PLC0415

    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    return version_converter.convert_version(model, _OLDEST_OPSET) if opset < _OLDEST_OPSET else model


_READERS = {
    ".onnx": _from_onnx,
    ".py": _from_tvmscript,
    ".tvm": _from_tvmscript,
    ".tvmscript": _from_tvmscript,
}
