"""Chains of additions and multiplications with constants, each represented as one scale and one shift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm_ffi
from tvm import relax

from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.tensors import FLOATS, dtype_of, static_shape
from annotated_region.targets.op_view import OpView

__all__ = ["ARITHMETIC", "ScaleAndShift", "chain_of", "step_of"]


@dataclass(frozen=True, slots=True)
class ScaleAndShift:
    """``source * scale + shift``, elementwise; scale and shift are uniform or vary along one common axis.

    Attributes
    ----------
    source
        The tensor that is scaled and shifted.
    scale, shift
        Double precision, of the rank of `source`, with at most one extent other than 1.
    steps
        The names of the ops that currently compute the expression, last op first.
    divides
        Whether one of the ops divides by a number that is not a power of two. Its reciprocal is inexact, so
        multiplying by `scale` may differ from dividing: ``41 / 41`` is 1, ``41 * (1 / 41)`` may be less.
    """

    source: relax.Expr
    scale: np.ndarray
    shift: np.ndarray
    steps: tuple[str, ...]
    divides: bool = False

    def after(self, inner: ScaleAndShift) -> ScaleAndShift | None:
        """The composition of this with `inner`, applied first; None if they vary along different axes."""
        arrays = (self.scale, self.shift, inner.scale, inner.shift)
        if len({axis for array in arrays for axis, extent in enumerate(array.shape) if extent != 1}) > 1:
            return None
        with np.errstate(all="ignore"):
            scale, shift = inner.scale * self.scale, inner.shift * self.scale + self.shift
        return ScaleAndShift(
            inner.source, scale, shift, self.steps + inner.steps, self.divides or inner.divides
        )


_Numbers = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

ARITHMETIC: dict[str, _Numbers] = {
    "relax.add": lambda operand: (np.ones_like(operand), operand),
    "relax.subtract": lambda operand: (np.ones_like(operand), -operand),
    "relax.multiply": lambda operand: (operand, np.zeros_like(operand)),
    "relax.divide": lambda operand: (1 / operand, np.zeros_like(operand)),
}


def step_of(view: OpView, editor: Editor) -> ScaleAndShift | None:
    """The call as one step: float arithmetic with a constant right operand that varies along one axis."""
    if view.name not in ARITHMETIC or dtype_of(view.out_type) not in FLOATS:
        return None
    source, operand = view.args
    numbers = _operand(operand, view.out_tensor.ndim, editor)
    if numbers is None or not tvm_ffi.structural_equal(source.ty, view.out_type):
        return None
    with np.errstate(all="ignore"):  # callers check that the result is finite
        divides = view.name == "relax.divide" and bool((np.abs(np.frexp(numbers)[0]) != 0.5).any())
        return ScaleAndShift(source, *ARITHMETIC[view.name](numbers), (view.name,), divides)


def _operand(expr: relax.Expr, rank: int, editor: Editor) -> np.ndarray | None:
    shape = static_shape(expr.ty)
    if shape is None or len(shape) > rank or sum(extent != 1 for extent in shape) > 1:
        return None
    constant = editor.constant(expr)
    if constant is None:
        return None
    return constant.astype(np.float64).reshape((1,) * (rank - len(shape)) + shape)


def chain_of(step: ScaleAndShift, editor: Editor, *, divisions: bool = True) -> ScaleAndShift:
    """The longest chain that ends in `step` and whose intermediate values have no other readers.

    Parameters
    ----------
    step
        The last step.
    editor
        Resolves the definitions before it.
    divisions
        Whether the chain may include a step that `divides`.
    """
    while (joined := _joined(step, editor)) is not None and (divisions or not joined.divides):
        step = joined
    return step


def _joined(step: ScaleAndShift, editor: Editor) -> ScaleAndShift | None:
    view = editor.view_read_once(step.source)
    inner = step_of(view, editor) if view is not None else None
    return step.after(inner) if inner is not None else None
