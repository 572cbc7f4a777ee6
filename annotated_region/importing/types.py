"""Refuses tensors of the narrow types (of 8 bits and less) that TVM computes wrongly or cannot hold.

TVM 0.27.0 converts floats of 8 bits without NaN, infinity and saturation, has no code for floats of 4 bits,
and cannot copy tensors of whole numbers of 2 and 4 bits. Constants of these types are data like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import tvm
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.origins import described

__all__ = ["require_known_types"]

_NARROW = re.compile(r"u?int[124]|float[468](_.*)?")


def require_known_types(mod: tvm.IRModule, name: str) -> None:
    """Raise `ModelError` for the first tensor of a type that TVM does not compute with.

    Parameters
    ----------
    mod
        What TVM's importer made.
    name
        What messages call its model.

    Raises
    ------
    ModelError
        An input, or what an operation makes, has such a type.
    """
    for function in mod.functions.values():
        for variable in _variables(function) if isinstance(function, relax.Function) else ():
            found = str(variable.ty.dtype) if isinstance(variable.ty, relax.TensorType) else ""
            if _NARROW.fullmatch(found):
                raise ModelError(
                    f"{name} cannot be imported: {described(variable)} is of type {found}, with which TVM "
                    "does not compute; let the model have float16 or int8 there"
                )


def _variables(function: relax.Function) -> Iterator[relax.Var]:
    yield from function.params
    for block in function.body.blocks:
        for binding in block.bindings:
            yield binding.var
