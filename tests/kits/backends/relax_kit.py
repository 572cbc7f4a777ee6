"""Small Relax modules, written down as what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax

from annotated_region.targets.op_view import OpView

__all__ = ["module", "op_views", "var"]


def var(name: str, shape: Sequence[relax.Expr | int], dtype: str = "float32") -> relax.Var:
    """A parameter."""
    return relax.Var(name, relax.TensorType(shape, dtype))


def module(
    params: Sequence[relax.Var], make: Callable[[relax.BlockBuilder], relax.Expr | tuple[relax.Expr, ...]]
) -> tvm.IRModule:
    """A module whose ``main`` of `params` gives the result, or the tuple of results, that `make` computes."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(params)):
        with builder.dataflow():
            made = make(builder)
            outputs = [builder.emit_output(part) for part in (made if isinstance(made, tuple) else (made,))]
        builder.emit_func_output(outputs[0] if len(outputs) == 1 else relax.Tuple(outputs))
    return builder.finalize()


def op_views(mod: tvm.IRModule) -> list[OpView]:
    """The ops of ``main``, in program order."""
    views: list[OpView] = []

    def collect(expr: relax.Expr) -> None:
        view = OpView.of(expr) if isinstance(expr, relax.Call) else None
        if view is not None:
            views.append(view)

    relax.analysis.post_order_visit(mod["main"], collect)
    return views
