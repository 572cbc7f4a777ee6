"""One-word names for what a binding computes, for messages, pins, locks and graphs."""

from __future__ import annotations

import tvm
from tvm import relax

from annotated_region.dataflow.graph import DataflowNode

__all__ = ["name_of_node", "op_name_of"]


def op_name_of(value: relax.Expr) -> str:
    """The name of the op that `value` calls, or the class of its expression."""
    if isinstance(value, relax.Call):
        callee = value.op
        if isinstance(callee, tvm.ir.Op):
            if callee.name in ("relax.call_tir", "relax.call_tir_inplace", "relax.call_dps_packed"):
                called = value.args[0]
                symbol = called.global_symbol if isinstance(called, relax.ExternFunc) else None
                return f"{callee.name}({symbol or getattr(called, 'name_hint', called)})"
            return str(callee.name)
        return str(getattr(callee, "name_hint", None) or getattr(callee, "name", None) or "call")
    return type(value).__name__


def name_of_node(node: DataflowNode) -> str:
    """The name of what a node does: that of its op, or ``relax.match_cast`` for a check of extents."""
    return "relax.match_cast" if isinstance(node.binding, relax.MatchCast) else op_name_of(node.value)
