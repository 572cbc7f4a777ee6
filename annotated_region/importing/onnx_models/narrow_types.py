"""Rejects tensors of narrow types (8 bits and less) that TVM computes wrongly or cannot represent.

TVM 0.27.0 converts 8-bit floats without NaN, infinity and saturation, has no code for 4-bit floats,
and cannot copy tensors of 2-bit and 4-bit integers. Constants of these types are allowed.
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
    """Raise `ModelError` for the first tensor of an unsupported type.

    Parameters
    ----------
    mod
        The imported module.
    name
        The name of its model in messages.

    Raises
    ------
    ModelError
        An input or the result of an op has such a type.
    """
    for function in mod.functions.values():
        for variable in _variables(function) if isinstance(function, relax.Function) else ():
            found = str(variable.ty.dtype) if isinstance(variable.ty, relax.TensorType) else ""
            if _NARROW.fullmatch(found):
                raise ModelError(
                    f"{name} cannot be imported: {described(variable)} is of type {found}, which TVM "
                    "cannot compute with; use float16 or int8 there"
                )


def _variables(function: relax.Function) -> Iterator[relax.Var]:
    yield from function.params
    for block in function.body.blocks:
        for binding in block.bindings:
            yield binding.var
