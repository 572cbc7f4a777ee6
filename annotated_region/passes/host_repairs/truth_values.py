"""Rewrites arithmetic and comparisons of truth values, which TVM cannot compile, into logic.

::

    lv = multiply(a, b)     of bool     =>      lv         = logical_and(a, b)
    lv = equal(a, b)        of bool     =>      lv_differs = logical_xor(a, b)
                                                lv         = logical_not(lv_differs)

TVM 0.27.0's code generator takes a truth value for a float: "Invalid operand types for FCmp instruction" for
``equal`` and ``not_equal``, "t.MatchesCode(DLDataTypeCode::kDLFloat)" for the others. Sums and products of
truth values are those of PyTorch and numpy: true if one operand is, and if both are. The repair can be
removed with the first TVM for which ``tests/passes/host_repairs/test_truth_values.py`` passes without it.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

_SAME = {
    "relax.multiply": relax.op.logical_and,
    "relax.minimum": relax.op.logical_and,
    "relax.add": relax.op.logical_or,
    "relax.maximum": relax.op.logical_or,
    "relax.not_equal": relax.op.logical_xor,
}
_WITHOUT_ONE: dict[str, tuple[int, Callable[..., relax.Expr]]] = {
    "relax.greater": (1, relax.op.logical_and),
    "relax.less": (0, relax.op.logical_and),
    "relax.greater_equal": (1, relax.op.logical_or),
    "relax.less_equal": (0, relax.op.logical_or),
}
"""Which operand is negated, and what joins both."""


def logic_of(view: OpView, editor: Editor) -> relax.Expr | None:
    """The same function of truth values as logic; None for other types."""
    if any(str(dtype_of(ty)) != "bool" for ty in view.arg_types):
        return None
    operands = list(view.args)
    if view.name == "relax.equal":
        return relax.op.logical_not(editor.emit(relax.op.logical_xor(*operands), "differs"))
    if view.name in _SAME:
        return _SAME[view.name](*operands)
    negated, join = _WITHOUT_ONE[view.name]
    operands[negated] = editor.emit(relax.op.logical_not(operands[negated]), "not")
    return join(*operands)


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.equal", *_SAME, *_WITHOUT_ONE), logic_of),
]
