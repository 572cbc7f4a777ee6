"""Reads one model, in this process or in a child: the readers by kind, and the answer format of a child."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import tvm

from annotated_region.errors import ModelError, UsageError
from annotated_region.importing.confinement.transport import packed, unpacked
from annotated_region.importing.onnx_models.reader import module_from_onnx
from annotated_region.importing.torch_programs.reader import module_from_archive
from annotated_region.importing.trust import require_harmless
from annotated_region.importing.tvmscript.reader import module_from_tvmscript

__all__ = ["DEFECT", "OUT_OF_MEMORY", "READERS", "answer", "module_of"]

OUT_OF_MEMORY = 3
# The first byte of an answer is its kind: a module, a reason to reject the file, one to reject the options,
# or a traceback of a defect.
# A traceback may follow a partial module; the exit status of the child indicates this.
_MODULE, _REFUSED, _MISUSED, DEFECT = b"m", b"r", b"u", b"\0defect\0"


def _tvmscript(content: bytes, name: str, _folder: str, _options: Mapping[str, object]) -> tvm.IRModule:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{name} is not TVMScript: {error}") from error
    return module_from_tvmscript(text, name)


READERS: dict[str, Callable[[bytes, str, str, Mapping[str, object]], tvm.IRModule]] = {
    "onnx": module_from_onnx,
    "pt2": module_from_archive,
    "tvmscript": _tvmscript,
}


def answer(
    kind: str, name: str, folder: str, options: Mapping[str, object], file: int, weights: int
) -> bytes:
    """The answer of a child: a byte for its kind, then a module or the reason of the failure."""
    try:
        with os.fdopen(file, "rb") as opened:
            content = opened.read()
        mod = READERS[kind](content, name, folder, options)
        require_harmless(mod, name)
        return _MODULE + packed(mod, weights, name)
    except ModelError as error:
        return _REFUSED + str(error).encode("utf-8", "backslashreplace")
    except UsageError as error:
        return _MISUSED + str(error).encode("utf-8", "backslashreplace")


def module_of(answered: bytearray, weights: int, name: str) -> tvm.IRModule:
    """The module in the answer of a child.

    Raises
    ------
    ModelError
        The answer is a failure, or a module with calls that are not allowed.
    UsageError
        The options do not fit the model.
    """
    kind, content = bytes(answered[:1]), bytes(answered[1:])
    if kind == _REFUSED:
        raise ModelError(content.decode("utf-8"))
    if kind == _MISUSED:
        raise UsageError(content.decode("utf-8"))
    try:
        mod = unpacked(content, weights)
    except OSError as error:
        raise ModelError(
            f"{name} cannot be imported: its weights cannot be read: {error.strerror}"
        ) from error
    require_harmless(mod, name)
    return mod
