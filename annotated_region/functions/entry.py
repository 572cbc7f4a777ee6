"""Builds a public function that only calls an external function, to run that in isolation."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.utils import copy_with_new_vars

from annotated_region.tvm_adapter.types import set_type

__all__ = ["entry_function"]


def entry_function(name: str, callee: tvm.ir.GlobalVar, func: relax.Function) -> relax.Function:
    """A public function that forwards its arguments to an external function and returns its result.

    Parameters
    ----------
    name
        Its name.
    callee, func
        The external function.
    """
    params = [relax.Var(param.name, param.ty) for param in func.params]
    out = relax.Var("out", func.ret_ty)
    binding = relax.VarBinding(out, relax.Call(callee, params, ret_ty=func.ret_ty))
    body = relax.SeqExpr([relax.DataflowBlock([binding])], out)
    set_type(body, func.ret_ty)
    # Functions must not share shape variables.
    return copy_with_new_vars(relax.Function(params, body, func.ret_ty).with_attr("global_symbol", name))
