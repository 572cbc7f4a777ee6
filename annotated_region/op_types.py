"""Registers the type of an op for which TVM 0.27 infers none.

TVM has ``if_then_else(n < 4, n * 2 - 4, n - 4)`` for the end of ``x[: n - 4]``, but its passes that copy a
function fail with such an extent: "Cannot find the FInferType attribute registered to op: prim.if_then_else".
"""

from __future__ import annotations

import tvm
from tvm import relax

__all__: list[str] = []

_CHOICE, _TYPE = "prim.if_then_else", "FInferType"


def _type_of_choice(call: relax.Call, _builder: relax.BlockBuilder) -> tvm.ir.Type:
    return call.args[1].ty


if tvm.ir.Op.get(_CHOICE).get_attr(_TYPE) is None:
    tvm.ir.register_op_attr(_CHOICE, _TYPE, _type_of_choice)
