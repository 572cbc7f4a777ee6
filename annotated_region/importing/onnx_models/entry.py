"""`from_onnx`: TVM's importer for ONNX, in this process or in a confined one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tvm

from annotated_region.arguments import brief_repr
from annotated_region.checked import checked
from annotated_region.errors import UsageError
from annotated_region.importing.confinement.isolation import Job, import_isolated
from annotated_region.importing.confinement.limits import Limits
from annotated_region.importing.files import opened
from annotated_region.importing.onnx_models.reader import module_from_model, module_from_onnx

if TYPE_CHECKING:
    import onnx

__all__ = ["from_onnx"]


@checked
def from_onnx(
    model: onnx.ModelProto | str | Path,
    *,
    isolated: bool = False,
    limits: Limits | None = None,
    **options: object,
) -> tvm.IRModule:
    """Import an ONNX model with TVM's importer, after additional checks.

    Models with an opset before 13 are upgraded, weights become constants, and errors name nodes that lack an
    input or use an undefined value.

    Parameters
    ----------
    model
        A model, or the path of a file. External data must be in the folder of the file.
    isolated
        Import in a separate process with limits, so that a model that crashes TVM, hangs or exhausts memory
        raises a `ModelError`; also restrict the functions that the module calls. Use it for untrusted files.
        The first call of a process takes one or two additional seconds, later ones milliseconds.
    limits
        The limits of the isolated process; `Limits()` by default.
    options
        Further arguments of ``tvm.relax.frontend.onnx.from_onnx``; for an isolated import they must be
        representable as JSON. Of these, ``shape_dict`` gives shapes to inputs, by name. There None leaves an
        extent as the model has it, such as a symbolic batch: ``{"frames": [None, 80, 3000]}``. Beside them,
        ``value_dict`` gives values to inputs, by name, which become constants: arrays, lists, or a number for
        all elements, such as ``{"use_cache_branch": False}``. The module does not take these inputs.

    Raises
    ------
    ModelError
        The file does not exist, is not an ONNX model, or TVM cannot import it.
    UsageError
        `model` is neither a path nor a model; an option is unknown, or names what is no input of the model,
        or gives an input a shape or value that does not fit it.

    Examples
    --------
    >>> import annotated_region as ar
    >>> mod = ar.from_onnx("model.onnx", isolated=True)  # doctest: +SKIP
    """
    if not isinstance(model, str | Path) and not hasattr(model, "SerializeToString"):
        raise UsageError(
            f"the argument model is {brief_repr(model)}; pass an onnx.ModelProto or the path of an ONNX file"
        )
    name = str(model) if isinstance(model, str | Path) else f"the model {model.graph.name!r}"
    if not isolated and not isinstance(model, str | Path):
        return module_from_model(model, name, options)
    folder = os.path.abspath(Path(model).parent) if isinstance(model, str | Path) else ""
    with _file_of(model) as file:
        if isolated:
            return import_isolated(Job("onnx", name, folder, _plain(options)), file, limits or Limits())
        with os.fdopen(os.dup(file), "rb") as content:
            return module_from_onnx(content.read(), name, folder, options)


def _plain(options: Mapping[str, object]) -> dict[str, object]:
    """Options with lists in place of arrays."""
    values = options.get("value_dict")
    if not isinstance(values, Mapping):
        return dict(options)
    lists = {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()
    }
    return {**options, "value_dict": lists}


@contextmanager
def _file_of(model: onnx.ModelProto | str | Path) -> Iterator[int]:
    """A descriptor of the model as a file, positioned at its start."""
    if isinstance(model, str | Path):
        with opened(Path(model)) as file:
            yield file
        return
    file = os.memfd_create("model.onnx")
    try:
        with os.fdopen(os.dup(file), "wb") as content:
            content.write(model.SerializeToString())
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)
